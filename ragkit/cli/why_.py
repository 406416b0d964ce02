"""`ragkit why`: where the passage that was expected stood, and what would have kept it."""

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
@click.option("--expect", required=True, metavar="FILE[:LINE]", help="Where the answer stands.")
@click.option("-k", "--top-k", type=click.IntRange(min=1), metavar="N", help="How many passages the search gives.")
@click.option("--where", metavar="EXPR", help="The condition on metadata that the search had.")
@click.option("--pipeline", metavar="FILE|NAME", help="A pipeline that reads this knowledge base in another way.")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Change a value of the pipeline.")
@with_common_options
def command(
    shell: CliContext,
    question: str,
    expect: str,
    top_k: int | None,
    where: str | None,
    pipeline: str | None,
    overrides: tuple[str, ...],
) -> int:
    """Say why a search for QUESTION does not bring the passage that answers it.

    \b
        ragkit why "refund period" --expect contracts/terms.md:14

    Exits with 1 when the passage is not among the hits.
    """
    file, line = _parse_location(expect)
    condition = parse_where(where) if where else None
    with shell.open_knowledge_base(pipeline, overrides) as kb:
        found = diagnose(kb, DiagnosisQuery(question, top_k, condition), file, line)
    if shell.json:
        shell.write_json(_why_json(found))
    else:
        _print(shell, found, expect)
    return 0 if found.rank is not None else EXIT_ERROR


def _parse_location(expect: str) -> tuple[str, int | None]:
    file, colon, line = expect.rpartition(":")
    return (file, int(line)) if colon and line.isdigit() and int(line) > 0 else (expect, None)


def _why_json(found: Diagnosis) -> dict[str, JSON]:
    return {
        "question": found.question,
        "source": display_name(found.source),
        "line": found.line,
        "chunk": chunk_json(found.chunk) if found.chunk else None,
        "not_loaded": found.not_indexed_reason,
        "stages": [
            {"name": one.name, "rank": one.rank, "score": one.score, "of": one.ranking_size, "best": one.top_score}
            for one in found.stages
        ],
        "top_k": found.top_k,
        "rank": found.rank,
        "shared_words": list(found.shared_words),
        "missing_words": list(found.missing_words),
        "advice": list(found.advice),
    }


def _print(shell: CliContext, found: Diagnosis, expect: str) -> None:
    if found.chunk is None:
        shell.write(f"{expect} is not in the index: {found.not_indexed_reason}")
        return
    shell.write(f"{click.style(format_location(found.chunk), bold=True)}  {found.chunk.header}")
    for one in found.stages:
        if one.rank is None:
            shell.write(f"  {one.name:<10} not among {one.ranking_size:,}")
        else:
            shell.write(
                f"  {one.name:<10} {one.rank:>5} of {one.ranking_size:,}   score {one.score:.3f}, the best {one.top_score:.3f}"
            )
    kept = f"hit {found.rank}" if found.rank is not None else f"cut: only {found.top_k} are kept"
    shell.write(f"  {'given':<10} {kept}")
    if found.shared_words or found.missing_words:
        shell.write(
            f"  words      shared: {', '.join(found.shared_words) or 'none'}; missing: {', '.join(found.missing_words) or 'none'}"
        )
    if found.rank is None:
        shell.write("what would have kept it:")
        for advice in found.advice:
            shell.write(f"  - {advice}")
