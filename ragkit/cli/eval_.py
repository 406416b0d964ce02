"""`ragkit eval`: figures of retrieval and of answers, for people and for CI."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ragkit import __version__
from ragkit.cli import EXIT_BUDGET_EXCEEDED, EXIT_ERROR
from ragkit.cli.common import CliContext, with_common_options
from ragkit.cli.costs import max_cost_option
from ragkit.cli.eval_models import EvalModels, open_eval_models
from ragkit.cli.files import write_file
from ragkit.errors import RagkitError
from ragkit.evaluate.html_report import render_evaluation_report
from ragkit.evaluate.junit import to_junit_xml
from ragkit.evaluate.questions import Question, read_questions, write_beir_documents
from ragkit.evaluate.report import EvaluationReport, MetricChange, build_report, compare_with_baseline
from ragkit.evaluate.rule_questions import generate_questions
from ragkit.evaluate.run import Depths, EvaluatedSystem, QuestionResult, evaluate_questions
from ragkit.index.source_ids import display_name
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.lexical.analyzer import extract_terms
from ragkit.pipeline.settings import Pipeline
from ragkit.records import JSON, Citation


@dataclass(frozen=True)
class EvalOptions:
    """What was asked for on the command line."""

    questions: Path | None
    pipeline: str | None
    overrides: tuple[str, ...]
    auto: int | None
    seed: int
    depth: int
    retrieval_only: bool
    model: str | None


@click.command()
@click.argument("questions", required=False, type=click.Path(path_type=Path))
@click.option("--auto", type=click.IntRange(min=1), metavar="N", help="Make N questions of the documents themselves.")
@click.option("--write-with", metavar="PROVIDER:MODEL", help="Let a model write the questions of --auto.")
@click.option("--judge", metavar="PROVIDER:MODEL", help="Let a model judge faithfulness and relevance of answers.")
@max_cost_option("Stop judging and writing questions before they cost more")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the questions made, and of the intervals.")
@click.option("--write", type=click.Path(path_type=Path), metavar="FILE", help="Write the questions made, as .jsonl.")
@click.option("-k", "--depth", type=click.IntRange(min=1), default=10, show_default=True, help="Figures are @k.")
@click.option("--retrieval-only", is_flag=True, help="Ask for no answers.")
@click.option("--model", metavar="PROVIDER:MODEL", help="Who answers (default: as the pipeline says).")
@click.option("--pipeline", metavar="FILE|NAME", help="A pipeline that reads this knowledge base in another way.")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Change a value of the pipeline.")
@click.option("--baseline", type=click.Path(path_type=Path), metavar="FILE", help="Compare with an earlier --out.")
@click.option(
    "--max-drop", type=click.FloatRange(min=0), default=0.02, show_default=True, help="Allowed: exit 1 beyond."
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as JSON.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write it as a page to read.")
@click.option("--junit", "junit_file", type=click.Path(path_type=Path), metavar="FILE", help="Write it as JUnit XML.")
@with_common_options
def command(
    shell: CliContext,
    questions: Path | None,
    auto: int | None,
    write_with: str | None,
    judge: str | None,
    max_cost: float | None,
    seed: int,
    write: Path | None,
    depth: int,
    retrieval_only: bool,
    model: str | None,
    pipeline: str | None,
    overrides: tuple[str, ...],
    baseline: Path | None,
    max_drop: float,
    out: Path | None,
    html: Path | None,
    junit_file: Path | None,
) -> int:
    """Put QUESTIONS to the knowledge base: does it find, and does it answer?

    QUESTIONS is a .jsonl or .csv file with `question`, `answers`, `sources` and `answerable`, or a folder in the shape
    of the BEIR benchmark, which is indexed into a knowledge base of its own for the time of the run.

    \b
        ragkit eval questions.jsonl --html report.html
        ragkit eval --auto 200 --write made.jsonl
        ragkit eval questions.jsonl --baseline eval.json --max-drop 0.02
        ragkit eval questions.jsonl --judge openai:gpt-4o-mini --max-cost 0.50

    What a model judged or wrote is kept in the knowledge base: the same is not paid twice.
    """
    if (questions is None) == (auto is None):
        raise click.UsageError("name a file of questions, or let --auto N make some")
    if write_with is not None and auto is None:
        raise click.UsageError("--write-with writes the questions of --auto N")
    if judge is not None and retrieval_only:
        raise click.UsageError("--judge judges answers, and --retrieval-only asks for none")
    wanted = EvalOptions(questions, pipeline, overrides, auto, seed, depth, retrieval_only, model)
    with (
        open_eval_models(shell, judge, write_with, max_cost) as help_,
        _open_inputs(shell, wanted, help_) as (kb, asked),
    ):
        if write is not None:
            write_file(write, "".join(json.dumps(one.to_dict(), ensure_ascii=False) + "\n" for one in asked))
        _warn_unknown_sources(shell, kb, asked)
        _warn_unlabelled_questions(shell, asked)
        outcomes = _run_questions(shell, kb, asked, wanted, help_)
        found = replace(build_report(outcomes, _settings_json(kb, wanted), seed), models=help_.to_dict())
    changes = compare_with_baseline(found, baseline, max_drop, seed) if baseline is not None else []
    _write_reports(found, changes, ReportFiles(out, html, junit_file), max_drop)
    if shell.json:
        compared: list[JSON] = [{"name": c.name, "before": c.before, "now": c.now, "p": c.p} for c in changes]
        shell.write_json({**found.to_dict(), "compared": compared, "dropped": [c.name for c in changes if c.dropped]})
    else:
        _print_report(shell, found, changes)
        for line in help_.summary_lines():
            shell.write(line)
    for one in changes:
        if one.dropped:
            shell.log(f"{one.name} fell by {one.before - one.now:.4f}; at most {max_drop:g} was allowed")
    if help_.budget_error is not None:
        shell.log(f"error: {help_.budget_error}; what was judged is kept")
        return EXIT_BUDGET_EXCEEDED
    return EXIT_ERROR if any(one.dropped for one in changes) else 0


@contextmanager
def _open_inputs(
    shell: CliContext, wanted: EvalOptions, models: EvalModels
) -> Iterator[tuple[KnowledgeBase, list[Question]]]:
    """The knowledge base and the questions. A BEIR folder brings its own documents."""
    folder = wanted.questions
    if folder is not None and (folder / "corpus.jsonl").exists():
        asked = read_questions(folder)
        with TemporaryDirectory(prefix="ragkit-eval-") as scratch:
            names = write_beir_documents(folder, Path(scratch) / "documents")
            chosen = shell.load_pipeline(wanted.pipeline, wanted.overrides) or Pipeline.default()
            with KnowledgeBase.open(Path(scratch) / "kb", chosen) as kb:
                shell.log(f"indexing {len(names):,} documents of {folder}")
                kb.index(Path(scratch) / "documents")
                yield kb, [one.with_renamed_sources(names) for one in asked]
        return
    with shell.open_knowledge_base(wanted.pipeline, wanted.overrides) as kb:
        if wanted.auto is None:
            assert folder is not None  # noqa: S101 - one of the two was given
            yield kb, read_questions(folder)
            return
        if models.writer is not None:
            made = models.write_questions(kb, wanted.auto, wanted.seed)
        else:
            documents = [found for source, _, _ in kb.documents() if (found := kb.document(source)) is not None]
            made = [
                one.with_display_sources(display_name)
                for one in generate_questions(documents, extract_terms, wanted.auto, wanted.seed)
            ]
        if len(made) < wanted.auto:
            shell.log(f"the documents give {len(made)} questions, not {wanted.auto}")
        if not made:
            raise RagkitError("no question can be made of these documents: write some into a file")
        yield kb, made


def _warn_unknown_sources(shell: CliContext, kb: KnowledgeBase, asked: Sequence[Question]) -> None:
    """A source that is not there makes every figure low: said before, not found out afterwards."""
    there = [display_name(source) for source, _, _ in kb.documents()]
    ends = {"/".join(name.split("/")[at:]) for name in there for at in range(name.count("/") + 1)} | set(there)
    missing = sorted({name for one in asked for name in one.sources} - ends)
    if missing:
        shell.log(
            f"{len(missing)} of the sources that the questions name are not in the knowledge base, {missing[0]!r} for "
            "one: what they answer counts as missed"
        )


def _warn_unlabelled_questions(shell: CliContext, asked: Sequence[Question]) -> None:
    """A question of which nothing is known counts in few figures, most often by a slip of the pen in a key."""
    bare = [one for one in asked if one.answerable and not one.answers and not one.sources]
    if bare:
        shell.log(
            f"{len(bare)} of {len(asked)} questions have neither `answers` nor `sources`, {bare[0].text[:60]!r} for "
            "one: all that counts of them is a refusal, as wrong; add either, or `answerable: false` where documents"
            " are silent"
        )


def _run_questions(
    shell: CliContext, kb: KnowledgeBase, asked: Sequence[Question], wanted: EvalOptions, models: EvalModels
) -> list[QuestionResult]:
    ask = None if wanted.retrieval_only else (lambda question: kb.ask(question, model=wanted.model))
    depths = Depths(wanted.depth, max(50, 5 * wanted.depth))
    kb.search(asked[0].text, 1)  # the embedder is loaded now, not in the time of the first question
    found: list[QuestionResult] = []
    system = EvaluatedSystem(kb.search, ask, display_name, lambda cited: _cited_text(kb, cited))
    shows = sys.stderr.isatty() and not shell.quiet
    for outcome in evaluate_questions(system, asked, depths):
        found.append(models.judge_outcome(outcome))
        if shows:
            click.echo(f"\r{len(found)} of {len(asked)} questions", err=True, nl=len(found) == len(asked))
    return found


def _cited_text(kb: KnowledgeBase, cited: Citation) -> str:
    """The whole chunk of a citation."""
    chunk = kb.chunk(cited.chunk_id)
    return chunk.text if chunk is not None else cited.quote


def _settings_json(kb: KnowledgeBase, wanted: EvalOptions) -> dict[str, JSON]:
    return {
        "ragkit": __version__,
        "python": platform.python_version(),
        "pipeline": kb.pipeline.name,
        "model": None if wanted.retrieval_only else (wanted.model or kb.pipeline.answer.provider),
        "questions": f"--auto {wanted.auto}" if wanted.auto else str(wanted.questions),
        "seed": wanted.seed,
    }


@dataclass(frozen=True)
class ReportFiles:
    """Where the report is written to; None: not in this form."""

    json: Path | None
    html: Path | None
    junit: Path | None


def _write_reports(
    found: EvaluationReport, changes: Sequence[MetricChange], files: ReportFiles, max_drop: float
) -> None:
    if files.json is not None:
        write_file(files.json, json.dumps(found.to_dict(), ensure_ascii=False) + "\n")
    if files.html is not None:
        write_file(files.html, render_evaluation_report(found, changes) + "\n")
    if files.junit is not None:
        write_file(files.junit, to_junit_xml(found, changes, max_drop))


def _print_report(shell: CliContext, found: EvaluationReport, changes: Sequence[MetricChange]) -> None:
    before = {one.name: one for one in changes}
    head = f"{'figure':<24}{'mean':>8}   {'95 % interval':<18}{'questions':>9}"
    shell.write(click.style(head + (f"{'before':>10}{'p':>8}" if changes else ""), bold=True))
    for name, one in found.metrics.items():
        line = f"{name:<24}{one.mean:>8.4f}   {f'{one.low:.4f} to {one.high:.4f}':<18}{one.n:>9}"
        old = before.get(name)
        if old is not None:
            line = click.style(line + f"{old.before:>10.4f}{old.p:>8.3f}", fg="red" if old.dropped else None)
        shell.write(line)
    times = found.milliseconds
    parts = [
        f"{what} {times[f'{what}_p50']:.1f} ms (p95 {times[f'{what}_p95']:.1f})"
        for what in ("search", "ask")
        if f"{what}_p50" in times
    ]
    cost = "price unknown" if found.cost_usd is None else f"cost ${found.cost_usd:.4f}"
    shell.write(f"{len(found.outcomes)} questions; {', '.join(parts)}; {cost}")
    for failed in found.failed_questions[:5]:
        shell.log(f"{failed.question.id}: {failed.error}")
