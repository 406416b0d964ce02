"""Splitting is linear in the length of any text."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from ragkit.records import Document
from ragkit.split.base import character_starts
from ragkit.split.options import RecursiveOptions
from ragkit.split.recursive import RecursiveSplitter
from ragkit.split.token_index import estimate_token_starts
from tests.split.samples import paragraph

SPLITTER = RecursiveSplitter(RecursiveOptions())
SINGLE = ' \n.,`#|*[(<>-=_~"\\\x00\t\ra\u00e9今。ก\u0301\u200d\ud800'
UNITS = [*SINGLE, "🇩🇪", "👩\u200d👧", "\r\n", "a ", "a\n", "a\n\n", "a. ", "# a\n\n", "| a |\n", "```\n", "~~~\n```\n"]
UNITS += ["- a\n", "a: b\n", "def f():\n", "@\n", "|-|-", "[1]. "]


def seconds(document: Document) -> float:
    started_at = time.process_time()
    list(SPLITTER.spans(document, estimate_token_starts))
    return time.process_time() - started_at


@pytest.mark.rotating
@pytest.mark.parametrize("form", ["text", "markdown", "code"])
@pytest.mark.parametrize("unit", UNITS)
def test_time_grows_no_faster_than_the_text(unit: str, form: str) -> None:
    small, large = (Document(unit * (size // len(unit)), id="x", format=form) for size in (20_000, 80_000))
    # 4 times if linear, 16 if quadratic; the constant tolerates pauses of a busy machine
    assert any(seconds(large) < 8 * seconds(small) + 0.2 for _ in range(4))


def test_ten_million_characters_on_one_line_take_20_times_as_long_as_half_a_million() -> None:
    rng = random.Random(1)
    line = " ".join(paragraph(rng) for _ in range(200))

    def split(size: int) -> tuple[float, int]:
        """(CPU seconds, number of chunks)."""
        document = Document((line * (size // len(line) + 1))[:size], id="x")
        starts = np.arange(0, size, 5, dtype=np.int64)
        started_at = time.process_time()
        spans = SPLITTER.spans(document, lambda text: starts)
        return time.process_time() - started_at, len(spans)

    small = min(split(500_000)[0] for _ in range(3))
    large, chunks = split(10_000_000)
    assert large < 60 * small + 1  # 20 times if linear, 400 if quadratic
    assert chunks > 10_000


def test_a_million_blank_lines_are_skipped_quickly() -> None:
    document = Document("first" + "\n" * 1_000_000 + "last", id="x")
    spans = list(SPLITTER.spans(document, character_starts))
    assert [document.text[start:end] for start, end in spans] == ["first", "last"]


def test_many_thousand_headings_are_split_quickly() -> None:
    document = Document("# a\n\nb\n\n" * 30_000, id="x", format="markdown")
    started_at = time.process_time()
    spans = list(SPLITTER.spans(document, estimate_token_starts))
    assert time.process_time() - started_at < 10
    assert document.text[spans[-1][0] : spans[-1][1]].endswith("# a\n\nb")
