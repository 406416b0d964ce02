"""`chroma run`: Chroma's own server."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.servers.process import ProcessServer


class Chroma(ProcessServer):
    """One server with a scratch directory."""

    def __init__(self) -> None:
        super().__init__("chroma")

    def command(self, directory: str) -> Sequence[str]:
        """See `ProcessServer.command`."""
        program = str(Path(sys.executable).with_name("chroma"))
        return [program, "run", "--path", directory, "--host", "127.0.0.1", "--port", str(self.port)]
