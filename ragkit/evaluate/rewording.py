"""Words a question otherwise, as people do who have not read the document: other words, fewer words, typos.

A hand-written table of common words; names, options, paths and numbers stay as they are.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection

_SYNONYMS: dict[str, tuple[str, ...]] = {
    "remove": ("delete", "get rid of"), "delete": ("remove", "get rid of"), "show": ("display", "see"),
    "display": ("show", "see"), "print": ("show", "output"), "create": ("make", "set up"),
    "specify": ("set", "give"), "set": ("choose", "define"), "change": ("modify", "alter"), "modify": ("change",),
    "start": ("launch", "begin"), "stop": ("end", "quit"), "maximum": ("largest", "highest"),
    "minimum": ("smallest", "lowest"), "allow": ("let", "permit"), "directory": ("folder",), "folder": ("directory",),
    "directories": ("folders",), "option": ("switch", "flag"), "flag": ("option", "switch"), "options": ("switches",),
    "automatically": ("by itself",), "enable": ("turn on", "activate"), "disable": ("turn off", "switch off"),
    "ignore": ("skip", "leave out"), "skip": ("ignore", "leave out"), "provide": ("give", "offer"),
    "require": ("need",), "requires": ("needs",), "obtain": ("get",), "contain": ("hold", "have"),
    "contains": ("holds", "has"), "prevent": ("stop", "keep"), "avoid": ("prevent",), "copy": ("duplicate",),
    "convert": ("turn", "change"), "select": ("choose", "pick"), "choose": ("pick", "select"),
    "specified": ("given",), "existing": ("present",), "verify": ("check", "make sure of"), "check": ("test",),
    "compress": ("pack",), "restore": ("recover", "bring back"), "search": ("look",), "find": ("locate",),
    "write": ("save", "put"), "read": ("load",), "multiple": ("several",),
    "several": ("many",), "entire": ("whole", "complete"), "additional": ("extra", "more"), "previous": ("last",),
    "determine": ("find out",), "exclude": ("leave out",), "immediately": ("at once",),
    "configure": ("set up",), "install": ("set up",), "receive": ("get",),
    "update": ("refresh",), "purpose": ("aim",), "characters": ("letters",), "large": ("big",),
    "begin": ("start",), "terminate": ("end", "kill"), "overwrite": ("replace",), "replace": ("substitute",),
    "suppress": ("hide", "silence"), "hide": ("suppress",),
    "purchase": ("buy",), "assist": ("help",),
    "format": ("layout",), "output": ("result",), "execute": ("run",),
    "invoke": ("call",), "add": ("put in", "append"),
    "append": ("add",), "insert": ("put in", "add"), "generate": ("produce", "make"),
    "produce": ("generate",), "annual": ("yearly",), "employee": ("worker",), "employees": ("staff",),
    "maintain": ("keep",), "built": ("made",), "founded": ("started",), "located": ("found",),
    "supported": ("possible",), "permitted": ("allowed",), "allowed": ("permitted",),
    "method": ("way",), "methods": ("ways",), "kinds": ("sorts",), "types": ("kinds",),
    "steps": ("stages",), "features": ("capabilities",), "correct": ("right",), "incorrect": ("wrong",),
    "frequently": ("often",), "rapidly": ("fast",), "identical": ("the same",),
    "include": ("have",), "ignored": ("skipped",), "removed": ("deleted",), "created": ("made",),
    "required": ("needed",), "necessary": ("needed",), "changed": ("modified",), "loaded": ("read",),
    "written": ("saved",), "displayed": ("shown",), "printed": ("shown",), "affect": ("influence",),
    "rely": ("depend",),
    "guarantee": ("promise",), "preserve": ("keep",), "retain": ("keep",), "attempt": ("try",),
    "return": ("give back",),
    "returns": ("gives back",), "match": ("fit",), "exactly": ("precisely",), "absolute": ("full",),
    "deleted": ("removed",), "expanded": ("resolved",), "parameter": ("setting",), "parameters": ("settings",),
    "argument": ("parameter",), "arguments": ("parameters",), "image": ("picture",), "images": ("pictures",),
    "path": ("location",), "message": ("notice",), "messages": ("notices",), "warning": ("alert",),
    "information": ("details", "info"), "details": ("information",), "version": ("release",), "program": ("tool",),
    "programs": ("tools",), "utility": ("tool",), "machine": ("computer",), "host": ("machine",), "process": ("job",),
    "processes": ("jobs",), "connection": ("link",), "repository": ("repo",), "character": ("letter",),
    "pattern": ("expression",), "column": ("field",), "columns": ("fields",), "rows": ("lines",),
    "snapshots": ("backups",), "interactively": ("by asking",), "recommended": ("advised",), "beginning": ("start",),
    "final": ("last",), "initial": ("first",), "permission": ("right",), "permissions": ("rights",),
    "encoded": ("stored",), "location": ("place",), "treated": ("handled",), "obtained": ("got",),
    "performed": ("done",), "executed": ("run",), "invoked": ("called",), "terminated": ("ended",),
    "merged": ("combined",),
}  # fmt: skip
_FILLERS = re.compile(r"^(?:How (?:do|can) I|What is|What are|Which|What does) ", re.IGNORECASE)
_TAIL = re.compile(r" (?:in|for|from|with|on|by|when|if) (?:(?!\b(?:in|for|from|with|on|by)\b).){3,60}$")
_WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
_ARTICLES = re.compile(r"\b(?:the|an?|any|given|specified|respective|particular|certain|corresponding) ")


def reword(question: str, rng: random.Random, strength: float, keep: Collection[str] = ()) -> str:
    """The question with other words: each known word is replaced with probability `strength`.

    Args:
        question: any question.
        rng: chooses the changes.
        strength: in [0, 1].
        keep: words that stay, in lower case.
    """
    return _WORD.sub(lambda match: _replace(question, match, rng, strength, keep), question)


def shorten(question: str, rng: random.Random, probability: float, keep: Collection[str] = ()) -> str:
    """The question without its last prepositional phrase, if enough is left that tells what is asked."""
    text = question.rstrip("?")
    cut = _TAIL.sub("", text)
    is_whole = all(word in cut.lower() for word in keep if word in text.lower())
    return f"{cut}?" if is_whole and len(cut.split()) >= 6 and rng.random() < probability else question


def mistype(question: str, rng: random.Random, keep: Collection[str] = ()) -> str:
    """The question as typed in haste: in lower case, sometimes as key words, with a typo in a long word."""
    text = question.rstrip("?")
    text = text[:1].lower() + text[1:]
    if rng.random() < 0.4:
        text = _ARTICLES.sub("", _FILLERS.sub("", text))
    matches = [m for m in _WORD.finditer(text) if _is_plain(text, m) and len(m[0]) > 5 and m[0].lower() not in keep]
    if matches and rng.random() < 0.7:
        match = rng.choice(matches)
        at = match.start() + rng.randrange(1, len(match[0]) - 2)
        text = rng.choice((text[:at] + text[at + 1 :], text[:at] + text[at + 1] + text[at] + text[at + 2 :]))
    return text + rng.choice(("", "?", "?"))


def _is_plain(text: str, match: re.Match[str]) -> bool:
    """Whether a match is a word of its own in lower case, not part of a name, an option or a path."""
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    return before in ("", " ") and after in ("", " ", ",") and match[0].islower()


def _replace(text: str, match: re.Match[str], rng: random.Random, strength: float, keep: Collection[str]) -> str:
    word = match[0]
    others = _SYNONYMS.get(word, ())
    if not others or word in keep or not _is_plain(text, match) or rng.random() >= strength:
        return word
    return rng.choice(others)
