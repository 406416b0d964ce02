"""Printing what documents, models and file names say, so that a terminal shows it and never obeys it."""

from __future__ import annotations

import re
import sys

import click

_CONTROL_CHARS = re.compile(
    r"\x1b(?!\[(?:[0-2]?|3[0-7]|39|4[0-7]|49|9[0-7])m)"  # all but the colours that are ours
    "|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"  # and what turns the reading order around
)


def replace_control_chars(text: str) -> str:
    """`text` with every sign that a terminal obeys as U+FFFD; line ends, tabs and plain colours stay."""
    return _CONTROL_CHARS.sub("\ufffd", text.replace("\r\n", "\n"))


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print, harmless where a terminal reads it; a file or pipe gets the text as it is."""
    stream = sys.stderr if err else sys.stdout
    click.echo(replace_control_chars(text) if stream is not None and stream.isatty() else text, err=err, nl=nl)
