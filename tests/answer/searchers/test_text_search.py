"""`search_texts` finds every place, as a search with `re` in each text does."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.answer.searchers.text_search import MAX_SPANS, TextPattern, search_texts
from ragkit.errors import InvalidOption

WORDS = st.sampled_from(["frost", "Frost", "frosty", "de", "-", "İ", "ß", "a.b", "\n", "  ", "x_frost", "été"])


def stored(texts: list[str]) -> Iterator[tuple[str, str, bytes]]:
    return ((f"/{i}", "", zlib.compress(text.encode())) for i, text in enumerate(texts))


@given(st.lists(st.lists(WORDS, max_size=12).map(" ".join), max_size=4), st.booleans())
def test_literal_text_is_found_wherever_re_finds_it(texts: list[str], whole_words: bool) -> None:
    for text in ("frost", "FROST de", "a.b", "été"):
        expression = r"\s+".join(map(re.escape, text.split()))
        pattern = re.compile(rf"(?<!\w){expression}(?!\w)" if whole_words else expression, re.IGNORECASE)
        found = search_texts(TextPattern(text, whole_words=whole_words), stored(texts))
        expected = {f"/{i}": [m.span() for m in pattern.finditer(t)] for i, t in enumerate(texts) if pattern.search(t)}
        assert {matches.source: matches.count for matches in found.documents} == {
            k: len(v) for k, v in expected.items()
        }
        assert all(list(matches.spans) == expected[matches.source][:MAX_SPANS] for matches in found.documents)
        assert (found.searched, found.complete) == (len(texts), True)


@given(st.lists(st.lists(WORDS, max_size=12).map(" ".join), max_size=4), st.booleans())
def test_several_spellings_are_found_in_one_pass_and_a_place_counts_once(texts: list[str], whole_words: bool) -> None:
    found = search_texts(TextPattern("frosty", whole_words=whole_words, spellings=("FROST", "de")), stored(texts))
    expression = r"(?<!\w)(?:frosty?|de)(?!\w)" if whole_words else "frost|de"
    expected = {f"/{i}": len(re.findall(expression, text, re.IGNORECASE)) for i, text in enumerate(texts)}
    assert {m.source: m.count for m in found.documents} == {
        source: count for source, count in expected.items() if count
    }
    assert (found.searched, found.complete) == (len(texts), True)


def test_a_regular_expression_matches_lines_in_linear_time() -> None:
    texts = ["def f(x):\n  return x\ndef g():\n", "a" * 200_000]
    found = search_texts(TextPattern(r"^def \w+", regex=True), stored(texts))
    assert [(m.source, m.count, m.spans) for m in found.documents] == [("/0", 2, ((0, 9), (21, 29)))]
    assert not search_texts(TextPattern(r"(a+)+$b", regex=True), stored(texts)).documents


def test_a_search_that_uses_up_its_time_says_so() -> None:
    found = search_texts(TextPattern("a"), stored(["a"] * 3), seconds=-1)
    assert (found.documents, found.searched, found.complete) == ((), 0, False)


@pytest.mark.parametrize(
    ("text", "regex"), [("", False), (" \n", False), ("x" * 301, False), ("a(?=b)", True), ("(", True)]
)
def test_a_pattern_that_cannot_be_searched_is_refused(text: str, regex: bool) -> None:
    with pytest.raises(InvalidOption, match="pattern"):
        TextPattern(text, regex)


def test_every_spelling_is_checked() -> None:
    with pytest.raises(InvalidOption, match="pattern"):
        TextPattern("frost", spellings=("frosts", " "))
