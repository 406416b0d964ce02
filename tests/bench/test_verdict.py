"""The verdict: what to use, and from which size on something else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragkit.bench.growth import MIN_EXPONENT, fit_growth
from ragkit.bench.html_report import render_bench_report
from ragkit.bench.results import BenchResult, Measurement, StoreResult
from ragkit.bench.settings import BenchEntry
from ragkit.bench.verdict import StoreVerdict, decide, result_json, round_size
from ragkit.records import JSON
from tests.bench.conftest import line_of, outcome_of

HNSW: dict[str, JSON] = {"method": "hnsw"}


def kept(name: str, p50: float, recall: float = 1.0, *, quarter: float | None = None, **more: float) -> StoreResult:
    """A store that keeps its rows. `quarter`: its time with a quarter of the rows."""
    figures = {"open_ms": 1.0, "f1:recall": 1.0, **more}
    if quarter is not None:
        figures |= {"p50_ms_quarter": quarter, "p50_ms_beside_quarter": p50}
    line = line_of(name, p50, recall, **figures)
    store, _, method = name.partition(" ")
    line.entry = BenchEntry(store, name, {"method": method} if method else {})
    return line


def outcome(rows: int, *lines: StoreResult, **data: JSON) -> BenchResult:
    result = outcome_of(*lines)
    return replace(result, data={**result.data, "rows": rows, "small_rows": rows // 4, **data})


def verdict_of(rows: int, *lines: StoreResult, **data: JSON) -> StoreVerdict:
    verdict = decide(outcome(rows, *lines, **data))
    assert verdict is not None
    return verdict


def test_the_store_of_a_knowledge_base_is_kept_while_it_is_fast_enough() -> None:
    lines = (kept("sqlite", 0.4, quarter=0.25), kept("faiss hnsw", 0.2, 0.985, quarter=0.15))
    verdict = verdict_of(4000, *lines, store="sqlite", method="")
    assert verdict.store == verdict.current
    assert verdict.sentences == (
        "For your 4,000 chunks stay with sqlite (0.4 ms, exact).",
        "A store is kept while it finds 0.98 of the nearest within 10 ms.",
        # 0.05 ms for 1,000 chunks: 10 ms at 196,000
        "Faster with more chunks, extrapolated: faiss hnsw from 200,000 on.",
    )


def test_without_a_knowledge_base_the_default_store_is_the_current_one() -> None:
    verdict = verdict_of(4000, kept("faiss flat", 0.1, quarter=0.05), kept("sqlite", 0.4, quarter=0.2))
    assert verdict.sentences[0] == "For 4,000 rows stay with sqlite (0.4 ms, exact)."


def test_all_that_answer_sooner_at_about_that_size_are_named() -> None:
    lines = (
        kept("sqlite", 1.0, quarter=0.25),
        kept("faiss hnsw", 0.4, 0.98, quarter=0.3),
        kept("pgvector hnsw", 1.3, 0.99, quarter=1.1),
        kept("lancedb hnsw", 30.0, 0.99, quarter=25.0),  # far later
        kept("chroma", 0.3, 0.9, quarter=0.2),  # finds too little
        kept("duckdb", 30.0, quarter=7.5),  # exact and slower: never
    )
    verdict = verdict_of(50_000, *lines)
    assert [(item.choice.label, item.from_rows) for item in verdict.alternatives] == [
        ("faiss hnsw", 500_000), ("pgvector hnsw", 500_000), ("lancedb hnsw", 3_000_000),
    ]  # fmt: skip
    assert verdict.sentences[2] == (
        "Faster with more rows, extrapolated: faiss hnsw from 500,000 on, pgvector hnsw from 500,000 on, lancedb hnsw"
        " from 3,000,000 on."
    )


def test_without_a_faster_store_none_is_named() -> None:
    verdict = verdict_of(50_000, kept("sqlite", 1.0, quarter=0.25), kept("duckdb", 30.0, quarter=7.5))
    assert len(verdict.sentences) == 2
    assert verdict.alternatives == ()


def test_a_slow_store_is_replaced_by_a_fast_exact_one_before_a_faster_graph() -> None:
    lines = (kept("duckdb", 31.0, quarter=9.0), kept("sqlite", 1.2, quarter=0.4), kept("faiss hnsw", 0.4, 0.985))
    verdict = verdict_of(50_000, *lines, store="duckdb")
    assert (verdict.store.label, verdict.to_json()["stay"]) == ("sqlite", False)
    assert (
        verdict.sentences[0] == "For your 50,000 chunks sqlite is better than duckdb (31.0 ms, exact): 1.2 ms, exact."
    )


def test_a_graph_is_recommended_where_exact_search_is_slow() -> None:
    lines = (kept("sqlite", 40.0, quarter=10.0), kept("faiss hnsw", 1.5, 0.985, quarter=1.2), kept("faiss flat", 90.0))
    verdict = verdict_of(1_000_000, *lines)
    assert verdict.sentences[0] == (
        "For 1,000,000 rows faiss hnsw is better than sqlite (40.0 ms, exact): 1.5 ms at recall 0.985."
    )


def test_a_slow_store_is_kept_if_no_other_is_clearly_faster() -> None:
    verdict = verdict_of(1_000_000, kept("sqlite", 40.0, quarter=10.0), kept("faiss flat", 35.0, quarter=9.0))
    assert verdict.sentences[0] == "For 1,000,000 rows stay with sqlite (40.0 ms, exact)."


def test_a_store_that_misses_too_much_is_replaced() -> None:
    lines = (kept("lancedb ivf_pq", 2.0, 0.77), kept("lancedb exact", 9.0), kept("sqlite", 5.0))
    verdict = verdict_of(50_000, *lines, store="lancedb", method="ivf_pq")
    assert verdict.current is not None
    assert (verdict.current.label, verdict.store.label) == ("lancedb ivf_pq", "sqlite")
    assert verdict.sentences[0].endswith("sqlite is better than lancedb ivf_pq (2 ms at recall 0.77): 5 ms, exact.")


def test_the_method_chooses_among_several_entries_of_the_store() -> None:
    lines = (kept("faiss flat", 3.0), kept("faiss hnsw", 0.4, 0.99))
    assert verdict_of(50_000, *lines, store="faiss", method="hnsw").store.label == "faiss hnsw"
    assert verdict_of(50_000, *lines, store="faiss", method="flat").store.label == "faiss flat"


def test_a_current_store_that_was_not_measured_is_named() -> None:
    verdict = verdict_of(50_000, kept("faiss flat", 3.0), kept("faiss hnsw", 0.4, 0.99), store="qdrant")
    assert verdict.sentences[0] == "For your 50,000 chunks take faiss flat (3 ms, exact). qdrant was not measured."
    assert (verdict.to_json()["current"], verdict.to_json()["stay"]) == (None, False)


def test_what_keeps_nothing_is_no_choice() -> None:
    reference = line_of("numpy brute force", 0.1, open_ms=1.0)
    reference.entry = BenchEntry("numpy", "numpy brute force")
    assert decide(outcome(1000, line_of("memory", 0.1), reference)) is None
    assert decide(outcome(1000, StoreResult(BenchEntry("sqlite"), "failed", "broken"))) is None


def test_that_no_store_finds_enough_is_said() -> None:
    verdict = verdict_of(1000, kept("lancedb ivf_pq", 1.0, 0.5), kept("faiss ivfpq", 2.0, 0.97), store="lancedb")
    assert verdict.sentences == (
        "For 1,000 chunks no measured store finds 0.98 of the nearest;"
        " faiss ivfpq (2 ms at recall 0.97) comes closest.",
    )
    assert verdict.to_json()["stay"] is False


def test_a_point_of_the_curve_with_enough_recall_counts() -> None:
    line = kept("faiss hnsw", 1.0, 0.999)
    line.entry = replace(line.entry, sweep={"ef_search": (16, 64)})
    for ef, recall, p50 in ((16, 0.9, 0.1), (64, 0.981, 0.3)):
        values = {"recall": recall, "p50_ms": p50, "qps_1": 1e3 / p50}
        line.measurements += [Measurement({"ef_search": ef}, name, value) for name, value in values.items()]
    verdict = verdict_of(50_000, line, store="faiss")
    assert (verdict.store.setting, verdict.store.recall, verdict.store.p50_ms) == ({"ef_search": 64}, 0.981, 0.3)


def test_growth_that_does_not_show_is_not_extrapolated() -> None:
    verdict = verdict_of(800, kept("sqlite", 0.2, quarter=0.19), kept("faiss hnsw", 0.1, 0.99, quarter=0.1))
    assert verdict.alternatives == ()


def test_a_busy_machine_is_named() -> None:
    result = outcome(4000, kept("sqlite", 0.4, quarter=0.25))
    idle, busy = (replace(result, machine={**result.machine, "load_before": load}) for load in (1.9, 24.77))
    warning = "The machine was busy (load 25 on 2 cores): measure again when it is idle."
    verdicts = decide(idle), decide(busy)
    assert [warning in verdict.sentences for verdict in verdicts if verdict] == [False, True]


def test_the_json_has_the_text_and_the_figures() -> None:
    lines = (kept("sqlite", 0.4, quarter=0.25), kept("faiss hnsw", 0.2, 0.985, quarter=0.15))
    tree = result_json(outcome(4000, *lines, store="sqlite"))
    assert set(tree) == {"format", "run", "machine", "data", "settings", "stores", "verdict"}
    verdict = tree["verdict"]
    assert isinstance(verdict, dict)
    assert str(verdict.pop("text")).startswith(
        "For your 4,000 chunks stay with sqlite (0.4 ms, exact). A store is kept"
    )
    assert verdict == {
        "store": "sqlite", "current": "sqlite", "stay": True, "recall": 1.0, "p50_ms": 0.4, "rows": 4000,
        "small_rows": 1000, "min_recall": 0.98, "fast_enough_ms": 10.0,
        "alternatives": [
            {
                "label": "faiss hnsw", "setting": {}, "recall": 0.985, "p50_ms": 0.2, "from_rows": 200_000,
                "p50_ms_there": pytest.approx(0.449, abs=0.001),
                "store_p50_ms_there": pytest.approx(10.1, abs=0.3), "extrapolated": True,
            }
        ],
    }  # fmt: skip


def test_the_page_begins_with_the_verdict() -> None:
    text = render_bench_report(outcome(4000, kept("sqlite", 0.4)), {"latency": b"png"})
    assert "<strong>For 4,000 rows stay with sqlite (0.4 ms, exact).</strong>" in text
    assert text.index("<h2>Verdict</h2>") < text.index("<img")


def test_an_exact_search_grows_by_a_line_and_a_graph_by_a_power() -> None:
    exact = fit_growth("exact", (4000, 0.4), small_rows=1000, ratio=0.625)
    assert exact is not None
    assert [exact.at(rows) for rows in (4000, 8000, 400_000)] == pytest.approx([0.4, 0.6, 20.2])
    graph = fit_growth("graph", (4000, 0.4), small_rows=1000, ratio=0.5)
    assert graph is not None
    assert graph.at(16_000) == pytest.approx(0.8)  # twice with four times the rows, as measured
    flat = fit_growth("graph", (4000, 0.4), small_rows=1000, ratio=1.3)
    assert flat is not None
    assert flat.exponent == MIN_EXPONENT
    assert fit_growth("exact", (4000, 0.4), small_rows=1000, ratio=0.95) is None
    assert fit_growth("graph", (4000, 0.4), small_rows=0, ratio=0.5) is None


@pytest.mark.parametrize(("size", "rounded"), [(412_345, 400_000), (95_001, 100_000), (1_000_000, 1_000_000), (7.2, 7)])
def test_an_extrapolated_size_has_one_digit(size: float, rounded: int) -> None:
    assert round_size(size) == rounded
