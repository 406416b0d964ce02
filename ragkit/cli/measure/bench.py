"""`ragkit bench`: benchmark vector stores and compare results."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from ragkit.bench.compare import BenchComparison, check_comparable, compare_runs, find_regressions
from ragkit.bench.datasets import Dataset, ExternalVectors, generate_dataset, read_hdf5, write_dataset
from ragkit.bench.metric_names import metric_name, metric_unit
from ragkit.bench.results import BenchBaseline, BenchResult, read_baseline, to_saved_results
from ragkit.bench.run import BenchRun, CurrentStore
from ragkit.bench.settings import BenchSettings
from ragkit.bench.settings_file import read_settings
from ragkit.bench.verdict import result_json
from ragkit.cli import EXIT_ERROR
from ragkit.cli.common import CliContext, with_common_options
from ragkit.cli.measure.bench_progress import BenchProgress
from ragkit.errors import InvalidOption, UnknownName
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.records import JSON

BATCH_SIZE = 500
"""Chunks per read from the catalog."""


@dataclass(frozen=True)
class DatasetSource:
    """Source of the vectors. Default: the knowledge base, or generated vectors if there is none."""

    generated: bool = False
    hdf5: Path | None = None
    questions: Path | None = None
    """Questions for the knowledge base."""

    def __post_init__(self) -> None:
        if self.generated + (self.hdf5 is not None) + (self.questions is not None) > 1:
            raise InvalidOption("--generate, --hdf5, --questions", "several", "used one at a time")


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--settings", "file", default="quick", metavar="quick|full|FILE", help="What to measure (default: quick)."
)
@click.option(
    "--questions", type=Path, metavar="FILE", help="Questions for the knowledge base, one per line (or .jsonl)."
)
@click.option("--generate", type=int, metavar="N", help="Generate N vectors instead of reading a knowledge base.")
@click.option("--dim", type=int, metavar="D", help="Dimension of generated vectors.")
@click.option("--hdf5", type=Path, metavar="FILE", help="Vectors and queries from an ann-benchmarks file.")
@click.option("--stores", metavar="A,B", help="Only these stores of the settings, by label or name.")
@click.option("-k", "--top-k", type=int, metavar="N", help="Hits per search.")
@click.option("--rounds", type=int, help="Rounds of queries per store.")
@click.option("--threads", type=int, help="Concurrent threads, in addition to one.")
@click.option("--seed", type=int, help="Random seed.")
@click.option("--store-seconds", type=float, help="Time limit per store.")
@click.option(
    "--scratch", type=Path, metavar="DIR", help="Directory for the stores (default: the system's temporary directory)."
)
@click.option("--out", type=Path, metavar="DIR", help="Write results, plots and a report; earlier runs are kept.")
@click.option("--check", type=Path, metavar="FILE", help="Exit with 1 if a metric is worse than in this result.")
@click.option("--tolerance", type=float, default=0.15, help="Allowed relative difference (default: 0.15).")
@with_common_options
def command(
    context: CliContext,
    /,
    file: str,
    questions: Path | None,
    generate: int | None,
    dim: int | None,
    hdf5: Path | None,
    stores: str | None,
    scratch: Path | None,
    out: Path | None,
    check: Path | None,
    tolerance: float,
    **overrides: Any,
) -> int:
    """Benchmark vector stores: recall, latency, build time, filters, memory, disk.

    \b
        ragkit bench --kb .ragkit              # on your own chunks
        ragkit bench --generate 100000 --dim 384 --out results
        ragkit bench compare before after
    """
    if click.get_current_context().invoked_subcommand:
        return 0
    given = {option: value for option, value in overrides.items() if value is not None}
    settings = replace(_select_stores(read_settings(file), stores), **given)
    source = DatasetSource(generate is not None or dim is not None, hdf5, questions)
    if source.generated:
        data = replace(settings.data, rows=generate or settings.data.rows, dimension=dim or settings.data.dimension)
        settings = replace(settings, data=data)
    plan = BenchPlan(settings, source, scratch, out, read_baseline(check) if check else None, tolerance)
    return _run_benchmark(context, plan)


@dataclass(frozen=True)
class BenchPlan:
    """The validated options."""

    settings: BenchSettings
    source: DatasetSource
    scratch: Path | None
    out: Path | None
    baseline: BenchBaseline | None
    tolerance: float


def _run_benchmark(context: CliContext, plan: BenchPlan) -> int:
    """Run the benchmark and report the results; returns the exit code."""
    write_report = _load_report_writer() if plan.out else None
    print_results = None if context.json else _load_printer()
    if not plan.tolerance >= 0:
        raise InvalidOption("--tolerance", plan.tolerance, ">= 0")

    def report(result: BenchResult, regressions: list[str]) -> None:
        path = str(write_report(plan.out, result)) if write_report and plan.out else None
        if context.json:
            context.write_json({**result_json(result), "report": path, "regressions": [*regressions]})
        elif print_results:
            print_results(result)
        if path:
            context.log(f"report: {path}")
        for line in regressions:
            context.log(f"worse: {line}")

    with (
        tempfile.TemporaryDirectory(prefix="ragkit-bench-", dir=plan.scratch) as folder,
        BenchProgress(context) as progress,
    ):
        data, current = _load_dataset(context, plan.settings, Path(folder) / "data", plan.source)
        if plan.baseline:
            settings = plan.settings
            check_comparable(plan.baseline, data.fingerprint(), settings.top_k, settings.thread_count)
        run = BenchRun(plan.settings, data, progress.handle_event, current)
        try:
            result = run.run()
        except KeyboardInterrupt:
            progress.stop()
            report(run.result, [])
            raise
    baseline = plan.baseline
    if baseline and baseline.cpu != result.machine["cpu"]:
        context.log(f"the baseline was measured on another machine ({baseline.cpu}): times are not comparable")
    regressions = find_regressions(baseline, to_saved_results(result), plan.tolerance) if baseline else []
    report(result, regressions)
    measured = any(store.status == "ok" for store in result.stores)
    return EXIT_ERROR if regressions or not measured else 0


def _load_report_writer() -> Callable[[Path, BenchResult], Path]:
    """The report writer, imported before the benchmark so that a missing extra fails early. Raises MissingExtra."""
    from ragkit.bench.report import write_report

    return write_report


def _load_printer() -> Callable[[BenchResult], None]:
    """The printer of tables, imported before the benchmark so that a missing extra fails early. Raises MissingExtra."""
    from ragkit.cli.measure.bench_output import print_results

    return print_results


@command.command("compare")
@click.argument("before", type=Path)
@click.argument("after", type=Path, required=False)
@with_common_options
def compare_(context: CliContext, before: Path, after: Path | None) -> None:
    """Compare two results: directories (their latest run) or files DIR/runs/RUN.json.

    With one directory, compare its last two runs.
    """
    comparison = compare_runs(before, after)
    if context.json:
        context.write_json(_comparison_json(comparison))
        return
    from ragkit.cli.measure.bench_output import print_comparison

    print_comparison(comparison)


def _comparison_json(comparison: BenchComparison) -> dict[str, JSON]:
    return {
        "before": comparison.before,
        "after": comparison.after,
        "differences": [
            {
                "label": change.label, "setting": change.sweep_point, "figure": change.metric, "before": change.before,
                "after": change.after, "better_by": change.relative_change, "store": change.store,
                "name": metric_name(change.metric), "unit": metric_unit(change.metric),
            }
            for change in comparison.differences
        ],
        "only": {run: list(labels) for run, labels in comparison.only_in.items()},
    }  # fmt: skip


def _select_stores(settings: BenchSettings, stores: str | None) -> BenchSettings:
    """The settings with only these stores, by label or name."""
    if stores is None:
        return settings
    selected = [name.strip() for name in stores.split(",")]
    known = dict.fromkeys(name for entry in settings.stores for name in (entry.label, entry.name))
    for name in selected:
        if name not in known:
            raise UnknownName("store of these settings", name, tuple(known))
    return replace(settings, stores=tuple(e for e in settings.stores if {e.label, e.name} & {*selected}))


def _load_dataset(
    context: CliContext, settings: BenchSettings, folder: Path, source: DatasetSource
) -> tuple[Dataset, CurrentStore | None]:
    """The dataset: from a file, from the knowledge base with its store, or generated."""
    if source.hdf5 is not None:
        return write_dataset(folder, read_hdf5(source.hdf5), queries=settings.queries, seed=settings.seed), None
    missing = source.questions is None and context.kb == Path(".ragkit") and not context.kb.exists()
    if source.generated or missing:
        if not source.generated:
            context.log("no knowledge base found (use --kb DIR): using generated vectors")
        data = settings.data
        generated = generate_dataset(folder, data.rows, data.dimension, queries=settings.queries, seed=settings.seed)
        return generated, None
    with context.open_knowledge_base() as kb:
        vectors = _load_chunks(kb, context.kb, source.questions)
        store = kb.pipeline.store
    current = CurrentStore(store.name, str(getattr(store.options, "method", "")))
    return write_dataset(folder, vectors, queries=settings.queries, seed=settings.seed), current


def _load_chunks(kb: KnowledgeBase, directory: Path, questions: Path | None) -> ExternalVectors:
    """The chunks of a knowledge base with their vectors. Without questions, some chunks are held out as queries."""
    with kb.session() as session, session.snapshot() as view:
        kb.location.require_vectors()
        view.require_all_embedded()
        arrays = view.arrays
        keys = arrays.chunk_keys.tolist()
        rows = arrays.matrix[arrays.vector_rows]
        batches = (keys[first : first + BATCH_SIZE] for first in range(0, len(keys), BATCH_SIZE))
        texts = [chunk.text for batch in batches for chunk in view.chunks(batch)]
    queries = None
    if questions is not None:
        with kb.session() as session:
            queries = np.stack([session.embed_question(line) for line in _read_questions(questions)])
    return ExternalVectors(f"chunks of {directory}", rows, queries, texts)


def _read_questions(file: Path) -> list[str]:
    """The questions of a file, one per line, or one JSON object with `question` per line."""
    try:
        lines = [line.strip() for line in file.read_text("utf-8").splitlines() if line.strip()]
        if file.suffix == ".jsonl":
            lines = [str(json.loads(line)["question"]) for line in lines]
    except (OSError, ValueError, KeyError, TypeError) as error:
        expected = f"a file with one question or JSON object with `question` per line: {error}"
        raise InvalidOption("--questions", str(file), expected) from error
    if not lines:
        raise InvalidOption("--questions", str(file), "a file with one question per line")
    return lines
