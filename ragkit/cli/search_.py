"""`ragkit search`: passages, without an answer."""

from __future__ import annotations

import click

from ragkit.answer.json_shapes import explanation_json
from ragkit.cli.common import CliContext, format_location, with_common_options
from ragkit.knowledge_base.knowledge_base import SearchMode
from ragkit.records import JSON
from ragkit.retrieve.base import Explanation
from ragkit.store.filters.where_syntax import parse_where
from ragkit.usage.meter import Meter, use_meter

PREVIEW_CHARS = 320
"""Characters of a passage that are printed."""


@click.command()
@click.argument("question")
@click.option("-k", "--top-k", type=click.IntRange(min=1), metavar="N", help="How many passages.")
@click.option("--where", metavar="EXPR", help="""A condition on metadata: 'format == "pdf" and year >= 2020'.""")
@click.option("--mode", type=click.Choice(["dense", "lexical", "hybrid"]), help="How to search.")
@click.option("--explain", is_flag=True, help="Say why each passage stands where it stands.")
@with_common_options
def command(
    shell: CliContext, question: str, top_k: int | None, where: str | None, mode: SearchMode | None, explain: bool
) -> None:
    """Find the passages that speak of QUESTION.

    \b
        ragkit search "refund period" -k 3
        ragkit search "refund period" --where 'format == "pdf"'
    """
    condition = parse_where(where) if where else None
    meter = Meter()
    with use_meter(meter), shell.open_knowledge_base() as kb:
        found = kb.explain(question, top_k, condition, mode)
        freshness = shell.report_freshness(kb)
    if shell.json:
        hits: list[JSON] = [explanation_json(one, explain) for one in found]
        usage = meter.usage().to_dict()
        shell.write_json({"question": question, "hits": hits, "usage": usage, "freshness": freshness})
        return
    for one in found:
        _print_hit(shell, one, explain)
    if not found:
        shell.log("nothing found")


def _print_hit(shell: CliContext, one: Explanation, explain: bool) -> None:
    hit = one.hit
    heading = " > ".join(hit.chunk.heading)
    shell.write(
        f"{hit.rank}. {click.style(format_location(hit.chunk), bold=True)}" + (f"  {heading}" if heading else "")
    )
    if explain:
        scores = ", ".join(f"{name} {score:.3f}" for name, score in hit.scores.items())
        ranks = ", ".join(f"{name} #{rank}" for name, rank in one.ranks.items())
        shares = " + ".join(f"{share:.3f} {name}" for name, share in one.contributions.items())
        shell.write(f"   score {hit.score:.3f} = {shares}; {scores}; {ranks}")
    text = " ".join(hit.chunk.text.split())
    shell.write(f"   {text[:PREVIEW_CHARS]}{'...' if len(text) > PREVIEW_CHARS else ''}\n")
