"""Fixtures: sample components, and sample pipelines that replace the shipped ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ragkit.errors import PipelineError
from ragkit.pipeline import discovery
from ragkit.pipeline.read import ParsedPipeline, ReadOptions, read_path
from tests.pipeline.golden import SHIPPED
from tests.pipeline.sample import SECTIONS

Write = Callable[..., Path]


@pytest.fixture
def sample_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """`plain` and `careful` are the shipped pipelines."""
    monkeypatch.setattr(discovery, "pipelines_folder", lambda: SHIPPED)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample_shipped: None) -> Write:
    """Writes a file into an empty working directory."""
    monkeypatch.chdir(tmp_path)

    def write_file(text: str, name: str = "ragkit.yaml") -> Path:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


def read(path: Path, overrides: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> ParsedPipeline:
    """Read a file with the sample components."""
    return read_path(path, replace(ReadOptions(environ or {}, tuple(overrides)), sections=SECTIONS))


def problems_of(path: Path, overrides: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> list[str]:
    """The first line of every problem in a file."""
    with pytest.raises(PipelineError, match=":") as caught:
        read(path, overrides, environ)
    return [problem.partition("\n")[0] for problem in caught.value.problems]
