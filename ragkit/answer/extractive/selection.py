"""Selects the answer units of the passages that answer a question best, without a language model.

The score of a unit is the weighted sum of its features (`FEATURE_WEIGHTS`). The weights are fitted so that units with
the answer rank first; `benchmarks/answers.py` measures them on held-out documents.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ragkit.answer.base import Searcher
from ragkit.answer.extractive.answer_type import (
    OTHER_NUMBER_WORDS,
    AnswerType,
    contains_answer_type,
    detect_answer_type,
    without_numbering,
)
from ragkit.answer.extractive.named_rows import named_rows_first, row_names
from ragkit.answer.extractive.question_kind import QuestionKind, asked_term, detect_question_kinds
from ragkit.answer.extractive.question_terms import QuestionTerms
from ragkit.answer.extractive.units import AnswerUnit, UnitKind, extract_answer_units
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Hit

MAX_PASSAGES = 10
"""Number of passages that units are extracted from."""
MAX_BEGINNINGS = 3
"""Number of documents whose beginnings are read for a question about a file."""
MAX_UNIT_CHARS = 1000
"""Characters of a unit that are searched for what its kind of question asks."""
MAX_EMBEDDED_UNITS = 12
"""Number of units that are embedded, the best ones by lexical features, besides neighbours: embedding dominates the run
time, and in 99 of 100 questions the best unit is among the first six."""
UNITS_WITH_NEIGHBOURS = 3
"""Of so many of them, the units before and after are embedded too: their meaning counts for the unit between them."""
MAX_SCORE_GAP = 2.5
"""A unit whose lexical features score this much less than those of the best one is not embedded for its own sake:
cosines that differ by more than 0.45 are rare, and would not make up for it."""

FEATURE_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        # cosine of the question with the unit alone, with the previous unit added, with the next unit added; all on
        # the scale of `cosine_scale`
        "meaning": 2.17,
        "meaning_before": 1.84,
        "meaning_after": 1.52,
        # of the passage: cosine minus the highest one; share of the question's terms; BM25 divided by the highest one;
        # the reciprocal of its rank
        "passage_meaning": 0.54,
        "passage_words": 1.24,
        "passage_bm25": 0.87,
        "passage_rank": 1.43,
        # share of the question's terms in the unit; what the previous unit, the next unit and the headings add to it
        "words": 2.69,
        "words_before": 0.9,
        "words_after": -0.29,
        "words_under": 1.23,
        # share of the terms that match by prefix only; of names; of the asked noun; of bigrams
        "words_alike": 0.36,
        "names": -0.32,
        "noun": 0.86,
        "pairs": 1.37,
        # share of the last heading's terms that are in the question
        "heading": 0.68,
        # the question asks for this type, and the unit has a mention of it that is not in the question
        "date": 0.66,
        "number": 0.87,
        "person": 0.5,
        "name": 0.27,
        # the kind of the question, and what speaks for an answer to it
        "defines": 1.31,
        "begins": 0.92,
        "entry": 0.55,
        "steps": 1.1,
        "option": 0.89,
        "list": 0.36,
        "items": 1.33,
        "polarity": 0.74,
        "digits": 1.18,
        "default": 1.43,
        "author": 0.78,
        "front": 0.88,
        "opening": 0.71,
        # the kind of the unit
        "item": -0.58,
        "title": 0.65,
        # logarithm of the number of words; whether the unit ends with a question mark or a colon; few letters, or no
        # word that is not in the question; the beginning of a sentence is missing
        "length": 0.15,
        "open": -3.0,
        "noise": -3.0,
        "fragment": -1.0,
    }
)
"""The weight of each feature. All are fitted except the last three, which are set by hand."""
_EMBEDDING_FEATURES = ("meaning", "meaning_before", "meaning_after")
_LEXICAL_FEATURES = tuple(name for name in FEATURE_WEIGHTS if name not in _EMBEDDING_FEATURES)
_SECTION_NUMBER = re.compile(r"\A\W{0,3}\d[\d.]{0,12}[a-z]?\)?\s+")
"""Of a heading: `§ 242 Diebstahl`, `3.2 Installation`."""
_MIN_SQUARE = 0.01  # of the length of the sum of two opposite vectors
_FITTED_SPAN = 0.608
"""`ScoreCalibration.span` of the embedder that the weights were fitted with, the included one."""
_ANSWER_TYPE_FEATURES = {
    AnswerType.DATE: "date",
    AnswerType.NUMBER: "number",
    AnswerType.PERSON: "person",
    AnswerType.NAME: "name",
}


@dataclass(frozen=True)
class ScoredAnswerUnit(AnswerUnit):
    """A unit and its score."""

    score: float = 0.0
    """Comparable within one question only."""
    cosine: float = 0.0
    """Of the question and the unit."""


@dataclass(frozen=True, eq=False)
class AnswerCandidates:
    """The candidate units of the passages and their features."""

    units: list[AnswerUnit]
    """All units of the passages, in order."""
    kept: NDArray[np.int64]
    """Indices of the candidates, ascending: the best units by lexical features, and neighbours of the very best."""
    features: NDArray[np.float64]
    """(len(kept), len(FEATURE_WEIGHTS)), columns in the order of the weights."""
    cosines: NDArray[np.float64]
    """Of the question and each candidate: (len(kept),)."""


def rank_answer_units(
    question: str, hits: Sequence[Hit], searcher: Searcher
) -> tuple[list[ScoredAnswerUnit], list[AnswerUnit]]:
    """The candidate units with their scores, best first; and all units of the passages, in order."""
    candidates = build_candidates(question, hits, searcher)
    scores = candidates.features @ np.array(list(FEATURE_WEIGHTS.values()))
    units = [candidates.units[i] for i in candidates.kept.tolist()]
    scores = named_rows_first(units, scores, row_names(question), frozenset(extract_terms(question)))
    order = np.argsort(-scores, kind="stable").tolist()
    cosines = candidates.cosines
    ranked = [ScoredAnswerUnit(**vars(units[i]), score=float(scores[i]), cosine=float(cosines[i])) for i in order]
    return ranked, candidates.units


def cosine_scale(searcher: Searcher) -> tuple[float, float]:
    """(what is taken off a cosine, what the rest is multiplied by), so that `FEATURE_WEIGHTS` fit any embedder.

    Any two texts of some embedders have a cosine of 0.7 or more, and an answer differs by a few hundredths only.
    """
    calibration = searcher.calibration()
    if not calibration.is_discriminative:
        return 0.0, 1.0
    return calibration.unrelated, _FITTED_SPAN / calibration.span


def with_beginnings(question: str, hits: Sequence[Hit], searcher: Searcher) -> list[Hit]:
    """The best hits; for a question about a file or a definition, also the beginnings of their first documents.

    Author, date and version stand on the title page, and an introduction says what its subject is; both have few of
    the words of the question.
    """
    best = list(hits[:MAX_PASSAGES])
    wants_beginning = detect_question_kinds(question) & (QuestionKind.FILE | QuestionKind.WHO | QuestionKind.DEFINITION)
    if not best or not wants_beginning:
        return best
    known = {hit.chunk.id for hit in best}
    lowest = min((hit.scores["dense"] for hit in best if "dense" in hit.scores), default=None)
    for document_id in list(dict.fromkeys(hit.chunk.document_id for hit in best))[:MAX_BEGINNINGS]:
        chunk = searcher.first_chunk(document_id)
        if chunk is not None and chunk.id not in known:
            best.append(Hit(chunk, 0.0, {} if lowest is None else {"dense": lowest}))
    return best


def build_candidates(question: str, hits: Sequence[Hit], searcher: Searcher) -> AnswerCandidates:
    """The best units of the passages by lexical features, with all their features."""
    shared, scale = cosine_scale(searcher) if hits else (0.0, 1.0)
    scorer = _LexicalScorer(question, QuestionTerms(question, searcher), hits, searcher, scale)
    scores = scorer.features @ np.array([FEATURE_WEIGHTS[name] for name in _LEXICAL_FEATURES])
    kept = _select_embedded(scorer.units, scores)
    units = [scorer.units[i] for i in kept]
    # the columns follow FEATURE_WEIGHTS, which begins with the embedding features
    cosines, meanings = _embedding_features(question, units, kept, searcher, shared)
    return AnswerCandidates(scorer.units, kept, np.hstack([scale * meanings, scorer.features[kept]]), cosines)


def _select_embedded(units: Sequence[AnswerUnit], scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Indices of the units to embed, ascending: the best ones, and the neighbours of the very best."""
    order = np.argsort(-scores, kind="stable")[:MAX_EMBEDDED_UNITS]
    near = scores[order] >= scores.max(initial=-np.inf) - MAX_SCORE_GAP
    best = order[near | (np.arange(len(order)) < UNITS_WITH_NEIGHBOURS)].tolist()
    beside = (
        i + step
        for i in best[:UNITS_WITH_NEIGHBOURS]
        for step in (-1, 1)
        if 0 <= i + step < len(units) and units[i + step].hit_index == units[i].hit_index
    )
    return np.array(sorted({*best, *beside}), np.int64)


def _embedding_features(
    question: str, units: Sequence[AnswerUnit], positions: NDArray[np.int64], searcher: Searcher, shared: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cosine of the question with each unit, (n,); less `shared`: alone, with the previous, with the next unit, (n, 3).

    `shared` is the cosine of any two texts: without it, a pair of units would be nearer than both of them.
    """
    if not units:
        return np.zeros(0), np.zeros((0, len(_EMBEDDING_FEATURES)))
    rows = np.asarray(searcher.embed([unit.text for unit in units]), np.float64)
    query = np.asarray(searcher.embed_question(question), np.float64)
    cosines = rows @ query
    features = np.repeat((cosines - shared)[:, None], 3, axis=1)
    for i in range(1, len(units)):
        if units[i].hit_index == units[i - 1].hit_index and positions[i] == positions[i - 1] + 1:
            likeness = (rows[i] @ rows[i - 1] - shared) / (1 - shared)
            both = features[i, 0] + features[i - 1, 0]
            features[i, 1] = features[i - 1, 2] = both / math.sqrt(max(_MIN_SQUARE, 2 + 2 * likeness))
    return cosines, features


class _LexicalScorer:
    """Computes the features of answer units that need no embedding."""

    def __init__(
        self, question: str, terms: QuestionTerms, hits: Sequence[Hit], searcher: Searcher, scale: float
    ) -> None:
        self.units = extract_answer_units(hits, searcher.find_document)
        self._texts = [unit.text for unit in self.units]
        self._terms = [extract_terms(text) for text in self._texts]
        self._present = [frozenset(found) for found in self._terms]
        self._question, self._question_terms, self._answer_type = question, terms, detect_answer_type(question)
        self._headings = {unit.heading_context: extract_terms(unit.heading_context) for unit in self.units}
        self._heading_matches = {heading: self._heading_match(heading) for heading in self._headings}
        self._is_yes_no = bool(detect_question_kinds(question) & QuestionKind.YES_NO)
        names = (f"{hit.chunk.title} {file_words(hit.chunk.source)}" for hit in hits)
        self._kinds = _KindFeatures(question, frozenset(" ".join(names).lower().split()), self.units)
        self._passage_features = _passage_features(terms, hits, scale)
        features = map(self._unit_features, range(len(self.units)))
        rows = [[row.get(name, 0.0) for name in _LEXICAL_FEATURES] for row in features]
        self.features = np.array(rows).reshape(-1, len(_LEXICAL_FEATURES))

    def _unit_features(self, i: int) -> dict[str, float]:
        unit, text, present, terms = self.units[i], self._texts[i], self._present[i], self._question_terms
        words = terms.coverage(present)
        row = {
            **self._passage_features[unit.hit_index],
            "words": words,
            "words_before": self._coverage_with_neighbour(i, i - 1) - words,
            "words_after": self._coverage_with_neighbour(i, i + 1) - words,
            "words_under": terms.coverage(present.union(self._headings[unit.heading_context])) - words,
            "words_alike": terms.prefix_coverage(present),
            "names": terms.name_coverage(present),
            "noun": terms.noun_coverage(present),
            "pairs": terms.bigram_coverage(self._terms[i]),
            "heading": self._heading_matches[unit.heading_context],
            "item": float(unit.kind is UnitKind.ITEM),
            "title": float(_is_title(unit.kind, text)),
            "length": math.log(max(3, len(text.split()))),
            "open": float(text.endswith(("?", ":"))),
            "noise": float(_is_noise(unit.kind, text) or not self._adds_words(present)),
            "fragment": float(_is_fragment(unit.kind, text)),
            **self._kinds.features(unit, text),
        }
        if feature := _ANSWER_TYPE_FEATURES.get(self._answer_type):
            row[feature] = float(contains_answer_type(self._answer_type, text, self._question))
        return row

    def _adds_words(self, present: frozenset[str]) -> bool:
        """Whether a unit says more than the question; to a question for yes or no, it need not."""
        return self._is_yes_no or not present <= self._question_terms.terms

    def _heading_match(self, heading_context: str) -> float:
        """The share of the terms of the lowest heading, without its number, that are in the question."""
        heading = extract_terms(_SECTION_NUMBER.sub("", heading_context.rpartition(" > ")[2]))
        return len(self._question_terms.terms.intersection(heading)) / len(heading) if heading else 0.0

    def _coverage_with_neighbour(self, i: int, neighbour: int) -> float:
        """The coverage of a unit together with its neighbour, if that is in the same passage."""
        adjacent = 0 <= neighbour < len(self.units) and self.units[neighbour].hit_index == self.units[i].hit_index
        present = self._present[i] | self._present[neighbour] if adjacent else self._present[i]
        return self._question_terms.coverage(present)


_COPULA = (
    r"(?:\s*\([^)]{1,60}\)|,[^,]{1,60},)?(?:\s+(?:(?:is|are|was|were) (?:also |simply |basically |just )?(?:an?|the|one"
    r"|any|used|designed|intended|meant|called|that|what|how|where)|means?|refers? to|stands? for|provides?"
    r"|(?:can|may) be used|allows?|lets?"
    r"|denotes?|describes?|represents?|consists? of|enables?|contains?|implements?|specif(?:y|ies)"
    r"|ist|sind|est|sont|es|son)\b"
    r"|\s+[-–—]+\s)"
)
_INTRODUCED = (
    r"(?:called|named|known as|termed|referred to as|abbreviated(?: as)?|hei(?:ß|ss)t|appel[ée]e?s?)\s+(?:an? |the )?"
)
_OPTION = re.compile(r"(?:^|[\s(`'\"‘“])(?:--?[A-Za-z][\w-]*|\\[A-Za-z]+)|`[^`]+`")
_OPTION_NAME = re.compile(r"(?<![\w.-])--?[A-Za-z][\w-]{0,60}")
_OPTION_ENTRY_CHARS = 80
"""Characters at the beginning of an entry that hold the names of its option: `-s list, --sections=list`."""
_IMPERATIVE = re.compile(
    r"(?:^|[,:;] |\bto [a-z ,]{3,60}, )(?:(?:you )?(?:can|need to|must|should|may|have to) )?"
    r"(?:simply |just |first |then )?(?:use|run|type|set|add|call|enter|choose|select|click|press|open|create"
    r"|install|specify|issue|execute|edit|put|pass|remove|delete|write|start|stop|enable|disable|invoke"
    r"|configure|change|do|make|give|insert|supply)\b",
    re.IGNORECASE,
)
_POLARITY = re.compile(
    r"\b(?:not|no|never|cannot|none|neither|nor|always|only|must|yes|able|unable|impossible|possible|support(?:s|ed)?"
    r"|allow(?:s|ed)?|default|without|unless|fails?|ignored|nicht|kein\w*|immer|jamais|toujours|pas)\b|n['’]t\b",
    re.IGNORECASE,
)
_DIGITS = re.compile(rf"\d|\b(?:{OTHER_NUMBER_WORDS})\b", re.IGNORECASE)
_DEFAULT = re.compile(r"\bdefaults?\b|\bby default\b|\bunless\b|\bnormally\b|\bstandardm", re.IGNORECASE)
_AUTHOR = re.compile(
    r"\b(?:written|developed|created|designed|implemented|conceived|invented|founded|maintained|authored?) by\b"
    r"|\bauthors?\b|\bwrote\b|©|\bcopyright\b|@|\bby [A-Z]\w+ [A-Z]\w+",
    re.IGNORECASE,
)
_FRONT_CHARS = 800  # of a title page
OPENING_CHARS = 1500
"""Characters at the beginning of a document that may say what it is about."""
_OPENING_SENTENCES = 2
_LISTING = re.compile(r"(?:,[^,]{1,60}){2,} (?:and|or|und|et) |:\s*\S+, \S+")


class _KindFeatures:
    """The features that depend on the kind of the question."""

    def __init__(self, question: str, subjects: Collection[str], units: Sequence[AnswerUnit]) -> None:
        """`subjects`: words of the titles and file names of the passages, in lower case."""
        self._kinds = frozenset(detect_question_kinds(question))  # faster than flags for each unit
        self._term = asked_term(question) if QuestionKind.DEFINITION in self._kinds else ""
        asks_meaning = self._kinds & {QuestionKind.DEFINITION, QuestionKind.COMPARISON}
        self._options = frozenset(_OPTION_NAME.findall(question)) if asks_meaning else frozenset[str]()
        self._named = _find_named(question, units) if self._options else frozenset[str]()
        self._wants_default = _DEFAULT.search(question) is not None
        self._first_sentences = _find_first_sentences(self._term, units)
        words = self._term.split()
        # "tmux session": the documentation of tmux says "a session is"
        while len(words) > 1 and words[0] in subjects:
            words = words[1:]
        full, short = re.escape(self._term).replace(r"\ ", r"\s+"), re.escape(" ".join(words)).replace(r"\ ", r"\s+")
        term = full if full == short else f"(?:{full}|{short})"
        quoted = rf"[\"'“”‘’`*]{{0,3}}{term}s?[\"'“”‘’`*]{{0,3}}"
        self._defines = re.compile(rf"\b{_INTRODUCED}{quoted}|{quoted}{_COPULA}", re.IGNORECASE) if term else None
        self._begins = re.compile(rf"(?:an? |the |\W){{0,6}}{quoted}{_COPULA}", re.IGNORECASE) if term else None

    def features(self, unit: AnswerUnit, text: str) -> dict[str, float]:
        """The values for one unit, `text` is that of the unit."""
        kinds, text = self._kinds, text[:MAX_UNIT_CHARS]
        row: dict[str, float] = {}
        if self._defines is not None and self._begins is not None:
            row["defines"] = float(self._defines.search(text) is not None)
            row["begins"] = float(self._begins.match(text) is not None)
            row["entry"] = float(self._is_entry(unit))
            row["opening"] = float((unit.source, unit.start) in self._first_sentences)
        if self._options and self._is_option_entry(text) and (not self._named or unit.source in self._named):
            row["defines"] = row["begins"] = row["entry"] = 1.0
        if QuestionKind.HOW_TO in kinds:
            row["steps"] = float(unit.kind is UnitKind.CODE or _IMPERATIVE.search(unit.body) is not None)
            row["option"] = float(_OPTION.search(text) is not None)
        if QuestionKind.LIST in kinds or QuestionKind.COMPARISON in kinds:
            row["items"] = float(unit.kind is UnitKind.LIST)
        if QuestionKind.LIST in kinds:
            row["list"] = float(unit.kind is UnitKind.ITEM or _LISTING.search(text) is not None)
        if QuestionKind.YES_NO in kinds:
            row["polarity"] = float(_POLARITY.search(text) is not None)
        if QuestionKind.NUMBER in kinds:
            row["digits"] = float(_DIGITS.search(without_numbering(f"{unit.lead}\n{unit.body}")) is not None)
        if self._wants_default:
            row["default"] = float(_DEFAULT.search(text) is not None)
        if QuestionKind.FILE in kinds:
            row["front"] = float(unit.start < _FRONT_CHARS)
        if QuestionKind.WHO in kinds:
            row["author"] = float(_AUTHOR.search(text) is not None)
        return row

    def _is_option_entry(self, text: str) -> bool:
        """Whether a unit begins with an option of the question, or with its other names: it says what it does."""
        head = text[:_OPTION_ENTRY_CHARS].partition(": ")[0].lstrip("`*[")
        return head.startswith("-") and not self._options.isdisjoint(_OPTION_NAME.findall(head))

    def _is_entry(self, unit: AnswerUnit) -> bool:
        """Whether the unit begins the definition of the asked term: under its name, or a dash after it."""
        if not unit.is_first:
            return False
        names = (unit.lead.rstrip(": "), unit.heading_context.rpartition(" > ")[2])
        return any(_is_name(self._term, name) for name in names)


def _find_named(question: str, units: Sequence[AnswerUnit]) -> frozenset[str]:
    """The documents whose name is in the question as that of a program: `tar` for `tar.1.txt`."""
    asked = frozenset(extract_terms(question))
    names = ((source, extract_terms(PurePath(source).name.partition(".")[0])) for source in {u.source for u in units})
    return frozenset(source for source, words in names if words and asked.issuperset(words))


def _find_first_sentences(term: str, units: Sequence[AnswerUnit]) -> frozenset[tuple[str, int]]:
    """The first sentences of documents named after the term: they often say what it is without its name."""
    words = frozenset(re.findall(r"\w+", term))
    first: dict[str, list[int]] = {}
    for unit in sorted(units, key=lambda unit: unit.start):
        named = bool(words) and words <= frozenset(re.findall(r"\w+", file_words(unit.source).lower()))
        if (
            named
            and unit.kind is UnitKind.SENTENCE
            and unit.start < OPENING_CHARS
            and not _is_title(unit.kind, unit.text)
        ):
            first.setdefault(unit.source, []).append(unit.start)
    return frozenset((source, start) for source, starts in first.items() for start in starts[:_OPENING_SENTENCES])


def _is_name(term: str, name: str) -> bool:
    words = re.findall(r"[\w.+#-]+", name.lower())
    expected = re.findall(r"[\w.+#-]+", term)
    return bool(expected) and len(words) <= len(expected) + 2 and " ".join(expected) in " ".join(words)


def _is_noise(kind: UnitKind, text: str) -> bool:
    """Whether most of a unit is not words: rules, dots, symbols, links."""
    dense = "".join(text.split())
    return kind is not UnitKind.CODE and sum(map(str.isalnum, dense)) < 0.6 * len(dense)


def _is_title(kind: UnitKind, text: str) -> bool:
    """Whether a unit is a line of a few words that is no sentence: a title, a name, a running head."""
    return kind is UnitKind.SENTENCE and len(text.split()) <= 7 and text[-1] not in ".!:;"


def _is_fragment(kind: UnitKind, text: str) -> bool:
    """Whether a sentence begins in the middle."""
    return kind is UnitKind.SENTENCE and len(text) > 1 and text[0].islower() and text[1].islower()


def _passage_features(terms: QuestionTerms, hits: Sequence[Hit], scale: float) -> list[dict[str, float]]:
    """The features of each passage, cosines multiplied by `scale`; relative to the best one, 0 if there is none."""
    dense = [hit.scores.get("dense") for hit in hits]
    bm25 = [hit.scores.get("lexical", 0.0) for hit in hits]
    nearest = max((cosine for cosine in dense if cosine is not None), default=0.0)
    strongest = max(bm25, default=0.0)
    return [
        {
            "passage_meaning": scale * (cosine - nearest) if cosine is not None else 0.0,
            "passage_bm25": score / strongest if strongest > 0 else 0.0,
            "passage_words": terms.coverage(frozenset(extract_terms(f"{hit.chunk.header} {hit.chunk.text}"))),
            "passage_rank": 1 / rank,
        }
        for rank, (hit, cosine, score) in enumerate(zip(hits, dense, bm25, strict=True), start=1)
    ]


@lru_cache(maxsize=1024)
def file_words(source: str) -> str:
    """The words of a file name."""
    return re.sub(r"[\W_]+|(?<=[a-z])(?=[A-Z0-9])", " ", PurePath(source).stem)
