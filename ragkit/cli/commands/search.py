"""`ragkit search`: search for passages."""

from __future__ import annotations

from collections.abc import Mapping

import click

from ragkit.answer.extractive.spelling import correct_spelling
from ragkit.answer.json_shapes import explanation_json
from ragkit.cli.common import CliContext, filter_options, format_also_in, format_location, with_common_options
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.records import JSON, SearchMode, Where
from ragkit.retrieve.base import Explanation
from ragkit.usage.meter import Meter, use_meter

PREVIEW_CHARS = 320
"""Maximum characters of a printed passage."""


@click.command()
@click.argument("question", default="")
@filter_options
@click.option("--mode", type=click.Choice(["dense", "lexical", "hybrid"]), help="Retrieval mode.")
@click.option("--explain", is_flag=True, help="Show the scores and ranks of each passage.")
@click.option("--count", is_flag=True, help="Count the documents that --where selects.")
@click.option("--sum", "sum_", metavar="FIELD", help="Add up a metadata field of these documents.")
@click.option("--min", "min_", metavar="FIELD", help="The least number in a field.")
@click.option("--max", "max_", metavar="FIELD", help="The greatest number in a field.")
@click.option("--mean", metavar="FIELD", help="The mean of a field.")
@with_common_options
def command(
    context: CliContext,
    question: str,
    where: str | None,
    source: str,
    top_k: int | None,
    mode: SearchMode | None,
    explain: bool,
    count: bool,
    sum_: str | None,
    min_: str | None,
    max_: str | None,
    mean: str | None,
) -> None:
    """Search for passages that answer QUESTION.

    Without a question, --count, --sum, --min, --max and --mean compute over the documents that --where selects.

    \b
        ragkit search "refund period" -k 3
        ragkit search "refund period" --where 'format == "pdf"'
        ragkit search --where 'year >= 2024' --sum price
    """
    fields = {name: field for name, field in (("sum", sum_), ("min", min_), ("max", max_), ("mean", mean)) if field}
    if count or fields:
        with context.open_knowledge_base() as kb:
            _print_aggregates(
                context, kb, context.create_filter(kb, where, source), {**({"count": ""} if count else {}), **fields}
            )
        return
    if not question.strip():
        raise click.UsageError("Missing argument 'QUESTION'.")
    meter = Meter()
    with use_meter(meter), context.open_knowledge_base() as kb:
        condition = context.create_filter(kb, where, source)
        with kb.session() as session:
            explanations = session.explain(question, top_k, condition, mode)
            meant = correct_spelling(question, session)
        freshness = context.report_freshness(kb)
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


def _print_aggregates(context: CliContext, kb: KnowledgeBase, where: Where, fields: Mapping[str, str]) -> None:
    """Print what was computed: one value a line, in the order of the options."""
    results = {function: kb.aggregate(field, where) for function, field in fields.items()}
    if context.json:
        context.write_json({function: result.to_json() for function, result in results.items()})
        return
    for function, result in results.items():
        if function == "count":
            context.write(f"{result.documents:,} documents")
        elif not result.numbers:
            known = f" (fields with numbers: {', '.join(result.known_fields)})" if result.known_fields else ""
            context.write(f"{function}({result.field}): no numbers in {result.documents:,} documents{known}")
        else:
            value = {"sum": result.sum, "min": result.min, "max": result.max, "mean": result.mean}[function]
            context.write(
                f"{function}({result.field}) = {value} ({result.numbers:,} of {result.documents:,} documents)"
            )


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
    also_in = f"\n   {format_also_in(hit.also_in)}" if hit.also_in else ""
    context.write(f"   {text[:PREVIEW_CHARS]}{'...' if len(text) > PREVIEW_CHARS else ''}{also_in}\n")
