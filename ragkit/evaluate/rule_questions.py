"""Generates questions from the documents by rules with a seed, without labels or a language model.

The kinds are definitions, numbers, how-tos, facts (who, when), and questions without an answer: about a subject of the
documents, or about something else. `question_drafts` finds them in the structure of the documents.

The figures of generated questions are near those of people's questions, not equal: rules find their answers where a
sentence begins, and use more of its words.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, zip_longest

from ragkit.evaluate.action_drafts import how_to_drafts
from ragkit.evaluate.answer_matching import holds_answer
from ragkit.evaluate.document_outline import DocumentOutline
from ragkit.evaluate.fact_drafts import fact_drafts
from ragkit.evaluate.off_topic_questions import OFF_TOPIC_QUESTIONS, ON_TOPIC_QUESTIONS
from ragkit.evaluate.question_drafts import QuestionDraft, cell_drafts, definition_drafts, number_drafts
from ragkit.evaluate.questions import Question
from ragkit.records import Document

TermExtractor = Callable[[str], Sequence[str]]
"""Returns the terms of a text: stemmed words without stop words, as in the lexical index."""

DRAFT_RULES: Mapping[str, Callable[[DocumentOutline], Iterator[QuestionDraft]]] = {
    "definition": definition_drafts,
    "number": number_drafts,
    "cell": cell_drafts,
    "how-to": how_to_drafts,
    "fact": fact_drafts,
}
"""The rules by name: the kind of their questions, or `cell` for numbers and names in tables."""
OFF_TOPIC_SHARE = 0.2
"""The share of questions without an answer, half of them on a subject of the documents."""
KIND_SHARES: Mapping[str, float] = {"definition": 0.2, "number": 0.2, "cell": 0.05, "how-to": 0.3, "fact": 0.25}
"""The share of each rule among the questions with an answer; other kinds fill up for one that the documents lack."""
_NAMED = 0.5  # of the questions name the subject of the document, if they do not yet
_MAX_DRAFTS = 60  # of one kind from one document


def generate_questions(
    documents: Sequence[Document], terms: TermExtractor, count: int, seed: int = 0
) -> list[Question]:
    """Generate up to `count` questions, a fifth of them without an answer in the documents.

    The same documents and seed give the same questions. Files take turns, so that long files do not dominate.

    Args:
        documents: all indexed documents.
        terms: the analyzer of the lexical index.
        count: at least 1.
        seed: selects the questions.
    """
    rng = random.Random(seed)
    outlines = [DocumentOutline(document) for document in sorted(documents, key=lambda document: document.source)]
    known = Counter(term for outline in outlines for term in set(terms(outline.document.text)))
    off_topic = _off_topic_drafts(known, terms, round(count * OFF_TOPIC_SHARE / 2), rng)
    pools = {kind: _read_drafts(outlines, kind, terms, rng) for kind in DRAFT_RULES}
    on_topic = _on_topic_drafts(outlines, pools, terms, round(count * OFF_TOPIC_SHARE) - len(off_topic), rng)
    wanted = count - len(off_topic) - len(on_topic)
    topics = {outline.source: outline.topic for outline in outlines}
    chosen = [_name(draft, topics[draft.source], rng) for draft in _choose(pools, wanted, rng)]
    drafts = [*(draft for draft in chosen if not _gives_answer_away(draft)), *on_topic, *off_topic]
    return [
        Question(
            f"a{n:04}",
            d.text,
            d.answers[0] if d.answers else (),
            {d.source: 1} if d.answers else {},
            bool(d.answers),
            d.kind,
            d.answers[1:],
        )
        for n, d in enumerate({draft.text: draft for draft in drafts}.values(), start=1)
    ]


def generate_off_topic_questions(
    documents: Sequence[Document], terms: TermExtractor, count: int, seed: int = 0
) -> list[Question]:
    """Up to `count` everyday questions that the documents do not answer, to test abstention."""
    known = Counter(term for document in documents for term in set(terms(document.text)))
    drafts = _off_topic_drafts(known, terms, count, random.Random(seed))
    return [Question(f"o{n:04}", draft.text, answerable=False, kind=draft.kind) for n, draft in enumerate(drafts, 1)]


def _read_drafts(
    outlines: Sequence[DocumentOutline], kind: str, terms: TermExtractor, rng: random.Random
) -> list[QuestionDraft]:
    """The drafts of one kind in random order, one per document in turn; questions that two drafts ask are dropped."""
    rows = []
    for outline in outlines:
        drafts = [draft for draft in DRAFT_RULES[kind](outline) if _is_usable(draft, terms)]
        rng.shuffle(drafts)
        rows.append(drafts[:_MAX_DRAFTS])
    rng.shuffle(rows)
    turns = [draft for row in zip_longest(*rows) for draft in row if draft is not None]
    counts = Counter(_normalize(draft.text) for draft in turns)
    return [draft for draft in turns if counts[_normalize(draft.text)] == 1]


def _is_usable(draft: QuestionDraft, terms: TermExtractor) -> bool:
    """Whether a person might ask this: words that tell something, no markup, no broken words, an answer not given."""
    text = draft.text
    if not 3 <= len(text.split()) <= 22 or re.search(r"[|{}<>\[\]\n]|\.\.\.|\W{4}|\b(\w+) \1\b|\ufffd|\w- \w", text):
        return False
    if (
        not terms(text)
        or text.count("(") != text.count(")")
        or text.count('"') % 2
        or text.count("“") != text.count("”")
    ):
        return False
    return all(part and all(len(wording) >= 1 for wording in part) for part in draft.answers) and not (
        _gives_answer_away(draft)
    )


def _gives_answer_away(draft: QuestionDraft) -> bool:
    return bool(draft.answers) and any(holds_answer([part], draft.text) for part in draft.answers)


def _choose(pools: Mapping[str, Sequence[QuestionDraft]], count: int, rng: random.Random) -> list[QuestionDraft]:
    """Drafts of all kinds by their shares; other kinds fill up for one that has too few."""
    rest = {kind: list(pool) for kind, pool in pools.items()}
    chosen: list[QuestionDraft] = []
    for kind, share in KIND_SHARES.items():
        wanted = round(share * count)
        chosen += rest[kind][:wanted]
        del rest[kind][:wanted]
    others = (draft for row in zip_longest(*rest.values()) for draft in row if draft is not None)
    return [*chosen, *islice(others, max(0, count - len(chosen)))][:count]


def _name(draft: QuestionDraft, topic: str, rng: random.Random) -> QuestionDraft:
    """The draft, mostly with the name of its subject, as users ask."""
    is_unnamed = topic and topic.lower() not in draft.text.lower() and draft.kind != "fact"
    if is_unnamed and (rng.random() < _NAMED or len(draft.text.split()) <= 5):
        return replace(draft, text=f"{draft.text.rstrip('?')} in {topic}?")
    return draft


def _on_topic_drafts(
    outlines: Sequence[DocumentOutline],
    pools: Mapping[str, Sequence[QuestionDraft]],
    terms: TermExtractor,
    count: int,
    rng: random.Random,
) -> list[QuestionDraft]:
    """Questions about the subjects of the documents that these do not answer.

    Half of them ask about one subject what another document says of its own; the others ask what documents rarely say.
    """
    named = [outline for outline in outlines if outline.topic]
    if not named:
        return []
    topics = {outline.topic for outline in named}
    words = {outline.source: frozenset(terms(outline.document.text)) for outline in named}
    borrowed = [draft for kind in ("number", "how-to") for draft in pools[kind] if draft.term[:1] in ("-", "")]
    drafts: list[QuestionDraft] = []
    for draft in rng.sample(borrowed, len(borrowed)):
        outline = rng.choice(named)
        if len(drafts) >= count // 2:
            break
        if any(name and name.lower() in draft.text.lower() for name in topics):
            continue
        asked = set(terms(draft.text))
        if outline.source != draft.source and len(asked - words[outline.source]) >= max(1, len(asked) / 2):
            drafts.append(_unanswerable(f"{draft.text.rstrip('?')} in {outline.topic}?", "unanswerable-on"))
    templates = rng.sample(ON_TOPIC_QUESTIONS, len(ON_TOPIC_QUESTIONS))
    for text, telling in templates * (1 + count // len(templates)):
        outline = rng.choice(named)
        if len(drafts) == count:
            break
        if not words[outline.source].issuperset(terms(telling)):
            drafts.append(_unanswerable(text.format(outline.topic), "unanswerable-on"))
    return drafts


def _off_topic_drafts(known: Counter[str], terms: TermExtractor, count: int, rng: random.Random) -> list[QuestionDraft]:
    """Questions without a term that occurs in the documents."""
    candidates = [text for text in OFF_TOPIC_QUESTIONS if not any(known[term] for term in terms(text))]
    # large collections contain almost every word: accept questions with at least two unknown terms
    if len(candidates) < count:
        others = [text for text in OFF_TOPIC_QUESTIONS if text not in candidates]
        candidates += [text for text in others if sum(not known[term] for term in terms(text)) >= 2]
    return [_unanswerable(text, "unanswerable-off") for text in rng.sample(candidates, min(count, len(candidates)))]


def _unanswerable(text: str, kind: str) -> QuestionDraft:
    return QuestionDraft(text, (), "", kind)


def _normalize(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
