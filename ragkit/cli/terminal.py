"""Prints untrusted text (documents, models, file names) without terminal control characters."""

from __future__ import annotations

import re
import sys

import click

_CONTROL_CHARS = re.compile(
    r"\x1b(?!\[(?:[0-2]?|3[0-7]|39|4[0-7]|49|9[0-7])m)"  # all escapes except the colors of ragkit
    "|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"  # controls and bidirectional overrides
)


def replace_control_chars(text: str) -> str:
    """`text` with control characters replaced by U+FFFD; line ends, tabs and basic colors are kept."""
    return _CONTROL_CHARS.sub("\ufffd", text.replace("\r\n", "\n"))


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a line; on a terminal, without control characters."""
    stream = sys.stderr if err else sys.stdout
    click.echo(replace_control_chars(text) if stream is not None and stream.isatty() else text, err=err, nl=nl)
