"""Jupyter notebooks: the cells with their outputs as text, as one Markdown text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.options import LOADER_VERSIONS, NotebookOptions
from ragkit.load.shared.encoding import decode_bytes, replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock, TextLayout, join_blocks
from ragkit.load.shared.loader_utils import build_document
from ragkit.load.text.front_matter import find_access
from ragkit.load.text.markdown import markdown_headings
from ragkit.records import JSON, Document, Place

_COLOR = re.compile(r"\x1b\[[\d;]{0,20}[A-Za-z]")
MAX_OUTPUT_CHARS = 20_000
"""Characters of one output that are kept."""


class NotebookLoader:
    """Markdown cells as they are, code and outputs in fences; images are left out."""

    version = LOADER_VERSIONS["notebook"]

    def __init__(self, options: NotebookOptions | None = None) -> None:
        self.options = options or NotebookOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The notebook in `data`. Raises LoadError when it is no notebook of version 3 or later."""
        try:
            notebook = json.loads(decode_bytes(data).text)
        except RecursionError as error:
            raise LoadLimitExceeded(source, "nested too deeply", "exclude it") from error
        except ValueError as error:
            raise LoadError(source, f"invalid notebook ({error})", "open it in Jupyter and save it again") from error
        blocks = list(self._blocks(notebook))
        layout = join_blocks(blocks)
        access = find_access(layout.text)
        text = access.hide(layout.text)
        headings = tuple(markdown_headings(text, access.length))
        first = next((heading.text for heading in headings if heading.end is None), "")
        language = _get(notebook, "metadata", "kernelspec", "language") or _get(notebook, "metadata", "language")
        extra: dict[str, JSON] = {
            "language": language if isinstance(language, str) else "",
            "cells": len(_cells(notebook)),
            **access.metadata,
        }
        return build_document("notebook", source, TextLayout(text, headings, layout.places), extra, first)

    def _blocks(self, notebook: object) -> Iterator[LayoutBlock]:
        named = _get(notebook, "metadata", "language_info", "name")
        language = named if isinstance(named, str) and re.fullmatch(r"[\w+#-]{1,20}", named) else ""
        for number, cell in enumerate(_cells(notebook), start=1):
            place = Place(0, "cell", number)
            text = _text(_get(cell, "source") or _get(cell, "input")).strip("\n")
            if _get(cell, "cell_type") != "code":
                yield LayoutBlock("p", text.strip(), place=place)
                continue
            yield LayoutBlock("p", _fence(text, language), place=place)
            outputs = _get(cell, "outputs")
            for output in outputs if isinstance(outputs, list) and self.options.outputs else ():
                yield LayoutBlock("p", _fence(_output_text(output), "text"), place=place)


def _cells(notebook: object) -> list[object]:
    cells = _get(notebook, "cells")
    if cells is None:  # version 3
        worksheets = _get(notebook, "worksheets")
        sheets = worksheets if isinstance(worksheets, list) else []
        cells = [cell for sheet in sheets for cell in (_get(sheet, "cells") or [])]
    return cells if isinstance(cells, list) else []


def _output_text(output: object) -> str:
    """A stream, an error, or the plain text of a result."""
    plain = _get(output, "data", "text/plain") or _get(output, "text")
    if plain is None and _get(output, "traceback") is not None:
        plain = [f"{_text(_get(output, 'ename'))}: {_text(_get(output, 'evalue'))}"]
    return _COLOR.sub("", _text(plain)).strip("\n")[:MAX_OUTPUT_CHARS]


def _fence(text: str, language: str) -> str:
    if not text.strip():
        return ""
    longest = max((len(marks) for marks in re.findall(r"^[ \t]{0,40}(`{3,})", text, re.MULTILINE)), default=2)
    marks = "`" * (longest + 1)
    return f"{marks}{language}\n{text}\n{marks}"


def _get(value: object, *path: str) -> Any:
    """The value at a path of keys; None where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: object) -> str:
    """A string, or the lines of a list."""
    joined = "".join(str(line) for line in value) if isinstance(value, list) else value
    return replace_invalid_chars(joined) if isinstance(joined, str) else ""
