"""Drafts of questions that ask for a list, from lists with an introduction, terms under a heading, and sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragkit.answer.extractive.units import AnswerUnit, UnitKind
from ragkit.evaluate.document_outline import DocumentOutline, option_names, prose_units
from ragkit.evaluate.phrases import SUBJECT, VAGUE, lowercase_first
from ragkit.evaluate.question_drafts import QuestionDraft, create_draft

MAX_LIST_CHARS = 300
"""Characters of a sentence that are searched for a list."""
_LIST_LEAD = (
    re.compile(r"(?:There are|There exist) (?:\w+ )?(?P<noun>(?:kinds|types|sorts|ways|forms|modes) of [\w -]{3,40})"),
    re.compile(SUBJECT + r" (?:has|have|supports?|offers?|provides?|includes?|contains?|consists? of|accepts?|uses?) "
               r"(?:the )?(?:following |these )?(?:\w+ )?(?P<noun>(?:[\w-]+ ){0,2}[\w-]+s)\b"),
    re.compile(r"(?:The )?(?:following|available|supported|possible|valid)(?: \w+)? (?P<noun>(?:[\w-]+ )?[\w-]+s)\b"),
    re.compile(r"(?:The )(?P<noun>(?:[\w-]+ ){0,3}[\w-]+s)(?P<of> of [\w -]{3,40})? are\b"),
)  # fmt: skip
_INLINE_LIST = re.compile(
    r"\b(?:(?:two|three|four|five|six|following|available|supported|possible|valid|main|basic|various|different) )+"
    r"(?P<noun>(?:[a-z-]+ ){0,3}[a-z-]+s)(?: of [a-z -]{3,30}?)?"
    r"(?: are|,? (?:namely|such as|including)| include|(?=:))[:,]? "
    r"(?P<items>(?:[^,.;:()]{2,32}, ){1,6}[^,.;:()]{2,32},? (?:and|or) [^,.;:()]{2,32})(?=[.;,:(]|$)"
)


_NO_NOUN = re.compile(r"\b(?:to|that|which|or|and|of|is|are|has|have|takes|can|will|for|in|on|as|by|with|its)\b")


def list_drafts(outline: DocumentOutline) -> Iterator[QuestionDraft]:
    """Which Xs are there? For lists with an introduction, and for terms under a heading in the plural."""
    for unit in prose_units(outline):
        match = _INLINE_LIST.search(unit.body[:MAX_LIST_CHARS])
        if match and _NO_NOUN.search(match["noun"]):
            continue
        items = re.split(r",? (?:and|or) |, ", match["items"]) if match else []
        parts = tuple((name,) for item in items if (name := _item_name(re.sub(r"^(?:an?|the) ", "", item.strip()))))
        if match and 3 <= len(parts) == len(items) == len(set(parts)) and not VAGUE.search(match["noun"]):
            yield create_draft(outline, f"Which {lowercase_first(match['noun'])} are there", parts, "list", "")
    for unit in outline.units:
        # definitions under one heading are shown as a list only if they are short
        if unit.kind is UnitKind.LIST and not unit.lead and len(unit.body.split()) > 60:
            continue
        if unit.kind is not UnitKind.LIST or not 3 <= len(rows := unit.body.splitlines()) <= 6:
            continue
        parts = tuple((name,) for row in rows if (name := _item_name(row)))
        if len(parts) == len(rows) == len(set(parts)) and (noun := _list_noun(unit)):
            yield create_draft(outline, f"Which {noun} are there", parts, "list", "")


def _list_noun(unit: AnswerUnit) -> str:
    for pattern in _LIST_LEAD:
        if match := pattern.match(unit.lead):
            noun = match["noun"] + (match.groupdict().get("of") or "")
            return (
                ""
                if VAGUE.search(noun) or re.search(r"\b(?:is|as|follows|has|was|does)\b", noun)
                else lowercase_first(noun)
            )
    heading = re.sub(r"^[\dA-Z]+(?:\.\d+)*[.)]?\s+", "", unit.heading_context.rpartition(" > ")[2])
    if not unit.lead and 2 <= len(heading.split()) <= 5 and re.search(r"[a-z]{2}[^s\W]s$", heading):
        is_noun = heading.isascii() and not re.match(r"\w+ing\b|\w{1,4}\. |[^A-Za-z]", heading)
        words = (word.lower() if word[1:].islower() else word for word in heading.split())
        return " ".join(words) if is_noun else ""
    return ""


def _item_name(row: str) -> str:
    """What a list item names: the text before a colon, a dash or a comma, or a short item; '' for a sentence."""
    row = re.sub(r"^\(?\w{1,3}[.)]\s+", "", row)
    head = re.split(r"[:;,(]\s| [-–—] |\s\(|(?<=[a-z])\.(?:\s|$)", row)[0].strip(" .:;,\"'“”‘’")
    if re.match(r"(?:whether|by|for|to|which|that|if|or|more|all|including|exist|neither)\b", head):
        return ""
    if len(head.split()) > 4 or re.search(r"[\\{}\[\]=$<>@|#%]", head) or not re.search(r"[A-Za-z]{2}", head):
        return ""
    name = (option_names(head) or (head,))[0]
    return name if len(name) > 2 and not name[0].isdigit() else ""
