"""The fenced code blocks of a Markdown page, each with the marker before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

_COMMENT = re.compile(r"<!--\s*(test|setup):\s*(.*?)\s*-->", re.DOTALL)
_NEEDS = re.compile(r"needs .+")
_FILE = re.compile(r"file ([\w./-]+)")
_EXIT = re.compile(r"exit (\d+)")


class MarkerInvalid(Exception):
    """An unknown marker: a typo must not exclude a block."""


@dataclass(frozen=True)
class Marker:
    """The comment `<!-- test: ... -->` before a block."""

    needs: str = ""
    """A requirement such as `an OpenAI key`; the block is checked, not run."""
    exit: int = 0
    """The exit code of the last command of a console block."""
    runs_on: bool = False
    """The last command runs until it is interrupted."""
    file: str = ""
    """The block is also written to this file of the page's directory;"""
    continues: bool = True
    """The block shares names and files with the blocks before it on the page."""


@dataclass(frozen=True)
class Block:
    """A fenced code block."""

    page: Path
    line: int
    """The line of its first line of code, from 1."""
    language: str
    """The first word after the fence; '' if there is none."""
    code: str
    """The code, with a line break at the end."""
    marker: Marker = Marker()
    hidden: bool = False
    """Whether it is a `<!-- setup: ... -->` comment, which readers do not see."""


def read_marker(text: str, where: str) -> Marker:
    """Parse a marker with comma-separated parts. Raises MarkerInvalid."""
    result: dict[str, str | int | bool] = {}
    for part in (item.strip() for item in text.split(",")):
        if _NEEDS.fullmatch(part):
            result["needs"] = part.removeprefix("needs ")
        elif match := _EXIT.fullmatch(part):
            result["exit"] = int(match[1])
        elif match := _FILE.fullmatch(part):
            result["file"] = match[1]
        elif part == "runs on":
            result["runs_on"] = True
        elif part == "alone":
            result["continues"] = False
        else:
            raise MarkerInvalid(
                f"{where}: {part!r} is not a marker: needs SOMETHING, exit N, file NAME, runs on, alone"
            )
    return Marker(**result)  # type: ignore[arg-type] # each key has its own type


def blocks(page: Path, text: str | None = None) -> Iterator[Block]:
    """The blocks of `page` in order, including setup comments. Raises MarkerInvalid."""
    marker: tuple[int, Marker] | None = None
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8") if text is None else text):
        first = token.map[0] + 1 if token.map else 0
        if token.type == "html_block":
            for kind, body in _COMMENT.findall(token.content):
                if kind == "test":
                    marker = (first, read_marker(body, f"{page.name}:{first}"))
                else:
                    language, _, code = body.partition("\n")
                    yield Block(page, first + 1, language, code + "\n", hidden=True)
        elif token.type == "fence":
            language = token.info.split()[0] if token.info.strip() else ""
            yield Block(page, first + 1, language, token.content, marker[1] if marker else Marker())
            marker = None
        elif token.type.endswith("_open") and marker and token.type not in ("list_item_open",):
            raise MarkerInvalid(f"{page.name}:{marker[0]}: a marker must be directly before a block")
    if marker:
        raise MarkerInvalid(f"{page.name}:{marker[0]}: no block follows the marker")
