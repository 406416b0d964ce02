"""`ragkit init`: what it writes, what it leaves as it is, and the sample folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragkit.cli.commands.init import sample_directory
from tests.cli.conftest import Ragkit

ROOT = Path(__file__).parents[2]


def test_the_sample_is_written_with_every_file_and_its_questions(ragkit: Ragkit, workplace: Path) -> None:
    written = ragkit("init", "--sample", "--json").json
    assert written == {"written": ["ragkit.yaml", ".ragkitignore", "sample", "questions.jsonl"], "there": []}
    names = {path.relative_to(workplace / "sample") for path in (workplace / "sample").rglob("*") if path.is_file()}
    assert names == {
        path.relative_to(ROOT / "data" / "sample") for path in (ROOT / "data" / "sample").rglob("*") if path.is_file()
    }
    assert len(names) == 43
    assert (workplace / "questions.jsonl").read_bytes() == (ROOT / "data" / "questions.jsonl").read_bytes()
    assert {path.name for path in workplace.iterdir()} == {"ragkit.yaml", ".ragkitignore", "sample", "questions.jsonl"}


def test_a_folder_that_exists_is_not_changed(ragkit: Ragkit, workplace: Path) -> None:
    (workplace / "sample").mkdir()
    (workplace / "sample" / "mine.txt").write_text("mine")
    result = ragkit("init", "--sample", "--json").json
    assert result["there"] == ["sample"]
    assert [path.name for path in (workplace / "sample").iterdir()] == ["mine.txt"]
    assert ragkit("init", "--sample", "--json", code=1).json["written"] == []


def test_the_sample_can_be_written_somewhere_else_and_indexed(ragkit: Ragkit, hashing: Path) -> None:
    ragkit("init", "--sample", "first", "-q")
    assert ragkit("index", "first/sample", "--json").json["files"]["added"] == 43
    assert hashing.read_text().startswith("embed:")


def test_compiled_files_of_an_installed_package_are_not_copied(
    ragkit: Ragkit, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sample/tool.py", "sample/__pycache__/tool.cpython-311.pyc", "questions.jsonl"):
        path = workplace / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    monkeypatch.setattr("ragkit.cli.commands.init.sample_directory", lambda: workplace / "package")
    ragkit("init", "--sample", "-q")
    assert [path.name for path in (workplace / "sample").iterdir()] == ["tool.py"]


@pytest.mark.parametrize("name", ["sample", "questions.jsonl"])
def test_the_wheel_contains_the_sample(name: str) -> None:
    assert (sample_directory() / name).exists()
    assert f'"data/{name}" = "ragkit/cli/commands/sample_files/{name}"' in (ROOT / "pyproject.toml").read_text("utf-8")
