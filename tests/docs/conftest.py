"""One directory and one namespace per page, shared by its blocks in order."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree

import pytest

from ragkit.cli import main
from ragkit.pipeline.register import KINDS
from tests.servers.plugin import SERVERS

from .console import CommandResult
from .pages import ROOT

_KEYS = ("_API_KEY", "_TOKEN", "RAGKIT_", "_BASE_URL", "OLLAMA_HOST", "REDIS_URL")


@dataclass
class Workplace:
    """The directory, environment and namespace of the blocks of a page."""

    directory: Path
    environment: dict[str, str]
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "__main__"})

    def has_plugins(self) -> bool:
        """Whether the page has modules of its own, which only processes started in its directory find."""
        return (self.directory / "installed").exists() or any(self.directory.glob("*.py"))


RunHere = Callable[[Sequence[str], Workplace], CommandResult]


@pytest.fixture(scope="module", autouse=True)
def forget_registered() -> Iterator[None]:
    """Forget the components that the pages register."""
    yield
    for registry, _ in KINDS.values():
        registry.of_program.clear()


@pytest.fixture(scope="module")
def workplaces(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Workplace]:
    """Returns the workplace of a page, created on first use with only the sample folder at data/sample."""
    created: dict[Path, Workplace] = {}

    def workplace(page: Path) -> Workplace:
        if page not in created:
            directory = tmp_path_factory.mktemp(page.stem)
            copytree(ROOT / "data", directory / "data")
            kept = {key: value for key, value in os.environ.items() if not any(item in key for item in _KEYS)}
            offline = {"RAGKIT_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "https_proxy": "http://127.0.0.1:9"}
            path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
            plain = {
                "PYTHONPATH": str(directory / "installed"),
                "PATH": path,
                "NO_COLOR": "1",
                "COLUMNS": "100",
                "XDG_CONFIG_HOME": str(directory / ".config"),
            }
            database = _database(directory) if "$DATABASE_URL" in page.read_text("utf-8") else {}
            created[page] = Workplace(directory, {**kept, **offline, **plain, **database})
        return created[page]

    return workplace


def _database(directory: Path) -> dict[str, str]:
    """A real PostgreSQL for the commands of a page."""
    server = SERVERS["pgvector"]
    server.start()
    dsn = f"{server.environment['RAGKIT_TEST_PGVECTOR_DSN']}&schema=docs_{secrets.token_hex(6)}"
    return {"DATABASE_URL": dsn, "RAGKIT_CACHE": str(directory / "cache")}


@pytest.fixture
def run_here(capfd: pytest.CaptureFixture[str]) -> RunHere:
    """Runs `ragkit` in this process, in the directory and with the environment of a page."""

    def run(words: Sequence[str], place: Workplace) -> CommandResult:
        before, environment = Path.cwd(), dict(os.environ)
        capfd.readouterr()
        os.chdir(place.directory)
        os.environ.clear()
        os.environ.update(place.environment)
        try:
            main(list(words))
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ.update(environment)
        return CommandResult(code, *capfd.readouterr())

    return run


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow connections to this machine only."""
    connect = socket.socket.connect

    def local(self: socket.socket, address: object) -> None:
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a block of the documentation connects to {address[0]}: mark it `needs ...`")
        connect(self, address)  # type: ignore[arg-type] # passed on unchanged

    monkeypatch.setattr(socket.socket, "connect", local)
