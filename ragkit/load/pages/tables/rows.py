"""Rows of pieces that stand beside each other on a PDF page."""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.load.pages.page import Piece, Word


def visual_rows(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """The pieces by height on the page, then from left to right."""
    rows: list[list[Piece]] = []
    middles: list[float] = []
    height = 0.0
    for piece in sorted(pieces, key=lambda item: item.top + item.bottom):
        middle = piece.middle
        if rows and middle - middles[-1] < 0.45 * min(piece.height, height):
            rows[-1].append(piece)
        else:
            rows.append([piece])
            middles.append(middle)
            height = piece.height
    for row in rows:
        if len(row) > 1:
            row.sort(key=lambda item: item.x0)
    return rows


def split_pieces(pieces: Sequence[Piece], edges: Sequence[float]) -> list[Piece]:
    """The pieces cut between words at each edge that lies in a gap between two words."""
    split: list[Piece] = []
    for piece in pieces:
        if not any(piece.x0 - 1 <= edge <= piece.x1 + 1 for edge in edges):
            split.append(piece)
            continue
        cuts = [0]
        words = piece.words
        for number in range(1, len(words)):
            before, word = words[number - 1], words[number]
            left, right = (word[3], before[2]) if _is_leftward(piece, word) else (before[3], word[2])
            if any(left - 1 <= edge <= right + 1 for edge in edges):
                cuts.append(number)
        if len(cuts) == 1:
            split.append(piece)
            continue
        for first, last in zip(cuts, [*cuts[1:], len(words)], strict=True):
            split.append(sub_piece(piece, first, last))
    return split


def _is_leftward(piece: Piece, word: Word) -> bool:
    """Whether a word is Hebrew or Arabic."""
    return "\u0590" <= piece.text[word[0]] < "\u0900" or "\ufb1d" <= piece.text[word[0]] < "\uff00"


def sub_piece(piece: Piece, first: int, last: int) -> Piece:
    """Some words of a piece: [first:last]."""
    words = piece.words[first:last]
    start, end = words[0][0], words[-1][1]
    moved = [(a - start, b - start, x0, x1) for a, b, x0, x1 in words]
    text = piece.text[start:end]
    # not the first and the last word: where text is printed over other text, words are in another order
    x0, x1 = min(word[2] for word in words), max(word[3] for word in words)
    return Piece(text, x0, piece.top, x1, piece.bottom, piece.fonts, piece.size, moved, piece.start + start)
