"""`ragkit bench`: vector stores side by side, on your own chunks or on others, and results held against each other."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np

from ragkit.bench.compare import Compared, check_comparable, compare, regressions
from ragkit.bench.datasets import Dataset, Given, generate, read_hdf5, write
from ragkit.bench.results import Baseline, Outcome, read_baseline, saved
from ragkit.bench.run import Run
from ragkit.bench.settings import Settings, read_settings
from ragkit.cli import EXIT_ERROR
from ragkit.cli.bench_show import Progress, show_compared, show_outcome
from ragkit.cli.common import Shell, verb
from ragkit.errors import InvalidOption, UnknownName
from ragkit.pipeline.knowledge_base import KnowledgeBase
from ragkit.records import JSON

BATCH = 500
"""Chunks read at once."""


@dataclass(frozen=True)
class Source:
    """Where the rows come from; nothing given: the knowledge base, or made rows where there is none."""

    made: bool = False
    hdf5: Path | None = None
    questions: Path | None = None
    """Asked of the knowledge base."""

    def __post_init__(self) -> None:
        if self.made + (self.hdf5 is not None) + (self.questions is not None) > 1:
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
@verb
def command(
    shell: Shell,
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
    settings = _only(read_settings(file), stores)
    settings = replace(
        settings,
        top_k=settings.top_k if top_k is None else top_k,
        rounds=settings.rounds if rounds is None else rounds,
        threads=settings.threads if threads is None else threads,
        seed=settings.seed if seed is None else seed,
        store_seconds=settings.store_seconds if store_seconds is None else store_seconds,
    )
    source = Source(generate is not None or dim is not None, hdf5, questions)
    if source.made:
        data = replace(settings.data, rows=generate or settings.data.rows, dimension=dim or settings.data.dimension)
        settings = replace(settings, data=data)
    plan = Plan(settings, source, scratch, out, read_baseline(check) if check else None, tolerance)
    return _measured(shell, plan)


@dataclass(frozen=True)
class Plan:
    """What the flags come to."""

    settings: Settings
    source: Source
    scratch: Path | None
    out: Path | None
    baseline: Baseline | None
    tolerance: float


def _measured(shell: Shell, plan: Plan) -> int:
    """Measure, write, say; returns the exit code."""
    write_report = _report() if plan.out else None
    if not plan.tolerance >= 0:
        raise InvalidOption("--tolerance", plan.tolerance, "0 or more")

    def tell(outcome: Outcome, worse: list[str]) -> None:
        written = str(write_report(plan.out, outcome)) if write_report and plan.out else None
        if shell.json:
            shell.out_json({**outcome.to_json(), "report": written, "regressions": [*worse]})
        else:
            show_outcome(outcome)
        if written:
            shell.say(f"report: {written}")
        for line in worse:
            shell.say(f"worse: {line}")

    with tempfile.TemporaryDirectory(prefix="ragkit-bench-", dir=plan.scratch) as folder, Progress(shell) as progress:
        data = _data(shell, plan.settings, Path(folder) / "data", plan.source)
        if plan.baseline:
            settings = plan.settings
            check_comparable(plan.baseline, data.fingerprint(), settings.top_k, settings.thread_count)
        run = Run(plan.settings, data, progress.event)
        try:
            outcome = run.run()
        except KeyboardInterrupt:
            progress.stop()
            tell(run.outcome, [])
            raise
    baseline = plan.baseline
    if baseline and baseline.cpu != outcome.machine["cpu"]:
        shell.say(f"the baseline is of another machine ({baseline.cpu}): its times say little here")
    worse = regressions(baseline, saved(outcome), plan.tolerance) if baseline else []
    tell(outcome, worse)
    measured = any(line.status == "ok" for line in outcome.lines)
    return EXIT_ERROR if worse or not measured else 0


def _report() -> Callable[[Path, Outcome], Path]:
    """What writes a report. Asked for first: what is not installed is said before an hour of measuring, not after."""
    from ragkit.bench.report import write_report  # noqa: PLC0415 - brings in Arrow and Matplotlib

    return write_report


@command.command("compare")
@click.argument("before", type=Path)
@click.argument("after", type=Path, required=False)
@verb
def compare_(shell: Shell, before: Path, after: Path | None) -> None:
    """Hold two results against each other: directories (their latest run) or files DIR/runs/RUN.json.

    With one directory, its last two runs.
    """
    found = compare(before, after)
    shell.out_json(_compared_json(found)) if shell.json else show_compared(found)


def _compared_json(found: Compared) -> dict[str, JSON]:
    return {
        "before": found.before,
        "after": found.after,
        "differences": [
            {
                "label": one.label, "setting": one.setting, "figure": one.figure, "before": one.before,
                "after": one.after, "better_by": one.change,
            }
            for one in found.differences
        ],
        "only": {run: list(labels) for run, labels in found.only.items()},
    }  # fmt: skip


def _only(settings: Settings, stores: str | None) -> Settings:
    """The settings with these lines alone, by label or store."""
    if stores is None:
        return settings
    wanted = [one.strip() for one in stores.split(",")]
    for one in wanted:
        if not any(one in {entry.label, entry.name} for entry in settings.stores):
            known = dict.fromkeys(name for entry in settings.stores for name in (entry.label, entry.name))
            raise UnknownName("store of these settings", one, tuple(known))
    return replace(settings, stores=tuple(e for e in settings.stores if {e.label, e.name} & {*wanted}))


def _data(shell: Shell, settings: Settings, folder: Path, source: Source) -> Dataset:
    """The rows: made, from a file, from the knowledge base, or made after all where there is none to be found."""
    if source.hdf5 is not None:
        return write(folder, read_hdf5(source.hdf5), queries=settings.queries, seed=settings.seed)
    nothing = source.questions is None and shell.kb == Path(".ragkit") and not shell.kb.exists()
    if source.made or nothing:
        if not source.made:
            shell.say("no knowledge base here (--kb DIR): made rows are used")
        data = settings.data
        return generate(folder, data.rows, data.dimension, queries=settings.queries, seed=settings.seed)
    with shell.open() as kb:
        given = _chunks(kb, shell.kb, source.questions)
    return write(folder, given, queries=settings.queries, seed=settings.seed)


def _chunks(kb: KnowledgeBase, place: Path, questions: Path | None) -> Given:
    """The chunks of a knowledge base with their rows; questions of a file, else some chunks are held back."""
    with kb.reader.view() as view:
        arrays = view.arrays
        keys = arrays.keys.tolist()
        rows = arrays.matrix[arrays.vectors]
        texts = [
            chunk.text for first in range(0, len(keys), BATCH) for chunk in view.chunks(keys[first : first + BATCH])
        ]
    asked = None
    if questions is not None:
        asked = np.stack([kb.embed_question(line) for line in _lines(questions)])
    return Given(f"chunks of {place}", rows, asked, texts)


def _lines(file: Path) -> list[str]:
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
