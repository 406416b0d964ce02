"""Token offsets in texts of any kind and size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragkit.embed.minilm import MiniLM

MINILM = MiniLM()
PART_CHARS = 50_000
"""Offsets are computed for so many characters at once."""


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("", []),
        (" \n ", []),
        ("hello world", [0, 6]),
        ("tokenization", [0, 5]),
        ("don't stop.", [0, 3, 4, 6, 10]),
        ("a\x00b c", [0, 4]),
        ("\ud800 hi", [2]),
        ("漢字", [0, 1]),
        ("cafe\u0301 x", [0, 6]),
        ("각", [0, 0, 0]),
    ],
)
def test_token_starts(text: str, starts: list[int]) -> None:
    assert MINILM.token_starts(text).tolist() == starts


def test_a_text_of_many_pieces_has_the_tokens_of_its_lines() -> None:
    line = "Retry a failed request, with 20 % jitter; naïve café.\n"
    once = MINILM.token_starts(line)
    lines = 4 * PART_CHARS // len(line)
    expected = np.concatenate([once + number * len(line) for number in range(lines)])
    np.testing.assert_array_equal(MINILM.token_starts(line * lines), expected)


def test_a_line_without_white_space_is_tokenized_to_its_end() -> None:
    starts = MINILM.token_starts("a1-" * PART_CHARS)
    assert starts[-1] == 3 * PART_CHARS - 1
    assert starts[:4].tolist() == [0, 2, 3, 5]


def test_a_word_of_megabytes_is_split_into_many_tokens() -> None:
    starts = MINILM.token_starts("ab" * 100_000)
    assert np.diff(starts).max() <= 100


def test_token_ids_and_token_starts_count_the_same_tokens() -> None:
    text = "Electroencephalography, 漢字 and 각 cost 12.50 in total. "
    count = len(MINILM.token_starts(text))
    copies = (MINILM.max_tokens - 2) // count
    fits, truncated = MINILM._load_tokenizer().token_ids([text * copies, text * (copies + 1)])
    assert (len(fits), len(truncated)) == (copies * count + 2, MINILM.max_tokens)


@settings(max_examples=150)
@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_offsets_of_any_text_are_inside_it_and_non_decreasing(text: str) -> None:
    starts = MINILM.token_starts(text)
    assert (np.diff(starts) >= 0).all()
    assert all(0 <= start < len(text) for start in starts)
