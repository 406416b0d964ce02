"""Select the blocks of a web page that are its text: without menus, lists of links and what stands beside the text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragkit.load.layout_blocks import LayoutBlock

MIN_LINK_RUN = 3
MIN_LINK_SHARE = 0.8
MAX_LINK_CHARS = 200
"""At least so many blocks in a row that are links, with short headings between them, are a list of other pages."""

MIN_CARDS = 3
MAX_CARD_CHARS = 250
"""At least so many headings that are links, with texts of at most so many characters below each, are other pages too."""

MAX_BESIDE_CHARS = 600
"""A longer text without links ends what stands below a heading such as `Related articles`."""

_HEADS_OTHERS = re.compile(
    r"(?:related (?:articles?|content|links|news|posts?|products|reading|stories|topics)|you (?:may|might) also (?:like|enjoy)"
    r"|recommended (?:articles|for you|posts|reading|stories)|more (?:articles|from|news|on this|posts|stories)\b.*"
    r"|read (?:next|more)|keep reading|up next|what to read next|trending(?: now)?|most (?:popular|read|viewed|shared)"
    r"|popular (?:articles|posts|stories|topics)|(?:recent|latest) (?:articles|comments|news|posts|stories|updates|insights)"
    r"|about the authors?|(?:leave|post) a (?:comment|reply)|discussion about this post|join the (?:conversation|discussion)"
    r"|share (?:this|on)\b.*|follow us\b.*|(?:subscribe|sign up) (?:to|for)\b.*|ready for more"
    r"|(?:ähnliche|verwandte|weitere) (?:artikel|beiträge|themen)|das könnte (?:sie|dich) auch interessieren|mehr zum thema"
    r"|über den autor|schreibe? einen kommentar|articles (?:liés|similaires|récents)|à lire aussi|sur le même sujet"
    r"|laisser un commentaire|artículos relacionados|te puede interesar|deja (?:un comentario|una respuesta))\W*",
    re.IGNORECASE,
)
"""Headings of what is no text of the page."""

MIN_TEXT_CHARS = 500
MIN_TEXT_SHARE = 0.25
"""What stands beside the text is kept if less than this is left without it."""


def select_main_blocks(blocks: Sequence[LayoutBlock]) -> Sequence[LayoutBlock]:
    """The blocks of `<main>`, else of `<article>`, else all outside menus, else all.

    `<main>` and `<article>` count only with 200 characters or a quarter of the text outside menus.
    """
    shown = [block for block in blocks if block.region != "menu"]
    rest: Sequence[LayoutBlock] = [block for block in shown if block.region != "beside"]
    if not _is_enough(rest, shown):
        rest = shown
    rest = _without_others(_without_link_lists(rest))
    total = _text_length(rest)
    for region in ("main", "article"):
        inner = [block for block in rest if block.region == region]
        if inner and (_text_length(inner) >= 200 or 4 * _text_length(inner) >= total):
            return inner
    return rest or blocks


def _without_link_lists(blocks: Sequence[LayoutBlock]) -> Sequence[LayoutBlock]:
    """The blocks without runs of links, and the headings above them, unless the page has little else."""
    kept: list[LayoutBlock] = []
    run: list[LayoutBlock] = []
    half = _text_length(blocks) / 2

    def end_run() -> None:
        links = [block for block in run if _is_link(block)]
        cards = sum(block.kind == "h" for block in links)
        texts = any(not _is_link(block) and block.kind != "h" for block in run)
        if (cards < MIN_CARDS or _text_length(kept) < half) if texts else (len(links) < MIN_LINK_RUN):
            kept.extend(run)
        elif run[-1].kind == "h" and not _is_link(run[-1]):
            kept.append(run[-1])  # it heads what follows
        run.clear()

    for block in blocks:
        if _is_link(block) or (block.kind == "h" and len(block.text) < MAX_LINK_CHARS):
            run.append(block)
        elif block.kind == "p" and len(block.text) < MAX_CARD_CHARS and any(map(_is_card, run[-3:])):
            run.append(block)
        else:
            end_run()
            kept.append(block)
    end_run()
    return kept if _is_enough([block for block in kept if not _is_link(block)], blocks) else blocks


def _is_link(block: LayoutBlock) -> bool:
    return block.link_share >= MIN_LINK_SHARE


def _is_card(block: LayoutBlock) -> bool:
    return block.kind == "h" and _is_link(block)


def _without_others(blocks: Sequence[LayoutBlock]) -> Sequence[LayoutBlock]:
    """The blocks without those below headings such as `Related articles`, unless the page has little else."""
    kept: list[LayoutBlock] = []
    level, length, half = 0, 0, _text_length(blocks) / 2
    for block in blocks:
        length += len(block.text)
        if block.kind == "h":
            if length > half and _HEADS_OTHERS.fullmatch(block.text.strip()):
                level = block.level
            elif block.level <= level:
                level = 0
        elif len(block.text) > MAX_BESIDE_CHARS and block.link_share < MIN_LINK_SHARE:
            level = 0
        if not level:
            kept.append(block)
    return kept if _is_enough(kept, blocks) else blocks


def _is_enough(kept: Sequence[LayoutBlock], blocks: Sequence[LayoutBlock]) -> bool:
    return _text_length(kept) >= max(MIN_TEXT_CHARS, MIN_TEXT_SHARE * _text_length(blocks))


def _text_length(blocks: Sequence[LayoutBlock]) -> int:
    return sum(len(block.text) for block in blocks)
