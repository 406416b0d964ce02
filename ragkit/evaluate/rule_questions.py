"""Generates questions from the documents by rules with a seed, without labels or a language model.

Four kinds. `heading`: the section under a heading that no other file has. `definition`: "What is X?" for a sentence
that begins "X is a". `cloze`: a sentence with a number or name that occurs nowhere else; the question has some of its
words, reordered, and the number or name is the answer. `off_topic`: an everyday question with terms that do not occur
in the documents, to test abstention.

Generated questions share more words with the documents than questions of users do. They can rank settings, but they
do not predict the quality for users.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import zip_longest

from ragkit.evaluate.off_topic_questions import OFF_TOPIC_QUESTIONS
from ragkit.evaluate.questions import Question
from ragkit.records import Document
from ragkit.split.sentence_segmentation import sentence_spans

TermExtractor = Callable[[str], Sequence[str]]
"""Returns the terms of a text: stemmed words without stop words, as in the lexical index."""

OFF_TOPIC_SHARE = 0.2
_MAX_SENTENCES = 400
"""Sentences per file that are considered, which limits the time for long files."""
_GENERIC_HEADINGS = frozenset(
    (
        "introduction", "overview", "summary", "contents", "index", "references", "notes", "see", "also", "example",
        "examples", "background", "conclusion", "appendix", "abstract", "usage", "description", "details", "general",
        "other", "more", "about", "history", "related", "links", "faq", "table", "parameters", "returns", "raises",
        "options", "arguments",
    )
)  # fmt: skip
_DEFINITION = re.compile(
    r"(?P<subject>(?:(?:The|An?)\s+)?[A-Z]?[\w'’-]+(?:\s+[\w'’-]+){0,4}?)\s+"
    r"(?P<verb>is|are|means|refers\s+to)\s+(?P<rest>(?:an?|the|any|one)\s+[^.;:\n]{12,160})"
)
_PRONOUNS = frozenset(
    (
        "it", "this", "that", "these", "those", "there", "he", "she", "they", "we", "you", "i", "here", "what", "which",
        "who", "one", "each", "all", "some", "such", "then",
    )
)  # fmt: skip
_CLOZE_TARGET = re.compile(
    r"(?<![\w.,-])(?:[$€£]\s?)?\d[\d.,:]*\d(?:\s?%)?(?![\w-])|(?<=[a-z,] )[A-Z][a-z]{3,}(?![\w-])"
)


@dataclass(frozen=True, slots=True)
class _QuestionDraft:
    """A candidate question."""

    text: str
    answers: tuple[str, ...]
    source: str
    kind: str


def generate_questions(
    documents: Sequence[Document], terms: TermExtractor, count: int, seed: int = 0
) -> list[Question]:
    """Generate up to `count` questions, a fifth of them off-topic.

    The same documents and seed give the same questions. Files take turns, so that long files do not dominate, and so
    do the three kinds of answerable questions.

    Args:
        documents: all indexed documents.
        terms: the analyzer of the lexical index.
        count: at least 1.
        seed: selects the questions.
    """
    rng = random.Random(seed)
    ordered = sorted(documents, key=lambda document: document.source)
    known = Counter(term for document in ordered for term in set(terms(document.text)))
    off_topic = _off_topic_drafts(known, terms, round(count * OFF_TOPIC_SHARE), rng)
    rare = {term for term, files in known.items() if files <= max(1, len(ordered) // 20)}
    titles = Counter(_normalize(text) for doc in ordered for text in _section_titles(doc))
    kinds = [
        list(_round_robin(ordered, lambda doc: _heading_questions(doc, titles, terms), rng)),
        list(_round_robin(ordered, lambda doc: _definition_questions(doc, rare, terms), rng)),
        list(_round_robin(ordered, lambda doc: _cloze_questions(doc, known, terms, rng), rng)),
    ]
    answerable = _drop_duplicates([draft for row in zip_longest(*kinds) for draft in row if draft is not None])
    drafts = [*answerable[: count - len(off_topic)], *off_topic]
    return [
        Question(f"a{n:04}", d.text, d.answers, {d.source: 1} if d.source else {}, bool(d.source), d.kind)
        for n, d in enumerate(drafts, start=1)
    ]


def generate_off_topic_questions(
    documents: Sequence[Document], terms: TermExtractor, count: int, seed: int = 0
) -> list[Question]:
    """Up to `count` everyday questions that the documents do not answer, to test abstention."""
    known = Counter(term for document in documents for term in set(terms(document.text)))
    drafts = _off_topic_drafts(known, terms, count, random.Random(seed))
    return [Question(f"o{n:04}", draft.text, answerable=False, kind=draft.kind) for n, draft in enumerate(drafts, 1)]


def _round_robin(
    documents: Sequence[Document], generate: Callable[[Document], Iterator[_QuestionDraft]], rng: random.Random
) -> Iterator[_QuestionDraft]:
    """The drafts of each document in random order, one per document in turn."""
    rows = []
    for document in documents:
        drafts = list(generate(document))
        rng.shuffle(drafts)
        rows.append(drafts)
    rng.shuffle(rows)
    for row in zip_longest(*rows):
        yield from (draft for draft in row if draft is not None)


def _drop_duplicates(drafts: Sequence[_QuestionDraft]) -> list[_QuestionDraft]:
    """Drop questions that occur more than once, because several files answer them."""
    counts = Counter(_normalize(draft.text) for draft in drafts)
    return [draft for draft in drafts if counts[_normalize(draft.text)] == 1]


def _section_titles(document: Document) -> list[str]:
    """The distinct headings of a document, in order, without column names."""
    return list({heading.text: None for heading in document.headings if heading.end is None})


def _heading_questions(document: Document, titles: Counter[str], terms: TermExtractor) -> Iterator[_QuestionDraft]:
    for text in _section_titles(document):
        words = re.sub(r"^[\dIVX]+(?:\.\d+)*[.)]?\s+", "", text.strip().rstrip(":"))
        specific = [word for word in _normalize(words).split() if word not in _GENERIC_HEADINGS]
        if titles[_normalize(text)] > 1 or len(specific) < 2 or len(words) > 90 or len(set(terms(words))) < 2:
            continue
        question = words if words.endswith("?") else f"What do the documents say about {_lowercase_first(words)}?"
        yield _QuestionDraft(question, (), document.source, "heading")


def _definition_questions(document: Document, rare: Set[str], terms: TermExtractor) -> Iterator[_QuestionDraft]:
    for sentence in _sample_sentences(document):
        match = _DEFINITION.match(sentence)
        if match is None:
            continue
        subject = re.sub(r"^(?:The|An?)\s+", "", match["subject"])
        if {word.lower() for word in subject.split()} & _PRONOUNS or not any(term in rare for term in terms(subject)):
            continue
        verb = "are" if match["verb"] == "are" else "is"
        answer = re.split(r",|\s(?:which|that|who|where)\s", match["rest"])[0].strip()
        question = f"What {verb} {_article(match['subject'])}{_lowercase_first(subject)}?"
        yield _QuestionDraft(question, (answer,), document.source, "definition")


def _cloze_questions(
    document: Document, known: Counter[str], terms: TermExtractor, rng: random.Random
) -> Iterator[_QuestionDraft]:
    for sentence in _sample_sentences(document):
        for match in _CLOZE_TARGET.finditer(sentence):
            answer = match.group().strip(" .,:")
            answer_terms = list(terms(answer))
            if not answer_terms or any(known[term] != 1 for term in answer_terms):
                continue
            sentence_terms = set(terms(sentence))
            pieces = (piece.strip('.,;:!?()[]"“”') for piece in sentence.replace(match.group(), " ").split())
            words = [piece for piece in pieces if sentence_terms.intersection(terms(piece))]
            if not 4 <= sum(word[0].isalpha() for word in words) <= 24:
                break
            yield _QuestionDraft(_cloze_text(words, answer, rng), (answer,), document.source, "cloze")
            break


def _cloze_text(words: Sequence[str], answer: str, rng: random.Random) -> str:
    """Two thirds of the words, the second half first, so that the question does not quote the sentence."""
    kept = sorted(rng.sample(range(len(words)), max(3, round(len(words) * 2 / 3))))
    half = len(kept) // 2
    reordered = [words[i] for i in (*kept[half:], *kept[:half])]
    opening = "Which number or date" if answer[-1].isdigit() or answer.endswith("%") else "Which name"
    return f"{opening}: {' '.join(reordered).lower()}?"


def _off_topic_drafts(
    known: Counter[str], terms: TermExtractor, count: int, rng: random.Random
) -> list[_QuestionDraft]:
    """Questions without a term that occurs in the documents."""
    candidates = [text for text in OFF_TOPIC_QUESTIONS if not any(known[term] for term in terms(text))]
    # large collections contain almost every word: accept questions with at least two unknown terms
    if len(candidates) < count:
        others = [text for text in OFF_TOPIC_QUESTIONS if text not in candidates]
        candidates += [text for text in others if sum(not known[term] for term in terms(text)) >= 2]
    return [_QuestionDraft(text, (), "", "off_topic") for text in rng.sample(candidates, min(count, len(candidates)))]


def _sample_sentences(document: Document) -> Iterator[str]:
    spans = sentence_spans(document.text)
    step = max(1, len(spans) // _MAX_SENTENCES)
    for start, end in spans[::step]:
        sentence = " ".join(document.text[start:end].split())
        if 40 <= len(sentence) <= 300 and document.language == "":
            yield sentence


def _article(subject: str) -> str:
    match = re.match(r"(?:The|An?)\s+", subject)
    return match.group().lower() if match else ""


def _lowercase_first(text: str) -> str:
    """Lowercase the first letter, except for names and abbreviations."""
    first, _, rest = text.partition(" ")
    is_name = not first[1:].islower() or any(word[:1].isupper() for word in rest.split())
    return text if is_name else text[:1].lower() + text[1:]


def _normalize(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
