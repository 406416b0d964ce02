"""Token counts of spans, lines, and grapheme breaks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.split.lines import LineNumbers, TextLine, iter_lines
from ragkit.split.text_boundaries import (
    MAX_GRAPHEME_CHARS,
    last_grapheme_break,
    last_word_end,
    next_grapheme_break,
    next_word_start,
    splits_grapheme,
)
from ragkit.split.token_index import MAX_TOKEN_CHARS, TokenIndex, estimate_token_starts
from tests.split.samples import byte_starts, spaced_starts, word_starts


def pieces(text: str) -> list[str]:
    edges = [*estimate_token_starts(text).tolist(), len(text)]
    return [text[start:end].rstrip() for start, end in pairwise(edges)]


def test_words_marks_and_ideographs_are_tokens() -> None:
    assert pieces("It's 3.5 今天!") == ["It", "'", "s", "3", ".", "5", "今", "天", "!"]


def test_a_long_word_counts_as_several_tokens() -> None:
    assert pieces("internationalization now") == ["internat", "ionaliza", "tion", "now"]


def test_the_tokens_of_a_span_are_those_that_start_in_it() -> None:
    token_index = TokenIndex("one two  three four", word_starts)
    assert token_index.token_count_before(0) == 0
    assert token_index.token_count_before(1) == 1
    assert token_index.token_count_before(19) - token_index.token_count_before(9) == 2
    assert token_index.token_counts_before(np.array([0, 4, 19])).tolist() == [0, 1, 4]


def test_offsets_of_token_counts() -> None:
    token_index = TokenIndex("one two three", word_starts)
    assert [token_index.offset_after(count) for count in range(5)] == [0, 4, 8, 13, 13]
    assert [token_index.offset_within(count) for count in range(5)] == [0, 4, 8, 13, 13]


def test_several_tokens_may_start_at_one_character() -> None:
    token_index = TokenIndex("é€x", byte_starts)  # two bytes, three bytes, one byte
    assert [token_index.offset_within(count) for count in range(7)] == [0, 0, 1, 1, 1, 2, 3]
    assert [token_index.offset_after(count) for count in range(7)] == [0, 1, 1, 2, 2, 2, 3]


def test_a_token_that_starts_at_the_space_before_a_word_belongs_to_the_word() -> None:
    token_index = TokenIndex("one two three", spaced_starts)
    assert token_index.token_count_before(7) - token_index.token_count_before(4) == 1
    assert token_index.token_count_before(13) - token_index.token_count_before(4) == 2


def test_text_without_token_starts_counts_by_its_length() -> None:
    assert TokenIndex("x" * MAX_TOKEN_CHARS, word_starts).token_count_before(MAX_TOKEN_CHARS) == 1
    assert TokenIndex("x" * (MAX_TOKEN_CHARS + 1), word_starts).token_count_before(MAX_TOKEN_CHARS + 1) == 2
    assert TokenIndex("x" * 10 * MAX_TOKEN_CHARS, word_starts).token_count_before(10 * MAX_TOKEN_CHARS) == 10


def test_a_text_without_tokens_can_be_measured() -> None:
    assert TokenIndex("", word_starts).token_count_before(0) == 0
    assert TokenIndex("  ", word_starts).offset_after(1) == 2


def test_lines_keep_their_indent_and_lose_their_trailing_space() -> None:
    assert list(iter_lines("\n  a b \t\n\n\tc")) == [TextLine(1, 3, 6, False), TextLine(10, 11, 12, True)]


def test_a_form_feed_ends_a_page_like_a_blank_line() -> None:
    assert [line.after_blank for line in iter_lines("a\n\x0cb\nc")] == [False, True, False]


@given(st.text(alphabet="ab \t\n\r\x0c\u2028", max_size=80))
def test_every_visible_character_is_in_exactly_one_line(text: str) -> None:
    lines = list(iter_lines(text))
    assert " ".join(text[line.text_start : line.end] for line in lines).split() == text.split()
    assert all(text[line.start : line.text_start].strip(" \t") == "" for line in lines)
    assert not any("\n" in text[line.start : line.end] or "\r" in text[line.start : line.end] for line in lines)


def test_lines_are_numbered_as_editors_do() -> None:
    numbers = LineNumbers("a\nb\r\nc\rd")
    assert [numbers.line_at(offset) for offset in (0, 2, 5, 7)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "cluster",
    [
        "e\u0301",
        "e\u0301\u0323",
        "👩\u200d🔬",
        "👍🏽",
        "🇩🇪",
        "\r\n",
        "\ud83d\ude00",
        "กำ",
        "\u1112\u1161\u11ab",
        "❤\ufe0f",
        "ｶﾞ",
    ],
)
def test_a_grapheme_cluster_is_not_split(cluster: str) -> None:
    text = f"a{cluster}b"
    assert [offset for offset in range(len(text) + 1) if not splits_grapheme(text, offset)] == [
        0,
        1,
        len(text) - 1,
        len(text),
    ]


def test_consecutive_flags_are_separated() -> None:
    assert [offset for offset in range(7) if not splits_grapheme("🇩🇪🇫🇷🇪🇸", offset)] == [0, 2, 4, 6]


def test_grapheme_breaks_are_found_in_both_directions() -> None:
    text = "ab\u0301\u0301c"
    assert last_grapheme_break(text, 0, 3) == 1
    assert last_grapheme_break(text, 1, 3) is None
    assert next_grapheme_break(text, 2, 5) == 4
    assert next_grapheme_break(text, 2, 3) == 2


def test_a_very_long_cluster_may_be_split() -> None:
    text = "a" + "\u0301" * 1000
    assert last_grapheme_break(text, 0, 500) is None
    assert next_grapheme_break(text, 500, 1001) == 500
    assert last_grapheme_break(text, 0, MAX_GRAPHEME_CHARS // 2) is None


def test_word_starts_are_preferred_to_grapheme_breaks() -> None:
    assert next_word_start("one two three", 1, 13) == 4
    assert next_word_start("one two three", 4, 13) == 4
    assert next_word_start("onetwothree", 3, 11) == 3
    assert next_word_start("one ", 1, 3) == 1
    assert next_word_start("one", 3, 3) == 3
    assert next_word_start("a\u0301 b", 1, 2) == 2


def test_word_ends_are_preferred_to_grapheme_breaks() -> None:
    assert last_word_end("one two three", 9) == 7
    assert last_word_end("one two three", 7) == 7
    assert last_word_end("one two three", 8) == 7
    assert last_word_end("onetwothree", 5) == 5
    assert last_word_end("one", 3) == 3
