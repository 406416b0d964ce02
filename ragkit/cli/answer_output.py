"""Prints answers."""

from __future__ import annotations

import click

from ragkit.answer.base import Answer
from ragkit.answer.outcome import Outcome
from ragkit.cli.common import CliContext, format_location
from ragkit.cli.costs import format_usd
from ragkit.cli.terminal import echo
from ragkit.records import Citation

_OUTCOMES_WITH_EVIDENCE = {Outcome.ANSWERED, Outcome.NOT_IN_DOCUMENTS, Outcome.UNCITED, Outcome.CUT}
"""Where passages and text belong together: a figure beside a refusal would say something about the refusal."""
MAX_QUOTE_CHARS = 200
"""Maximum characters of a printed quote."""


def print_answer(context: CliContext, answer: Answer, *, streamed: bool) -> None:
    """Print the text, unless it was streamed, then what was searched, citations, notices, evidence, model and cost."""
    text = f"The model refused: {answer.text}" if answer.outcome is Outcome.REFUSED and answer.text else answer.text
    context.write("" if streamed else text)
    if answer.searched_for:
        context.log(f"\nsearched for: {answer.searched_for}")
    context.write()
    for citation in answer.citations:
        mark = click.style(f"[{citation.n}]", bold=True)
        context.write(f"  {mark} {format_location(citation)}{_format_status(citation)}")
        quote = " ".join(citation.quote.split())
        context.write(f'      "{quote[:MAX_QUOTE_CHARS]}{"..." if len(quote) > MAX_QUOTE_CHARS else ""}"')
    for notice in answer.notices:
        echo(f"note: {notice}", err=True)  # with -q as well: it is a result
    evidence = f"evidence {answer.evidence:.2f}, " if answer.outcome in _OUTCOMES_WITH_EVIDENCE else ""
    context.log(f"\n{evidence}{answer.model}, {format_usd(answer.usage.total_cost_usd)}")


def print_unsupported(answer: Answer) -> None:
    """Print why an answer fails under `--strict`."""
    echo(f"not supported by the documents: {'; '.join(answer.unsupported_reasons)}", err=True)


def print_trace(context: CliContext, answer: Answer) -> None:
    """Print one line per step of the run."""
    for step in answer.trace.steps:
        context.log(f"  {step.seconds * 1000:8.1f} ms  {step.type.value:18} {step.name}")


def _format_status(citation: Citation) -> str:
    if not citation.verified:
        return click.style("  not verified", fg="red")
    if citation.stale:
        return click.style("  the file has changed: run ragkit index", fg="yellow")
    return click.style("  verified", fg="green")
