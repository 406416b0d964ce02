"""The hashing embedder."""

from __future__ import annotations

import numpy as np
import pytest

from ragkit.embed.hashing import HashingEmbedder
from ragkit.embed.options import HashingOptions
from ragkit.errors import InvalidOption


def similarity(first: str, second: str) -> float:
    rows = HashingEmbedder().embed_texts([first, second])
    return float(rows[0] @ rows[1])


def test_the_order_and_case_of_words_are_ignored() -> None:
    rows = HashingEmbedder().embed_texts(["Red green BLUE", "blue red, green!"])
    np.testing.assert_array_equal(rows[0], rows[1])


def test_words_with_a_common_stem_are_nearer_than_other_words() -> None:
    assert similarity("retrying", "retries") > similarity("retrying", "invoice") + 0.1


def test_a_repeated_word_weighs_more_but_not_twice_as_much() -> None:
    once, twice = similarity("red green", "red"), similarity("red red green", "red")
    assert once < twice < 1


def test_a_text_without_words_has_the_first_unit_vector() -> None:
    rows = HashingEmbedder(HashingOptions(dimension=3)).embed_texts(["", "?!"])
    assert rows.tolist() == [[1, 0, 0], [1, 0, 0]]


def test_the_row_of_a_word_is_the_same_on_every_machine() -> None:
    row = HashingEmbedder(HashingOptions(dimension=4)).embed_query("red")
    np.testing.assert_allclose(row, [0.2135495, 0, 0.2135495, 0.9533066], atol=1e-6)


def test_one_column_is_enough() -> None:
    assert abs(HashingEmbedder(HashingOptions(dimension=1)).embed_texts(["red", "green"])).tolist() == [[1], [1]]


def test_the_dimension_is_part_of_the_fingerprint() -> None:
    assert HashingEmbedder(HashingOptions(dimension=64)).fingerprint == "hashing-1:64"


def test_words_of_any_script_are_tokens_and_punctuation_is_not() -> None:
    assert HashingEmbedder().token_starts("naïve, 漢字 -- x_1").tolist() == [0, 7, 13]


def test_a_dimension_below_1_is_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"embed\.dimension must be >= 1 \(got 0\)"):
        HashingOptions(dimension=0)
