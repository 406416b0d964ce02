"""Regression tests of all findings, and a few hundred random inputs; `make fuzz` runs longer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fuzz.run import CORPUS, table
from tests.fuzz.targets import TARGETS

pytestmark = pytest.mark.filterwarnings(r"ignore::UserWarning:PIL\..*")
"""Pillow warns of damaged images before it refuses them; parsing processes show no warnings."""
SLOW, FEW = ("filters", "layout", "msg", "ocr", "support", "uploads"), 40
"""Targets with fewer random inputs."""
CORPUS_FILES = sorted(path for path in CORPUS.glob("*/*") if path.is_file())
FRAGMENTS = {
    "calls": (
        "TOOL_CALL",
        "{",
        "}",
        "[",
        "]",
        '"tool_name"',
        '"a"',
        ":",
        ",",
        "```json\n",
        "```",
        '"parameters"',
        "\\",
    ),
    "formats": (
        "{\\rtf1 ",
        "\\par ",
        "\\u8217?",
        "}",
        "WEBVTT\n",
        "00:01.000 --> 00:02.000\n",
        "From a\n",
        '{"cells": [',
        "]",
    ),
    "loader": ("# ", "<p>", "</table>", "%PDF-1.4\n", "PK\x03\x04", "---\n", "From: a\n", "\n\n", ",", '"', "{", "["),
    "pipeline": (
        "load:",
        "\n",
        "  ",
        "- ",
        "name: ",
        "folder",
        "{",
        "}",
        "&a ",
        "*a",
        "${NAME}",
        "!!int ",
        "extends: ",
    ),
    "split": ("a b. ", "\n", "\n\n", "# ", "```\n", "| a |\n", "def f():\n", "\u0301", "👩\u200d", "\u2028", "x" * 50),
    "filters": ("\x00", "\x01", "\x07", "\x09", "\x05\x02", "\x03"),
    "layout": ("\x00\x01\x01", "\x02\x03\x12\x01\x00", "\x01\x00\x14\x02\x03\x06", "\x12abc"),
    "msg": ("Subject\x00", "\x01", "<p>a</p>", "a.txt\x00", "\x05"),
    "options": ("\x00\x02\x01", "\x01\x00", "\x05a b\x00", "\x04\x14\x01\x07"),
    "ocr": ("\x40\x40", "\x00\x10", "\x0bword", "\x00\x00\x14\x00", "\x03"),
    "records": ("a,b\n", '"', "1e999", "2024-01-01", '{"a": ', "}", "- ", "[[a]]\n", "<a>", "</a>", "\t", "\n"),
    "rtf": ("\\par ", "\\u8217?", "{", "}", "\\'e4", "\\cell ", "\\bin3 ", "{\\*\\x "),
    "support": ("The flask", " 12 hours", " [1]", ".", "\x00", '"', "not ", "- ", "| a |\n", "€5", "3 May 2019"),
    "uploads": ("\x01", "a.md\x00", "../", "\\", "CON", "\u200d", "https://x/", "PK\x03\x04", "# A\n", "."),
    "where": ("year", "==", ">=", " and ", " or ", "not ", "(", ")", '"a"', "in ", "has(", "1e9", ",", "true", "$"),
}


def test_every_target_has_seeds() -> None:
    assert {path.parent.name for path in CORPUS_FILES} == set(TARGETS)


@pytest.mark.rotating
@pytest.mark.parametrize("path", CORPUS_FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_past_findings_stay_fixed(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.rotating
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_random_input_breaks_no_invariant(name: str) -> None:
    pieces = st.lists(st.sampled_from(FRAGMENTS[name]).map(str.encode) | st.binary(max_size=6), max_size=30)

    @settings(max_examples=FEW if name in SLOW else 150, database=None)
    @given(st.binary(min_size=2, max_size=2), pieces.map(b"".join))
    @example(b"\0\0", b"")
    def run(head: bytes, data: bytes) -> None:
        TARGETS[name](head + data if name in ("formats", "loader", "split") else data)

    run()


def test_the_table_has_a_row_for_each_target() -> None:
    results = {"rtf": {"inputs": 1101, "minutes": 4.0, "found": 1}}
    assert table(results, ["rtf", "split"]).splitlines()[2:] == ["| rtf | 4.0 | 1,101 | 1 |", "| split | 0.0 | 0 | 0 |"]
