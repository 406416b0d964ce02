"""Runs a mistake in a temporary folder and renders the output of the command line."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
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
"""A pipeline without a model: the outputs do not depend on the vectors."""


@dataclass(frozen=True)
class Sandbox:
    """The working directory of a mistake."""

    folder: Path

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def index(self, *arguments: str) -> None:
        """Build a knowledge base of docs/."""
        self.write("docs/guide.md", GUIDE)
        if not (self.folder / "ragkit.yaml").exists():
            self.write("ragkit.yaml", HASHING)
        code, out = run_cli(["index", "docs", *arguments])
        assert code == 0, out


Prepare = Callable[[Sandbox], None]


@dataclass(frozen=True)
class Mistake:
    """A command and its preparation. The output and exit code are in docs/error-messages.md."""

    title: str
    command: str
    """Without `ragkit`."""
    prepare: Prepare | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    faults: Sequence[Fault] = ()
    """Responses of a provider with OpenAI's API; empty: no provider."""
    note: str = ""
    """A note for the reader of the page."""


def run_cli(arguments: list[str], stdin: str = "") -> tuple[int, str]:
    """Exit code and output (both streams, in their order) of `ragkit ARGUMENTS` in this process."""
    output = io.StringIO()
    output.isatty = lambda: False  # type: ignore[method-assign]
    with (
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        patch.object(sys, "stdin", io.StringIO(stdin)),
    ):
        try:
            main(arguments)
        except SystemExit as error:
            return int(error.code or 0), output.getvalue()
    raise AssertionError("main returned without an exit code")


@contextlib.contextmanager
def prepared_folder(mistake: Mistake, folder: Path) -> Iterator[Sandbox]:
    """The prepared folder as working directory, without settings of the environment."""
    kept = {name: value for name, value in os.environ.items() if not _is_setting(name)}
    env = {**kept, "XDG_CONFIG_HOME": str(folder / "no-config"), "COLUMNS": "100", "NO_COLOR": "1"}
    before = Path.cwd()
    os.chdir(folder)
    try:
        with patch.dict(os.environ, env, clear=True):
            sandbox = Sandbox(folder)
            if mistake.prepare is not None:
                mistake.prepare(sandbox)
            with patch.dict(os.environ, mistake.env), _provider(mistake):
                yield sandbox
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _provider(mistake: Mistake) -> Iterator[None]:
    """The provider of a mistake, if it has one."""
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


def render_section(mistake: Mistake, folder: Path) -> str:
    """The section of docs/error-messages.md: command, output and exit code."""
    with prepared_folder(mistake, folder):
        code, out = run_cli(shlex.split(mistake.command), mistake.stdin)
    command = "ragkit " + mistake.command
    command = "".join(f"{name}={value} " for name, value in mistake.env.items()) + command
    if mistake.stdin:
        command = f"echo {shlex.quote(mistake.stdin.strip())} | {command}"
    note = f"{mistake.note}\n\n" if mistake.note else ""
    output = normalize(out, folder).rstrip()
    return f"### {mistake.title}\n\n{note}```console\n$ {command}\n{output}\n```\n\nExit code {code}.\n"


def normalize(out: str, folder: Path) -> str:
    """The output without what differs between runs: paths, times, ports, process ids, progress of a slow one."""
    out = re.sub(
        r"^(?:looking for changes in the sources|(?:indexing|searchable, embedding): .*)\n", "", out, flags=re.M
    )
    out = out.replace(f"{folder.resolve()}/", "").replace(str(folder.resolve()), "FOLDER")
    out = re.sub(r"\d+\.\d s\b", "0.0 s", out)
    out = re.sub(r", \d+/s", ", 1/s", out)
    out = re.sub(r"\d+\.\d ms", "0.0 ms", out)
    out = re.sub(r"(search|ask|p95) \d+\.\d", r"\1 0.0", out)
    out = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", out)
    return re.sub(r"process \d+", "process 4711", out)
