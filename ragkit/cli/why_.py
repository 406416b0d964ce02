"""`ragkit why`: where the passage that was expected stood, and what would have kept it."""

from __future__ import annotations

import click

from ragkit.cli import EXIT_ERROR
from ragkit.cli.common import Shell, chunk_json, place, verb
from ragkit.index.names import shown
from ragkit.pipeline.why import Asked, Why, why
from ragkit.records import JSON
from ragkit.store.where import parse_where


@click.command()
@click.argument("question")
@click.option("--expect", required=True, metavar="FILE[:LINE]", help="Where the answer stands.")
@click.option("-k", "--top-k", type=click.IntRange(min=1), metavar="N", help="How many passages the search gives.")
@click.option("--where", metavar="EXPR", help="The condition on metadata that the search had.")
@click.option("--pipeline", metavar="FILE|NAME", help="A pipeline that reads this knowledge base in another way.")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Change a value of the pipeline.")
@verb
def command(
    shell: Shell,
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
    file, line = _place(expect)
    condition = parse_where(where) if where else None
    with shell.open(pipeline, overrides) as kb:
        found = why(kb, Asked(question, top_k, condition), file, line)
    if shell.json:
        shell.out_json(_json(found))
    else:
        _print(shell, found, expect)
    return 0 if found.rank is not None else EXIT_ERROR


def _place(expect: str) -> tuple[str, int | None]:
    file, colon, line = expect.rpartition(":")
    return (file, int(line)) if colon and line.isdigit() and int(line) > 0 else (expect, None)


def _json(found: Why) -> dict[str, JSON]:
    return {
        "question": found.question,
        "source": shown(found.source),
        "line": found.line,
        "chunk": chunk_json(found.chunk) if found.chunk else None,
        "not_loaded": found.loaded,
        "stages": [
            {"name": one.name, "rank": one.rank, "score": one.score, "of": one.of, "best": one.best}
            for one in found.stages
        ],
        "top_k": found.top_k,
        "rank": found.rank,
        "shared_words": list(found.shared),
        "missing_words": list(found.missing),
        "advice": list(found.advice),
    }


def _print(shell: Shell, found: Why, expect: str) -> None:
    if found.chunk is None:
        shell.out(f"{expect} is not in the index: {found.loaded}")
        return
    shell.out(f"{click.style(place(found.chunk), bold=True)}  {found.chunk.header}")
    for one in found.stages:
        if one.rank is None:
            shell.out(f"  {one.name:<10} not among {one.of:,}")
        else:
            shell.out(f"  {one.name:<10} {one.rank:>5} of {one.of:,}   score {one.score:.3f}, the best {one.best:.3f}")
    kept = f"hit {found.rank}" if found.rank is not None else f"cut: only {found.top_k} are kept"
    shell.out(f"  {'given':<10} {kept}")
    if found.shared or found.missing:
        shell.out(
            f"  words      shared: {', '.join(found.shared) or 'none'}; missing: {', '.join(found.missing) or 'none'}"
        )
    if found.rank is None:
        shell.out("what would have kept it:")
        for advice in found.advice:
            shell.out(f"  - {advice}")
