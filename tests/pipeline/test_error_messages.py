"""One broken file for each kind of mistake, and its exact error messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pipeline import golden
from tests.pipeline.golden import BROKEN, ENVIRON

HEAD = re.compile(r"[\w-][\w./-]*:\d+:\d+: \S")


@pytest.mark.parametrize("name", golden.names())
def test_a_broken_file_gives_its_expected_messages(
    name: str, monkeypatch: pytest.MonkeyPatch, sample_shipped: None
) -> None:
    monkeypatch.chdir(BROKEN)
    assert golden.messages(name) == Path(f"{name}.txt").read_text(encoding="utf-8")


def test_every_golden_file_belongs_to_a_broken_file() -> None:
    assert sorted(path.stem for path in BROKEN.glob("*.txt")) == golden.names()


def test_eighty_kinds_of_mistakes_are_covered() -> None:
    assert len(golden.names()) >= 80


def test_every_message_begins_with_file_line_and_column_and_ends_with_a_caret() -> None:
    for path in BROKEN.glob("*.txt"):
        lines = path.read_text(encoding="utf-8").splitlines()
        heads = [number for number, line in enumerate(lines) if HEAD.match(line)]
        assert heads[0] == 0, path
        for number in heads:
            assert lines[number + 1 : number + 3] == [] or lines[number + 2].strip() == "^", (path, lines[number])


def test_no_message_contains_the_value_of_a_secret_variable() -> None:
    for path in BROKEN.glob("*.txt"):
        assert ENVIRON["SAMPLE_API_KEY"] not in path.read_text(encoding="utf-8"), path


def test_no_message_contains_an_escape_sequence() -> None:
    for path in BROKEN.glob("*.txt"):
        assert "\x1b" not in path.read_text(encoding="utf-8"), path
