"""Completes a question that refers to the previous one: "And how do I undo that?", "And Bullseye?".

Rules over the words of both questions; no model. What they cannot decide, the caller does by searching.
"""

from __future__ import annotations

import re
from enum import Enum

from ragkit.answer.extractive.question_kind import MAX_QUESTION_CHARS
from ragkit.lexical.analyzer import extract_terms

MAX_TOPIC_WORDS = 8
"""Words of the previous question that a query carries over, at most."""
_MIN_FULL_WORDS = 5
"""Content words of a question that most often names what its pronouns stand for."""


class Reference(Enum):
    """Whether a question needs the one before it."""

    NONE = "none"
    """It is complete."""
    POSSIBLE = "possible"
    """It asks what one word means, begins with "and", or is long."""
    LIKELY = "likely"
    """It says nearly nothing."""
    PRONOUN = "pronoun"
    """It has a word that may stand for something before it."""
    CERTAIN = "certain"
    """It is no question of its own: "When?", "And Bullseye?"."""


_ELLIPSIS = re.compile(
    r"^[¿¡]?(?:and|or|but|und|aber|oder|et|mais|y(?! a)|e|pero|what about|how about|and what about|and how about"
    r"|wie steht es mit|was ist mit)\s+"
    r"(?:(?:what|how) about |that of |those of |what of |of |for |with |was macht |was ist mit )?"
    r"(?P<rest>[^?]{1,48}?)\s*\??$",
    re.IGNORECASE,
)
_QUESTION_START = re.compile(
    r"(?:who|whom|whose|what|which|how|when|where|why|is|are|was|were|do|does|did|can|could|may|must|should|will|would|has"
    r"|have|in|on|at|by|wer|wen|wem|wie|wo|wann|warum|was|welche[rsnm]?|ist|sind|gilt|gibt|kann|darf|muss|hat|qui|que|quand"
    r"|où|d'où|comment|combien|pourquoi|quel(?:le)?s?|est-ce|quién|qué|cuándo|dónde|cómo|cuánt[oa]s?|cuál)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"\b(?:its|it|they|them|theirs?|he|she|him|his|her|this|these|those|ones|(?:this|that|which|another) one"
    r"|the(?: \w+)? one|one of them|the former|the latter|instead|without it"
    r"|er|ihn|ihm|sein\w*|dort|davon|damit|dafür|dazu|diese[rsmn]?"
    r"|dies|(?<!-)ce|cela|ça|cette|ces|(?<!-)elle|ella|ellos|ellas|eso|esto|ésta?)\b|\b(?-i:sie)\b"
    r"|\b(?:do|undo|of|with|about|for|like|is|was|does|than|after|before) that\b|\bthat(?: \w+)?\s*\?*$"
    r"|\b(?:my|our|your) own\s*\?*$|\bthe same(?=\s*\?*$| for\b| with\b)|\bthen\s*\?*$"
    r"|\bdas(?=\s+(?:auch|bei|für|mit|nicht|noch|schon|in|im|zu|von|dann)\b|\s*\?*$)"
    r"|\bes(?=\s*\?*$)|\b(?-i:[a-zñáéíóú]{2,}[aei]rl[aeo]s?)\b|(?<=cómo )l[ao]s?\b"
    r"|\b(?:comment|puis-je|peut-on|peux-tu|pouvez-vous|dois-je|doit-on|faut-il) (?:l['’]|l(?:a|e|es) (?=\w+[ei]r\b))"
    r"|它|这个|那个|这些|那些|^那|それ|これ|あれ|その(?!他)|この",
    re.IGNORECASE,
)
_POSSESSIVES = frozenset(["its", "their", "theirs", "his", "her"])
_CONJUNCTION = re.compile(
    r"\b(?:when|if|because|as|while|that|which|than|until|unless|although|and|or|how|what|where|who|once|since|after|before"
    r"|als|wenn|weil|dass|ob|die|der|das|wie|während|bevor|nachdem|que|qui|quand|si)$",
    re.IGNORECASE,
)
_EXPLETIVE = re.compile(
    r"\bit (?:is |was |be )?(?:rain|snow|take|cost|possible|allowed|permitted|forbidden|necessary|safe|worth|better"
    r"|true|legal|free|ok|okay|cloudy|dark|cold|warm|hot|late|sunny|windy)\w*\b|\bis it (?:\w+ )?(?:to|that|if|for)\b"
    r"|\bthis (?:day|week|month|year|time|way)\b|\bone (?:of the|can|may|must|should)\b|\bonly one\b"
    r"|\bmak(?:e|es|ing) it (?:to|up|in|out|through)\b",
    re.IGNORECASE,
)
"""Words of `_PRONOUN` that stand for nothing before the question."""
_EAST_ASIAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_MIN_EAST_ASIAN_CHARS = 5
"""A question in a language without spaces that is shorter says nearly nothing."""
_ASKED_ONLY = re.compile(
    r"(?:(?:in|at|on|for|since|until|from|by|to|of|with) )?(?:which|what|whose|how) [^\W\d_]{2,20}\s*\?*$",
    re.IGNORECASE,
)
"""Questions without a verb: "In which year?"."""
_DEFINITION = re.compile(
    r"[¿¡]?(?:what|who|where|was|wer|wo|qui|où|qué|quién|dónde)"
    r"(?: is| are| was| were|'s|s| does| ist| sind| est| es| son)\b"
    r"|(?:qu'est-ce|c'est quoi|define|explain)\b",
    re.IGNORECASE,
)
"""Questions that one word makes complete: "What is HERON?"."""
_WORD = re.compile(r"[\w.@/\\$+#-]*\w[\w+#-]*")
_POSSESSIVE = re.compile(r"['’]s?\b")
_FUNCTION_WORD_LIST = """
a an the i me my we you your who whom whose what which how when where why is are was were be been do does did can could
may might must should shall will would has have had of in on at by for from to with without into about and or but not
no if then than so it its this that these those there here as am any some all each one ones get make use der die das
ein eine ist sind und oder wie was wer wo le la les un une est et ou qui que el los las un una es son y ich wir mir
mich wenn auf mit im zu zum zur von vom für bei als am auch noch nicht welche welcher welches welchen wann warum je
nous vous dans sur pour avec de du des ne pas comment quand combien pourquoi quel quelle quels quelles del con por para
se mi su lo qué quién cómo dónde cuándo cuál
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_WORD_LIST.split())


_ADDED = re.compile(r"(?P<own>.+) \((?P<topic>[^()]+)\)\?$", re.DOTALL)
_GERMAN = re.compile(
    r"\b(?:der|das|dem|den|des|eine[rsmn]?|ist|sind|und|wie|wer|wo|wann|welche[rsnm]?|für|bei|nicht|ich|mein\w*)\b",
    re.IGNORECASE,
)


def find_reference(question: str) -> Reference:
    """Whether a question refers to something before it, as far as its words tell."""
    text = " ".join(question.split())
    if not text or len(text) > MAX_QUESTION_CHARS:
        return Reference.NONE
    words = _content_words(text)
    if _ellipsis(text) or not words or _ASKED_ONLY.match(text):
        return Reference.CERTAIN
    if _refers_back(_EXPLETIVE.sub(" ", text)):
        return Reference.PRONOUN if len(words) < _MIN_FULL_WORDS else Reference.POSSIBLE
    if _EAST_ASIAN.search(text):
        return Reference.NONE if sum(map(len, words)) >= _MIN_EAST_ASIAN_CHARS else Reference.LIKELY
    if len(words) == 1:
        return Reference.POSSIBLE if _DEFINITION.match(text) else Reference.LIKELY
    starts_on = re.match(r"(?:and|but|or|so|then|und|aber|et|mais|y(?! a)|pero)\b", text, re.IGNORECASE) is not None
    return Reference.POSSIBLE if starts_on else Reference.NONE


def _refers_back(text: str) -> bool:
    """Whether a pronoun stands for something that the question itself does not name before it."""
    for match in _PRONOUN.finditer(text):
        before = text[: match.start()].rstrip()
        is_clause = _CONJUNCTION.search(before) is not None  # "if it is due": of the subject of the question
        named = _content_words(before)
        has_name = any(map(_form, _content_words(before.partition(" ")[2])))
        is_possessive = match[0].lower() in _POSSESSIVES or match[0].lower().startswith("sein")
        if (is_possessive or is_clause) and (len(named) > 1 or has_name):
            continue
        return True
    return False


def rewrite_follow_up(question: str, previous: str) -> str:
    """The question with what it leaves out, taken from the previous one; unchanged if it is complete.

    "And Bullseye?" after "When was Debian Stretch released?" is "When was Debian Bullseye released?"; another question
    gets the topic in parentheses: words of the previous one, then of what that was completed with, a few in all.
    """
    text, previous = " ".join(question.split()), " ".join(previous.split())[:MAX_QUESTION_CHARS]
    if not previous or find_reference(text) is Reference.NONE:
        return text
    if rest := _ellipsis(text):
        return _replace_name(previous, rest)
    known = set(extract_terms(text))
    topic = [word for word in _content_words(previous) if not known.intersection(extract_terms(word))]
    return f"{text.rstrip('?.! ')} ({' '.join(topic[:MAX_TOPIC_WORDS])})?" if topic else text


def _ellipsis(text: str) -> str:
    """What a question puts in the place of a part of the previous one; '' for a question of its own."""
    match = _ELLIPSIS.match(text)
    if match is None or _QUESTION_START.match(match["rest"]) or len(match["rest"].split()) > 4:
        return ""
    return match["rest"]


def _replace_name(previous: str, name: str) -> str:
    """The previous question with another name in place of its last one of the same form (`-x`, `a_b`, `Name`).

    In German, where every noun is capitalized, `Name` is no form. What has the place of none is added.
    """
    if added := _ADDED.match(previous):
        previous = f"{added['own']}?"
    words = list(_WORD.finditer(previous))
    form = _form(name.rsplit(maxsplit=1)[-1])
    if form == "name" and _GERMAN.search(previous):
        form = ""
    last = next((i for i in range(len(words) - 1, 0, -1) if _form(words[i][0]) == form != ""), None)
    if last is None:
        return f"{previous.rstrip('?.! ')} ({name})?"
    first = last
    while last - first + 1 < len(name.split()) and first > 1 and _form(words[first - 1][0]) == _form(words[last][0]):
        first -= 1
    before = previous[: words[first].start()]
    article = name.split(maxsplit=1)[0]  # "the X" in place of the name of "the Y"
    if len(name.split()) > 1 and before.lower().endswith(f" {article.lower()} "):
        before = before[: -len(article) - 1]
    return f"{before}{name}{previous[words[last].end() :]}"


def _form(word: str) -> str:
    """The form of a name or an identifier; '' for a plain word."""
    if not word[0].isalnum():
        return word[0]
    if any(not c.isalnum() for c in word):
        return "identifier"
    if any(c.isdigit() for c in word):
        return "number"
    return ("capitals" if word.isupper() else "name") if word[0].isupper() else ""


def _content_words(text: str) -> list[str]:
    return [word for word in _WORD.findall(_POSSESSIVE.sub("", text)) if word.lower() not in _FUNCTION_WORDS]
