"""`ragkit search`: search for passages."""

from __future__ import annotations

import click

from ragkit.answer.json_shapes import explanation_json
from ragkit.answer.spelling import correct_spelling
from ragkit.cli.common import CliContext, filter_options, format_location, with_common_options
from ragkit.knowledge_base.knowledge_base import SearchMode
from ragkit.records import JSON
from ragkit.retrieve.base import Explanation
from ragkit.usage.meter import Meter, use_meter

PREVIEW_CHARS = 320
"""Maximum characters of a printed passage."""


@click.command()
@click.argument("question")
@filter_options
@click.option("--mode", type=click.Choice(["dense", "lexical", "hybrid"]), help="Retrieval mode.")
@click.option("--explain", is_flag=True, help="Show the scores and ranks of each passage.")
@with_common_options
def command(
    context: CliContext,
    question: str,
    where: str | None,
    source: str,
    top_k: int | None,
    mode: SearchMode | None,
    explain: bool,
) -> None:
    """Search for passages that answer QUESTION.

    \b
        ragkit search "refund period" -k 3
        ragkit search "refund period" --where 'format == "pdf"'
    """
    meter = Meter()
    with use_meter(meter), context.open_knowledge_base() as kb:
        explanations = kb.explain(question, top_k, context.create_filter(kb, where, source), mode)
        freshness = context.report_freshness(kb)
        meant = correct_spelling(question, kb)
    if meant != question:
        context.log(f"did you mean: {meant}")
    if context.json:
        hits: list[JSON] = [explanation_json(explanation, explain) for explanation in explanations]
        usage = meter.usage().to_dict()
        context.write_json({"question": question, "hits": hits, "usage": usage, "freshness": freshness})
        return
    for explanation in explanations:
        _print_hit(context, explanation, explain)
    if not explanations:
        context.log("no results")
    elif top_k is not None and len(explanations) < top_k:
        context.log(f"{len(explanations)} passages found, {top_k} requested")


def _print_hit(context: CliContext, explanation: Explanation, explain: bool) -> None:
    hit = explanation.hit
    heading = f"  {' > '.join(hit.chunk.heading)}" if hit.chunk.heading else ""
    context.write(f"{hit.rank}. {click.style(format_location(hit.chunk), bold=True)}{heading}")
    if explain:
        scores = ", ".join(f"{name} {score:.3f}" for name, score in hit.scores.items())
        ranks = ", ".join(f"{name} #{rank}" for name, rank in explanation.ranks.items())
        shares = " + ".join(f"{share:.3f} {name}" for name, share in explanation.contributions.items())
        if hit.chunk.context:
            context.write(f"   context: {hit.chunk.context}")
        context.write(f"   score {hit.score:.3f} = {shares}; {scores}; {ranks}")
    text = " ".join(hit.chunk.text.split())
    context.write(f"   {text[:PREVIEW_CHARS]}{'...' if len(text) > PREVIEW_CHARS else ''}\n")
