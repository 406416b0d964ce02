"""Select the blocks of a web page that are its text: without menus, lists of links and what stands beside the text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from ragkit.load.shared.layout_blocks import LayoutBlock

MIN_LINK_RUN = 3
MIN_LINK_SHARE = 0.8
MAX_LINK_CHARS = 200
"""At least so many blocks in a row that are links, with short headings between them, are a list of other pages."""

MIN_CARDS = 3
MIN_CARD_CHARS = 60
MAX_CARD_CHARS = 250
"""At least so many headings that are links, each above short texts and one of these lengths, are other pages."""

MIN_BESIDE_CHARS = 100
MAX_BESIDE_CHARS = 600
"""A second text, or a longer one, without links ends what stands below a heading such as `Related articles`."""

_HEADS_OTHERS = re.compile(
    r"(?:related (?:articles?|content|links|news|posts?|products|reading|stories|topics)"
    r"|you (?:may|might) also (?:like|enjoy)|recommended (?:articles|for you|posts|reading|stories)"
    r"|more (?:articles|from|news|on this|posts|stories)\b.*|read (?:next|more)|keep reading|up next|what to read next"
    r"|trending(?: now)?|most (?:popular|read|viewed|shared)|popular (?:articles|posts|stories|topics)"
    r"|(?:recent|latest) (?:articles|comments|news|posts|stories|updates|insights)|about the authors?"
    r"|(?:leave|post) a (?:comment|reply)|discussion about this post|join the (?:conversation|discussion)"
    r"|share (?:this|on)\b.*|follow us\b.*|(?:subscribe|sign up) (?:to|for)\b.*|ready for more"
    r"|(?:ähnliche|verwandte|weitere) (?:artikel|beiträge|themen)|das könnte (?:sie|dich) auch interessieren"
    r"|mehr zum thema|über den autor|schreibe? einen kommentar|articles (?:liés|similaires|récents)|à lire aussi"
    r"|sur le même sujet|laisser un commentaire|artículos relacionados|te puede interesar"
    r"|deja (?:un comentario|una respuesta))\W*",
    re.IGNORECASE,
)
"""Headings of what is no text of the page."""

MAX_FORM_SHARE = 0.25
"""A form with more of the text holds the page; one with less is a form to fill in."""

MAX_ARTICLE_CARD_CHARS = 600
"""Characters of an `<article>` that stands for another page, at most."""

MAX_ARTICLES = 200
"""Articles of a page that are compared."""

MIN_ARTICLE_SHARE = 0.6
"""How much of the text of all articles one of them has if the others are other pages."""

MIN_TEXT_CHARS = 500
MIN_TEXT_SHARE = 0.25
"""What stands beside the text is kept if less than this is left without it."""


def mark_forms(blocks: Sequence[LayoutBlock], forms: Sequence[range]) -> None:
    """Mark the blocks of forms to fill in as beside the text."""
    most = MAX_FORM_SHARE * _text_length([block for block in blocks if block.region != "menu"])
    for form in forms:
        if _text_length(blocks[form.start : form.stop]) <= most:
            _mark(blocks, form)


def mark_other_articles(blocks: Sequence[LayoutBlock], articles: Sequence[range]) -> None:
    """Mark the blocks of articles that stand for other pages as beside the text.

    These are short ones that are links, and all with headings beside one that has most of the text: articles without
    headings are posts of a discussion.
    """
    if len(articles) > MAX_ARTICLES:
        return
    cards = [article for article in articles if _is_article_card(blocks[article.start : article.stop])]
    in_cards = {number for article in cards for number in article}
    shown = [number for number, block in enumerate(blocks) if block.region not in ("menu", "beside")]
    outside = [blocks[number] for number in shown if number not in in_cards]
    if len(cards) >= MIN_CARDS and 2 * _text_length(outside) >= _text_length([blocks[number] for number in shown]):
        for article in cards:
            _mark(blocks, article)
    rest = [article for article in articles if article not in cards]
    own = [set(article) for article in rest]
    for outer, inner in itertools.permutations(range(len(rest)), 2):
        if rest[inner].start >= rest[outer].start and rest[inner].stop <= rest[outer].stop:
            own[outer] -= own[inner]
    lengths = [sum(len(blocks[number].text) for number in numbers) for numbers in own]
    if not lengths or max(lengths) < MIN_ARTICLE_SHARE * sum(lengths) or max(lengths) < MIN_TEXT_CHARS:
        return
    main = own[lengths.index(max(lengths))]
    for article in rest:
        if main.isdisjoint(article) and any(blocks[number].kind == "h" for number in article):
            _mark(blocks, article)


def _is_article_card(blocks: Sequence[LayoutBlock]) -> bool:
    """Whether an article is a heading that is a link, or all link, with little text."""
    if _text_length(blocks) > MAX_ARTICLE_CARD_CHARS:
        return False
    return any(map(_is_card, blocks)) or _text_length([b for b in blocks if _is_link(b)]) > 0.5 * _text_length(blocks)


def _mark(blocks: Sequence[LayoutBlock], numbers: range) -> None:
    for number in numbers:
        if blocks[number].region != "menu":
            blocks[number].region = "beside"


def select_main_blocks(blocks: Sequence[LayoutBlock]) -> Sequence[LayoutBlock]:
    """The blocks of `<main>`, else of `<article>`, else all outside menus, else all.

    Both count only with a quarter of the text outside menus, `<main>` with 200 characters too.
    """
    shown = [block for block in blocks if block.region != "menu"]
    rest: Sequence[LayoutBlock] = [block for block in shown if block.region != "beside"]
    if not _is_enough(rest, shown):
        rest = shown
    rest = _without_others(_without_link_lists(rest))
    total = _text_length(rest)
    for region in ("main", "article"):
        inner = [block for block in rest if block.region == region]
        if inner and ((region == "main" and _text_length(inner) >= 200) or 4 * _text_length(inner) >= total):
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
        if (
            _is_link(block)
            or (block.kind == "h" and len(block.text) < MAX_LINK_CHARS)
            or (block.kind == "p" and _is_card_text(block, run))
        ):
            run.append(block)
        else:
            end_run()
            kept.append(block)
    end_run()
    return kept if _is_enough([block for block in kept if not _is_link(block)], blocks) else blocks


def _is_link(block: LayoutBlock) -> bool:
    return block.link_share >= MIN_LINK_SHARE


def _is_card_text(block: LayoutBlock, run: Sequence[LayoutBlock]) -> bool:
    """Whether a paragraph is the only longer one, of the last three, below a heading that is a link."""
    texts = list(itertools.takewhile(lambda other: not _is_card(other), reversed(run[-3:])))
    if len(texts) == len(run[-3:]) or len(block.text) >= MAX_CARD_CHARS or any(other.kind == "h" for other in texts):
        return False
    return sum(len(other.text) >= MIN_CARD_CHARS for other in [block, *texts]) <= 1


def _is_card(block: LayoutBlock) -> bool:
    return block.kind == "h" and _is_link(block)


def _without_others(blocks: Sequence[LayoutBlock]) -> Sequence[LayoutBlock]:
    """The blocks without those below headings such as `Related articles`, unless the page has little else."""
    kept: list[LayoutBlock] = []
    others: list[LayoutBlock] = []
    level, length, half, texts = 0, 0, _text_length(blocks) / 2, 0
    for block in blocks:
        length += len(block.text)
        texts = 0 if block.kind == "h" or _is_link(block) else texts + (len(block.text) > MIN_BESIDE_CHARS)
        if block.kind == "h" and length > half and _HEADS_OTHERS.fullmatch(block.text.strip()):
            level = block.level
        elif block.kind == "h" and block.level <= level:
            level = 0
            others.clear()
        elif level and (texts > 1 or (texts and len(block.text) > MAX_BESIDE_CHARS)):
            level = 0
            kept += others
            others.clear()
        (others if level else kept).append(block)
    return kept if _is_enough(kept, blocks) else blocks


def _is_enough(kept: Sequence[LayoutBlock], blocks: Sequence[LayoutBlock]) -> bool:
    return _text_length(kept) >= max(MIN_TEXT_CHARS, MIN_TEXT_SHARE * _text_length(blocks))


def _text_length(blocks: Sequence[LayoutBlock]) -> int:
    return sum(len(block.text) for block in blocks)
