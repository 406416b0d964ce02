"""Drafts of questions who made something and when, and about a file: author, version, date, copyright."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragkit.evaluate.document_outline import DocumentOutline, prose_units
from ragkit.evaluate.phrases import SUBJECT, is_subject, lowercase_first, without_article
from ragkit.evaluate.question_drafts import QuestionDraft, create_draft

FRONT_CHARS = 1500
"""Characters of a title page."""
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


_FRONT: Sequence[tuple[str, re.Pattern[str]]] = (
    ("Who wrote {}?", re.compile(r"(?:^|\n) *(?:Authors?|By|Written by|Author\(s\)): *" + _PERSON)),
    ("Who wrote {}?", re.compile(r"\b(?i:by|authors?:|written by) " + _PERSON)),
    ("Who maintains {}?", re.compile(r"\b(?:[Mm]aintained by|Maintainer:) *" + _PERSON)),
    ("Which version of {} is described?", re.compile(r"\b(?:[Vv]ersion|[Rr]elease) v?(?P<answer>\d+(?:\.\d+)+)")),
    ("When was {} last updated?", re.compile(
        r"\b(?:[Ll]ast (?:modified|updated|changed|revised)|[Uu]pdated|[Dd]ate|[Rr]evised)\b[ :a-z]{0,12}"
        r"(?P<answer>(?:\d{1,2} )?[A-Z][a-z]+ (?:\d{1,2}, )?\d{4}|\d{4}-\d\d-\d\d)")),
    ("Who holds the copyright of {}?", re.compile(
        r"(?:©|\([Cc]\)|[Cc]opyright)(?: ?©| ?\([Cc]\))? (?:\d{4}(?: ?[-–,] ?\d{4})*,? )?(?:by )?" + _PERSON)),
)  # fmt: skip
_EXTENSIONS = {"pdf": "PDF", "html": "page", "docx": "document", "xlsx": "sheet", "markdown": "document"}


def file_drafts(outline: DocumentOutline) -> Iterator[QuestionDraft]:
    """Who wrote this document, which version, of when? From its first page and its last lines."""
    document, topic = outline.document, outline.topic
    text = document.text
    front = text[:FRONT_CHARS] + "\n" + text[max(FRONT_CHARS, len(text) - FRONT_CHARS) :]
    title = re.split(r" [-–—|] ", document.title)[0].strip()
    title = title if 2 <= len(title.split()) <= 7 and title.isprintable() and not title[0].isdigit() else ""
    name = title or (f"the {topic} {_EXTENSIONS.get(document.format, 'document')}" if topic else "")
    if not name:
        return
    seen: set[str] = set()
    for question, pattern in _FRONT:
        match = pattern.search(front)
        if match and question not in seen:
            seen.add(question)
            answer = " ".join(match["answer"].split())
            yield QuestionDraft(question.format(name), ((answer,),), document.source, "file", name.lower())
