"""`ragkit ask`: one question, one cited answer."""

from __future__ import annotations

import sys

import click

from ragkit.answer.json_shapes import answer_json
from ragkit.cli import EXIT_UNSUPPORTED
from ragkit.cli.answer_output import TextOutput, print_answer, print_trace, print_unsupported
from ragkit.cli.common import CliContext, filter_options, strict_option, with_common_options
from ragkit.cli.costs import max_cost_option

NO_QUESTION = 'missing question: ragkit ask "How do I retry?"'


@click.command()
@click.argument("question", required=False)
@click.option("--model", metavar="PROVIDER:MODEL", help="Model (default: that of the pipeline).")
@filter_options
@max_cost_option("Maximum cost; checked against the estimate before the start")
@strict_option
@click.option("--no-stream", is_flag=True, help="Print the answer when it is complete.")
@click.option("--quotes", is_flag=True, help="Show all quotes, also what the answer says in the same words.")
@click.option("--trace", is_flag=True, help="Show each step with its duration.")
@with_common_options
def command(
    context: CliContext,
    question: str | None,
    model: str | None,
    where: str | None,
    source: str,
    top_k: int | None,
    max_cost: float | None,
    strict: bool,
    no_stream: bool,
    quotes: bool,
    trace: bool,
) -> int:
    """Answer QUESTION from the documents, with citations. Without QUESTION, read it from stdin.

    \b
        ragkit ask "How do I retry?"
        echo "How do I retry?" | ragkit ask --json
    """
    text = (question if question is not None else _read_stdin()).strip()
    if not text:
        raise click.UsageError(NO_QUESTION)
    streams = not (no_stream or context.json) and sys.stdout.isatty()
    with context.open_knowledge_base() as kb:
        output = TextOutput()
        condition = context.create_filter(kb, where, source)
        answer = kb.ask(
            text,
            where=condition,
            top_k=top_k,
            model=model,
            max_cost_usd=max_cost,
            on_text=output.write if streams else None,
            on_restart=output.restart,
        )
        fails = (strict or kb.pipeline.answer.strict) and bool(answer.unsupported_reasons)
        freshness = context.report_freshness(kb)
        data = answer_json(answer, kb) if context.json else {}
    if context.json:
        context.write_json({**data, "freshness": freshness})
    else:
        print_answer(context, answer, streamed=output.text, quotes=quotes)
        if trace:
            print_trace(context, answer)
    if fails:
        print_unsupported(answer)
    return EXIT_UNSUPPORTED if fails else 0


def _read_stdin() -> str:
    if sys.stdin.isatty():
        raise click.UsageError(NO_QUESTION)
    return sys.stdin.read()
