"""Completes a question that refers to the previous one: "And how do I undo that?", "And Bullseye?".

Rules over the words of both questions; no model.
"""

from __future__ import annotations

import re

from ragkit.answer.extractive.question_kind import MAX_QUESTION_CHARS
from ragkit.lexical.analyzer import extract_terms

MAX_TOPIC_WORDS = 8
"""Words of the previous question that a query carries over, at most."""
_ELLIPSIS = re.compile(
    r"^(?:and|or|but|und|et|what about|how about|and what about|and how about)\s+"
    r"(?:(?:what|how) about |that of |those of |what of |of |for |with |was macht |was ist mit )?"
    r"(?P<rest>[^?]{1,48}?)\s*\??$",
    re.IGNORECASE,
)
_QUESTION_START = re.compile(
    r"(?:who|whom|whose|what|which|how|when|where|why|is|are|was|were|do|does|did|can|could|may|must|should|will|would|has"
    r"|have|in|on|at|by|wer|wie|wo|wann|was|welche[rsn]?|qui|que|quand|où|d'où|comment)\b",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"\b(?:it|its|they|them|their|theirs|he|she|him|his|her|this|that|these|those|one|ones|the same|the former"
    r"|the latter|there|then|so|else|again|instead|without it|otherwise|er|es|sie|ihn|ihm|dort|diese[rsmn]?"
    r"|dieser|ce|cela"
    r"|cette|ces|il|elle|y)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\w.@/\\$+#-]*\w[\w+#-]*")
_POSSESSIVE = re.compile(r"['’]s?\b")
_FUNCTION_WORD_LIST = """
a an the i me my we you your who whom whose what which how when where why is are was were be been do does did can could
may might must should shall will would has have had of in on at by for from to with without into about and or but not
no if then than so it its this that these those there here as am any some all each one ones get make use der die das
ein eine ist sind und oder wie was wer wo le la les un une est et ou qui que
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_WORD_LIST.split())


def rewrite_follow_up(question: str, previous: str) -> str:
    """The question with what it leaves out, taken from the previous one; unchanged if it stands alone.

    "And Bullseye?" after "When was Debian Stretch released?" is "When was Debian Bullseye released?"; a question with a
    pronoun gets the words of the previous one in parentheses.
    """
    text, previous = " ".join(question.split()), " ".join(previous.split())[:MAX_QUESTION_CHARS]
    if not previous or not text or len(text) > MAX_QUESTION_CHARS:
        return text
    ellipsis = _ELLIPSIS.match(text)
    if ellipsis and not _QUESTION_START.match(ellipsis["rest"]) and len(ellipsis["rest"].split()) <= 4:
        return _replace_name(previous, ellipsis["rest"])
    if not _needs_topic(text):
        return text
    known = set(extract_terms(text))
    topic = [word for word in _content_words(previous) if not known.intersection(extract_terms(word))]
    return f"{text.rstrip('?.! ')} ({' '.join(topic[:MAX_TOPIC_WORDS])})?" if topic else text


def _needs_topic(text: str) -> bool:
    """Whether a question refers to something before it: by a pronoun, by "and", or since it says nearly nothing."""
    words = _content_words(text)
    starts_on = re.match(r"(?:and|but|or|so|then|und|et)\b", text, re.IGNORECASE) is not None
    return starts_on or _REFERENCE.search(text) is not None or len(words) <= 1


def _replace_name(previous: str, name: str) -> str:
    """The previous question with another name in place of its last one of the same form (`-x`, `a_b`, `Name`)."""
    words = list(_WORD.finditer(previous))
    form = _form(name.rsplit(maxsplit=1)[-1])
    last = next((i for i in range(len(words) - 1, 0, -1) if _form(words[i][0]) == form != ""), None)
    if last is None:
        return f"{previous.rstrip('?.! ')} ({name})?"
    first = last
    while last - first + 1 < len(name.split()) and first > 1 and _form(words[first - 1][0]) == _form(words[last][0]):
        first -= 1
    return f"{previous[: words[first].start()]}{name}{previous[words[last].end() :]}"


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
