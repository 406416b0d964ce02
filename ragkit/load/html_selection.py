"""Select the blocks of a web page that are its text: without menus, lists of links and what stands beside the text."""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.load.layout_blocks import LayoutBlock

MIN_LINK_RUN = 3
MIN_LINK_SHARE = 0.8
MAX_LINK_CHARS = 200
"""At least so many blocks in a row that are links, with short headings between them, are a list of other pages."""

MIN_TEXT_CHARS = 500
MIN_TEXT_SHARE = 0.25
"""What stands beside the text is kept if less than this is left without it."""


def select_main_blocks(blocks: Sequence[LayoutBlock]) -> Sequence[LayoutBlock]:
    """The blocks of `<main>`, else of `<article>`, else all outside menus, else all.

    `<main>` and `<article>` count only with 200 characters or a quarter of the text outside menus.
    """
    shown = [block for block in blocks if block.region != "menu"]
    rest: Sequence[LayoutBlock] = [block for block in shown if block.region != "beside"]
    if _text_length(rest) < max(MIN_TEXT_CHARS, MIN_TEXT_SHARE * _text_length(shown)):
        rest = shown
    rest = _without_link_lists(rest)
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

    def end_run() -> None:
        links = [block for block in run if block.kind != "h"]
        if len(links) < MIN_LINK_RUN:
            kept.extend(run)
        elif run[-1].kind == "h":
            kept.append(run[-1])  # it heads what follows
        run.clear()

    for block in blocks:
        if block.link_share >= MIN_LINK_SHARE or (block.kind == "h" and len(block.text) < MAX_LINK_CHARS):
            run.append(block)
        else:
            end_run()
            kept.append(block)
    end_run()
    text = _text_length([block for block in kept if block.link_share < MIN_LINK_SHARE])
    return kept if text >= max(MIN_TEXT_CHARS, MIN_TEXT_SHARE * _text_length(blocks)) else blocks


def _text_length(blocks: Sequence[LayoutBlock]) -> int:
    return sum(len(block.text) for block in blocks)
