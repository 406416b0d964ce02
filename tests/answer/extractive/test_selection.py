"""Selection of the answer units that answer a question best, without a language model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ragkit.answer.extractive.selection import (
    FEATURE_WEIGHTS,
    MAX_BEGINNINGS,
    MAX_EMBEDDED_UNITS,
    MAX_PASSAGES,
    UNITS_WITH_NEIGHBOURS,
    AnswerCandidates,
    build_candidates,
    rank_answer_units,
    with_beginnings,
)
from ragkit.answer.score_calibration import ScoreCalibration, measure_calibration
from ragkit.embed.minilm import MiniLM
from ragkit.records import Chunk, Hit
from tests.answer.hits import hit
from tests.answer.passages import Shelf

MILL = (
    "The upper mill stands beside the bridge of Harrow. It was built in 1790 by the carpenter Ada Quill for the abbey. "
    "Nine tonnes of larch went into the wheel alone. The flood of 1921 took the roof and most of the grain away. "
    "Since then the abbey has let the building to a society of friends, who open it on Sundays."
)
INN = (
    "The inn of Harrow serves barley soup from noon until the kitchen closes. Rooms cost 62 euros for one night. "
    "Dogs are welcome in the yard, where a bowl of water stands under the chestnut tree."
)


class Words(Shelf):
    """A searcher with the same weight for every word."""

    def __init__(self) -> None:
        super().__init__({})
        self.embedded: list[str] = []

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        return np.ones(len(terms), np.float32)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.embedded += texts
        return super().embed(texts)

    def calibration(self) -> ScoreCalibration:
        return measure_calibration(super().embed)


class Meanings(Words):
    """The same with the shipped embedder."""

    def __init__(self) -> None:
        super().__init__()
        self.model = MiniLM()

    def calibration(self) -> ScoreCalibration:
        return measure_calibration(self.embed)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.model.embed_texts(texts)

    def embed_question(self, question: str) -> NDArray[np.float32]:
        return self.model.embed_query(question)


class Narrow(Meanings):
    """With an embedder whose cosines are those of the shipped one, between 0.68 and 1."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._narrow(super().embed(texts))

    def embed_question(self, question: str) -> NDArray[np.float32]:
        row: NDArray[np.float32] = self._narrow(super().embed_question(question)[None])[0]
        return row

    def calibration(self) -> ScoreCalibration:
        return measure_calibration(self.embed)

    @staticmethod
    def _narrow(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cosines times 0.16, plus 0.84."""
        return np.hstack([0.4 * rows, np.full((len(rows), 1), 0.84**0.5, np.float32)])


class Beginnings(Words):
    """A searcher that knows the first chunk of each document."""

    def __init__(self, *hits: Hit) -> None:
        super().__init__()
        self.first = {hit.chunk.document_id: hit.chunk for hit in hits}

    def first_chunk(self, document_id: str) -> Chunk | None:
        return self.first.get(document_id)


def best(question: str, *hits: Hit) -> list[str]:
    """The texts of the units, best first."""
    return [unit.text for unit in rank_answer_units(question, hits, Words())[0]]


def columns(candidates: AnswerCandidates, words: str) -> dict[str, float]:
    """The features of the first candidate with these words."""
    texts = [candidates.units[i].text for i in candidates.kept]
    row = next(i for i, text in enumerate(texts) if words in text)
    return dict(zip(FEATURE_WEIGHTS, candidates.features[row].tolist(), strict=True))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When did the flood take the roof?", "1921"),
        ("How much larch is in the wheel?", "Nine tonnes"),
        ("What does a room at the inn cost?", "62 euros"),
        ("Until when does the kitchen of the inn serve soup?", "from noon until"),
    ],
)
def test_the_best_unit_contains_the_answer(question: str, answer: str) -> None:
    assert answer in best(question, hit(MILL), hit(INN, source="/inn.txt"))[0]


def test_a_sentence_without_shared_words_is_found_by_its_meaning() -> None:
    texts = [
        "The ceremony lasted for two hours.",
        "Felines slept on the warm roof all day.",
        "The committee met twice in June.",
    ]
    hits = [hit(text, source=f"/{place}.txt", dense=0.3) for place, text in enumerate(texts)]
    assert rank_answer_units("What did the cats do?", hits, Meanings())[0][0].text == texts[1]


def test_meaning_counts_as_much_with_an_embedder_whose_cosines_differ_little() -> None:
    hits = [hit(MILL), hit(INN, source="/inn.txt")]
    wide, narrow = (rank_answer_units("Are pets allowed?", hits, searcher)[0] for searcher in (Meanings(), Narrow()))
    assert [unit.text for unit in narrow] == [unit.text for unit in wide]
    gaps = [ranked[0].score - ranked[1].score for ranked in (wide, narrow)]
    assert gaps[1] == pytest.approx(gaps[0], rel=0.3)
    assert narrow[0].cosine == pytest.approx(0.84 + 0.16 * wide[0].cosine, abs=0.001)


def test_the_offsets_refer_to_the_document() -> None:
    unit = rank_answer_units("When did the flood take the roof?", [hit(MILL, start=40)], Words())[0][0]
    assert MILL[unit.start - 40 : unit.end - 40] == unit.text
    assert (unit.hit_index, unit.source) == (0, "/a.txt")


def test_the_answer_type_breaks_ties() -> None:
    repaired = "The wheel of the lower mill was repaired"
    both = hit(f"{repaired} by nobody at all. {repaired} in 1834 at last.")
    assert "1834" in best("When was the wheel of the lower mill repaired?", both)[0]
    assert "nobody" in best("Why was nobody at all asked to repair the wheel?", both)[0]


def test_scores_fall_and_all_units_come_in_order() -> None:
    ranked, units = rank_answer_units("What is in Harrow?", [hit(MILL), hit(INN, source="/inn.txt")], Words())
    scores = [unit.score for unit in ranked]
    assert scores == sorted(scores, reverse=True)
    assert [(unit.hit_index, unit.start) for unit in units] == sorted((unit.hit_index, unit.start) for unit in units)
    assert {(unit.hit_index, unit.start) for unit in ranked} == {(unit.hit_index, unit.start) for unit in units}


def test_text_of_overlapping_passages_is_a_candidate_once() -> None:
    half = len(MILL) // 2
    texts = best("When did the flood take the roof?", hit(MILL), hit(MILL[half:], start=half))
    assert sum("1921" in text for text in texts) == 1


def test_rows_that_differ_in_a_number_are_different_candidates() -> None:
    table = "Year | Flood level\n1921 | 4.2 m\n1954 | 3.9 m\n"
    assert sorted(best("What were the flood levels of 1921 and 1954?", hit(table))[:2]) == [
        "Year: 1921; Flood level: 4.2 m",
        "Year: 1954; Flood level: 3.9 m",
    ]


def test_a_question_in_the_text_is_not_an_answer() -> None:
    asked, answer = "How old is the wheel, and who made it?", "The one of today was made by a firm in 1986."
    assert best("How old is the wheel of the mill?", hit(f"{asked}\n\n- {answer}"))[0].endswith(answer)


def test_only_the_best_units_are_embedded() -> None:
    many = " ".join(f"Sack number {n} of this year's barley went to the inn." for n in range(60))
    searcher = Words()
    ranked, units = rank_answer_units("Which sack of barley went to the inn?", [hit(many)], searcher)
    assert len(searcher.embedded) == len(ranked) == MAX_EMBEDDED_UNITS
    assert len(units) == 60


def test_the_neighbours_of_the_very_best_units_are_embedded_too() -> None:
    before = [f"Sack number {n} of this year's barley went to the inn." for n in range(20)]
    after = [f"Nothing was said in the yard about harvest number {n}." for n in range(20)]
    flood = "The flood of 1921 took the roof and most of the grain away."
    searcher = Words()
    question = "When did the flood take the roof, and how much barley went to the inn?"
    ranked, _ = rank_answer_units(question, [hit(" ".join([*before, flood, *after]))], searcher)
    assert ranked[0].text == flood
    assert {before[-1], flood, after[0]} <= set(searcher.embedded)
    assert MAX_EMBEDDED_UNITS < len(searcher.embedded) <= MAX_EMBEDDED_UNITS + 2 * UNITS_WITH_NEIGHBOURS


def test_a_neighbour_in_another_passage_is_not_embedded() -> None:
    barley = [f"Sack number {n} of this year's barley went to the inn." for n in range(20)]
    flood = "The flood of 1921 took the roof and most of the grain away."
    searcher = Words()
    hits = [hit(flood), hit("Nothing was said in the yard about the harvest.", source="/yard.txt")]
    hits.append(hit(" ".join(barley), source="/inn.txt"))
    rank_answer_units("When did the flood take the roof, and what barley went to the inn?", hits, searcher)
    assert flood in searcher.embedded
    assert "Nothing was said in the yard about the harvest." not in searcher.embedded


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What is a sluice?", "A sluice is a gate that lets water through."),
        ("How do I open the sluice?", "To open the sluice, run `sluice --open` as the miller."),
        ("What is the default level of the sluice?", "The level of the sluice is 40 cm by default."),
        ("Can the sluice be opened at night?", "The sluice is never opened at night."),
        ("Who designed the sluice?", "The sluice was designed by Ada Quill."),
    ],
)
def test_the_kind_of_the_question_decides_between_equal_words(question: str, text: str) -> None:
    other = "The sluice of the mill was painted green again."
    assert best(question, hit(f"{other}\n\n{text}\n\n{other[:-1]} too."))[0].endswith(text)


SLUICE = "The -d option is older than -q.\n\n-q Say nothing.\n\n-d, --dry Only print the steps."
WEIR = "-d Open the option of the gate.\n\n-q Lower the level of the pond without a word."


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What does the -d option of sluice do?", "-d, --dry Only print the steps."),
        ("What is sluice --dry?", "-d, --dry Only print the steps."),
        ("What does weir -q do?", "-q Lower the level of the pond without a word."),
        ("Which level of the pond does weir -d raise?", "-q Lower the level of the pond without a word."),
    ],
)
def test_what_an_option_does_is_its_entry_in_the_document_of_the_program(question: str, answer: str) -> None:
    assert best(question, hit(SLUICE, source="/sluice.1.txt"), hit(WEIR, source="/weir.1.txt"))[0] == answer


def test_the_beginnings_of_documents_are_read_for_their_authors_and_definitions() -> None:
    title = hit("The Mills of Harrow, by Ada Quill, 1994")
    found = [hit(MILL, start=4000, dense=0.4), hit(INN, source="/inn.txt", dense=0.3)]
    searcher = Beginnings(title)
    for question in ("Who wrote the book on mills?", "What is Harrow?", "Which version is it?"):
        read = with_beginnings(question, found, searcher)
        assert [item.chunk.id for item in read] == [*(item.chunk.id for item in found), title.chunk.id]
        assert read[-1].scores == {"dense": 0.3}
    assert with_beginnings("How deep is the water?", found, searcher) == found
    assert with_beginnings("Who wrote the book on mills?", [title, *found], searcher) == [title, *found]
    assert with_beginnings("Who wrote the book on mills?", found, Words()) == found


def test_only_the_best_passages_and_a_few_beginnings_are_read() -> None:
    found = [hit(MILL, source=f"/{n}.txt", start=900) for n in range(MAX_PASSAGES + 4)]
    first = [hit(INN, source=f"/{n}.txt") for n in range(MAX_PASSAGES + 4)]
    assert len(with_beginnings("Who wrote it?", found, Beginnings(*first))) == MAX_PASSAGES + MAX_BEGINNINGS
    assert with_beginnings("Who wrote it?", [], Beginnings(*first)) == []


def test_without_passages_there_are_no_units() -> None:
    assert best("Who?") == best("Who?", hit("# Only a heading")) == []


def test_a_question_without_words_ranks_all_units() -> None:
    assert len(best("?!", hit(MILL))) > 1


def test_there_is_a_column_for_each_weight() -> None:
    result = build_candidates("When was the flood?", [hit(MILL, dense=0.5, bm25=3.0)], Words())
    assert result.features.shape == (len(result.kept), len(FEATURE_WEIGHTS))
    assert np.isfinite(result.features).all()
    known = columns(result, "1921")
    assert known["words"] == pytest.approx(1)
    assert (known["date"], known["number"], known["passage_meaning"], known["passage_bm25"]) == (1, 0, 0, 1)


def test_passage_scores_are_relative_to_the_best_one() -> None:
    hits = [hit(MILL, dense=0.7, bm25=8.0), hit(INN, source="/inn.txt", dense=0.4, bm25=2.0)]
    known = columns(build_candidates("Where is Harrow?", hits, Words()), "barley soup")
    assert known["passage_meaning"] == pytest.approx(-0.3)
    assert known["passage_bm25"] == pytest.approx(0.25)
    assert known["passage_rank"] == pytest.approx(0.5)
