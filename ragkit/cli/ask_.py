"""`ragkit ask`: one question, one cited answer."""

from __future__ import annotations

import sys

import click

from ragkit.answer.base import Answer
from ragkit.answer.json_shapes import answer_json
from ragkit.cli import EXIT_UNSUPPORTED
from ragkit.cli.answer_output import print_answer, print_trace
from ragkit.cli.common import CliContext, with_common_options
from ragkit.cli.costs import max_cost_option
from ragkit.cli.terminal import echo


@click.command()
@click.argument("question", required=False)
@click.option("--model", metavar="PROVIDER:MODEL", help="Who answers (default: as the pipeline says).")
@max_cost_option("Do not begin what is likely to cost more, and stop when it does")
@click.option("--strict", is_flag=True, help="Exit with 6 when the documents do not hold an answer.")
@click.option("--no-stream", is_flag=True, help="Print the answer when it is whole.")
@click.option("--trace", is_flag=True, help="Show each step, with times and tokens.")
@with_common_options
def command(
    shell: CliContext,
    question: str | None,
    model: str | None,
    max_cost: float | None,
    strict: bool,
    no_stream: bool,
    trace: bool,
) -> int:
    """Answer QUESTION from the documents, with citations. Without QUESTION it is read from stdin.

    \b
        ragkit ask "How do I retry?"
        echo "How do I retry?" | ragkit ask --json
    """
    asked = (question if question is not None else _read_stdin()).strip()
    if not asked:
        raise click.UsageError('ask something: ragkit ask "How do I retry?"')
    streams = not (no_stream or shell.json) and sys.stdout.isatty()
    with shell.open_knowledge_base() as kb:
        on_text = (lambda piece: echo(piece, nl=False)) if streams else None
        answer = kb.ask(asked, model=model, max_cost_usd=max_cost, on_text=on_text)
        freshness = shell.report_freshness(kb)
    if shell.json:
        shell.write_json({**answer_json(answer), "freshness": freshness})
    else:
        _print_result(shell, answer, streamed=streams, trace=trace)
    return EXIT_UNSUPPORTED if strict and answer.abstained else 0


def _read_stdin() -> str:
    if sys.stdin.isatty():
        raise click.UsageError('ask something: ragkit ask "How do I retry?"')
    return sys.stdin.read()


def _print_result(shell: CliContext, answer: Answer, *, streamed: bool, trace: bool) -> None:
    print_answer(shell, answer, streamed=streamed)
    if trace:
        print_trace(shell, answer)
