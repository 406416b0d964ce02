"""`ragkit explain`: explain why a search misses a passage."""

from __future__ import annotations

import re
from dataclasses import dataclass

import click

from ragkit.cli import EXIT_ERROR
from ragkit.cli.common import CliContext, chunk_json, format_location, with_common_options
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.diagnosis.diagnose import Diagnosis, DiagnosisQuery, ExpectedLocation, diagnose, find_text
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.records import JSON
from ragkit.store.filters.where_syntax import parse_where


@dataclass(frozen=True)
class Expectation:
    """What the search is expected to hold."""

    expect: str | None
    """A file, with a line or a page."""
    text: str | None

    def __str__(self) -> str:
        return self.expect or repr(self.text)


@click.command()
@click.argument("question")
@click.option("--expect", metavar="FILE[:LINE|:pPAGE]", help="Location of the expected passage.")
@click.option("--text", metavar="TEXT", help="Words of the expected passage.")
@click.option("-k", "--top-k", type=click.IntRange(min=1), metavar="N", help="Number of passages of the search.")
@click.option("--where", metavar="EXPR", help="Filter on metadata of the search.")
@click.option("--pipeline", metavar="FILE|NAME", help="Pipeline with other retrieval settings.")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Override a setting of the pipeline.")
@with_common_options
def command(
    context: CliContext,
    question: str,
    expect: str | None,
    text: str | None,
    top_k: int | None,
    where: str | None,
    pipeline: str | None,
    overrides: tuple[str, ...],
) -> int:
    """Explain why a search for QUESTION misses the passage that answers it.

    \b
        ragkit explain "refund period" --expect contracts/terms.md:14
        ragkit explain "What is the refund period?" --text "30 days"

    Exits with 1 if the passage is not among the hits.
    """
    if not expect and not (text and text.strip()):
        raise click.UsageError("say what is expected: --expect FILE[:LINE|:pPAGE], --text TEXT, or both")
    query = DiagnosisQuery(question, top_k, parse_where(where) if where else None)
    wanted = Expectation(expect, text)
    with context.open_knowledge_base(pipeline, overrides) as kb:
        diagnosis = _diagnose(kb, query, wanted)
    if context.json:
        context.write_json(_explain_json(diagnosis))
    else:
        _print(context, diagnosis, str(wanted))
    return EXIT_ERROR if diagnosis.rank is None else 0


def _diagnose(kb: KnowledgeBase, query: DiagnosisQuery, wanted: Expectation) -> Diagnosis:
    location = _parse_location(wanted.expect or "")
    if not wanted.text:
        return diagnose(kb, query, location)
    with kb.session() as session:
        found = find_text(session, query, wanted.text, location.file)
        document = session.document(found[0]) if found is not None else None
    if found is None:
        reason = f"no indexed file has the text {wanted.text!r}"
        if wanted.expect:
            reason = f"it does not have the text {wanted.text!r}"
        top_k = query.top_k or kb.components.top_k
        return Diagnosis(query.question, "", location.line, None, reason, (), top_k, None)
    source, start = found
    line = document.text.count("\n", 0, start) + 1 if document is not None else None
    return diagnose(kb, query, ExpectedLocation(source, line))


def _parse_location(expect: str) -> ExpectedLocation:
    match = re.fullmatch(r"(.+):(p?)([1-9]\d*)", expect)
    if match is None:
        return ExpectedLocation(expect)
    number = int(match[3])
    return ExpectedLocation(match[1], page=number) if match[2] else ExpectedLocation(match[1], line=number)


def _explain_json(diagnosis: Diagnosis) -> dict[str, JSON]:
    return {
        "question": diagnosis.question,
        "source": display_name(diagnosis.source),
        "line": diagnosis.line,
        "chunk": chunk_json(diagnosis.chunk) if diagnosis.chunk else None,
        "not_loaded": diagnosis.not_indexed_reason,
        "stages": [
            {"name": s.name, "rank": s.rank, "score": s.score, "of": s.ranking_size, "best": s.top_score}
            for s in diagnosis.stages
        ],
        "top_k": diagnosis.top_k,
        "rank": diagnosis.rank,
        "shared_words": list(diagnosis.shared_words),
        "missing_words": list(diagnosis.missing_words),
        "advice": list(diagnosis.advice),
        "contributions": dict(diagnosis.contributions),
    }


def _print(context: CliContext, diagnosis: Diagnosis, expect: str) -> None:
    if diagnosis.chunk is None:
        context.write(f"{expect} is not in the index: {diagnosis.not_indexed_reason}")
        return
    context.write(f"{click.style(format_location(diagnosis.chunk), bold=True)}  {diagnosis.chunk.header}")
    for stage in diagnosis.stages:
        if stage.rank is None:
            context.write(f"  {stage.name:<10} not among {stage.ranking_size:,}")
        else:
            scores = f"score {stage.score:.3f}, best {stage.top_score:.3f}"
            context.write(f"  {stage.name:<10} {stage.rank:>5} of {stage.ranking_size:,}   {scores}")
    if diagnosis.contributions:
        parts = ", ".join(f"{name} {part:.3f}" for name, part in diagnosis.contributions.items())
        context.write(f"  {'score':<10} {parts}")
    result = f"hit {diagnosis.rank}" if diagnosis.rank is not None else f"cut off: top_k is {diagnosis.top_k}"
    context.write(f"  {'result':<10} {result}")
    if diagnosis.shared_words or diagnosis.missing_words:
        shared, missing = ", ".join(diagnosis.shared_words), ", ".join(diagnosis.missing_words)
        context.write(f"  {'words':<10} shared: {shared or 'none'}; missing: {missing or 'none'}")
    if diagnosis.rank is None:
        context.write("what would include it:")
        for advice in diagnosis.advice:
            context.write(f"  - {advice}")
