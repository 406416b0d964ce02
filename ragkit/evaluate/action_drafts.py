"""Drafts of questions about what one does and may do: how-tos, yes or no."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ragkit.answer.extractive.units import AnswerUnit, UnitKind
from ragkit.evaluate.document_outline import DocumentOutline, defined_terms, option_names, prose_units
from ragkit.evaluate.phrases import (
    VAGUE,
    VERBS,
    clip,
    code_token,
    is_subject,
    lowercase_first,
    to_first_person,
    whole_clause,
)
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


_MODAL = re.compile(
    r"(?P<subject>You|(?:(?:The|An?|the|an?) )?[\w'’+/.-]+(?: [\w'’+/-]+){0,5}?) "
    r"(?P<modal>cannot|can not|can't|may not|must not|must never|must|will not|won't|will never|should not|should never"
    r"|does not|do not|doesn't|don't|is not|are not|isn't|aren't|can only|is always|are always|never) "
    r"(?P<rest>[^.,;:()]{4,90})"
)
_AUXILIARIES: Mapping[str, str] = {
    "cannot": "Can", "can not": "Can", "can't": "Can", "can only": "Can", "may not": "May", "must not": "May",
    "must never": "May", "must": "Must", "will not": "Will", "won't": "Will", "will never": "Will",
    "should not": "Should", "should never": "Should", "does not": "Does", "doesn't": "Does", "do not": "Do",
    "don't": "Do", "is not": "Is", "isn't": "Is", "are not": "Are", "aren't": "Are", "is always": "Is",
    "are always": "Are",
}  # fmt: skip


def yes_no_drafts(outline: DocumentOutline) -> Iterator[QuestionDraft]:
    """Can X ...? Does X ...? For sentences that say that it cannot, must, or does not."""
    for unit in prose_units(outline):
        match = _MODAL.match(unit.body)
        if match is None or (auxiliary := _AUXILIARIES.get(match["modal"])) is None:
            continue
        subject, rest = lowercase_first(match["subject"]), whole_clause(match["rest"], 12)
        if match["subject"] == "You":
            subject = "I"
        elif not is_subject(match["subject"]) or match["modal"] == "may not":  # "might not"
            continue
        if len(rest.split()) < 2 or (auxiliary in ("Is", "Are") and rest.split()[0].lower() in ("a", "the", "to")):
            continue
        rest = to_first_person(re.sub(r"^(?:be able to |necessarily |normally |usually |yet |always )", "", rest))
        gold = f"{match['modal']} {clip(match['rest'], 3)}"
        yield create_draft(outline, _to_active(f"{auxiliary} {subject} {rest}", subject), ((gold,),), "yes-no", "")


def _to_active(question: str, subject: str) -> str:
    """ "Can the file be removed" as a person asks it: "Can I remove the file"."""
    match = re.match(rf"(Can|May|Must|Should) {re.escape(subject)} be ([a-z]+?)(ed|en|t|n)( .*)?$", question)
    if match is None:
        return question
    stem = match[2]
    for verb in (stem, f"{stem}e", stem[:-1], f"{stem}{match[3][0]}"):
        if re.fullmatch(VERBS, verb):
            return f"{match[1]} I {verb} {subject}{match[4] or ''}"
    return question
