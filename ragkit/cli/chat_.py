"""`ragkit chat`: a conversation of questions and cited answers."""

from __future__ import annotations

import sys

import click

from ragkit.answer.json_shapes import answer_json
from ragkit.cli.answer_output import print_answer
from ragkit.cli.common import CliContext, filter_options, with_common_options
from ragkit.cli.costs import max_cost_option
from ragkit.cli.terminal import echo
from ragkit.usage.meter import Meter, use_meter

PROMPT = "> "


@click.command()
@click.option("--model", metavar="PROVIDER:MODEL", help="Model (default: that of the pipeline).")
@filter_options
@max_cost_option("Maximum cost of the whole conversation")
@with_common_options
def command(
    context: CliContext, model: str | None, where: str | None, source: str, top_k: int | None, max_cost: float | None
) -> None:
    """Answer questions in a conversation. An empty line or Ctrl-D ends it."""
    with context.open_knowledge_base() as kb, use_meter(Meter(budget_usd=max_cost)):
        conversation = kb.chat(model=model, where=context.create_filter(kb, where, source), top_k=top_k)
        while question := _next_question():
            kb.check_budget(conversation, question, known=max_cost is not None)
            answer = conversation.ask(question)
            if context.json:
                context.write_json(answer_json(answer))
            else:
                print_answer(context, answer, streamed=False)


def _next_question() -> str:
    """The next line of input; empty at the end."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    try:
        return input(PROMPT).strip()
    except EOFError:
        echo(err=True)
        return ""
