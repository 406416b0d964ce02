"""Routes for the beginning of a conversation: suggested questions, folders to ask in; and for links to sessions."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from typing import Any

from fastapi import APIRouter

from ragkit.errors import NotAKnowledgeBase
from ragkit.index.source_ids import display_name
from ragkit.records import Document
from ragkit.server import schemas
from ragkit.server.base import ServedKnowledgeBase
from ragkit.server.dependencies import ContextDep

router = APIRouter()
MAX_SUGGESTIONS = 4
SAMPLED_DOCUMENTS = 12
"""Documents whose headings are read for suggestions."""
MAX_LISTED = 5_000
"""Documents whose folders are counted."""
MAX_FOLDERS = 200
_WORD = re.compile(r"[^\W\d_]{2,}")
GENERIC = frozenset((
    "abstract", "acknowledgements", "acknowledgments", "appendix", "bibliography", "changelog", "changes", "conclusion",
    "conclusions", "contents", "copyright", "foreword", "glossary", "index", "introduction", "license", "notes",
    "overview", "preface", "references", "summary", "table of contents", "version history",
))  # fmt: skip
"""Headings that say nothing about a document."""


@router.get("/suggestions", response_model=schemas.SuggestionsSchema)
async def suggest_questions(context: ContextDep) -> Any:
    """Suggest first questions from headings of the documents, without a model."""
    try:
        return {"questions": await context.read(lambda: suggestions(context.kb))}
    except NotAKnowledgeBase:
        return {"questions": []}


@router.get("/folders", response_model=schemas.FoldersSchema)
async def list_folders(context: ContextDep) -> Any:
    """List the folders of the documents: a `source` of /chat. Of very many documents, those of the first."""
    try:
        return {"folders": await context.read(lambda: folders(context.kb))}
    except NotAKnowledgeBase:
        return {"folders": []}


@router.post("/session/{session_id}/share", response_model=schemas.ShareSchema)
async def share_session(context: ContextDep, session_id: schemas.Id) -> Any:
    """Create the read-only link of a session, or get it again: `GET /shared/{share_id}`, on the page `#/shared/ID`."""
    return await context.shares.share(session_id)


@router.delete("/session/{session_id}/share", response_model=schemas.RevokedSchema)
async def revoke_share(context: ContextDep, session_id: schemas.Id) -> Any:
    """Revoke the link of a session."""
    await context.shares.revoke(session_id)
    return {"revoked": True}


@router.get("/shared/{share_id}", response_model=schemas.SharedSessionSchema)
async def get_shared_session(context: ContextDep, share_id: schemas.Id) -> Any:
    """Get a session by its link: title and messages, without traces and ratings."""
    session = await context.sessions.get(await context.shares.find_session(share_id))
    history: Any = session["history"]
    hidden = {"trace_id": None, "feedback": None}
    return {"title": session["title"], "updated": session["updated"], "history": [{**m, **hidden} for m in history]}


def suggestions(kb: ServedKnowledgeBase) -> list[str]:
    """Questions about headings, from documents all over the knowledge base."""
    rows = list(kb.document_rows("", MAX_LISTED))
    step = max(1, len(rows) // SAMPLED_DOCUMENTS)
    found = (kb.find_document(row.id) for row in islice(rows[::step], SAMPLED_DOCUMENTS))
    questions = (question for document in found if document is not None for question in islice(asked(document), 1))
    return list(islice(dict.fromkeys(questions), MAX_SUGGESTIONS))


def asked(document: Document) -> list[str]:
    """Questions about the headings of a document: a heading that is a question stands for itself."""
    questions = []
    name = display_name(document.source).rstrip("/").rpartition("/")[2]
    for heading in document.headings:
        text = _without_number(heading.text[:500])
        words = _WORD.findall(text)
        if not 1 < heading.level < 4 or not 2 <= len(words) <= 8 or len(text) > 60 or text.lower() in GENERIC:
            continue
        questions.append(text if text.endswith("?") else f"What does {name} say about \u201c{text.rstrip(':.')}\u201d?")
    return questions


def _without_number(heading: str) -> str:
    """A heading without `3.2` before it."""
    words = heading.split()
    is_number = len(words) > 1 and words[0][0].isdigit() and not any(map(str.isalpha, words[0]))
    return " ".join(words[1:] if is_number else words)


def folders(kb: ServedKnowledgeBase) -> list[dict[str, Any]]:
    """The folders that hold documents, with how many are below each."""
    counts: Counter[str] = Counter()
    for row in kb.document_rows("", MAX_LISTED):
        path = row.source.rpartition("/")[0]
        while path and not path.endswith(":/"):
            counts[path] += 1
            path = path.rpartition("/")[0]
    total = max(counts.values(), default=0)
    kept = {path: count for path, count in counts.items() if count < total}
    most = sorted(kept, key=lambda path: (-kept[path], path))[:MAX_FOLDERS]
    return [{"source": display_name(path), "documents": kept[path]} for path in sorted(most)]
