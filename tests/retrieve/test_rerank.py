"""Reranking: blending, the tail, diversity; and the local rerankers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ragkit.embed.minilm import MiniLM
from ragkit.errors import InvalidOption
from ragkit.records import Hit, Where
from ragkit.retrieve import RERANKERS
from ragkit.retrieve.base import Explanation, Reranker, RerankScores
from ragkit.retrieve.fusion import z_scores
from ragkit.retrieve.options import DenseOptions, HybridOptions, RerankOptions
from ragkit.retrieve.rerank import MmrReranker, RerankingRetriever, pairwise_similarity, rank_by_mmr
from ragkit.retrieve.rerank_sentences import SentenceReranker
from tests.embed.exported_models import write_reranker
from tests.gguf_models import write_chat_model, write_minilm_gguf
from tests.retrieve.passages import chunk

LOCAL_RERANKERS = [name for name in RERANKERS if RERANKERS.extra(name) in {"", "gguf", "onnx"} and name != "jina"]
SCORES = {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}


class FixedRetriever:
    """A retriever that finds a, b, c and d, in this order."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The first hits."""
        assert top_k is not None
        self.asked.append(top_k)
        hits = [Hit(chunk(text), score, {"dense": score}, rank) for rank, (text, score) in enumerate(SCORES.items(), 1)]
        return [Explanation(hit, {"dense": hit.rank}, {"dense": hit.score}) for hit in hits[:top_k]]

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The first hits."""
        return [item.hit for item in self.explain(question, top_k, where)]


class ReversingReranker:
    """Scores hits by their letter, later ones higher."""

    weight, diversity = 1.0, 0.0

    def scores(self, question: str, hits: Sequence[Hit]) -> RerankScores:
        """1 for a, 2 for b..."""
        return np.array([ord(hit.chunk.text) - 96 for hit in hits], np.float64)


def reranked(reranker: Reranker | None = None, top_k: int = 8, **options: float) -> RerankingRetriever:
    settings = RerankOptions(**options)  # type: ignore[arg-type]  # whole numbers among them
    return RerankingRetriever(FixedRetriever(), reranker or ReversingReranker(), settings, HybridOptions(top_k=top_k))


def texts(hits: Sequence[Hit]) -> str:
    return "".join(hit.chunk.text for hit in hits)


def test_a_reranker_with_weight_1_determines_the_order() -> None:
    hits = reranked().retrieve("?")
    assert [(hit.chunk.text, hit.score, hit.rank) for hit in hits] == [
        ("d", 4, 1),
        ("c", 3, 2),
        ("b", 2, 3),
        ("a", 1, 4),
    ]
    assert [dict(hit.scores) for hit in hits[:2]] == [{"dense": 1.0, "rerank": 4.0}, {"dense": 2.0, "rerank": 3.0}]


def test_scores_are_blended_by_weight_and_contributions_sum_up() -> None:
    why = reranked(weight=0.25).explain("?")
    assert texts([item.hit for item in why]) == "abcd"
    assert [dict(item.contributions) for item in why[:2]] == [
        {"retrieve": 3.0, "rerank": 0.25},
        {"retrieve": 2.25, "rerank": 0.5},
    ]
    assert [item.hit.score for item in why] == [3.25, 2.75, 2.25, 1.75]
    assert [dict(item.ranks) for item in why[:2]] == [{"dense": 1, "rerank": 4}, {"dense": 2, "rerank": 3}]


def test_scores_are_normalized_to_standard_scores() -> None:
    retriever = RerankingRetriever(FixedRetriever(), ReversingReranker(), RerankOptions(weight=0.0), DenseOptions())
    hits = retriever.retrieve("?")
    assert [hit.score for hit in hits] == pytest.approx(z_scores(np.array([4.0, 3, 2, 1])).tolist())


def test_hits_that_are_not_reranked_keep_their_order_at_the_end() -> None:
    why = reranked(candidates=2, weight=0.5).explain("?")
    assert texts([item.hit for item in why]) == "abcd"
    assert texts(reranked(candidates=2).retrieve("?")) == "bacd"
    assert [dict(item.hit.scores) for item in why[2:]] == [{"dense": 2.0}, {"dense": 1.0}]
    scores = [item.hit.score for item in why]
    assert scores == sorted(scores, reverse=True)
    assert [sum(item.contributions.values()) for item in why] == scores


def test_the_inner_retriever_gets_the_number_of_candidates() -> None:
    given = FixedRetriever()
    retriever = RerankingRetriever(given, ReversingReranker(), RerankOptions(candidates=3), HybridOptions(top_k=2))
    assert (texts(retriever.retrieve("?")), texts(retriever.retrieve("?", 1))) == ("cb", "c")
    assert texts(retriever.retrieve("?", 4)) == "cbad"
    assert given.asked == [3, 3, 4]


def test_less_than_one_hit_is_rejected() -> None:
    with pytest.raises(InvalidOption, match="top_k must be an integer >= 1"):
        reranked().retrieve("?", 0)


def test_diversity_ranks_hits_similar_to_higher_ones_lower() -> None:
    likeness = np.array([[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]])
    scores = np.array([1.0, 0.9, 0.5])
    assert rank_by_mmr(scores, likeness, 0) == [0, 1, 2]
    assert rank_by_mmr(scores, likeness, 0.5) == [0, 2, 1]


def test_similarity_is_the_share_of_common_terms() -> None:
    same, none, half = pairwise_similarity(["cats sleep", "sleeping cat", "dogs bark", "cats bark", ""])[0, [1, 2, 3]]
    assert (same, none, half) == (pytest.approx(1), 0, pytest.approx(0.5))


def test_mmr_alone_keeps_the_scores_and_changes_the_order() -> None:
    class Twins(FixedRetriever):
        """The second hit repeats the first one."""

        def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
            """Three hits."""
            results = ["cats sleep all day", "all day cats sleep", "dogs bark"]
            return [Explanation(Hit(chunk(text), 3.0 - at, {}, at + 1)) for at, text in enumerate(results)]

    options = RerankOptions("mmr", diversity=0.5)
    hits = RerankingRetriever(Twins(), MmrReranker(options, MiniLM()), options, HybridOptions()).retrieve("?")
    assert [(hit.chunk.text, hit.score) for hit in hits] == [
        ("cats sleep all day", 3.0),
        ("dogs bark", 1.0),
        ("all day cats sleep", 2.0),
    ]


def test_the_score_of_a_passage_is_that_of_its_best_sentence() -> None:
    embedder = MiniLM()
    answer, other = "The rudder was repaired in March.", "Bread is baked every morning."
    hits = [Hit(chunk(text), 0, {}, 1) for text in (other, f"{other} {answer} {other}", answer)]
    without, among, alone = SentenceReranker(RerankOptions(), embedder).scores("When was the rudder repaired?", hits)
    assert among == pytest.approx(alone, abs=1e-6)
    assert among > without + 0.5


def test_terms_of_the_question_add_to_the_cosine() -> None:
    embedder = MiniLM()
    hits = [Hit(chunk(text), 0, {}, 1) for text in ("Error 0x1F is harmless.", "Error 0x2E is harmless.")]
    first, second = SentenceReranker(RerankOptions(), embedder).scores("What is error 0x2E?", hits)
    cosines = embedder.embed_texts([hit.chunk.text for hit in hits]) @ embedder.embed_query("What is error 0x2E?")
    assert second - first - (cosines[1] - cosines[0]) > 0.1


def test_a_sentence_is_embedded_once_for_all_questions() -> None:
    class Counting(MiniLM):
        """Counts texts."""

        texts = 0

        def embed_texts(self, texts: Sequence[str]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
            """Embed like the model."""
            self.texts += len(texts)
            return super().embed_texts(texts)

    embedder = Counting()
    reranker = SentenceReranker(RerankOptions(), embedder)
    hits = [Hit(chunk("One is here. Two is there. One is here."), 0, {}, 1)]
    assert [reranker.scores("where?", hits).shape, reranker.scores("who?", hits).shape] == [(1,), (1,)]
    assert embedder.texts == 2 + 2  # two sentences, two questions


@pytest.mark.parametrize("text", ["", " \n", "?", "word", "漢字かな", "\ud800"])
@pytest.mark.parametrize("name", LOCAL_RERANKERS)
def test_unusual_texts_and_questions_get_a_finite_score(name: str, text: str, tmp_path: Path) -> None:
    build = RERANKERS.find(name)
    model = str(write_reranker(tmp_path, identity=True)) if name == "onnx" else ""
    path = str(write_minilm_gguf(tmp_path / "rerank.gguf", reranker=True)) if name == "gguf" else ""
    reranker: Reranker = build(RerankOptions(name, model=model, path=path), MiniLM())  # type: ignore[call-arg]
    scores = reranker.scores(text or "?", [Hit(chunk(text), 0.5, {}, 1), Hit(chunk("a text"), 0.25, {}, 2)])
    assert (scores.shape, bool(np.isfinite(scores).all())) == ((2,), True)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "best"}, "rerank.name must be one of cohere, cross_encoder, gguf, jina, mmr, onnx, sentences"),
        ({"candidates": 0}, "rerank.candidates must be an integer >= 1"),
        ({"weight": 1.5}, "rerank.weight must be between 0 and 1"),
        ({"diversity": -1.0}, "rerank.diversity must be between 0 and 1"),
    ],
)
def test_options_out_of_range_are_rejected(options: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        RerankOptions(**options)  # type: ignore[arg-type]  # on purpose of any kind


def test_a_gguf_model_scores_each_hit_by_its_text_alone(tmp_path: Path) -> None:
    path = str(write_minilm_gguf(tmp_path / "rerank.gguf", reranker=True))
    reranker = RERANKERS.find("gguf")(RerankOptions("gguf", path=path), MiniLM())  # type: ignore[call-arg]
    hits = [Hit(chunk(text), 0.5, {}, 1) for text in ("the cat sleeps", "the dog barks", "word " * 2000)]
    together = reranker.scores("Where is the cat?", hits)
    assert [float(reranker.scores("Where is the cat?", [hit])[0]) for hit in hits] == together.tolist()
    assert len(set(together.tolist())) == 3


def test_a_gguf_file_that_is_no_reranker_is_refused(tmp_path: Path) -> None:
    embedder, chat = write_minilm_gguf(tmp_path / "embed.gguf"), write_chat_model(tmp_path / "chat.gguf")
    for path, use in ((embedder, "embed: {name: gguf}"), (chat, f"--model gguf:{chat}")):
        with pytest.raises(InvalidOption, match=re.escape(f"a reranking model; this one is for `{use}`")):
            RERANKERS.find("gguf")(RerankOptions("gguf", path=str(path)), MiniLM())  # type: ignore[call-arg]
