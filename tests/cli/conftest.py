"""Runs the command line, in this process or in its own."""

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
class Said:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Its standard output as one JSON object."""
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its standard output as JSON objects, one per line."""
        return [json.loads(line) for line in self.out.splitlines()]


Ragkit = Callable[..., Said]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, without settings of the environment."""
    for name in [name for name in os.environ if name.startswith("RAGKIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ragkit(workplace: Path, capfd: pytest.CaptureFixture[str]) -> Ragkit:
    """Runs `ragkit ...` in this process, and checks its exit code."""

    def run(*arguments: str | Path, code: int | None = 0) -> Said:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        said = Said(int(ended.value.code or 0), out, err)
        assert code is None or said.code == code, f"exit code {said.code}: {out}\n{err}"
        return said

    return run


@pytest.fixture
def hashing(workplace: Path) -> Path:
    """A ragkit.yaml that needs no model."""
    path = workplace / "ragkit.yaml"
    path.write_text(HASHING)
    return path


def start(*arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start `ragkit ...` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "ragkit", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
