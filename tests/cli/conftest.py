"""Fixtures that run the command line, in this process or in a subprocess."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragkit.cli import main

HASHING = "embed: {name: hashing, dimension: 64}\n"
"""A pipeline without a model: the tests do not depend on the vectors."""


@dataclass(frozen=True)
class CommandResult:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Standard output as one JSON object."""
        result: dict[str, Any] = json.loads(self.out)
        return result

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output as JSON objects, one per line."""
        return [json.loads(line) for line in self.out.splitlines()]


Ragkit = Callable[..., CommandResult]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, without RAGKIT_ settings in the environment."""
    for name in [name for name in os.environ if name.startswith("RAGKIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ragkit(workplace: Path, capfd: pytest.CaptureFixture[str]) -> Ragkit:
    """Run `ragkit ...` in this process and check its exit code."""

    def run(*arguments: str | Path, code: int | None = 0) -> CommandResult:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        result = CommandResult(int(ended.value.code or 0), out, err)
        assert code is None or result.code == code, f"exit code {result.code}: {out}\n{err}"
        return result

    return run


@pytest.fixture
def hashing(workplace: Path) -> Path:
    """A ragkit.yaml that needs no model."""
    path = workplace / "ragkit.yaml"
    path.write_text(HASHING)
    return path


def start(*arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start `ragkit ...` in a subprocess."""
    return subprocess.Popen(
        [sys.executable, "-m", "ragkit", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
