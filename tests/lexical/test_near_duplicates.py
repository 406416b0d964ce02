"""Passages that say the same are found; passages that only look alike are not."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ragkit.lexical.near_duplicates import LIKENESS, digest_passages, likeness, says_the_same

TERMS = (
    "the traveller hands in the receipts of a journey at the office {days} days after the return, and the office "
    "of {name} pays the costs of trains, hotels and meals {only}to the account that the traveller names in the form"
)
SENTENCE = TERMS.format(days=30, name="Berlin", only="")


@pytest.mark.parametrize(
    "other",
    [
        TERMS.format(days=31, name="Berlin", only=""),
        TERMS.format(days=30, name="Munich", only=""),
        TERMS.format(days=30, name="Berlin", only="only "),
        TERMS.format(days=30, name="Berlin", only="not "),
        SENTENCE.replace("after", "before"),
        SENTENCE.replace("trains", "flights"),
        SENTENCE.replace("30 days", "-30 days"),
        SENTENCE.replace("30 days", "30 % days"),
        SENTENCE.replace("a journey", "two journeys"),
        SENTENCE.replace("receipts", "receipt_id"),
    ],
)
def test_another_number_name_negation_or_word_is_another_statement(other: str) -> None:
    assert not says_the_same(SENTENCE, other)
    digests = digest_passages([SENTENCE, other], ["", ""])
    assert digests.exact[0] != digests.exact[1]


@pytest.mark.parametrize(
    "other",
    [
        SENTENCE.replace(", ", " \n\n* "),
        SENTENCE.replace("the form", "a form"),
        SENTENCE.replace("hands in", "then hands in"),
        SENTENCE.replace("receipts", "receipt"),
        SENTENCE.replace("in the form", "in the online form"),
    ],
)
def test_another_layout_article_ending_or_one_more_word_says_the_same(other: str) -> None:
    assert says_the_same(SENTENCE, other)
    bands = digest_passages([SENTENCE, other], ["", ""]).bands
    assert (bands[0] == bands[1]).any()


def test_passages_under_different_headings_or_too_short_ones_are_not_alike() -> None:
    digests = digest_passages([SENTENCE, SENTENCE, "It weighs 3 kg."], ["Model X200", "Model X300", ""])
    assert not (digests.bands[0] == digests.bands[1]).any()
    assert digests.exact[0] != digests.exact[1]
    assert digests.exact[2] == 0


def test_a_text_of_a_script_without_capital_letters_says_the_same_only_if_its_words_are_equal() -> None:
    text = "。".join(f"在第{number}天旅客把收据交给办公室办公室支付火车旅馆和膳食的费用" for number in range(8))
    assert says_the_same(text, text.replace("。", "，\n"))
    assert not says_the_same(text, text.replace("火车", "飞机", 1))


def test_bands_meet_as_often_as_the_exact_likeness_says() -> None:
    """At a likeness s, one of 8 bands of 4 minima is equal with the chance 1 - (1 - s^4)^8."""
    random_ = random.Random(5)
    words = [f"word{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(600)]
    met: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(600):
        text = [random_.choice(words) for _ in range(120)]
        other = list(text)
        for place in random_.sample(range(120), random_.choice([0, 1, 2, 3, 4, 20, 40])):
            other[place] = random_.choice(words)
        first, second = " ".join(text), " ".join(other)
        bands = digest_passages([first, second], ["", ""]).bands
        share = likeness(first, second)
        chance = 1 - (1 - share**4) ** 8
        met[share >= LIKENESS].append(float((bands[0] == bands[1]).any()) - chance)
    for differences in met.values():
        assert len(differences) > 100
        assert abs(np.mean(differences)) < 0.05


def test_the_digests_of_passages_do_not_depend_on_those_beside_them() -> None:
    rng = random.Random(5)
    words = ["the", "Pump", "42", "not", "valve", "<", "déjà", "水", "opens", "x" * 120]
    texts = [" ".join(rng.choices(words, k=rng.choice([0, 1, 2, 3, 40, 90]))) for _ in range(300)]
    headings = [rng.choice(["", "Setup", "Setup 水"]) for _ in texts]
    together = digest_passages(texts, headings)
    for number, (text, heading) in enumerate(zip(texts, headings, strict=True)):
        alone = digest_passages([text], [heading])
        assert alone.exact[0] == together.exact[number]
        assert alone.bands[0].tolist() == together.bands[number].tolist()
    assert 50 < np.count_nonzero(together.exact) < 300


def test_digests_stay_those_that_a_catalog_holds() -> None:
    text = "The pump opens the valve 3 times, not twice. " * 4
    digests = digest_passages([text, "x" * 150, "x" * 60 + " " + "y" * 60], ["Setup", "", "A b"])
    assert digests.exact.tolist() == [-1180101621117849246, -7648228953273108917, 420933056477117229]
    assert digests.bands[:, :2].tolist() == [[2485131322, 3646191887], [481429264, 2039117902], [1174233, 4284435132]]
