"""Questions made of the documents themselves, by rule and with a seed: no labels, no language model.

Four kinds. `heading`: what stands under a heading that no other file has. `definition`: "What is X?" for a sentence
that begins "X is a". `cloze`: a sentence with a number or name that stands nowhere else in the documents; the
question has some of its words, in another order, without the number, which is the answer. `generate_off_topic_questions`: a question
of everyday life of whose subject the documents have no word, for abstention.

Such questions share words with the documents more than people's do. They rank settings; they do not tell how well
people will be served.
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
"""A text -> what it speaks of: its words without endings and without stop words, as the search has them."""

OFF_TOPIC_SHARE = 0.2
_MAX_SENTENCES = 400
"""Sentences of a file that are looked at: enough for a fair share of questions, however long the file is."""
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
    """A question that could be asked, before it is chosen."""

    text: str
    answers: tuple[str, ...]
    source: str
    kind: str


def generate_questions(
    documents: Sequence[Document], terms: TermExtractor, count: int, seed: int = 0
) -> list[Question]:
    """Up to `count` questions, a fifth of them off-topic; fewer when the documents give no more.

    The same documents and seed give the same questions. Files take turns, so that a long one does not crowd out
    the others, and so do the three kinds that have an answer.

    Args:
        documents: all that are indexed.
        terms: the analyser that search uses.
        count: at least 1.
        seed: another one gives other questions.
    """
    chance = random.Random(seed)
    ordered = sorted(documents, key=lambda one: one.source)
    known = Counter(term for document in ordered for term in set(terms(document.text)))
    outside = _off_topic_drafts(known, terms, round(count * OFF_TOPIC_SHARE), chance)
    rare = {term for term, files in known.items() if files <= max(1, len(ordered) // 20)}
    titles = Counter(_normalize(text) for one in ordered for text in {head.text for head in one.headings})
    kinds = [
        list(_round_robin(ordered, lambda one: _heading_questions(one, titles, terms), chance)),
        list(_round_robin(ordered, lambda one: _definition_questions(one, rare, terms), chance)),
        list(_round_robin(ordered, lambda one: _cloze_questions(one, known, terms, chance), chance)),
    ]
    inside = _drop_duplicates([one for row in zip_longest(*kinds) for one in row if one is not None])
    chosen = [*inside[: count - len(outside)], *outside]
    return [
        Question(
            f"a{number:04}", one.text, one.answers, {one.source: 1} if one.source else {}, bool(one.source), one.kind
        )
        for number, one in enumerate(chosen, start=1)
    ]


def generate_off_topic_questions(
    documents: Sequence[Document], terms: TermExtractor, count: int, seed: int = 0
) -> list[Question]:
    """Up to `count` questions of everyday life that the documents do not answer, for abstention."""
    known = Counter(term for document in documents for term in set(terms(document.text)))
    made = _off_topic_drafts(known, terms, count, random.Random(seed))
    return [Question(f"o{number:04}", one.text, answerable=False, kind=one.kind) for number, one in enumerate(made, 1)]


def _round_robin(
    documents: Sequence[Document], make: Callable[[Document], Iterator[_QuestionDraft]], chance: random.Random
) -> Iterator[_QuestionDraft]:
    """What is made of each document, shuffled, one of each document in turn."""
    rows = []
    for document in documents:
        made = list(make(document))
        chance.shuffle(made)
        rows.append(made)
    chance.shuffle(rows)
    for row in zip_longest(*rows):
        yield from (one for one in row if one is not None)


def _drop_duplicates(made: Sequence[_QuestionDraft]) -> list[_QuestionDraft]:
    """Each question once: one that two files answer is no known item."""
    often = Counter(_normalize(one.text) for one in made)
    return [one for one in made if often[_normalize(one.text)] == 1]


def _heading_questions(document: Document, titles: Counter[str], terms: TermExtractor) -> Iterator[_QuestionDraft]:
    for text in {head.text: None for head in document.headings}:
        words = re.sub(r"^[\dIVX]+(?:\.\d+)*[.)]?\s+", "", text.strip().rstrip(":"))
        telling = [word for word in _normalize(words).split() if word not in _GENERIC_HEADINGS]
        if titles[_normalize(text)] > 1 or len(telling) < 2 or len(words) > 90 or len(set(terms(words))) < 2:
            continue
        question = words if words.endswith("?") else f"What do the documents say about {_lowercase_first(words)}?"
        yield _QuestionDraft(question, (), document.source, "heading")


def _definition_questions(document: Document, rare: Set[str], terms: TermExtractor) -> Iterator[_QuestionDraft]:
    for sentence in _sample_sentences(document):
        found = _DEFINITION.match(sentence)
        if found is None:
            continue
        subject = re.sub(r"^(?:The|An?)\s+", "", found["subject"])
        if {word.lower() for word in subject.split()} & _PRONOUNS or not any(term in rare for term in terms(subject)):
            continue
        verb = "are" if found["verb"] == "are" else "is"
        answer = re.split(r",|\s(?:which|that|who|where)\s", found["rest"])[0].strip()
        yield _QuestionDraft(
            f"What {verb} {_article(found['subject'])}{_lowercase_first(subject)}?",
            (answer,),
            document.source,
            "definition",
        )


def _cloze_questions(
    document: Document, known: Counter[str], terms: TermExtractor, chance: random.Random
) -> Iterator[_QuestionDraft]:
    for sentence in _sample_sentences(document):
        for found in _CLOZE_TARGET.finditer(sentence):
            held = found.group().strip(" .,:")
            own = list(terms(held))
            if not own or any(known[term] != 1 for term in own):
                continue
            telling = set(terms(sentence))
            pieces = (piece.strip('.,;:!?()[]"“”') for piece in sentence.replace(found.group(), " ").split())
            words = [piece for piece in pieces if telling.intersection(terms(piece))]
            if not 4 <= sum(word[0].isalpha() for word in words) <= 24:
                break
            yield _QuestionDraft(_cloze_text(words, held, chance), (held,), document.source, "cloze")
            break


def _cloze_text(words: Sequence[str], held: str, chance: random.Random) -> str:
    """Two thirds of the words, the second half before the first: the sentence itself is not in the question."""
    kept = sorted(chance.sample(range(len(words)), max(3, round(len(words) * 2 / 3))))
    half = len(kept) // 2
    order = [words[place] for place in (*kept[half:], *kept[:half])]
    opening = "Which number or date" if held[-1].isdigit() or held.endswith("%") else "Which name"
    return f"{opening}: {' '.join(order).lower()}?"


def _off_topic_drafts(
    known: Counter[str], terms: TermExtractor, count: int, chance: random.Random
) -> list[_QuestionDraft]:
    """Questions of which the documents have not one telling word."""
    strange = [text for text in OFF_TOPIC_QUESTIONS if not any(known[term] for term in terms(text))]
    # in a large collection every word occurs somewhere: then those of which the rarest words are missing
    if len(strange) < count:
        near = [
            text
            for text in OFF_TOPIC_QUESTIONS
            if text not in strange and sum(not known[term] for term in terms(text)) >= 2
        ]
        strange += near
    return [_QuestionDraft(text, (), "", "off_topic") for text in chance.sample(strange, min(count, len(strange)))]


def _sample_sentences(document: Document) -> Iterator[str]:
    spans = sentence_spans(document.text)
    step = max(1, len(spans) // _MAX_SENTENCES)
    for start, end in spans[::step]:
        sentence = " ".join(document.text[start:end].split())
        if 40 <= len(sentence) <= 300 and document.language == "":
            yield sentence


def _article(subject: str) -> str:
    found = re.match(r"(?:The|An?)\s+", subject)
    return found.group().lower() if found else ""


def _lowercase_first(text: str) -> str:
    """Without the capital of a beginning; names and abbreviations keep theirs."""
    first, _, rest = text.partition(" ")
    is_name = not first[1:].islower() or any(word[:1].isupper() for word in rest.split())
    return text if is_name else text[:1].lower() + text[1:]


def _normalize(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
