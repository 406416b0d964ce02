"""`ragkit chat`: a conversation of questions and cited answers."""

from __future__ import annotations

import sys

import click

from ragkit.answer.json_shapes import answer_json
from ragkit.cli import EXIT_ERROR, EXIT_UNSUPPORTED
from ragkit.cli.answer_output import TextOutput, print_answer, print_unsupported
from ragkit.cli.chat_commands import ChatAction, read_command
from ragkit.cli.common import CliContext, filter_options, strict_option, with_common_options
from ragkit.cli.costs import max_cost_option
from ragkit.cli.terminal import echo
from ragkit.errors import AuthenticationFailed, ModelNotFound, ProviderError, RunError
from ragkit.usage.meter import Meter, use_meter

PROMPT = "> "


@click.command()
@click.option("--model", metavar="PROVIDER:MODEL", help="Model (default: that of the pipeline).")
@filter_options
@max_cost_option("Maximum cost of the whole conversation")
@strict_option
@with_common_options
def command(
    context: CliContext,
    model: str | None,
    where: str | None,
    source: str,
    top_k: int | None,
    max_cost: float | None,
    strict: bool,
) -> int:
    """Answer questions in a conversation.

    `/exit`, an empty line or Ctrl-D ends it, Ctrl-C stops an answer, and `/help` lists the commands.
    """
    with context.open_knowledge_base() as kb, use_meter(Meter(budget_usd=max_cost)):
        conversation = kb.chat(model=model, where=context.create_filter(kb, where, source), top_k=top_k)
        strict = strict or kb.pipeline.answer.strict
        streams = sys.stdout.isatty() and not context.json
        code = 0
        while question := _next_question():
            action, notice = read_command(question)
            if notice:
                context.log(notice)
            if action is ChatAction.END:
                break
            if action is ChatAction.CONTINUE:
                continue
            with kb.session() as session:
                session.check_budget(conversation, question, known=max_cost is not None)
            output = TextOutput()
            try:
                answer = conversation.ask(
                    question, on_text=output.write if streams else None, on_restart=output.restart
                )
            except KeyboardInterrupt:
                if not sys.stdin.isatty():
                    raise
                echo("\nstopped: ask something else, or end with Ctrl-D", err=True)
                continue
            except (ProviderError, RunError) as error:
                if isinstance(error, AuthenticationFailed | ModelNotFound):  # the next question fails as well
                    raise
                echo(f"error: {error}: ask again, or something else", err=True)
                code = EXIT_ERROR
                continue
            if context.json:
                context.write_json(answer_json(answer, kb))
            else:
                print_answer(context, answer, streamed=output.text)
            if strict and answer.unsupported_reasons:
                print_unsupported(answer)
                code = code or EXIT_UNSUPPORTED
    return code


def _next_question() -> str:
    """The next line of input; empty at the end."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    try:
        return input(PROMPT).strip()
    except EOFError:
        echo(err=True)
        return ""
