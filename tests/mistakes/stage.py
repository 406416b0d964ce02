"""A folder in which a mistake is made, and what the command line says to it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from ragkit.cli import main
from tests.wire.dialects import OpenAIWire
from tests.wire.server import Fault, WireServer

GUIDE = """# Retries

A request that failed is sent again after two seconds. After five attempts the client gives up.

# Keys

The key is read from the environment variable ACME_KEY. Without a key every request is refused.
"""
HASHING = "embed: {name: hashing, dimension: 64}\n"
"""A pipeline without a model: none of these outputs depends on what vectors mean."""


@dataclass(frozen=True)
class Stage:
    """The folder, with servers that may be needed."""

    folder: Path

    def write(self, name: str, content: str | bytes) -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def index(self, *arguments: str) -> None:
        """A knowledge base over docs/, made without a word."""
        self.write("docs/guide.md", GUIDE)
        if not (self.folder / "ragkit.yaml").exists():
            self.write("ragkit.yaml", HASHING)
        code, out = say(["index", "docs", *arguments])
        assert code == 0, out


Prepare = Callable[[Stage], None]


@dataclass(frozen=True)
class Mistake:
    """What a user types, after what; the words and the code are in docs/mistakes.md."""

    title: str
    command: str
    """As it is typed, without `ragkit`."""
    prepare: Prepare | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    faults: Sequence[Fault] = ()
    """What a service (OpenAI's wire format) answers; without any there is no service."""
    note: str = ""
    """What was there before, for the reader."""


def say(arguments: list[str], stdin: str = "") -> tuple[int, str]:
    """Exit code and output (both streams, in their order) of `ragkit ARGUMENTS` in this process."""
    heard = io.StringIO()
    heard.isatty = lambda: False  # type: ignore[method-assign]
    with (
        contextlib.redirect_stdout(heard),
        contextlib.redirect_stderr(heard),
        patch.object(sys, "stdin", io.StringIO(stdin)),
    ):
        try:
            main(arguments)
        except SystemExit as ended:
            return int(ended.code or 0), heard.getvalue()
    raise AssertionError("main returned without an exit code")


@contextlib.contextmanager
def set_up(mistake: Mistake, folder: Path) -> Iterator[Stage]:
    """The folder as it is just before the mistake, as working directory, with no settings from outside."""
    kept = {name: value for name, value in os.environ.items() if not _is_setting(name)}
    env = {**kept, "XDG_CONFIG_HOME": str(folder / "no-config"), "COLUMNS": "100", "NO_COLOR": "1"}
    before = Path.cwd()
    os.chdir(folder)
    try:
        with patch.dict(os.environ, env, clear=True):
            stage = Stage(folder)
            if mistake.prepare is not None:
                mistake.prepare(stage)
            with patch.dict(os.environ, mistake.env), _service(mistake):
                yield stage
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _service(mistake: Mistake) -> Iterator[None]:
    """A service that answers as the mistake says, where it says anything."""
    if not mistake.faults:
        yield
        return
    with (
        WireServer(OpenAIWire(), mistake.faults) as server,
        patch.dict(os.environ, {"OPENAI_BASE_URL": server.url + "/v1"}),
    ):
        yield


def _is_setting(name: str) -> bool:
    return name.startswith("RAGKIT_") or name.endswith(("_API_KEY", "_BASE_URL", "_HOST", "REDIS_URL"))


def made(mistake: Mistake, folder: Path) -> str:
    """The section of docs/mistakes.md: what was typed, what was said, and the exit code."""
    with set_up(mistake, folder):
        code, out = say(shlex.split(mistake.command), mistake.stdin)
    typed = "ragkit " + mistake.command
    typed = "".join(f"{name}={value} " for name, value in mistake.env.items()) + typed
    if mistake.stdin:
        typed = f"echo {shlex.quote(mistake.stdin.strip())} | {typed}"
    note = f"{mistake.note}\n\n" if mistake.note else ""
    said = steady(out, folder).rstrip()
    return f"### {mistake.title}\n\n{note}```console\n$ {typed}\n{said}\n```\n\nExit code {code}.\n"


def steady(out: str, folder: Path) -> str:
    """The output without what differs from run to run: the folder, seconds, sizes of files on disk."""
    out = out.replace(f"{folder.resolve()}/", "").replace(str(folder.resolve()), "FOLDER")
    out = re.sub(r"\d+\.\d s\b", "0.0 s", out)
    out = re.sub(r", \d+ a second", ", 1 a second", out)
    out = re.sub(r"\d+\.\d ms", "0.0 ms", out)
    out = re.sub(r"(search|ask|p95) \d+\.\d", r"\1 0.0", out)
    out = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", out)
    return re.sub(r"process \d+", "process 4711", out)


def closed_port() -> int:
    """A port on loopback that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port
