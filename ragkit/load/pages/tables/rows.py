"""Rows of pieces that stand beside each other on a PDF page, and lines that continue each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragkit.load.pages.page import Piece, Rule, Word

NEAR = 3.0
"""Lines that are at most this far apart meet, in points."""


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


def merge_rules(rules: Sequence[Rule], *, across: bool) -> list[Rule]:
    """Lines that continue each other as one, at one height (or one distance from the left)."""
    spans = sorted(
        ((rule.top + rule.bottom) / 2, rule.x0, rule.x1) if across else ((rule.x0 + rule.x1) / 2, rule.top, rule.bottom)
        for rule in rules
    )
    merged: list[Rule] = []
    level: list[tuple[float, float]] = []
    at = 0.0
    for position, start, end in [*spans, (1e9, 0.0, 0.0)]:
        if level and position - at > NEAR:
            merged += _join(level, at, across=across)
            level = []
        if not level:
            at = position
        level.append((start, end))
    return merged


def _join(spans: list[tuple[float, float]], at: float, *, across: bool) -> Iterator[Rule]:
    spans.sort()
    start, end = spans[0]
    for first, last in [*spans[1:], (1e9, 1e9)]:
        if first > end + NEAR:
            if end - start > 6:
                yield Rule(start, at, end, at) if across else Rule(at, start, at, end)
            start, end = first, last
        else:
            end = max(end, last)
