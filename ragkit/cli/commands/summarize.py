"""`ragkit summarize`: a cited summary of one document."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ragkit.answer.json_shapes import answer_json
from ragkit.cli import EXIT_UNSUPPORTED
from ragkit.cli.answer_output import print_answer
from ragkit.cli.common import CliContext, format_count, with_common_options
from ragkit.cli.costs import format_usd, max_cost_option

if TYPE_CHECKING:
    from ragkit.answer.summaries import SummaryPlan


@click.command()
@click.argument("source", metavar="SOURCE")
@click.option("--model", metavar="PROVIDER:MODEL", help="Model (default: that of the pipeline).")
@max_cost_option("Maximum cost of all requests; checked against the estimate before the first")
@with_common_options
def command(context: CliContext, source: str, model: str | None, max_cost: float | None) -> int:
    """Summarize the document SOURCE, a path, file name or title, with citations.

    Without a model: its abstract or first paragraphs, and central sentences. With a model: part by part; the estimated
    cost is printed first.
    """

    def print_plan(plan: SummaryPlan) -> None:
        parts, requests = format_count(plan.parts, "part"), format_count(plan.requests, "request")
        tokens, cost = f"about {plan.prompt_tokens:,} tokens", format_usd(plan.cost_usd)
        context.log(f"{plan.model}: {parts}, {requests}, {tokens}, {cost}")

    with context.open_knowledge_base() as kb:
        answer = kb.summarize(source, model=model, max_cost_usd=max_cost, on_plan=print_plan)
        data = answer_json(answer, kb) if context.json else {}
    if context.json:
        context.write_json(data)
    else:
        print_answer(context, answer)
    return EXIT_UNSUPPORTED if answer.abstained else 0
