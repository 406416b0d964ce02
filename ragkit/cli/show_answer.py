"""How an answer is printed."""

from __future__ import annotations

import click

from ragkit.answer.base import Answer
from ragkit.cli.common import Shell
from ragkit.cli.money import dollars
from ragkit.index.names import shown
from ragkit.records import Citation

QUOTE = 200
"""Characters of a quote that are printed."""


def print_answer(shell: Shell, answer: Answer, *, streamed: bool) -> None:
    """Text, then a line for each citation, then what it cost. A streamed text is on the screen already."""
    shell.out("" if streamed else answer.text)
    shell.out()
    for citation in answer.citations:
        shell.out(f"  {click.style(f'[{citation.n}]', bold=True)} {_place(citation)}{_state(citation)}")
        quote = " ".join(citation.quote.split())
        shell.out(f'      "{quote[:QUOTE]}{"..." if len(quote) > QUOTE else ""}"')
    shell.say(f"\nevidence {answer.evidence:.2f}, {answer.model}, {dollars(answer.usage.total_cost_usd)}", level=0)


def print_trace(shell: Shell, answer: Answer) -> None:
    """The steps of the run, one line each."""
    for step in answer.trace.steps:
        shell.say(f"  {step.seconds * 1000:8.1f} ms  {step.type.value:18} {step.name}")


def _place(citation: Citation) -> str:
    name = shown(citation.source)
    if citation.page is not None:
        return f"{name}, page {citation.page}"
    lines = (citation.start_line, citation.end_line)
    return f"{name}:{lines[0]}" if lines[0] == lines[1] else f"{name}:{lines[0]}-{lines[1]}"


def _state(citation: Citation) -> str:
    if not citation.verified:
        return click.style("  not verified", fg="red")
    if citation.stale:
        return click.style("  the file has changed since: ragkit index", fg="yellow")
    return click.style("  verified", fg="green")
