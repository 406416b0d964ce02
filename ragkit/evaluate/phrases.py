"""Phrases of sentences that a question can be made of: subjects, clauses, names in code."""

from __future__ import annotations

import re

VERBS = (
    "accept|activate|add|adjust|allow|appeal|append|apply|archive|ask|assign|attach|avoid|backup|begin|block|book|borrow|build|call|cancel"
    "|change|check|choose|clean|clear|close|combine|compare|compile|compress|compute|configure|connect|control|convert"
    "|copy|count|create|customi[sz]e|decode|define|delete|deny|detach|determine|disable|discard|display|do|download|drain"
    "|draw|drop|dump|edit|emit|enable|encode|enforce|ensure|exclude|execute|exit|export|extract|fetch|filter|find|fix|follow"
    "|force|format|generate|get|go|group|handle|hide|ignore|import|include|indicate|inhibit|insert|install|invert|join"
    "|keep|kill|launch|let|limit|link|list|load|lock|log|look|mail|make|mark|match|measure|merge|mount|move|omit|open"
    "|order|override|overwrite|parse|pass|paste|pause|perform|preserve|prevent|print|process|protect|provide|prune|publish"
    "|put|query|quit|raise|read|rebuild|receive|recover|redirect|reduce|refer|refresh|register|reload|remove|rename"
    "|repair|repeat|replace|report|request|reset|resolve|restart|restore|restrict|resume|retrieve|return|reverse|revert"
    "|rotate|run|save|scan|search|select|send|separate|set|shorten|show|shrink|shut|sign|silence|skip|sort|specify|split"
    "|start|stop|store|submit|suppress|switch|synchroni[sz]e|tell|terminate|test|toggle|trace|transfer|treat|truncate|turn"
    "|renew|repay|pay|claim|empty|fill|undo|uninstall|unlock|unmount|unpack|update|upgrade|upload|use|validate|verify|view|wait|warn|work|wrap|write"
)
SUBJECT = r"(?P<subject>(?:(?:The|An?|the|an?) )?[\w'’+/-]+(?: [\w'’+/-]+){0,5}?)"
VAGUE = re.compile(
    r"\b(?:this|these|those|it|its|them|their|they|he|she|we|our|above|following|below|such|also|here|specified|given|same"
    r"|latter|former|i\.e|e\.g|both|other|another)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r" (?:if|when|unless|so|because|since|while|which|where|whose|but|and then|instead|rather|that|whether|until|before"
    r"|after|as long)\b"
)
OPEN_ENDS = frozenset(
    (
        "a", "an", "the", "of", "in", "on", "at", "to", "for", "from", "with", "by", "and", "or", "as", "is", "are",
        "be", "was", "were", "not", "your", "my", "its", "their", "any", "all", "no", "each", "between", "per", "which",
    )
)  # fmt: skip
_PRONOUNS = frozenset(
    (
        "it", "this", "that", "these", "those", "there", "he", "she", "they", "we", "you", "i", "here", "what", "which",
        "who", "one", "each", "all", "some", "such", "then", "if", "when", "while", "for", "in", "on", "at", "as",
        "since", "because", "although", "however", "therefore", "note", "but", "and", "or", "so", "also", "both",
        "another", "other", "others", "any", "many", "most", "several", "its", "their", "his", "her", "our", "my",
        "your", "to", "by", "with", "from", "after", "before", "not", "no", "yes", "see", "how", "where", "now", "thus",
        "only", "same", "following", "above", "below", "first", "second", "third", "next", "last", "previous", "latter",
        "former", "section", "chapter", "figure", "table", "example", "nothing", "everything", "anything", "something",
        "is", "are", "was", "were", "has", "have", "be", "can", "will", "must", "may", "should", "does", "do", "than",
        "use", "until", "over", "make", "sure", "ensure", "even", "though", "during", "under", "among", "further",
        "subsequent", "two", "three", "more", "less", "us", "them", "him", "me", "output", "result", "results",
        "default", "new",
        "thing", "things", "rest", "case", "reason", "problem", "goal", "idea", "answer", "question", "purpose",
    )
)  # fmt: skip
_CODE_TOKEN = re.compile(
    r"`([^`\n]{2,50})`|(?<![\w/:.])(?!i\.e|e\.g|www)"
    r"(--?[A-Za-z][\w-]+|[~.]?/\w[\w./-]*\w|\w+(?:[_$.]\w{2,})+|[a-z]+[A-Z]\w+)"
)


def code_token(text: str) -> str:
    """The first option, path, name in code or quoted command; '' without one."""
    found = (match[1] or match[2] for match in _CODE_TOKEN.finditer(text))
    return next((token for token in found if re.search(r"[A-Za-z]{2}|^-\w", token) and not token[0].isdigit()), "")


def clip(text: str, words: int) -> str:
    """The first words of a text, without punctuation at the end."""
    return " ".join(text.split()[:words]).rstrip(" .,;:!?\"'”’)")


def whole_clause(text: str, words: int) -> str:
    """A text up to its first subordinate clause; '' if it is longer than so many words or its end is missing."""
    clause = _CLAUSE.split(text, maxsplit=1)[0].strip()
    parts = clause.split()
    if not parts or len(parts) > words or parts[-1].lower() in OPEN_ENDS or not re.search(r"[\w`'\"]$", clause):
        return ""
    return "" if VAGUE.search(clause) else clause


def is_subject(text: str, *, proper: bool = False) -> bool:
    """Whether a phrase names one thing that can be asked about without its context."""
    words = re.sub(r"^(?:The|An?|the|an?)(?: |$)", "", text).split()
    if (
        not words
        or words[-1].lower() in OPEN_ENDS
        or any(word[0].isdigit() for word in words)
        or {word.lower().strip("'’") for word in words} & _PRONOUNS
        or len(text) > 60
    ):
        return False
    if len(words) > 1 and words[0].lower().endswith("ing") and text.startswith(words[0]):  # "using the option"
        return False
    if proper or len(words) > 1:
        return any(len(word) > 2 for word in words) and not any(word.lower().endswith("ly") for word in words)
    return len(words[0]) > 2 and not words[0].isdigit()


def lowercase_first(text: str) -> str:
    """Lowercase the first letter, except for names and abbreviations."""
    first, _, rest = text.partition(" ")
    if first in ("The", "A", "An"):
        return f"{first.lower()} {rest}"
    is_name = not first[1:].islower() or any(word[:1].isupper() for word in rest.split())
    return text if is_name else text[:1].lower() + text[1:]


def without_article(subject: str) -> str:
    return re.sub(r"^(?:the|an?) ", "", subject, flags=re.IGNORECASE)


def to_first_person(text: str) -> str:
    text = re.sub(r"\b(tell|give|let|allow|help|show|ask|enable|lead|force|send|for|to|with) you\b", r"\1 me", text)
    return re.sub(r"\byour\b", "my", re.sub(r"\byou\b", "I", text))
