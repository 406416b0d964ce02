"""Drafts of questions who made something and when."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragkit.evaluate.document_outline import DocumentOutline, prose_units
from ragkit.evaluate.phrases import SUBJECT, is_subject, lowercase_first, without_article
from ragkit.evaluate.question_drafts import QuestionDraft, create_draft

_PERSON = (
    r"(?P<answer>[A-Z](?:\.|[a-z][\w'’-]*)(?: (?:[A-Z]\.|[A-Z][a-z'’][\w'’-]*|van|von|de|der)){0,3}"
    r" [A-Z][a-z'’][\w'’-]+)"
)
_DONE_BY = re.compile(
    r"(?:^|(?<=[;,.] ))" + SUBJECT + r" (?:is|was|were|are|has been) (?:originally |first |mostly )?"
    r"(?P<verb>written|created|designed|developed|invented|maintained|founded|built|discovered|introduced|proposed|painted"
    r"|composed|directed|published|implemented|led|named|won|owned) by (?:the )?" + _PERSON
)
_DONE_WHEN = re.compile(
    r"(?:^|(?<=[;,.] ))" + SUBJECT + r" (?P<be>was|were) (?:first |originally |officially |finally )?"
    r"(?P<verb>[a-z]+ed|written|begun|built|born|won|held|made|sold|sent|found|given)\b[^.;]{0,60}?"
    r" (?:in|on|since) (?P<answer>(?:\d{1,2} )?(?:(?:January|February|March|April|May|June|July|August|September"
    r"|October|November|December)(?: \d{1,2}(?:st|nd|rd|th)?,?)? )?(?:1[5-9]|20)\d\d)\b"
)
_PAST = {"written": "wrote"}


def fact_drafts(outline: DocumentOutline) -> Iterator[QuestionDraft]:
    """Who made X? When was X made? For sentences that say so."""
    for unit in prose_units(outline):
        match = _DONE_BY.search(unit.body)
        if match and is_subject(match["subject"], proper=True):
            text = f"Who {_PAST.get(match['verb'], match['verb'])} {lowercase_first(match['subject'])}"
            yield create_draft(outline, text, ((match["answer"],),), "fact", without_article(match["subject"]).lower())
        match = _DONE_WHEN.search(unit.body)
        if match and is_subject(match["subject"], proper=True):
            text = f"When {match['be']} {lowercase_first(match['subject'])} {match['verb']}"
            yield create_draft(outline, text, ((match["answer"],),), "fact", without_article(match["subject"]).lower())
