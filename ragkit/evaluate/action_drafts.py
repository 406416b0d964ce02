"""Drafts of questions about what one does: how-tos."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragkit.answer.extractive.units import AnswerUnit, UnitKind
from ragkit.evaluate.document_outline import DocumentOutline, defined_terms, option_names
from ragkit.evaluate.phrases import VAGUE, VERBS, clip, code_token, to_first_person, whole_clause
from ragkit.evaluate.question_drafts import Parts, QuestionDraft, create_draft

_IMPERATIVE = re.compile(rf"(?P<verb>{VERBS})(?P<s>e?s)?\b(?P<rest> (?:[^.,;:()]|\.(?=\w)){{6,90}})", re.IGNORECASE)
_TO_DO = re.compile(
    rf"To (?P<do>(?:{VERBS}) [^,:;.()]{{6,80}})[,:] (?:(?:just |simply |first |then |you )?"
    r"(?:can |should |must |need to )?"
    r"(?:use|run|type|call|set|add|enter|specify|press|issue|execute|choose|select|invoke|put|give|do|pass|create) )"
    r"(?P<answer>[^\n]{2,200})"
)
_USE_TO = re.compile(
    rf"(?:You can |you can )?(?:[Uu]se|[Rr]un|[Tt]ype|[Pp]ress|[Ss]pecify|[Ee]nter) (?P<answer>[^.,;]{{2,60}}?) to "
    rf"(?P<do>(?:{VERBS}) [^.,;:()]{{6,80}})"
)
_LEAD_TO = re.compile(rf"(?:To|(?:[^,]{{3,60}}, )?[Yy]ou can) (?P<do>(?:{VERBS}) [^,:;()]{{6,80}})")


def how_to_drafts(outline: DocumentOutline) -> Iterator[QuestionDraft]:
    """How do I ...? For options, "to ..., use ...", "use ... to ..." and commands with an introduction."""
    for term, unit in defined_terms(outline):
        match = _IMPERATIVE.match(unit.body)
        names = option_names(term)
        if match and names:
            phrase = f"{match['verb'].lower()}{match['rest']}"
            yield from _how_to(outline, phrase, (names,), unit)
    for unit in outline.units:
        if unit.kind is UnitKind.CODE:
            match = _LEAD_TO.match(unit.lead)
            command = clip(unit.body.splitlines()[0], 4) if unit.body else ""
            if match and re.search(r"[a-z]{2}", command):
                yield from _how_to(outline, match["do"], ((command,),), unit)
        if unit.is_first and (task := _task(unit)):
            token = code_token(unit.text if unit.kind is UnitKind.CODE else unit.body)
            if token:
                yield create_draft(outline, task, ((token,),), "how-to", "")
        if unit.kind in (UnitKind.SENTENCE, UnitKind.ITEM, UnitKind.ENTRY):
            match = _TO_DO.match(unit.body) or _USE_TO.match(unit.body)
            token = code_token(match["answer"]) if match else ""
            if match and token:
                yield from _how_to(outline, match["do"], ((token,),), unit)


def _task(unit: AnswerUnit) -> str:
    """The question that the heading of a unit asks: "Restoring the dump" or "How do I restore a dump?"; '' if none."""
    heading = re.sub(r"^[\dA-Z]{1,2}(?:\.[\dA-Z]{1,3})*+\.?\s+", "", unit.heading_context.rpartition(" > ")[2]).strip(
        " ."
    )
    if question := re.search(r"(?:^|\s)(How (?:do|can|to) [^?]{8,90})\??$", heading):
        task = re.sub(r"^How to ", "How do I ", question[1])
        return "" if re.search(r"\bthat\b", task) or VAGUE.search(task) else task
    match = re.match(r"([A-Za-z]{3,})ing( [^?:]{4,60})$", heading)
    if match is None:
        return ""
    stem = match[1].lower()
    for verb in (stem, f"{stem}e", stem[:-1]):
        if re.fullmatch(VERBS, verb):
            rest = " ".join(word.lower() if word[1:].islower() else word for word in match[2].split())
            return "" if rest.startswith(("of ", "and ", "or ")) else f"How do I {verb} {to_first_person(rest)}"
    return ""


def _how_to(outline: DocumentOutline, phrase: str, answers: Parts, unit: AnswerUnit) -> Iterator[QuestionDraft]:
    phrase = to_first_person(whole_clause(phrase, 13))
    if len(phrase.split()) >= 3 and not re.match(
        r"(?:refer|use|work|do|let|go|see|indicate|wait)\b|\w+ (?:of|out|back) \w+$", phrase
    ):
        yield create_draft(outline, f"How do I {phrase}", answers, "how-to", "")
