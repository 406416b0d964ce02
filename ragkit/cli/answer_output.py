"""Prints answers."""

from __future__ import annotations

import click

from ragkit.answer.base import Answer
from ragkit.cli.common import CliContext, format_location
from ragkit.cli.costs import format_usd
from ragkit.records import Citation

MAX_QUOTE_CHARS = 200
"""Maximum characters of a printed quote."""


def print_answer(context: CliContext, answer: Answer, *, streamed: bool) -> None:
    """Print the text, unless it was streamed, then what was searched, citations, evidence, model and cost."""
    context.write("" if streamed else answer.text)
    if answer.searched_for:
        context.log(f"\nsearched for: {answer.searched_for}")
    context.write()
    for citation in answer.citations:
        mark = click.style(f"[{citation.n}]", bold=True)
        context.write(f"  {mark} {format_location(citation)}{_format_status(citation)}")
        quote = " ".join(citation.quote.split())
        context.write(f'      "{quote[:MAX_QUOTE_CHARS]}{"..." if len(quote) > MAX_QUOTE_CHARS else ""}"')
    context.log(f"\nevidence {answer.evidence:.2f}, {answer.model}, {format_usd(answer.usage.total_cost_usd)}")


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
