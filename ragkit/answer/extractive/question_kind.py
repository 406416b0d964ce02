"""What a question asks for: a definition, a number, the steps of a task, yes or no, a list, a comparison, or a file.

Rules over the words of the question; several kinds are possible. English, with the question words of German and
French. No model, no index.
"""

from __future__ import annotations

import re
from enum import Flag, auto

MAX_QUESTION_CHARS = 300
"""Characters of a question that are looked at; a longer text is a task rather than a question."""


class QuestionKind(Flag):
    """The kinds of a question."""

    NONE = 0
    DEFINITION = auto()
    """What is X? What does X mean?"""
    NUMBER = auto()
    """How many, how long, which port, what is the default of."""
    HOW_TO = auto()
    """How do I ...? Which command does ...?"""
    YES_NO = auto()
    """Is, does, can, should ...?"""
    LIST = auto()
    """Which Xs are there? What are the Xs?"""
    COMPARISON = auto()
    """What is the difference between X and Y?"""
    WHO = auto()
    WHEN = auto()
    WHERE = auto()
    FILE = auto()
    """What stands on a title page: author, date, version."""


_AUXILIARIES = (
    "is|are|was|were|do|does|did|can|could|may|might|must|should|shall|will|would|has|have|had|am|isn't|aren't|doesn't"
    "|don't|can't|won't"
)
_GERMAN_WHAT = (
    r"was (?:ist|sind|war|waren|wird|werden|wurden?|hat|haben|hatten?|bedeutet|hei(?:ß|ss)t|kostet|kosten|macht|machen"
    r"|muss|müssen|kann|können|darf|dürfen|soll|sollen|passiert|geschieht|gilt|steht|für|bei|im|in der|in dem)\b"
)
"""What is English for "was" in other places begins a German question for a thing."""
_COUNTED = (
    "port|ports|limit|size|number|code|timeout|value|maximum|minimum|ratio|rate|percent|percentage|length|width|height"
    "|depth|weight|temperature|pressure|speed|price|cost|fee|range|interval|duration|version|level|count|delay|status"
)
_LISTED = (
    "types|kinds|sorts|options|commands|parts|steps|reasons|ways|methods|forms|modes|levels|fields|values|members"
    "|functions|features|formats|classes|categories|components|phases|stages|requirements|conditions|advantages"
    "|disadvantages|files|parameters|arguments|states|formats|platforms|languages|tools|variables|attributes|columns"
    "|limits|limitations|operators|shortcuts|things|elements|rules|tags|roles|units|countries|symptoms|ingredients"
)
_RULES: tuple[tuple[QuestionKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (
            QuestionKind.COMPARISON,
            r"\bdifferences?\b|\bdiffers?\b|\bcompared? (?:to|with)\b|\bversus\b|\bvs\b|\bbetter than\b"
            r"|\bunterschied\b|\bunterscheide[nt]\b|\bdiff[ée]rences?\b",
        ),
        (
            QuestionKind.HOW_TO,
            r"^(?:and |so |but )?how (?:do|can|could|should|would|may|must|to)\b|\bhow (?:do|can) (?:i|you|we|one)\b"
            r"|\b(?:which|what) (?:\w+ ){0,2}(?:command|option|switch|flag|key|setting|directive|function|menu"
            r"|button|tool)\b|\bways? to\b|\bwhat (?:do|should|must) (?:i|you|we) (?:do|type|run"
            r"|use|write|set)\b|^wie (?:kann|muss|l(?:ä|ae|ö|oe))"
            r"|^comment\b|\bhow (?:is|are) .* (?:done|made|set|changed|installed|removed|created|enabled|disabled)\b",
        ),
        (
            QuestionKind.NUMBER,
            r"\bhow (?:many|much|long|far|fast|old|large|big|small|high|tall|deep|wide|thick|heavy|often|hot|cold)\b"
            rf"|\b(?:what|which|at what|by what)\b[^,]{{0,60}}\b(?:{_COUNTED})\b|\bdefaults? (?:to|value)\b"
            r"|\bwie (?:viele?|lange?|oft|gro(?:ß|ss)|hoch|schnell|teuer)\b|\bcombien\b|\bquelle (?:taille|dur)",
        ),
        (
            QuestionKind.LIST,
            rf"\b(?:what|which)\b[^,]{{0,40}}\b(?:{_LISTED})\b|\bwhat are the\b|\b(?:list|name|enumerate) (?:all|the)\b"
            r"|\b(?:which|what) (?:two|three|four|five|six|seven|eight|nine|ten) \w+"
            r"|\b(?:which|what) (?:\w+ ){0,2}[a-z]{2,}[^s\W]s (?:are|do|does|have|has|can|must|should|were)\b"
            r"|^welche\b|^quels\b",
        ),
        (
            QuestionKind.YES_NO,
            rf"^(?:and |so |but |then )?(?!{_GERMAN_WHAT})(?:{_AUXILIARIES})\b"
            rf"|,\s*(?:{_AUXILIARIES}) (?:i|it|the|there)\b"
            r"|^(?:und |aber )?(?:darf|dürfen|muss|muß|müssen|kann|können|soll|sollen|ist|sind|hat|haben|wird|werden"
            r"|gibt es|gilt|gelten|brauche?)\b",
        ),
        (
            QuestionKind.DEFINITION,
            r"^(?:and )?what(?:'s| is| are| was| were| does| do)\b(?! the (?:difference|default|maximum|minimum))"
            r"|\b(?:meaning|definition|purpose) of\b|\bstands? for\b|^define\b|^was (?:ist|sind|bedeutet)\b"
            r"|^qu'est-ce\b|^c'est quoi\b|^[¿¡]?qué (?:es|son|significa)\b|^explain\b",
        ),
        (QuestionKind.WHO, r"\bwho\b|\bwhom\b|\bwhose\b|\bauthors?\b|\bwritten by\b|^wer\b|^von wem\b|^qui\b"),
        (
            QuestionKind.WHEN,
            r"^(?:and )?when\b|\bwhen (?:was|were|did|is|are|does|do|will)\b|\b(?:what|which) (?:year|date|day|month)\b"
            r"|\b(?:what|which) time\b|^wann\b|^quand\b",
        ),
        (
            QuestionKind.FILE,
            r"\bauthors?\b|\bwho (?:wrote|created|maintains|made|translated|holds)\b|\bwritten by\b"
            r"|\bversion\b|\bedition\b|\breleased?\b|\bpublish(?:ed|er)\b|\bcopyright\b|\bwhen was\b"
            r"|\b(?:last )?(?:modified|updated|ratified)\b"
            r"|\b(?:verfasser|autor|geschrieben|übersetzt|auteurs?|traduit)\b|\blicen[cs]e\b",
        ),
        (QuestionKind.WHERE, r"^(?:and )?where\b|\b(?:what|which) (?:folder|directory|file|path|place)\b|^wo\b|^où\b"),
    )
)
_ASKED_TERM = re.compile(
    r"^(?:and )?[¿¡]?(?:(?:what(?:'s| is| are| was| were| does| do| did)|explain|define|was (?:ist|sind|bedeutet)"
    r"|qu'est-ce que(?: c'est que)?|c'est quoi|qué (?:es|son|significa)) |qu'est-ce qu')"
    r"(?:(?:a|an|the|meant by|ein|eine|der|die|das|un|une|le|la|les|una|el|los|las) |l')?"
    r"(?:(?:meaning|definition|purpose) of (?:the )?|term |type "
    r"|option |word )?(.+?)(?: (?:mean|stand for|do|for|in|of|on|used for|good for|called|under|when|from"
    r"|with|within)\b.*)?[?.!\s]*$",
    re.IGNORECASE,
)


_SIDES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:between|zwischen|entre) (.+?) (?:and|und|et) (.+?)[?.]*$",
        r"^how (?:does|do|is|are) (.+?) (?:differ|different|compared?) (?:from|to|with) (.+?)[?.]*$",
        r"^how (?:does|do) (.+?) and (.+?) (?:differ|compare)\b",
        r"\b(?:is|are) (.+?) (?:better|faster|slower|larger|smaller|different|older|newer) (?:than|from) (.+?)[?.]*$",
        r"(.+?) (?:vs\.?|versus) (.+?)[?.]*$",
    )
)


def _normalize(question: str) -> str:
    """The beginning of a question, with one space between words and straight apostrophes."""
    return " ".join(question.replace("’", "'").split())[:MAX_QUESTION_CHARS]


def compared_sides(question: str) -> tuple[str, str] | None:
    """The two things that a question compares; None if they are not named."""
    for pattern in _SIDES:
        if match := pattern.search(_normalize(question)):
            return match[1], match[2]
    return None


_PLAIN_DEFINITION = re.compile(r"what (?:is|are) (?!the\b)(?:an? )?\S+(?: \S+){0,2}\s*\?*$")
"""A name of up to three words is asked for: "What are hook files?" asks what they are, not which."""


def detect_question_kinds(question: str) -> QuestionKind:
    """All kinds whose rules match; `NONE` if there is none."""
    text = _normalize(question).lower()
    kinds = QuestionKind.NONE
    for kind, pattern in _RULES:
        if pattern.search(text):
            kinds |= kind
    if _PLAIN_DEFINITION.match(text):
        kinds &= ~QuestionKind.LIST
    if kinds & (QuestionKind.COMPARISON | QuestionKind.NUMBER | QuestionKind.LIST | QuestionKind.WHEN):
        kinds &= ~QuestionKind.DEFINITION  # "What is the limit of ..." asks for a number
    return kinds


def asked_term(question: str) -> str:
    """The term that a question asks a definition of, in lower case; '' without one."""
    match = _ASKED_TERM.match(_normalize(question))
    return match[1].strip(" \"'“”‘’`").lower() if match else ""


_QUESTION_WORDS = "who|whom|whose|what|which|how|when|where|why|is|are|do|does|can"
_SECOND_QUESTION = re.compile(
    rf"[,;?]?\s+and\s+(?=(?:in |of |for |at |on )?(?:{_QUESTION_WORDS})\s+\S+\s+\S)", re.IGNORECASE
)
_VERBS = (
    "use|have|need|support|run|require|take|cost|mean|default|listen|offer|allow|accept|provide|return|store|keep|stand"
)
_TWO_SUBJECTS = re.compile(
    r"^(?P<head>.*\b(?:do|does|did|of|for|wrote|are|is)\s+)(?P<first>[^,?]{2,50}?)\s+and\s+(?:of |for )?"
    rf"(?P<second>[^,?]{{2,50}}?)(?P<tail>(?:\s+(?:{_VERBS})\b[^?]*)?\??)$",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"\b(?:it|they|them|he|she)\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=\s)(?:[A-Z][\w.+#-]*|[a-z]+\d[\w.-]*)(?:\s+(?:[A-Z][\w.+#-]*|\d[\w.]*))*")


def split_question(question: str) -> list[str]:
    """The parts of a question that are asked one after the other; the question itself if it has one.

    "Who wrote A, and when was B founded?" has two parts, and so has "Which ports do A and B use?" with two names.
    """
    text = " ".join(question.split())
    kinds = detect_question_kinds(text)
    if not text or len(text) > MAX_QUESTION_CHARS or kinds & QuestionKind.COMPARISON:
        return [text]
    parts = [part.rstrip("?,; ") for part in _SECOND_QUESTION.split(text, maxsplit=2) if part.strip()]
    starts_with_question = re.match(rf"(?:in |of |for |at |on )?(?:{_QUESTION_WORDS})\b", parts[0], re.IGNORECASE)
    if len(parts) > 1 and starts_with_question and all(len(part.split()) >= 3 for part in parts):
        return _complete_parts(parts) or [text]
    match = None if kinds & (QuestionKind.HOW_TO | QuestionKind.YES_NO) else _TWO_SUBJECTS.match(text)
    if match and _is_name_phrase(match["first"]) and _is_name_phrase(match["second"]):
        return [f"{match['head']}{match[side]}{match['tail'].rstrip('?')}?" for side in ("first", "second")]
    return [text]


def _complete_parts(parts: list[str]) -> list[str]:
    """The parts as questions, with the name of the first in place of a pronoun; empty if it has none."""
    name = _NAME.search(parts[0])
    if name is None and any(_PRONOUN.search(part) for part in parts[1:]):
        return []
    completed = [parts[0], *(_PRONOUN.sub(name[0], part) if name else part for part in parts[1:])]
    return [f"{part[0].upper()}{part[1:]}?" for part in completed]


def _is_name_phrase(text: str) -> bool:
    """Whether a noun phrase names one thing: an article or a name in it."""
    words = text.split()
    return len(words) <= 6 and (
        words[0].lower() in ("the", "a", "an") or any(word[0].isupper() or not word.isalpha() for word in words)
    )
