"""`milvus-lite server`: a real process with Milvus's protocol."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from tests.servers.process import ProcessServer


class Milvus(ProcessServer):
    """One server with a scratch directory."""

    def __init__(self) -> None:
        super().__init__("milvus")

    @property
    def uri(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.port}"

    def command(self, directory: str) -> Sequence[str]:
        """See `ProcessServer.command`."""
        address = ["--host", "127.0.0.1", "--port", str(self.port)]
        return [sys.executable, "-m", "milvus_lite", "server", "--data-dir", directory, *address]

    def variables(self) -> Mapping[str, str]:
        """See `ProcessServer.variables`."""
        return {"RAGKIT_TEST_MILVUS_URI": self.uri}
