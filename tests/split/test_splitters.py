"""Conformance tests of all registered splitters."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragkit.embed.hashing import HashingEmbedder
from ragkit.errors import InvalidOption
from ragkit.records import Document, Heading
from ragkit.split import SPLITTERS
from ragkit.split.base import CharSpan, EmbeddingSplitter, Splitter, character_starts
from ragkit.split.token_index import estimate_token_starts
from tests.split.samples import byte_starts, handbook, spaced_starts, word_starts

NAMES = SPLITTERS.names()
MEASURES = [estimate_token_starts, character_starts, word_starts, byte_starts, spaced_starts]
_PROSE = "a|bridge|river.|Heat!|e.g.|12.5|averyveryverylongwordwithoutanyend|:|,|;|(|今天。|，|ก"
_MARKUP = "#|##|```|~~~|-|1.|def|class|@x|}"
_CLUSTERS = "e\u0301|\u0301|👩\u200d👩\u200d👧|🇩🇪|\ud800|\udc00|\u200b"
_SPACES = "\n|\n\n|\r\n|\r|\t|\u2028|\x0c|\xa0| | | "
PIECES = [*"|".join((_PROSE, _MARKUP, _CLUSTERS, _SPACES)).split("|"), "|", "|a|b|", "|-|-|"]


def make(name: str, chunk_size: int = 200, chunk_overlap: int = 40, unit: str = "tokens") -> Splitter:
    options = SPLITTERS.options_class(name)
    assert options is not None
    factory: Callable[[object], Splitter] = SPLITTERS.find(name)
    splitter = factory(options(chunk_size=chunk_size, chunk_overlap=chunk_overlap, unit=unit))
    if isinstance(splitter, EmbeddingSplitter):
        splitter.use_embedder(HashingEmbedder().embed_texts)
    return splitter


@st.composite
def documents(draw: st.DrawFn) -> Document:
    pieces = draw(st.lists(st.sampled_from(PIECES), max_size=120))
    text = "".join(pieces)
    starts = sorted(draw(st.sets(st.integers(0, max(0, len(text) - 1)), max_size=4))) if text else []
    headings = tuple(Heading(start, draw(st.integers(1, 3)), "h") for start in starts)
    return Document(text, headings=headings, format=draw(st.sampled_from(["text", "markdown", "code", "html"])))


def count(starts: NDArray[np.int64], span: CharSpan) -> int:
    return int(np.searchsorted(starts, span[1]) - np.searchsorted(starts, span[0]))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=120)
@given(documents(), st.integers(4, 40), st.data())
def test_no_text_is_lost_and_no_chunk_is_too_long(
    name: str, document: Document, size: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    measure = data.draw(st.sampled_from(MEASURES))
    spans = make(name, size, overlap).spans(document, measure)
    text, starts = document.text, measure(document.text)
    inside = {offset for start, end in spans for offset in range(start, end)}
    assert {offset for offset, character in enumerate(text) if not character.isspace()} <= inside
    assert max((count(starts, span) for span in spans), default=0) <= size


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=80)
@given(documents(), st.integers(1, 40), st.data())
def test_spans_are_ascending_trimmed_and_stable(name: str, document: Document, size: int, data: st.DataObject) -> None:
    splitter = make(name, size, data.draw(st.integers(0, size - 1)))
    spans = list(splitter.spans(document, estimate_token_starts))
    assert spans == list(splitter.spans(document, estimate_token_starts))
    assert all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(spans))
    for start, end in spans:
        text = document.text[start:end]
        assert text.strip()
        assert not text[-1].isspace()
        assert not text[: len(text) - len(text.lstrip())].strip(" \t")


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60)
@given(documents(), st.integers(1, 60))
def test_characters_are_counted_when_the_unit_says_so(name: str, document: Document, size: int) -> None:
    splitter = make(name, size, size // 4, "characters")
    assert splitter.max_chunk_tokens is None
    assert max((end - start for start, end in splitter.spans(document, word_starts)), default=0) <= size


@pytest.mark.parametrize("name", NAMES)
def test_the_tokenizer_is_called_once_on_the_whole_text(name: str) -> None:
    document = Document(handbook(1, sections=5))
    measured: list[str] = []

    def measure(text: str) -> NDArray[np.int64]:
        measured.append(text)
        return word_starts(text)

    make(name).spans(document, measure)
    assert measured == [document.text]


@pytest.mark.parametrize("name", NAMES)
def test_reserved_tokens_are_left_free(name: str) -> None:
    document = Document(handbook(2, sections=8))
    starts = word_starts(document.text)
    spans = make(name, 100, 20).spans(document, word_starts, reserve=30)
    assert 60 < max(count(starts, span) for span in spans) <= 70


@pytest.mark.parametrize("name", NAMES)
def test_at_most_three_quarters_of_a_chunk_can_be_reserved(name: str) -> None:
    document = Document(handbook(3, sections=3))
    starts = word_starts(document.text)
    spans = make(name, 100, 20).spans(document, word_starts, reserve=1000)
    assert 15 < max(count(starts, span) for span in spans) <= 25


@pytest.mark.parametrize("name", [name for name in NAMES if name != "semantic"])
def test_chunks_are_well_filled(name: str) -> None:
    document = Document(handbook(4), format="markdown")
    starts = word_starts(document.text)
    sizes = [count(starts, span) for span in make(name).spans(document, word_starts)]
    assert sum(sizes) / len(sizes) > 140


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["", " ", "\n" * 1000, "\t \r\n\x0c"])
def test_a_text_without_a_visible_character_has_no_chunks(name: str, text: str) -> None:
    assert list(make(name).spans(Document(text), estimate_token_starts)) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_short_text_is_one_trimmed_chunk(name: str) -> None:
    document = Document("Short text. \n")
    assert list(make(name).spans(document, estimate_token_starts)) == [(0, 11)]


@pytest.mark.parametrize("name", NAMES)
def test_no_grapheme_cluster_is_split(name: str) -> None:
    family, accented, flag = "👩\u200d👩\u200d👧\u200d👦", "e\u0301", "🇩🇪"
    for cluster in (family, accented, flag, "각", "\r\n", "\ud83d\ude00"):
        text = f"x{cluster * 200}x"
        inner = {1 + len(cluster) * number + step for number in range(200) for step in range(1, len(cluster))}
        cuts = {cut for span in make(name, 40, 12, "characters").spans(Document(text), word_starts) for cut in span}
        assert cuts & inner == set()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("chunk_size", 0, r"chunk_size must be an integer >= 1 \(got 0\)"),
        ("chunk_size", True, r"chunk_size must be .* \(got True\)"),
        ("chunk_size", 2.5, r"chunk_size must be .* \(got 2.5\)"),
        ("chunk_overlap", 200, r"chunk_overlap must be an integer from 0 to 199 \(chunk_size - 1\) \(got 200\)"),
        ("chunk_overlap", -1, r"chunk_overlap must be .* \(got -1\)"),
        ("unit", "words", r"unit must be 'tokens' or 'characters' \(got 'words'\)"),
    ],
)
def test_an_option_out_of_range_is_rejected(name: str, option: str, value: object, message: str) -> None:
    options = SPLITTERS.options_class(name)
    assert options is not None
    with pytest.raises(InvalidOption, match=message):
        options(**{option: value})


def test_the_registered_names_are_those_of_pipeline_files() -> None:
    assert {"code", "fixed", "markdown", "recursive", "sentence"} <= set(NAMES)
