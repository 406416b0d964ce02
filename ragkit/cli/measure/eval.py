"""`ragkit eval`: evaluate retrieval and answers, for users and for CI."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ragkit import __version__
from ragkit.cli import EXIT_BUDGET_EXCEEDED, EXIT_ERROR
from ragkit.cli.common import PATH, CliContext, with_common_options, write_file
from ragkit.cli.costs import max_cost_option
from ragkit.cli.measure.eval_models import EvalModels, open_eval_models
from ragkit.errors import RagkitError
from ragkit.evaluate.feedback import feedback_questions
from ragkit.evaluate.html_report import render_evaluation_report
from ragkit.evaluate.intervals import BootstrapEstimate
from ragkit.evaluate.junit import to_junit_xml
from ragkit.evaluate.questions import Question, read_questions, write_beir_documents
from ragkit.evaluate.report import EvaluationReport, MetricChange, build_report, compare_with_baseline
from ragkit.evaluate.rule_questions import generate_questions
from ragkit.evaluate.run import READER_METRICS, Depths, EvaluatedSystem, QuestionResult, evaluate_questions
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.lexical.analyzer import extract_terms
from ragkit.pipeline.settings import Pipeline
from ragkit.records import JSON, Citation


@dataclass(frozen=True)
class EvalOptions:
    """The options of the command line."""

    questions: Path | None
    pipeline: str | None
    overrides: tuple[str, ...]
    auto: int | None
    feedback: bool
    seed: int
    top_k: int
    retrieval_only: bool
    model: str | None


@click.command()
@click.argument("questions", required=False, type=PATH)
@click.option("--auto", type=click.IntRange(min=1), metavar="N", help="Generate N questions from the documents.")
@click.option("--feedback", is_flag=True, help="Questions whose answers were rated on the page of `ragkit serve`.")
@click.option("--question-model", metavar="PROVIDER:MODEL", help="Generate the questions of --auto with a model.")
@click.option("--judge", metavar="PROVIDER:MODEL", help="Judge faithfulness and relevance of answers with a model.")
@max_cost_option("Maximum cost of judging and generating questions")
@click.option("--seed", type=int, default=0, help="Random seed of questions and intervals (default: 0).")
@click.option("--save", type=PATH, metavar="FILE", help="Write the questions as .jsonl.")
@click.option("-k", "--top-k", type=click.IntRange(min=1), default=10, metavar="N",
              help="k of the metrics @k (default: 10).")  # fmt: skip
@click.option("--retrieval-only", is_flag=True, help="Evaluate retrieval only, without answers.")
@click.option("--model", metavar="PROVIDER:MODEL", help="Model (default: that of the pipeline).")
@click.option("--pipeline", metavar="FILE|NAME", help="Pipeline with other retrieval or answer settings.")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Override a setting of the pipeline.")
@click.option("--baseline", type=PATH, metavar="FILE", help="Compare with the --out file of an earlier run.")
@click.option("--max-drop", type=click.FloatRange(min=0), default=0.02,
              help="Allowed drop of a metric; exit with 1 beyond (default: 0.02).")  # fmt: skip
@click.option("--out", type=PATH, metavar="FILE", help="Write the report as JSON.")
@click.option("--html", type=PATH, metavar="FILE", help="Write the report as HTML.")
@click.option("--junit", "junit_file", type=PATH, metavar="FILE", help="Write the report as JUnit XML.")
@with_common_options
def command(
    context: CliContext,
    questions: Path | None,
    auto: int | None,
    feedback: bool,
    question_model: str | None,
    judge: str | None,
    max_cost: float | None,
    seed: int,
    save: Path | None,
    top_k: int,
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
    """Evaluate retrieval and answers with QUESTIONS.

    QUESTIONS is a .jsonl or .csv file with `question`, `answers`, `sources`, `answerable` and `kind`, or a folder in
    BEIR format, whose documents are indexed into a temporary knowledge base.

    \b
        ragkit eval questions.jsonl --html report.html
        ragkit eval --auto 200 --save made.jsonl
        ragkit eval --feedback --save rated.jsonl
        ragkit eval questions.jsonl --baseline eval.json --max-drop 0.02
        ragkit eval questions.jsonl --judge openai:gpt-4o-mini --max-cost 0.50

    Responses of the models are cached in the knowledge base, so that repeated runs cost nothing.
    """
    if [questions is not None, auto is not None, feedback].count(True) != 1:
        raise click.UsageError("give either a file of questions, --auto N or --feedback")
    if question_model is not None and auto is None:
        raise click.UsageError("--question-model requires --auto N")
    if judge is not None and retrieval_only:
        raise click.UsageError("--judge and --retrieval-only cannot be combined")
    options = EvalOptions(questions, pipeline, overrides, auto, feedback, seed, top_k, retrieval_only, model)
    with (
        open_eval_models(context, judge, question_model, max_cost) as models,
        _open_inputs(context, options, models) as (kb, dataset),
    ):
        if save is not None:
            lines = [json.dumps(question.to_dict(), ensure_ascii=False) + "\n" for question in dataset]
            write_file(save, "".join(lines))
        _warn_unknown_sources(context, kb, dataset)
        _warn_unlabelled_questions(context, dataset)
        results = _run_questions(context, kb, dataset, options, models)
        report = replace(build_report(results, _settings_json(kb, options), seed), models=models.to_dict())
    changes = compare_with_baseline(report, baseline, max_drop, seed) if baseline is not None else []
    reports: list[tuple[Path | None, Callable[[], str]]] = [
        (out, lambda: json.dumps(report.to_dict(), ensure_ascii=False) + "\n"),
        (html, lambda: render_evaluation_report(report, changes) + "\n"),
        (junit_file, lambda: to_junit_xml(report, changes, max_drop)),
    ]
    for path, render in reports:
        if path is not None:
            write_file(path, render())
    if context.json:
        compared: list[JSON] = [{"name": c.name, "before": c.before, "now": c.now, "p": c.p} for c in changes]
        dropped: list[JSON] = [change.name for change in changes if change.dropped]
        context.write_json({**report.to_dict(), "compared": compared, "dropped": dropped})
    else:
        _print_report(context, report, changes)
        for line in models.summary_lines():
            context.write(line)
    for change in changes:
        if change.dropped:
            context.log(f"{change.name} dropped by {change.before - change.now:.4f} (allowed: {max_drop:g})")
    if models.budget_error is not None:
        context.log(f"error: {models.budget_error}; completed judgments are kept")
        return EXIT_BUDGET_EXCEEDED
    return EXIT_ERROR if any(change.dropped for change in changes) else 0


@contextmanager
def _open_inputs(
    context: CliContext, options: EvalOptions, models: EvalModels
) -> Iterator[tuple[KnowledgeBase, list[Question]]]:
    """The knowledge base and the questions. The documents of a BEIR folder are indexed."""
    folder = options.questions
    if folder is not None and (folder / "corpus.jsonl").exists():
        questions = read_questions(folder)
        with TemporaryDirectory(prefix="ragkit-eval-") as scratch:
            names = write_beir_documents(folder, Path(scratch) / "documents")
            selected = context.load_pipeline(options.pipeline, options.overrides) or Pipeline.default()
            with KnowledgeBase.open(Path(scratch) / "kb", selected) as kb:
                context.log(f"indexing {len(names):,} documents of {folder}")
                kb.index(Path(scratch) / "documents")
                yield kb, [question.with_renamed_sources(names) for question in questions]
        return
    with context.open_knowledge_base(options.pipeline, options.overrides) as kb:
        if options.feedback:
            yield kb, feedback_questions(kb.path)
            return
        if options.auto is None:
            assert folder is not None  # noqa: S101 - checked in `command`
            yield kb, read_questions(folder)
            return
        if models.writer is not None:
            generated = models.write_questions(kb, options.auto, options.seed)
        else:
            with kb.session() as session:
                documents = session.texts()
            drafts = generate_questions(documents, extract_terms, options.auto, options.seed)
            generated = [question.with_display_sources(display_name) for question in drafts]
        if len(generated) < options.auto:
            context.log(f"only {len(generated)} of {options.auto} questions could be generated from the documents")
        if not generated:
            raise RagkitError("no questions could be generated from the documents: write a file of questions")
        yield kb, generated


def _warn_unknown_sources(context: CliContext, kb: KnowledgeBase, questions: Sequence[Question]) -> None:
    """Warn about expected sources that are not in the knowledge base: they count as missed in every metric."""
    with kb.session() as session:
        known = [display_name(source) for source, _, _ in session.documents()]
    suffixes = {"/".join(name.split("/")[at:]) for name in known for at in range(name.count("/") + 1)} | set(known)
    missing = sorted({name for question in questions for name in question.sources} - suffixes)
    if missing:
        example = f"(such as {missing[0]!r}): they count as missed"
        context.log(f"{len(missing)} sources of the questions are not in the knowledge base {example}")


def _warn_unlabelled_questions(context: CliContext, questions: Sequence[Question]) -> None:
    """Warn about questions without labels, which is often a typo in a key."""
    unlabelled = [q for q in questions if q.answerable and not q.answers and not q.sources]
    if unlabelled:
        context.log(
            f"{len(unlabelled)} of {len(questions)} questions have neither `answers` nor `sources` (such as "
            f"{unlabelled[0].text[:60]!r}): only refusals are scored, as wrong; add either, or `answerable: false`"
        )


def _run_questions(
    context: CliContext, kb: KnowledgeBase, questions: Sequence[Question], options: EvalOptions, models: EvalModels
) -> list[QuestionResult]:
    ask = None if options.retrieval_only else (lambda question: kb.ask(question, model=options.model))
    depths = Depths(options.top_k, max(50, 5 * options.top_k))
    kb.search(questions[0].text, 1)  # loads the embedder, which must not count in the latency of the first question
    results: list[QuestionResult] = []
    system = EvaluatedSystem(kb.search, ask, display_name, lambda cited: _cited_text(kb, cited))
    show_progress = sys.stderr.isatty() and not context.quiet
    for result in evaluate_questions(system, questions, depths):
        results.append(models.judge_outcome(result))
        if show_progress:
            click.echo(f"\r{len(results)} of {len(questions)} questions", err=True, nl=len(results) == len(questions))
    return results


def _cited_text(kb: KnowledgeBase, cited: Citation) -> str:
    """The text of the cited chunk, or the quote if the chunk is gone."""
    with kb.session() as session:
        chunk = session.chunk(cited.chunk_id)
    return chunk.text if chunk is not None else cited.quote


def _settings_json(kb: KnowledgeBase, options: EvalOptions) -> dict[str, JSON]:
    return {
        "ragkit": __version__,
        "python": platform.python_version(),
        "pipeline": kb.pipeline.name,
        "model": None if options.retrieval_only else (options.model or kb.pipeline.answer.provider),
        "questions": f"--auto {options.auto}" if options.auto else str(options.questions),
        "seed": options.seed,
    }


def _print_kinds(context: CliContext, report: EvaluationReport) -> None:
    """What a reader sees of the answers, by kind of question."""
    if not report.kinds:
        return
    names = [name for name in READER_METRICS if any(name in metrics for metrics in report.kinds.values())]
    context.write(click.style(f"{'kind':<20}" + "".join(f"{name:<23}" for name in names), bold=True).rstrip())
    for kind, metrics in report.kinds.items():
        cells = "".join(f"{_format_estimate(metrics.get(name)):<23}" for name in names)
        context.write(f"{kind:<20}{cells}".rstrip())


def _format_estimate(estimate: BootstrapEstimate | None) -> str:
    if estimate is None:
        return "-"
    return f"{estimate.mean:.2f} ({estimate.low:.2f}-{estimate.high:.2f}) {estimate.n}"


def _print_report(context: CliContext, report: EvaluationReport, changes: Sequence[MetricChange]) -> None:
    changes_by_name = {change.name: change for change in changes}
    head = f"{'metric':<24}{'mean':>8}   {'95 % interval':<18}{'questions':>9}"
    context.write(click.style(head + (f"{'before':>10}{'p':>8}" if changes else ""), bold=True))
    for name, metric in report.metrics.items():
        line = f"{name:<24}{metric.mean:>8.4f}   {f'{metric.low:.4f} to {metric.high:.4f}':<18}{metric.n:>9}"
        change = changes_by_name.get(name)
        if change is not None:
            line = click.style(line + f"{change.before:>10.4f}{change.p:>8.3f}", fg="red" if change.dropped else None)
        context.write(line)
    _print_kinds(context, report)
    times = report.milliseconds
    parts = [
        f"{step} {times[f'{step}_p50']:.1f} ms (p95 {times[f'{step}_p95']:.1f})"
        for step in ("search", "ask")
        if f"{step}_p50" in times
    ]
    cost = "price unknown" if report.cost_usd is None else f"cost ${report.cost_usd:.4f}"
    context.write(f"{len(report.outcomes)} questions; {', '.join(parts)}; {cost}")
    for failed in report.failed_questions[:5]:
        context.log(f"{failed.question.id}: {failed.error}")
