"""Shows what is stored of answers as the current principal may read it now.

Every result of a store of sessions and traces passes `RightsFilter.show`. What is stored of an answer names its
origins: the documents that the answer, or the conversation before it, had before its eyes. Of those that the principal
may not read now nothing is shown: citations and passages are blanked, and of the text only those sentences stay that
quote passages which may be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, TypeVar, cast

from ragkit.answer.citations import CITATION_MARK
from ragkit.errors import NotAKnowledgeBase
from ragkit.index.access.rules import AccessSettings, Grants
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.lexical.stopwords import STOP_WORDS
from ragkit.load.shared.access_field import FIELD
from ragkit.records import JSON, Chunk, Hit
from ragkit.server.base import read_chunks
from ragkit.server.concurrency import run_in_thread
from ragkit.server.http_errors import RequestRejected
from ragkit.server.principals import access_revoked

T = TypeVar("T")
HIDDEN = "[hidden: no longer readable]"
"""Stands for all that is blanked."""
ORIGINS_KEY = "origins"
"""Key of what is stored of an answer with its origins; `show` takes it away."""
SHOWN_KEY = "shown"
"""Key of a stored answer's details with the ids of the chunks that the session has shown, by citation number."""
_WORD = re.compile(r"\w+")

Origin = tuple[JSON, ...]
"""`(document id, source)`, with the value of the field `access` if the document had one. Of a document that only has
the same passage, the id is empty. `("", "", rights)` stands for numbers computed over many documents."""


def chunk_origin(chunk: Chunk) -> Origin:
    """The origin of a passage."""
    access = (chunk.metadata[FIELD],) if FIELD in chunk.metadata else ()
    return (chunk.document_id, chunk.source, *access)


def hit_origins(hits: Iterable[Hit]) -> Iterator[Origin]:
    """The origins of passages that were found, with the documents that hold the same."""
    for hit in hits:
        yield chunk_origin(hit.chunk)
        yield from (("", source) for source in hit.also_in)


def unique_origins(origins: Iterable[Sequence[JSON]]) -> list[Origin]:
    """Each origin once, in order."""
    return list({json.dumps(origin): tuple(origin) for origin in origins}.values())


class RightsFilter:
    """What the current principal may see of the answers over a knowledge base."""

    def __init__(self, kb: KnowledgeBase | None) -> None:
        """Without a knowledge base, all see everything."""
        self._kb = kb

    async def show(self, value: T) -> T:
        """A result of a store, with all that the principal may not read blanked in place."""
        answers = list(_find_answers(value))
        if answers:
            await run_in_thread(lambda: self._open(answers))
        return value

    def find_lost(self, origins: Iterable[Origin]) -> list[Origin]:
        """The origins that the principal may not read now; of a user who was removed, all.

        One that left the index can be read by nobody but owners; one that was replaced, by whom both versions allow.
        """
        try:
            grants = self._grants()
            return [] if grants is None else self._find_lost(grants, origins)
        except RequestRejected:
            return unique_origins(origins)

    def _find_lost(self, grants: Grants, origins: Iterable[Origin]) -> list[Origin]:
        settings = cast("KnowledgeBase", self._kb).location.access.read()
        asked = unique_origins(origins)
        sources = {str(origin[1]) for origin in asked}
        readable = self._live(sources, "documents")
        if (
            settings == AccessSettings()
        ):  # without users and rules, only fields hide, and a document that is gone has none
            readable |= sources - self._live(sources, "main.documents")
        rights = self.rights() if any(not origin[1] for origin in asked) else ""

        def is_lost(origin: Origin) -> bool:
            if not origin[1]:
                return origin[2:] != (rights,)
            own = {FIELD: origin[2]} if len(origin) > 2 else {}
            return origin[1] not in readable or not settings.may_read(grants, str(origin[1]), own)

        return list(filter(is_lost, asked))

    def require(self, origins: Iterable[Origin]) -> None:
        """Raises RequestRejected if the principal may not read one of the origins now, or was removed."""
        self._grants()
        if self.find_lost(origins):
            raise access_revoked("the access to a document of this answer was revoked")

    def rights(self) -> str:
        """Identifies the documents that the principal may read; empty for one who reads everything."""
        if self._grants() is None:
            return ""
        try:
            with cast("KnowledgeBase", self._kb).session() as session:
                identity = session.identity
        except NotAKnowledgeBase:
            identity = ""
        return sha256(identity.encode()).hexdigest()[:16]

    def chunk_origins(self, ids: Iterable[str]) -> list[Origin]:
        """The origins of chunks by id; of one that the principal cannot read, an origin that is lost."""
        wanted = [identity for identity in ids if identity] if self._kb is not None else []
        try:
            chunks = read_chunks(self._kb, wanted) if self._kb is not None else []
        except (RequestRejected, NotAKnowledgeBase):
            return [("", "")]
        return unique_origins(("", "") if chunk is None else chunk_origin(chunk) for chunk in chunks)

    def _grants(self) -> Grants | None:
        return self._kb.principal.grants() if self._kb is not None else None

    def _live(self, sources: Collection[str], table: Literal["documents", "main.documents"]) -> set[str]:
        """Those of sources that are in the index: that may be read, or all."""
        try:
            with cast("KnowledgeBase", self._kb).session() as session, session.snapshot() as snapshot:
                statement = f"SELECT 1 FROM {table} WHERE source = ? AND live = 1 LIMIT 1"  # noqa: S608 - constants
                return {one for one in sources if snapshot.connection.execute(statement, (one,)).fetchone()}
        except NotAKnowledgeBase:
            return set()

    def _open(self, answers: Sequence[dict[str, Any]]) -> None:
        origins = [self._take_origins(answer) for answer in answers]
        lost = set(map(json.dumps, self.find_lost(origin for some in origins for origin in some)))
        for answer, some in zip(answers, origins, strict=True):
            gone = {origin[0] for origin in some if json.dumps(origin) in lost}
            if gone:
                documents = {origin[0] for origin in some} - gone
                answer.update(_blanked_message(answer, documents) if "role" in answer else _blanked_trace(answer))

    def _take_origins(self, answer: dict[str, Any]) -> list[Origin]:
        origins, shown = answer.pop(ORIGINS_KEY), answer.pop(SHOWN_KEY, None)
        if origins is not None:
            return [tuple(origin) for origin in origins]
        # stored by a version that kept the passages of answers in sessions only
        cited = [citation["chunk_id"] for citation in answer.get("citations", ())]
        return [("", "")] if shown is None and not cited else self.chunk_origins([*(shown or ()), *cited])


def _find_answers(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if ORIGINS_KEY in value:
            yield value
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            if isinstance(item, dict | list | tuple):  # most are neither, and each call costs
                yield from _find_answers(item)


def _blanked_message(message: Mapping[str, Any], documents: Collection[JSON]) -> dict[str, JSON]:
    """The fields of a message with what is drawn from `documents` alone."""
    quotes = {c["n"]: _words(c["quote"]) for c in message["citations"] if c.get("document_id") in documents}
    return {
        "content": _quoted_text(message["content"], quotes),
        "citations": [
            {**citation, "also_in": []} if citation["n"] in quotes else _blanked_citation(citation)
            for citation in message["citations"]
        ],
        "statements": [
            {**s, "text": s["text"] if _is_quoted(s["text"], s["citations"], quotes) else HIDDEN, "checks": [],
             "reason": "", "found_in": None, "found_at": None}
            for s in message["statements"]
        ],
        "searched_for": HIDDEN if message["searched_for"] else message["searched_for"],
        "error": {**message["error"], "message": HIDDEN} if message["error"] else None,
    }  # fmt: skip


def _blanked_citation(citation: Mapping[str, JSON]) -> dict[str, JSON]:
    """A citation with its number alone."""
    blank: dict[type, JSON] = {str: "", list: [], dict: {}}
    texts = {key: blank.get(type(value), value) for key, value in citation.items()}
    return {**texts, "source": HIDDEN, "quote": HIDDEN, "document_id": None, "verified": False}


def _blanked_trace(trace: Mapping[str, Any]) -> dict[str, JSON]:
    """The fields of a trace without all that is not the question, settings, numbers and times."""
    question = trace.get("question")
    return {
        "error": HIDDEN if trace.get("error") else None,
        **({} if "turns" not in trace else {
            "turns": [
                {**turn, "content": turn["content"] if turn["content"] in ("", question) else HIDDEN,
                 **({"tool_calls": [{**call, "arguments": {}} for call in turn["tool_calls"]]}
                    if "tool_calls" in turn else {})}
                for turn in trace["turns"]
            ],
            "tool_calls": [{**call, "arguments": {}, "result": HIDDEN} for call in trace["tool_calls"]],
        }),
    }  # fmt: skip


def _quoted_text(text: str, quotes: Mapping[int, set[str]]) -> str:
    """A text with only those parts that quote passages; the mark, once, for what is between them."""
    hidden, end = f"\n\n{HIDDEN}\n\n", 0
    parts: list[str] = []
    for mark in CITATION_MARK.finditer(text):  # each ends a part of the answer
        is_quoted = _is_quoted(text[end : mark.start()], list(map(int, re.findall(r"\d+", mark[1]))), quotes)
        parts += [text[end : mark.end()]] if is_quoted else [hidden] * (parts[-1:] != [hidden])
        end = mark.end()
    parts += [hidden] * bool(text[end:].strip() and parts[-1:] != [hidden])
    return re.sub(r"\n{3,}", "\n\n", "".join(parts)).strip()


def _is_quoted(text: str, numbers: Collection[int], quotes: Mapping[int, set[str]]) -> bool:
    """Whether a text cites readable passages only, and has no words but theirs."""
    if not numbers or any(number not in quotes for number in numbers):
        return False
    return _words(text) <= STOP_WORDS.union(*(quotes[number] for number in numbers))


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}
