"""A document as the rules that write questions read it: its answer units, its terms, and the name of its subject."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import PurePath

from ragkit.answer.extractive.units import AnswerUnit, UnitKind, extract_answer_units
from ragkit.records import Chunk, Document, Hit

MAX_UNITS = 3000
"""Units of one document that are read, evenly over its length, which limits the time for long files."""
_TABLES = ("csv", "xlsx", "json", "tsv")
_GENERIC_NAMES = frozenset(
    (
        "manual", "guide", "readme", "faq", "index", "man", "doc", "docs", "html", "txt", "pdf", "introduction",
        "intro", "user", "users", "userguide", "reference", "the", "and", "of", "for", "a", "an", "to", "in", "with",
        "how", "notes", "release", "news", "changelog", "copyright", "overview", "tutorial", "chapter", "page", "file",
        "using", "your", "basic", "project", "policy", "data", "table", "list", "main", "draft", "about", "on", "from",
        "by", "at", "en", "de", "fr", "common", "tasks", "configuration", "template", "general", "history", "what",
        "protocol", "names", "new", "codes", "report", "plan", "minutes", "letter", "paper", "quick", "start", "card",
    )
)  # fmt: skip


class DocumentOutline:
    """A document with its answer units and the name that people give to its subject."""

    def __init__(self, document: Document) -> None:
        """The units are read when they are first used."""
        self.document = document
        self.source = document.source

    @cached_property
    def units(self) -> list[AnswerUnit]:
        """The answer units, in order; none for source code and for languages other than English."""
        document = self.document
        words = document.text.lower().split()
        is_prose = document.format not in _TABLES
        if document.language or not words or (is_prose and words.count("the") < 0.01 * len(words)):
            return []
        whole = Chunk(
            "", document.id, document.source, document.text, 0, len(document.text), 1, 1, title=document.title
        )
        units = extract_answer_units([Hit(whole, 0.0)], lambda _: document)
        step = max(1, len(units) // MAX_UNITS)
        return units[::step] if step > 1 else units

    @cached_property
    def topic(self) -> str:
        """The name of the subject, as in "in Borg": from the title or the file name; '' for tables and common nouns."""
        document = self.document
        stem = PurePath(document.source).stem
        if page := re.fullmatch(r"([a-z]++)-?([\w-]*+)\(\d\w*\)", document.title.strip()):
            return f"{page[1]} {page[2]}".strip()
        if document.format in _TABLES:
            return ""
        spellings: dict[str, Counter[str]] = {}
        for word in re.findall(r"[A-Za-z][A-Za-z0-9]*\+?", document.text):
            spellings.setdefault(word.lower(), Counter())[word] += 1
        first, *others = [name.lower() for name in re.findall(r"[A-Za-z][A-Za-z0-9]*\+?", stem)] or [""]
        names = [first]
        if not others:  # "bashref.pdf" is about Bash
            names += [first[:end] for end in range(3, len(first))]
        named = (*others, *map(str.lower, document.title.split()[:3]))
        names += [name for name in named if name in spellings and not spellings[name].most_common(1)[0][0].islower()]
        candidates = [name for name in names if name in spellings and name not in _GENERIC_NAMES and len(name) > 1]
        best = max(candidates, key=lambda name: spellings[name].total(), default="")
        if not best or spellings[best].total() < 3 or self._is_common_noun(best, spellings[best].total()):
            return ""
        return spellings[best].most_common(1)[0][0]

    def _is_common_noun(self, name: str, count: int) -> bool:
        """Whether the text speaks of "a dump" or "dumps": no name."""
        if name.endswith("s") and re.search(rf"\b{re.escape(name[:-1])}\b", self.document.text):
            return True
        pattern = rf"\b(?:an?|your|each|every|this) {re.escape(name)}\b(?! [a-z])|\b{re.escape(name)}s\b"
        return len(re.findall(pattern, self.document.text, re.IGNORECASE)) > 0.12 * count


OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


def option_names(term: str) -> tuple[str, ...]:
    """The names of an option, the long ones alone if there are any."""
    names = OPTION.findall(term) if term.startswith("-") else []
    return tuple(name for name in names if name.startswith("--")) or tuple(names)


def prose_units(outline: DocumentOutline) -> Iterator[AnswerUnit]:
    """Units that begin with a whole sentence."""
    kinds = (UnitKind.SENTENCE, UnitKind.ENTRY, UnitKind.ITEM)
    for unit in outline.units:
        if unit.kind in kinds and 30 <= len(unit.body) <= 400 and (unit.body[0].isupper() or unit.body[0].isdigit()):
            yield unit


def defined_terms(outline: DocumentOutline) -> Iterator[tuple[str, AnswerUnit]]:
    """Terms with their definitions; also an option on a line of its own with the sentence after it."""
    for before, unit in pairwise([None, *outline.units]):
        if unit is None or len(unit.body.split()) < 4:
            continue
        if unit.kind is UnitKind.ENTRY and unit.lead:
            yield unit.lead.rstrip(": "), unit
            continue
        is_option = before is not None and re.match(r"--?\w", before.body) and len(before.body.split()) <= 6
        if before is not None and is_option and unit.kind is UnitKind.SENTENCE and unit.body[0].isupper():
            yield before.body, unit
