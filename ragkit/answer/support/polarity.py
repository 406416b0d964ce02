"""Tells whether two sentences about one thing contradict each other: negations and opposites, by rules. English.

A sentence embedding hardly sees a "not", so that words decide.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from ragkit.lexical.analyzer import extract_terms

_NEGATION = re.compile(
    r"\b(?:not|never|no|nobody|none|nothing|neither|nor|without|cannot|no longer|no one|hardly|fail(?:s|ed)? to"
    r"|refus(?:e|es|ed) to|unable to|impossible|forbid(?:s|den)?|prohibit(?:s|ed)?|avoid(?:s|ed)?|lack(?:s|ed)?"
    r"|instead of|rather than|except|unless|free of|only|exclud(?:es?|ed|ing)|prevent(?:s|ed)?|ban(?:s|ned)?"
    r"|discourage[sd]?|stop(?:s|ped)?|apart from|nowhere|but)\b|n't\b|n’t\b"
    r"|\bdon'?ts?\b|\b(?:un|in|im|non|dis)(?=[a-z]{4})",
    re.IGNORECASE,
)
_STRONG = re.compile(
    r"\b(?:not|never|no|nobody|none|nothing|neither|nor|without|cannot|no longer|no one)\b|n't\b|n’t\b", re.IGNORECASE
)
_SOFT = re.compile(
    r"\b(?:fail(?:s|ed)?|refus(?:e|es|ed)|unable|impossible|forbid(?:s|den)?|prohibit(?:s|ed)?|avoid(?:s|ed)?|lack(?:s|ed)?"
    r"|instead of|rather than|except|unless|exclud(?:es?|ed|ing)|prevent(?:s|ed)?|ban(?:s|ned)?|discourage[sd]?"
    r"|apart from|neither|nor)\b",
    re.IGNORECASE,
)
_IDIOMS = re.compile(
    r"\b(?:not only|no matter|no doubt|not necessarily|whether or not|if not|if none|if any|no more than|no less than"
    r"|no later than|no longer than|not more than|not less than|at no (?:extra )?cost|no\.\s?\d)"
    r"|^\s*without [^,.;]{1,80}(?=,|\s*$)",
    re.IGNORECASE,
)
"""Words of a negation that deny nothing; "Without the option, ..." is a condition."""
_OPPOSITES = (
    "enable/disable allow/forbid allow/prohibit allow/refuse permit/forbid increase/decrease increase/reduce"
    " raise/lower before/after minimum/maximum min/max least/most more/less more/fewer higher/lower above/below"
    " open/close opened/closed start/stop begin/end first/last accept/reject accept/refuse include/exclude add/remove"
    " always/never required/optional mandatory/optional mandatory/voluntary on/off inside/outside indoors/outdoors"
    " early/late"
    " earlier/later longer/shorter faster/slower larger/smaller bigger/smaller upper/lower up/down win/lose buy/sell"
    " free/paid public/private internal/external visible/hidden locked/unlocked local/remote hot/cold warm/cold"
    " wet/dry left/right north/south east/west all/none possible/impossible same/different succeed/fail success/failure"
    " create/delete create/destroy import/export encrypt/decrypt compress/decompress ascending/descending"
    " horizontal/vertical static/dynamic synchronous/asynchronous odd/even true/false positive/negative"
    " safe/dangerous cheap/expensive new/old wide/narrow high/low maximal/minimal maximise/minimise maximize/minimize"
    " lengthen/shorten gain/loss rise/fall expand/shrink single/double read/write input/output sender/receiver"
    " client/server attach/detach mount/unmount install/uninstall supported/unsupported available/unavailable"
    " ignore/respect keep/discard keep/delete valid/invalid legal/illegal known/unknown stable/unstable"
    " recommended/discouraged encouraged/discouraged agree/disagree connect/disconnect appear/disappear"
    " trust/distrust male/female day/night morning/evening summer/winter weekday/weekend"
)
_PAIRS = tuple(tuple(pair.split("/")) for pair in _OPPOSITES.split())


@cache
def _opposites() -> Mapping[str, frozenset[str]]:
    """The opposites of each stem. Stemmed on first use: most processes never need them."""
    opposites: dict[str, set[str]] = {}
    for pair in _PAIRS:
        first, second = (extract_terms(word)[0] for word in pair)
        opposites.setdefault(first, set()).add(second)
        opposites.setdefault(second, set()).add(first)
    return {stem: frozenset(others) for stem, others in opposites.items()}


_TOKENS = re.compile(r"[a-z]+(?:['’][a-z]+)?", re.IGNORECASE)
_SCOPE_WORDS = 4
_CLAUSE = re.compile(
    r"[,;:()!?]|\.(?=\s|$)|\b(?:but|because|although|though|while|whereas|which|who|if|when|unless|so that)\b", re.I
)


def opposites_in(statement: str, sentence: str) -> list[tuple[str, str]]:
    """Words of a statement whose opposite stands in the sentence instead, with that opposite."""
    said, found = set(_stems(statement)), set(_stems(sentence))
    flips = negates(statement) != negates(sentence)
    if flips:  # "is not enabled" and "is disabled" agree
        return []
    return [
        (word, other)
        for word in sorted(said - found)
        for other in sorted(_opposites().get(word, ()))
        if other in found and other not in said
    ]


def negation_conflicts(statement: str, sentence: str, context: str = "") -> bool:
    """Whether exactly one of two texts about one thing denies it.

    Args:
        statement: a clause of an answer.
        sentence: the sentence of a passage that speaks of the same.
        context: that sentence with its neighbours, which may deny the same.
    """
    said, present = _stems(statement), _stems(sentence)
    if any(other in present for word in said.keys() - present.keys() for other in _opposites().get(word, ())):
        return False  # "is not enabled" for "is disabled"
    denied, found = _scopes(statement), _scopes(sentence)
    if denied and not _NEGATION.search(_IDIOMS.sub(" ", context or sentence)):
        return True
    around = found + _scopes(context)
    if not _SOFT.search(sentence) and _is_denied_alone(denied, said, around, present):
        return True
    return not _SOFT.search(statement) and _is_denied_alone(found, present, denied, said, _MIN_SHARE)


def _is_denied_alone(
    scopes: Sequence[Sequence[str]],
    own: Mapping[str, int],
    others: Sequence[Sequence[str]],
    stems: Mapping[str, int],
    min_share: float = 0.0,
) -> bool:
    """Whether the first word that one text denies, and nowhere affirms, stands in the other, which does not deny it."""
    denied_there = {word for scope in others for word in scope}
    return any(
        (head := scope[0]) in stems
        and head not in denied_there
        and own[head] <= sum(head in other for other in scopes)
        and sum(word in stems for word in scope) >= min_share * len(scope)
        for scope in scopes
    )


_MIN_SHARE = 0.6
_WEAK = frozenset(("normal", "usual", "also", "even", "ever", "necessarili"))


def _stems(text: str) -> Counter[str]:
    """How often each stemmed word stands in a text."""
    return Counter(extract_terms(word)[0] for word in _TOKENS.findall(text))


def negates(text: str) -> bool:
    """Whether a text denies something."""
    return bool(_STRONG.search(_IDIOMS.sub(" ", text)))


def _scopes(text: str) -> list[list[str]]:
    """The content words that each negation of a text denies: the next ones of its clause."""
    plain = _IDIOMS.sub(lambda match: " " * len(match[0]), text)
    scopes = []
    for match in _STRONG.finditer(plain):
        clause = _CLAUSE.split(plain[match.end() :], maxsplit=1)[0]
        words = [term for term in extract_terms(clause) if term.isalpha()] if _TOKENS.search(clause) else []
        scope = _content(words)[:_SCOPE_WORDS]
        if not scope:  # "nobody" at the end of a clause
            scope = _content(extract_terms(plain[: match.start()]))[-2:]
        if scope:
            scopes.append(scope)
    return scopes


def _content(words: Iterable[str]) -> list[str]:
    return [word for word in words if word not in _WEAK and len(word) > 2]
