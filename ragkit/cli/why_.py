"""`ragkit why`: explain why a search misses a passage."""

from __future__ import annotations

import click

from ragkit.cli import EXIT_ERROR
from ragkit.cli.common import CliContext, chunk_json, format_location, with_common_options
from ragkit.index.source_ids import display_name
from ragkit.knowledge_base.diagnose import Diagnosis, DiagnosisQuery, diagnose
from ragkit.records import JSON
from ragkit.store.filters.where_syntax import parse_where


@click.command()
@click.argument("question")
@click.option("--expect", required=True, metavar="FILE[:LINE]", help="Location of the expected passage.")
@click.option("-k", "--top-k", type=click.IntRange(min=1), metavar="N", help="Number of passages of the search.")
@click.option("--where", metavar="EXPR", help="Filter on metadata of the search.")
@click.option("--pipeline", metavar="FILE|NAME", help="Pipeline with other retrieval settings.")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Override a setting of the pipeline.")
@with_common_options
def command(
    context: CliContext,
    question: str,
    expect: str,
    top_k: int | None,
    where: str | None,
    pipeline: str | None,
    overrides: tuple[str, ...],
) -> int:
    """Explain why a search for QUESTION misses the passage that answers it.

    \b
        ragkit why "refund period" --expect contracts/terms.md:14

    Exits with 1 if the passage is not among the hits.
    """
    file, line = _parse_location(expect)
    filter_ = parse_where(where) if where else None
    with context.open_knowledge_base(pipeline, overrides) as kb:
        diagnosis = diagnose(kb, DiagnosisQuery(question, top_k, filter_), file, line)
    if context.json:
        context.write_json(_why_json(diagnosis))
    else:
        _print(context, diagnosis, expect)
    return 0 if diagnosis.rank is not None else EXIT_ERROR


def _parse_location(expect: str) -> tuple[str, int | None]:
    file, colon, line = expect.rpartition(":")
    return (file, int(line)) if colon and line.isdigit() and int(line) > 0 else (expect, None)


def _why_json(diagnosis: Diagnosis) -> dict[str, JSON]:
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
    result = f"hit {diagnosis.rank}" if diagnosis.rank is not None else f"cut off: top_k is {diagnosis.top_k}"
    context.write(f"  {'result':<10} {result}")
    if diagnosis.shared_words or diagnosis.missing_words:
        shared, missing = ", ".join(diagnosis.shared_words), ", ".join(diagnosis.missing_words)
        context.write(f"  {'words':<10} shared: {shared or 'none'}; missing: {missing or 'none'}")
    if diagnosis.rank is None:
        context.write("what would include it:")
        for advice in diagnosis.advice:
            context.write(f"  - {advice}")
