"""Drafts of questions about one document, by rules over its structure: terms, lists, rows, sentences.

Each rule yields questions of one kind, with the words of the document that an answer has to hold. English only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ragkit.answer.extractive.units import UnitKind
from ragkit.evaluate.document_outline import OPTION, DocumentOutline, defined_terms, option_names, prose_units
from ragkit.evaluate.phrases import OPEN_ENDS, SUBJECT, VAGUE, clip, is_subject, lowercase_first, without_article

Parts = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class QuestionDraft:
    """A question about one document."""

    text: str
    answers: Parts
    """The parts of the answer with the wordings of each; empty without an answer."""
    source: str
    kind: str
    term: str = ""
    """What the question is about, which must stay as it is; may be empty."""


def create_draft(outline: DocumentOutline, text: str, answers: Parts, kind: str, term: str) -> QuestionDraft:
    return QuestionDraft(f"{text}?", answers, outline.source, kind, term.lower())


_NUMBER = r"(?:[$€£] ?)?\d[\d.,:/]*(?:(?<=\d)| )(?: ?%)?"
_COUNT = r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|\d[\d.,]*)"
_QUANTITY = re.compile(
    r"\b(?:size|length|width|height|depth|number|limit|value|maximum|minimum|pressure|temperature|weight|speed|rate|ratio"
    r"|percentage|share|time|timeout|interval|duration|age|price|cost|fee|port|version|level|distance|period|capacity"
    r"|frequency|resolution|range|area|population|score|total|amount|default|count|quota|deadline|factor|probability)\b",
    re.IGNORECASE,
)
_TIME_UNIT = re.compile(r"(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?)\b")
_DEFINITION = re.compile(
    SUBJECT + r"(?:, [^,]{2,40},| \([^)]{2,40}\))? (?P<verb>is|are|means|refers to) "
    r"(?P<rest>(?:an?|the|any|one) [^.;:]{12,160})"
)
_EXPLAINS = re.compile(
    r"(?:An?|Any|One|Used|Specif|This|Is|Contains|Controls|Tells|Sets|If set|Refers|Means|Denotes|Determines)\b|Specif"
)
_SERVES = re.compile(
    SUBJECT + r" (?:is|are) (?:mainly |often |usually |typically )?(?:used|meant|intended|designed) (?:to|for|as) "
    r"(?P<rest>[^.;:,]{12,120})|(?P<other>(?:The )?[\w'’+/-]+(?: [\w'’+/-]+){0,3}?) (?:provides|lets|allows|enables"
    r"|describes|represents|implements|specifies|controls|determines|indicates|prevents|causes|stores|holds"
    r"|defines) (?P<does>[^.;:,]{12,120})"
)
_CALLED = re.compile(
    r"(?P<rest>\b(?:an?|the) [a-z][\w -]{8,60}?),? (?:which )?(?:is |are )?(?:called|known as|termed|referred to as) "
    r"(?:an? |the )?[\"“‘'`*]*(?P<subject>[A-Za-z][\w-]*(?: [a-z][\w-]*){0,2}?)[\"”’'`*]*[.,;:)]"
)


def definition_drafts(outline: DocumentOutline) -> Iterator[QuestionDraft]:
    """What is X? For "X is a ...", "... called X", "X is used to ...", and for terms with a definition."""
    for unit in prose_units(outline):
        match = _DEFINITION.match(unit.body)
        if match and is_subject(match["subject"], proper=match["subject"][:1].isupper()):
            answer = re.split(r",|\s(?:which|that|who|where|when|if)\s", match["rest"])[0].strip()
            subject, verb = lowercase_first(match["subject"]), "are" if match["verb"] == "are" else "is"
            vague = re.search(
                r"\b(?:only|same|first|following|one of|value of|result|example|any of)\b", f"{answer} {subject}"
            )
            if len(answer.split()) >= 3 and not vague:
                yield create_draft(
                    outline, f"What {verb} {subject}", ((clip(answer, 6),),), "definition", without_article(subject)
                )
        match = _SERVES.match(unit.body)
        subject = (match["subject"] or match["other"]) if match else ""
        if match and is_subject(subject) and not VAGUE.search(answer := clip(match["rest"] or match["does"], 5)):
            verb = "are" if subject.endswith("s") and match["rest"] else "is"
            yield create_draft(
                outline,
                f"What {verb} {lowercase_first(subject)} for",
                ((answer,),),
                "definition",
                without_article(subject),
            )
        match = _CALLED.search(unit.body)
        answer = ""
        if match and is_subject(match["subject"]) and not VAGUE.search(match["rest"]):
            answer = " ".join(clip(match["rest"], 9).split()[1:])
        if answer and match and not re.search(r"\b(?:is|are|was|were|has|be)\b", answer):
            yield create_draft(
                outline, f"What is meant by {match['subject']}", ((answer,),), "definition", match["subject"]
            )
    for term, unit in defined_terms(outline):
        name = clip(term, 5)
        if len(term.split()) > 5:
            continue
        if OPTION.search(term) or not re.fullmatch(r"[A-Za-z\\$_.][\w.$ ()/-]{2,40}", name):
            continue
        is_code = re.search(r"[_.$()\\]|[a-z][A-Z]|[A-Z]{2}", name) is not None
        if (outline.topic and outline.topic.lower() in name.lower().split()) or not (
            is_code or _EXPLAINS.match(unit.body)
        ):
            continue
        if is_subject(name, proper=True) and len(unit.body.split()) >= 6 and unit.body[0].isupper():
            question = f"What does {name} mean" if len(name.split()) == 1 else f"What is meant by {name}"
            yield create_draft(outline, question, ((clip(unit.body, 5),),), "definition", name)


_IS_NUMBER = re.compile(
    SUBJECT
    + r" (?P<verb>is|are|was|were) (?:set to |limited to |at most |at least |about |approximately |up to |only )?"
    rf"(?P<answer>{_NUMBER}(?: ?[A-Za-z]+)?)"
)
_HAS_NUMBER = re.compile(
    SUBJECT + r" (?P<verb>has|have|had|contains?|supports?|uses?|needs?|requires?|takes?|allows?|offers?|includes?"
    r"|consists? of|provides?|lasts?) (?:at most |at least |about |approximately |up to |only |exactly )?"
    rf"(?P<answer>{_COUNT}) (?P<noun>(?:[a-z-]+ ){{0,2}}[a-z]{{3,}}s)\b"
)
_DEFAULT = re.compile(
    r"\b(?:[Tt]he )?default(?: value)? (?:is|are) (?:to )?(?P<is>[^.,;()]{1,40})|\bdefaults? to (?P<to>[^.,;()]{1,40})"
    r"|\(default:? (?P<in>[^.,;()]{1,30})\)"
)
_DEFAULT_OF = re.compile(
    r"\b[Tt]he default (?!value|is)(?P<noun>[A-Za-z][\w -]{2,40}?) (?:is|are) (?P<answer>[^.,;()]{1,40})"
)
_NO_VALUES = frozenset(
    (
        "used", "specified", "ignored", "given", "enabled", "disabled", "that", "this", "shown", "centering",
        "attempted", "errors", "verbose", "adequate", "done", "empty",
    )
)  # fmt: skip


def _default_value(text: str) -> str:
    """A default that is one word, or a number with its unit; else ''."""
    whole = text.strip()
    answer = re.split(r" (?:and|if|when|which|unless|for|in|on|but) ", whole)[0].strip("‘’“”`\"' ")
    if re.fullmatch(r"\d[\d.,:]*(?: ?[A-Za-z%]+)|\d[\d.,:]+", answer):
        return answer
    return answer if re.fullmatch(r"[‘“`\"']?[\w./-]{4,}[’”`\"']?", whole) and answer not in _NO_VALUES else ""


def number_drafts(outline: DocumentOutline) -> Iterator[QuestionDraft]:
    """What is the size of X? How many Y has X? What is the default of X?"""
    for unit in prose_units(outline):
        match = _IS_NUMBER.match(unit.body)
        if match and _QUANTITY.search(match["subject"]) and is_subject(match["subject"]) and len(match["answer"]) > 2:
            text = f"What {match['verb']} {lowercase_first(match['subject'])}"
            words = match["answer"].strip(" .,:/").split()
            answer = " ".join(words[:-1] if words[-1].lower() in OPEN_ENDS else words)
            yield create_draft(outline, text, ((answer,),), "number", "")
        match = _HAS_NUMBER.match(unit.body)
        if match and is_subject(match["subject"]) and not VAGUE.search(match["noun"]):
            yield create_draft(outline, _how_many(match), ((f"{match['answer']} {match['noun']}",),), "number", "")
    for name, unit in defined_terms(outline):
        match = _DEFAULT.search(unit.body)
        term = (option_names(name) or (clip(name, 3),))[0]
        if match and (answer := _default_value(match[match.lastgroup or 0])) and re.search(r"\w{2}", term):
            yield create_draft(outline, f"What is the default of {term}", ((answer,),), "number", term)
    for unit in prose_units(outline):
        match = _DEFAULT_OF.search(unit.body)
        if match and (answer := _default_value(match["answer"])) and not VAGUE.search(match["noun"]):
            yield create_draft(outline, f"What is the default {match['noun']}", ((answer,),), "number", "")


def _how_many(match: re.Match[str]) -> str:
    plural = match["verb"] in (
        "have",
        "contain",
        "support",
        "use",
        "need",
        "require",
        "take",
        "allow",
        "offer",
        "include",
    )
    auxiliary = "did" if match["verb"] == "had" else "do" if plural or match["verb"] == "consist of" else "does"
    verb = {"has": "have", "had": "have", "consists of": "consist of"}.get(match["verb"], match["verb"].rstrip("s"))
    subject = lowercase_first(match["subject"])
    if _TIME_UNIT.match(match["noun"]) and verb in ("take", "last"):
        return f"How long {auxiliary} {subject} {verb}"
    return f"How many {match['noun']} {auxiliary} {subject} {verb}"


def cell_drafts(outline: DocumentOutline) -> Iterator[QuestionDraft]:
    """What is the capital of Andorra? From rows of `name: value` pairs."""
    for unit in outline.units:
        if unit.kind is not UnitKind.ROW:
            continue
        cells = [cell.partition(": ")[::2] for cell in unit.body.split("; ")]
        named = [(name.strip(), value.strip()) for name, value in cells if name and value]
        names = [value for _, value in named[:4] if re.fullmatch(r"[A-Z][\w'’.-]*(?: [\w'’.-]+){0,4}", value)]
        if len(named) < 2 or not names or any(name.lower() in ("next", "prev", "up", "home") for name, _ in named):
            continue
        entity = max(names, key=len)
        for name, value in named:
            text = _ask_for_cell(re.sub(r"[_-]", " ", name).lower(), value, entity)
            if text and value != entity and 2 <= len(value) <= 40:
                yield create_draft(outline, text, ((value,),), "number", entity)


def _ask_for_cell(attribute: str, value: str, entity: str) -> str:
    """The question for a cell of a table; '' if the name of its column is no word."""
    if not re.fullmatch(r"[a-z]{4,}(?: [a-z]+){0,2}", attribute):
        return ""
    is_date = re.fullmatch(r"\d{4}-\d\d-\d\d|\d{1,2} \w+ \d{4}", value) is not None
    if is_date:
        return (
            f"When was {entity} {attribute}"
            if attribute.endswith("ed")
            else f"What is the {attribute} date of {entity}"
        )
    if attribute.endswith(("ed", "ing", "ous", "able")):
        return ""
    noun = f"{attribute} code" if attribute.endswith("ic") else attribute
    return f"What is the {noun} of {entity}"
