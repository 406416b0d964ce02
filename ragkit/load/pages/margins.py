"""Notes in the right margin of a PDF page, beside its one column of text. Independent of the PDF library."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ragkit.load.pages.page import Piece
from ragkit.load.pages.tables.open import is_prose

MIN_TEXT_LINES = 8
"""Lines of paragraphs that a page with notes in its margins has."""
MIN_INSIDE = 0.85
"""How many of them stand between the two edges of the text."""
MAX_SHARE = 0.2
"""Characters of all notes, as a share of those of the page."""
MARGIN = 6.0
"""Points between the text and a note."""
MAX_STEP = 1.8
"""From line to line of a note, as a share of their height."""


def split_margins(pieces: Sequence[Piece]) -> tuple[Sequence[Piece], list[list[Piece]]]:
    """The pieces without those in the margin, and the pieces of each note there, from top to bottom.

    Only the right margin counts: what stands left of the text is mostly the label or term that it begins with.
    Numbers of lines and single signs are no notes.
    """
    prose = [piece for piece in pieces if is_prose(piece)]
    if len(prose) < MIN_TEXT_LINES:
        return pieces, []
    left, right = median(piece.x0 for piece in prose), _right_edge(prose)
    inside = sum(left - MARGIN <= piece.x0 and piece.x1 <= right + MARGIN for piece in prose)
    beside = [piece for piece in pieces if piece.x0 > right + MARGIN]
    if not beside or inside < MIN_INSIDE * len(prose):
        return pieces, []
    notes = [note for note in _group(beside) if _is_note(note)]
    taken = {id(piece) for note in notes for piece in note}
    if sum(len(piece.text) for note in notes for piece in note) > MAX_SHARE * sum(len(p.text) for p in pieces):
        return pieces, []
    return [piece for piece in pieces if id(piece) not in taken], notes


def _right_edge(prose: Sequence[Piece]) -> float:
    """Where the longer lines of the paragraphs end."""
    ends = sorted(piece.x1 for piece in prose)
    return ends[int(0.9 * (len(ends) - 1))]


def _group(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Lines that follow each other."""
    notes: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda piece: piece.top):
        last = notes[-1][-1] if notes else None
        if last is not None and 0 < piece.top - last.top < MAX_STEP * max(piece.height, last.height):
            notes[-1].append(piece)
        else:
            notes.append([piece])
    return notes


def _is_note(note: Sequence[Piece]) -> bool:
    """Whether a group has words."""
    text = " ".join(piece.text for piece in note)
    letters = sum(map(str.isalpha, text))
    return letters >= 4 and letters > 0.5 * len(text.replace(" ", ""))
