"""`ragkit bench`: vector stores side by side, on your own chunks or on others, and results held against each other."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np

from ragkit.bench.compare import BenchComparison, check_comparable, compare_runs, find_regressions
from ragkit.bench.datasets import Dataset, ExternalVectors, generate_dataset, read_hdf5, write_dataset
from ragkit.bench.results import BenchBaseline, BenchResult, read_baseline, to_saved_results
from ragkit.bench.run import BenchRun
from ragkit.bench.settings import BenchSettings, read_settings
from ragkit.cli import EXIT_ERROR
from ragkit.cli.bench_output import BenchProgress, print_comparison, print_results
from ragkit.cli.common import CliContext, with_common_options
from ragkit.errors import InvalidOption, UnknownName
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.records import JSON

BATCH_SIZE = 500
"""Chunks read at once."""


@dataclass(frozen=True)
class DatasetSource:
    """Where the rows come from; nothing given: the knowledge base, or made rows where there is none."""

    generated: bool = False
    hdf5: Path | None = None
    questions: Path | None = None
    """Asked of the knowledge base."""

    def __post_init__(self) -> None:
        if self.generated + (self.hdf5 is not None) + (self.questions is not None) > 1:
            raise InvalidOption("--generate, --hdf5, --questions", "more than one of them", "one")


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--settings", "file", default="quick", metavar="quick|full|FILE", show_default=True, help="What to measure."
)
@click.option(
    "--questions", type=Path, metavar="FILE", help="Ask these of the knowledge base, a question a line (or .jsonl)."
)
@click.option("--generate", type=int, metavar="N", help="Make N rows instead of taking a knowledge base's.")
@click.option("--dim", type=int, metavar="D", help="Columns of the rows that are made.")
@click.option("--hdf5", type=Path, metavar="FILE", help="Rows and queries from a file in ann-benchmarks' layout.")
@click.option("--stores", metavar="A,B", help="Only these lines of the settings, by label or store.")
@click.option("-k", "top_k", type=int, help="How many hits a search asks for.")
@click.option("--rounds", type=int, help="How often every store is asked.")
@click.option("--threads", type=int, help="How many threads ask at once, beside the figures for one.")
@click.option("--seed", type=int, help="Of everything that is drawn by lot.")
@click.option("--store-seconds", type=float, help="How long one store may take in all.")
@click.option("--scratch", type=Path, metavar="DIR", help="Where the stores lie meanwhile (default: the system's).")
@click.option("--out", type=Path, metavar="DIR", help="Write results, pictures and a report; earlier runs stay.")
@click.option("--check", type=Path, metavar="FILE", help="Exit with 1 where a figure is worse than in this result.")
@click.option("--tolerance", type=float, default=0.15, show_default=True, help="By which share it may be worse.")
@with_common_options
def command(
    shell: CliContext,
    file: str,
    questions: Path | None,
    generate: int | None,
    dim: int | None,
    hdf5: Path | None,
    stores: str | None,
    top_k: int | None,
    rounds: int | None,
    threads: int | None,
    seed: int | None,
    store_seconds: float | None,
    scratch: Path | None,
    out: Path | None,
    check: Path | None,
    tolerance: float,
) -> int:
    """Measure vector stores on this machine: recall, speed, building, filters, memory, disk.

    \b
        ragkit bench --kb .ragkit              # on your own chunks
        ragkit bench --generate 100000 --dim 384 --out results
        ragkit bench compare before after
    """
    if click.get_current_context().invoked_subcommand:
        return 0
    settings = _select_stores(read_settings(file), stores)
    settings = replace(
        settings,
        top_k=settings.top_k if top_k is None else top_k,
        rounds=settings.rounds if rounds is None else rounds,
        threads=settings.threads if threads is None else threads,
        seed=settings.seed if seed is None else seed,
        store_seconds=settings.store_seconds if store_seconds is None else store_seconds,
    )
    source = DatasetSource(generate is not None or dim is not None, hdf5, questions)
    if source.generated:
        data = replace(settings.data, rows=generate or settings.data.rows, dimension=dim or settings.data.dimension)
        settings = replace(settings, data=data)
    plan = BenchPlan(settings, source, scratch, out, read_baseline(check) if check else None, tolerance)
    return _run_benchmark(shell, plan)


@dataclass(frozen=True)
class BenchPlan:
    """What the flags come to."""

    settings: BenchSettings
    source: DatasetSource
    scratch: Path | None
    out: Path | None
    baseline: BenchBaseline | None
    tolerance: float


def _run_benchmark(shell: CliContext, plan: BenchPlan) -> int:
    """Measure, write, say; returns the exit code."""
    write_report = _load_report_writer() if plan.out else None
    if not plan.tolerance >= 0:
        raise InvalidOption("--tolerance", plan.tolerance, ">= 0")

    def tell(outcome: BenchResult, worse: list[str]) -> None:
        written = str(write_report(plan.out, outcome)) if write_report and plan.out else None
        if shell.json:
            shell.write_json({**outcome.to_json(), "report": written, "regressions": [*worse]})
        else:
            print_results(outcome)
        if written:
            shell.log(f"report: {written}")
        for line in worse:
            shell.log(f"worse: {line}")

    with (
        tempfile.TemporaryDirectory(prefix="ragkit-bench-", dir=plan.scratch) as folder,
        BenchProgress(shell) as progress,
    ):
        data = _load_dataset(shell, plan.settings, Path(folder) / "data", plan.source)
        if plan.baseline:
            settings = plan.settings
            check_comparable(plan.baseline, data.fingerprint(), settings.top_k, settings.thread_count)
        run = BenchRun(plan.settings, data, progress.handle_event)
        try:
            outcome = run.run()
        except KeyboardInterrupt:
            progress.stop()
            tell(run.result, [])
            raise
    baseline = plan.baseline
    if baseline and baseline.cpu != outcome.machine["cpu"]:
        shell.log(f"the baseline is of another machine ({baseline.cpu}): its times say little here")
    worse = find_regressions(baseline, to_saved_results(outcome), plan.tolerance) if baseline else []
    tell(outcome, worse)
    measured = any(line.status == "ok" for line in outcome.stores)
    return EXIT_ERROR if worse or not measured else 0


def _load_report_writer() -> Callable[[Path, BenchResult], Path]:
    """What writes a report. Asked for first: what is not installed is said before an hour of measuring, not after."""
    from ragkit.bench.report import write_report

    return write_report


@command.command("compare")
@click.argument("before", type=Path)
@click.argument("after", type=Path, required=False)
@with_common_options
def compare_(shell: CliContext, before: Path, after: Path | None) -> None:
    """Hold two results against each other: directories (their latest run) or files DIR/runs/RUN.json.

    With one directory, its last two runs.
    """
    found = compare_runs(before, after)
    shell.write_json(_comparison_json(found)) if shell.json else print_comparison(found)


def _comparison_json(found: BenchComparison) -> dict[str, JSON]:
    return {
        "before": found.before,
        "after": found.after,
        "differences": [
            {
                "label": one.label, "setting": one.sweep_point, "figure": one.metric, "before": one.before,
                "after": one.after, "better_by": one.relative_change,
            }
            for one in found.differences
        ],
        "only": {run: list(labels) for run, labels in found.only_in.items()},
    }  # fmt: skip


def _select_stores(settings: BenchSettings, stores: str | None) -> BenchSettings:
    """The settings with these lines alone, by label or store."""
    if stores is None:
        return settings
    wanted = [one.strip() for one in stores.split(",")]
    for one in wanted:
        if not any(one in {entry.label, entry.name} for entry in settings.stores):
            known = dict.fromkeys(name for entry in settings.stores for name in (entry.label, entry.name))
            raise UnknownName("store of these settings", one, tuple(known))
    return replace(settings, stores=tuple(e for e in settings.stores if {e.label, e.name} & {*wanted}))


def _load_dataset(shell: CliContext, settings: BenchSettings, folder: Path, source: DatasetSource) -> Dataset:
    """The rows: made, from a file, from the knowledge base, or made after all where there is none to be found."""
    if source.hdf5 is not None:
        return write_dataset(folder, read_hdf5(source.hdf5), queries=settings.queries, seed=settings.seed)
    nothing = source.questions is None and shell.kb == Path(".ragkit") and not shell.kb.exists()
    if source.generated or nothing:
        if not source.generated:
            shell.log("no knowledge base here (--kb DIR): made rows are used")
        data = settings.data
        return generate_dataset(folder, data.rows, data.dimension, queries=settings.queries, seed=settings.seed)
    with shell.open_knowledge_base() as kb:
        given = _load_chunks(kb, shell.kb, source.questions)
    return write_dataset(folder, given, queries=settings.queries, seed=settings.seed)


def _load_chunks(kb: KnowledgeBase, place: Path, questions: Path | None) -> ExternalVectors:
    """The chunks of a knowledge base with their rows; questions of a file, else some chunks are held back."""
    with kb.reader.snapshot() as view:
        arrays = view.arrays
        keys = arrays.chunk_keys.tolist()
        rows = arrays.matrix[arrays.vector_rows]
        texts = [
            chunk.text
            for first in range(0, len(keys), BATCH_SIZE)
            for chunk in view.chunks(keys[first : first + BATCH_SIZE])
        ]
    asked = None
    if questions is not None:
        asked = np.stack([kb.embed_question(line) for line in _read_questions(questions)])
    return ExternalVectors(f"chunks of {place}", rows, asked, texts)


def _read_questions(file: Path) -> list[str]:
    """The questions of a file: a line each, or the `question` of each line's JSON."""
    try:
        lines = [line.strip() for line in file.read_text("utf-8").splitlines() if line.strip()]
        if file.suffix == ".jsonl":
            lines = [str(json.loads(line)["question"]) for line in lines]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidOption("--questions", str(file), f"lines of text, or JSON with a `question`, ({error})") from error
    if not lines:
        raise InvalidOption("--questions", str(file), "a file with a question a line")
    return lines
