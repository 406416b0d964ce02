"""Prints answers."""

from __future__ import annotations

import re

import click

from ragkit.answer.base import EXTRACTIVE, Answer, Support, format_confidence
from ragkit.answer.citations import CITATION_MARK, ends_with_words
from ragkit.answer.outcome import Outcome
from ragkit.answer.verdicts import NOT_CHECKED, NOT_SUPPORTED, PARTLY_SUPPORTED
from ragkit.cli.common import CliContext, format_also_in, format_location
from ragkit.cli.costs import format_usd
from ragkit.cli.terminal import echo
from ragkit.records import Citation

_OUTCOMES_WITH_EVIDENCE = {Outcome.ANSWERED, Outcome.PASSAGES, Outcome.NOT_IN_DOCUMENTS, Outcome.UNCITED, Outcome.CUT}
"""Where passages and text belong together: a figure beside a refusal would say something about the refusal."""
MAX_QUOTE_CHARS = 200
"""Maximum characters of a printed quote."""
MAX_PASSAGE_CHARS = 320
"""Maximum characters of a passage that is shown in place of an answer, as by `ragkit search`."""


class TextOutput:
    """Prints the text of an answer as it is written."""

    def __init__(self) -> None:
        self.text = ""
        """The text so far."""

    def write(self, piece: str) -> None:
        """Print a piece."""
        self.text += piece
        echo(piece, nl=False)

    def restart(self) -> None:
        """Say that the answer begins again."""
        self.text = ""
        echo("\n(the connection to the model was lost; the answer begins again)\n")


def print_answer(context: CliContext, answer: Answer, *, streamed: str = "", quotes: bool = False) -> None:
    """Print the text, unless it was streamed, then what was searched, citations, notices, evidence, model and cost.

    Args:
        context: where to.
        answer: the answer.
        streamed: the text that was printed already; another one is printed below it.
        quotes: print the quotes of all citations, also those that the text has word for word.
    """
    text = f"The model refused: {answer.text}" if answer.outcome is Outcome.REFUSED and answer.text else answer.text
    said = _words(CITATION_MARK.sub("", answer.text))
    is_shown = streamed and ends_with_words(streamed, answer.text)
    context.write("" if is_shown else f"\n\n{text}" if streamed else text)
    if answer.searched_for:
        context.log(f"\nsearched for: {answer.searched_for}")
    context.write()
    for citation in answer.citations:
        mark = click.style(f"[{citation.n}]", bold=True)
        if answer.outcome is Outcome.PASSAGES:
            context.write(f"  {mark} {click.style(format_location(citation), bold=True)}")
            context.write(f"      {_cut(citation.quote, MAX_PASSAGE_CHARS)}")
        else:
            context.write(f"  {mark} {format_location(citation)}{_format_status(citation)}")
            if quotes or _words(citation.quote) not in said:
                context.write(f'      "{_cut(citation.quote, MAX_QUOTE_CHARS)}"')
        if citation.also_in:
            context.write(f"      {format_also_in(citation.also_in)}")
    _print_unsupported(context, answer)
    for notice in answer.notices:
        echo(f"note: {notice}", err=True)  # with -q as well: it is a result
    figures = [format_confidence(answer)] if answer.outcome in _OUTCOMES_WITH_EVIDENCE else []
    if answer.supported is not None and answer.model != EXTRACTIVE:  # a quotation supports itself
        figures.append(f"supported {answer.supported:.2f}")
    context.log(f"\n{', '.join([*figures, answer.model, format_usd(answer.usage.total_cost_usd)])}")


def _words(text: str) -> str:
    """A text without its marks, to compare."""
    return " ".join(re.findall(r"\w+", text))


def _cut(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return f"{line[:limit]}{'...' if len(line) > limit else ''}"


def print_unsupported(answer: Answer) -> None:
    """Print why an answer fails under `--strict`."""
    echo(f"not supported by the documents: {'; '.join(answer.unsupported_reasons)}", err=True)


def print_trace(context: CliContext, answer: Answer) -> None:
    """Print one line per step of the run."""
    for step in answer.trace.steps:
        context.log(f"  {step.seconds * 1000:8.1f} ms  {step.type.value:18} {step.name}")


def _print_unsupported(context: CliContext, answer: Answer) -> None:
    """List the statements that the cited passages do not support, with the reason and where they were found."""
    if not answer.unsupported:
        return
    context.write()
    for statement in answer.unsupported:
        label = "no citation" if statement.support is Support.NO_CITATION else NOT_SUPPORTED
        found = f"; it is in [{statement.found_in}]" if statement.found_in is not None else ""
        context.write(f"  {click.style(label, fg='red')}: {_cut(statement.text, MAX_QUOTE_CHARS)}")
        context.write(f"      {statement.reason}{found}")


def _format_status(citation: Citation) -> str:
    if not citation.verified:
        return click.style("  not verified", fg="red")
    if citation.stale:
        return click.style("  the file has changed: run ragkit index", fg="yellow")
    if citation.support == NOT_SUPPORTED:
        return click.style(f"  {NOT_SUPPORTED}", fg="red")
    is_weak = citation.support == NOT_CHECKED or citation.support.startswith(PARTLY_SUPPORTED)
    return click.style(f"  {citation.support}", fg="yellow" if is_weak else "green")
