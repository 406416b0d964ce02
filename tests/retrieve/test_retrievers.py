"""The contract of every retriever, and the ranking of each. Names added to RETRIEVERS are tested automatically."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.errors import InvalidFilter, InvalidOption, UnknownName
from ragkit.retrieve import RETRIEVERS
from ragkit.retrieve.base import Retriever, RetrieverDependencies
from ragkit.retrieve.dense import DenseRetriever
from ragkit.retrieve.hybrid import HybridRetriever
from ragkit.retrieve.lexical import LexicalRetriever
from ragkit.retrieve.options import DenseOptions, HybridOptions, LexicalOptions
from tests.retrieve.passages import chunk, retriever_parts

EAST, NORTH, WEST, NORTHEAST = (1, 0), (0, 1), (-1, 0), (1, 1)
HALF = pytest.approx(2**-0.5)

Build = Callable[[RetrieverDependencies], Retriever]


@pytest.fixture(params=RETRIEVERS.names())
def build(request: pytest.FixtureRequest) -> Build:
    options = RETRIEVERS.options_class(request.param)
    assert options is not None
    return lambda parts: RETRIEVERS.find(request.param)(options(), parts)  # type: ignore[call-arg]  # the protocol has no __init__


@pytest.fixture
def parts() -> RetrieverDependencies:
    chunks = [chunk(f"wing number{n}", parity=n % 2) for n in range(20)]
    return retriever_parts(chunks, [(n, 20 - n) for n in range(20)], wing=EAST)


def texts(retriever: Retriever, question: str, top_k: int | None = None) -> list[str]:
    return [hit.chunk.text for hit in retriever.retrieve(question, top_k)]


def test_hits_are_ranked_from_1_with_falling_scores(build: Build, parts: RetrieverDependencies) -> None:
    hits = build(parts).retrieve("wing", 20)
    assert [hit.rank for hit in hits] == list(range(1, 21))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert {hit.chunk.text for hit in hits} == {f"wing number{n}" for n in range(20)}


@pytest.mark.parametrize(("top_k", "expected"), [(None, 8), (1, 1), (5, 5), (50, 20)])
def test_there_are_top_k_hits_while_there_are_chunks(
    build: Build, parts: RetrieverDependencies, top_k: int | None, expected: int
) -> None:
    assert len(build(parts).retrieve("wing", top_k)) == expected


@pytest.mark.parametrize("top_k", [1, 5, 10, 11])
def test_filtered_results_are_complete(build: Build, parts: RetrieverDependencies, top_k: int) -> None:
    hits = build(parts).retrieve("wing", top_k, {"parity": 1})
    assert len(hits) == min(top_k, 10)
    assert {hit.chunk.metadata["parity"] for hit in hits} == {1}


def test_a_filter_without_matches_finds_nothing(build: Build, parts: RetrieverDependencies) -> None:
    assert build(parts).retrieve("wing", 5, {"parity": 7}) == []


def test_a_filter_with_an_unknown_operator_is_rejected(build: Build, parts: RetrieverDependencies) -> None:
    with pytest.raises(InvalidFilter, match="near"):
        build(parts).retrieve("wing", 5, {"parity": {"$near": 1}})


def test_explain_returns_the_hits_of_retrieve_and_contributions_that_sum_to_their_scores(
    build: Build, parts: RetrieverDependencies
) -> None:
    retriever = build(parts)
    explanations = retriever.explain("wing", 20)
    assert [explanation.hit for explanation in explanations] == retriever.retrieve("wing", 20)
    for explanation in explanations:
        assert sum(explanation.contributions.values()) == explanation.hit.score
        assert explanation.contributions.keys() == explanation.hit.scores.keys() >= explanation.ranks.keys()


@pytest.mark.parametrize("question", ["", " ", "\n\t"])
def test_a_blank_question_finds_nothing(build: Build, parts: RetrieverDependencies, question: str) -> None:
    assert build(parts).retrieve(question) == []


def test_an_index_without_chunks_finds_nothing(build: Build) -> None:
    assert build(retriever_parts([], [])).retrieve("wing") == []


@pytest.mark.parametrize("top_k", [0, -1])
def test_top_k_below_1_is_rejected(build: Build, parts: RetrieverDependencies, top_k: int) -> None:
    with pytest.raises(InvalidOption, match=rf"top_k must be an integer >= 1 \(got {top_k}\)"):
        build(parts).retrieve("wing", top_k)


@pytest.mark.parametrize("options", [LexicalOptions, DenseOptions, HybridOptions])
def test_options_reject_top_k_below_1(options: Callable[..., object]) -> None:
    with pytest.raises(InvalidOption, match="top_k must be an integer >= 1"):
        options(top_k=0)


@pytest.mark.parametrize(
    ("build_options", "message"),
    [
        (lambda: DenseOptions(min_score=1.5), "min_score must be between -1 and 1, or null"),
        (lambda: HybridOptions(dense_weight=-0.1), "dense_weight must be between 0 and 1"),
        (lambda: HybridOptions(candidates=0), "candidates must be an integer >= 1"),
        (lambda: HybridOptions(fusion="sum"), "fusion must be one of convex, rrf"),  # type: ignore[arg-type]
        (lambda: HybridOptions(dense_weight=float("nan")), "dense_weight must be between 0 and 1"),
    ],
)
def test_options_out_of_range_are_rejected(build_options: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        build_options()


def test_a_typo_gets_the_closest_name_as_a_hint() -> None:
    with pytest.raises(UnknownName, match="did you mean 'hybrid'"):
        RETRIEVERS.find("hybird")


def test_lexical_finds_only_chunks_that_hold_a_term() -> None:
    parts = retriever_parts([chunk("tail fin"), chunk("a wing"), chunk("wing of a wing")], [NORTH] * 3)
    assert texts(LexicalRetriever(LexicalOptions(), parts), "Which wings?") == ["wing of a wing", "a wing"]


@pytest.mark.parametrize(
    ("needle", "question"),
    [
        ("call foo_bar() first", "fooBar"),
        ("since v1.2 of it", "version 1.2"),
        ("pass --no-color", "how does --no-color work"),
        ("written in C++", "C++ compiler"),
        ("mail to jane.doe@example.com", "jane.doe@example.com"),
        ("see setup_notes.txt", "setup_notes.txt"),
        ("costs 1,234,567 pounds", "1234567"),
        ("北京大学很大", "北京大学在哪里"),
        ("東京都の人口", "東京の人口"),
        ("ภาษาไทยสวย", "ภาษาไทย"),
        ("قرأت الكِتابَ", "الكتاب"),
        ("в крупных городах", "город"),
        ("le café noir", "CAFE"),
    ],
)
def test_lexical_finds_identifiers_and_words_of_any_script(needle: str, question: str) -> None:
    others = ["compile a programming language", "the mail is read", "numbers like 12 and 567", "水と火", "дом у моря"]
    parts = retriever_parts([chunk(text) for text in [*others, needle]], [NORTH] * 6)
    assert texts(LexicalRetriever(LexicalOptions(), parts), question, 1) == [needle]


def test_lexical_sees_title_and_headings_before_the_text() -> None:
    parts = retriever_parts([chunk("it is red"), chunk("it is blue")], [NORTH] * 2)
    assert texts(LexicalRetriever(LexicalOptions(), parts), "Handbook") == []
    titled = [chunk("it is red"), type(chunk(""))("b", "d", "", "it is blue", 0, 10, 1, 1, title="Handbook")]
    assert texts(LexicalRetriever(LexicalOptions(), retriever_parts(titled, [NORTH] * 2)), "Handbook") == ["it is blue"]


def test_dense_ranks_by_cosine() -> None:
    parts = retriever_parts(
        [chunk("w"), chunk("n"), chunk("ne"), chunk("e")], [WEST, NORTH, NORTHEAST, EAST], east=EAST
    )
    hits = DenseRetriever(DenseOptions(), parts).retrieve("east")
    assert [(hit.chunk.text, hit.score) for hit in hits] == [("e", 1), ("ne", HALF), ("n", 0), ("w", -1)]
    assert [hit.scores for hit in hits] == [{"dense": hit.score} for hit in hits]


def test_dense_drops_hits_below_the_minimum_score() -> None:
    parts = retriever_parts([chunk("n"), chunk("ne"), chunk("e")], [NORTH, NORTHEAST, EAST], east=EAST)
    assert texts(DenseRetriever(DenseOptions(min_score=0.5), parts), "east") == ["e", "ne"]


def test_equal_scores_keep_the_order_of_the_chunks(build: Build) -> None:
    parts = retriever_parts([chunk("wing b"), chunk("wing c"), chunk("wing d")], [NORTH] * 3, wing=NORTH)
    assert texts(build(parts), "wing") == ["wing b", "wing c", "wing d"]


def three_ways() -> RetrieverDependencies:
    """`words` is found by its terms, `meaning` by its row, `both` by either."""
    chunks = [chunk("wing wing words"), chunk("both wing"), chunk("meaning")]
    return retriever_parts(chunks, [WEST, NORTHEAST, EAST], wing=EAST)


def test_hybrid_gives_both_scores_of_every_hit() -> None:
    hits = HybridRetriever(HybridOptions(), three_ways()).retrieve("wing")
    lexical = LexicalRetriever(LexicalOptions(), three_ways()).retrieve("wing")
    by_text = {hit.chunk.text: hit.scores for hit in hits}
    assert {text: scores["dense"] for text, scores in by_text.items()} == {
        "wing wing words": -1, "both wing": HALF, "meaning": 1,
    }  # fmt: skip
    assert {text: scores["lexical"] for text, scores in by_text.items()} == {
        **{hit.chunk.text: hit.score for hit in lexical}, "meaning": 0,
    }  # fmt: skip


def test_hybrid_ranks_chunks_found_by_both_first() -> None:
    assert texts(HybridRetriever(HybridOptions(), three_ways()), "wing", 1) == ["both wing"]


def test_the_weight_shifts_hybrid_from_lexical_to_dense() -> None:
    by_words = texts(LexicalRetriever(LexicalOptions(), three_ways()), "wing")
    by_meaning = texts(DenseRetriever(DenseOptions(), three_ways()), "wing")
    assert texts(HybridRetriever(HybridOptions(dense_weight=0), three_ways()), "wing") == [*by_words, "meaning"]
    assert texts(HybridRetriever(HybridOptions(dense_weight=1), three_ways()), "wing") == by_meaning


def test_a_candidate_of_one_retriever_gets_the_score_of_the_other_too() -> None:
    hits = HybridRetriever(HybridOptions(candidates=1), three_ways()).retrieve("wing", 1)
    everything = HybridRetriever(HybridOptions(), three_ways()).retrieve("wing")
    assert [hit.scores for hit in hits] == [next(other.scores for other in everything if other.chunk == hits[0].chunk)]


def test_hybrid_scores_are_weighted_means_of_z_scores() -> None:
    parts = retriever_parts([chunk("wing"), chunk("tail")], [NORTH, EAST], wing=EAST)
    explanations = HybridRetriever(HybridOptions(dense_weight=0.75), parts).explain("wing")
    assert [(e.hit.chunk.text, e.hit.score, e.contributions, e.ranks) for e in explanations] == [
        ("tail", 0.5, {"dense": 0.75, "lexical": -0.25}, {"dense": 1}),
        ("wing", -0.5, {"dense": -0.75, "lexical": 0.25}, {"dense": 2, "lexical": 1}),
    ]


def test_hybrid_by_ranks_adds_reciprocals() -> None:
    parts = retriever_parts([chunk("wing"), chunk("tail")], [NORTH, EAST], wing=EAST)
    hits = HybridRetriever(HybridOptions(fusion="rrf"), parts).retrieve("wing")
    assert [(hit.chunk.text, hit.score) for hit in hits] == [("wing", 1 / 62 + 1 / 61), ("tail", 1 / 61)]


def test_a_question_without_known_terms_uses_only_dense_search() -> None:
    parts = retriever_parts([chunk("n"), chunk("e")], [NORTH, EAST], unknown_words=EAST)
    assert texts(HybridRetriever(HybridOptions(), parts), "unknown words") == ["e", "n"]


@given(st.lists(st.sampled_from(["wing", "tail", "fin wing", "rudder"]), max_size=8), st.integers(1, 10))
def test_a_larger_top_k_only_appends_hits(chunk_texts: list[str], top_k: int) -> None:
    rows = [(n + 1, len(text)) for n, text in enumerate(chunk_texts)]
    retriever = HybridRetriever(
        HybridOptions(), retriever_parts([chunk(text) for text in chunk_texts], rows, wing=EAST)
    )
    assert retriever.retrieve("wing", top_k) == retriever.retrieve("wing", 50)[:top_k]


@pytest.mark.parametrize(
    ("own", "language", "option", "question", "weight"),
    [
        (None, "", None, "wing", 0.55),
        (0.75, "", None, "wing", 0.75),
        (0.75, "", 0.2, "wing", 0.2),
        (None, "en", None, "wing", 0.55),
        (None, "en", None, "крыло wing", 0.001),
        (None, "", None, "крыло wing", 0.55),
        (None, "en", None, "wie ist der wing", 0.3),
        (None, "", None, "wie ist der wing", 0.55),
    ],
)
def test_the_weight_of_the_cosines_is_the_option_or_that_of_the_embedder(
    own: float | None, language: str, option: float | None, question: str, weight: float
) -> None:
    parts = retriever_parts([chunk("wing"), chunk("крыло крыло wing")], [EAST, NORTH], **{question: EAST})
    if own is not None:
        parts.embedder.dense_weight = own  # type: ignore[attr-defined]
    if language:
        parts.embedder.language = language  # type: ignore[attr-defined]
    (first, *_) = HybridRetriever(HybridOptions(dense_weight=option, document_weight=0), parts).explain(question)
    assert abs(first.contributions["dense"]) == pytest.approx(weight)
    assert abs(first.contributions["lexical"]) == pytest.approx(1 - weight)
