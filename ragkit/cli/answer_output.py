"""How an answer is printed."""

from __future__ import annotations

import click

from ragkit.answer.base import Answer
from ragkit.cli.common import CliContext
from ragkit.cli.costs import format_usd
from ragkit.index.source_ids import display_name
from ragkit.records import Citation

MAX_QUOTE_CHARS = 200
"""Characters of a quote that are printed."""


def print_answer(shell: CliContext, answer: Answer, *, streamed: bool) -> None:
    """Text, then a line for each citation, then what it cost. A streamed text is on the screen already."""
    shell.write("" if streamed else answer.text)
    shell.write()
    for citation in answer.citations:
        shell.write(
            f"  {click.style(f'[{citation.n}]', bold=True)} {_format_location(citation)}{_format_status(citation)}"
        )
        quote = " ".join(citation.quote.split())
        shell.write(f'      "{quote[:MAX_QUOTE_CHARS]}{"..." if len(quote) > MAX_QUOTE_CHARS else ""}"')
    shell.log(f"\nevidence {answer.evidence:.2f}, {answer.model}, {format_usd(answer.usage.total_cost_usd)}", level=0)


def print_trace(shell: CliContext, answer: Answer) -> None:
    """The steps of the run, one line each."""
    for step in answer.trace.steps:
        shell.log(f"  {step.seconds * 1000:8.1f} ms  {step.type.value:18} {step.name}")


def _format_location(citation: Citation) -> str:
    name = display_name(citation.source)
    if citation.page is not None:
        return f"{name}, page {citation.page}"
    lines = (citation.start_line, citation.end_line)
    return f"{name}:{lines[0]}" if lines[0] == lines[1] else f"{name}:{lines[0]}-{lines[1]}"


def _format_status(citation: Citation) -> str:
    if not citation.verified:
        return click.style("  not verified", fg="red")
    if citation.stale:
        return click.style("  the file has changed since: ragkit index", fg="yellow")
    return click.style("  verified", fg="green")
