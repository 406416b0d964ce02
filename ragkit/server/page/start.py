"""Routes for the beginning of a conversation: suggested questions, folders to ask in; and for links to sessions."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, Query

from ragkit.errors import NotAKnowledgeBase
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.session import Session
from ragkit.server.api.dependencies import ContextDep
from ragkit.server.api.schemas.answers import SuggestionsSchema
from ragkit.server.api.schemas.requests import Id
from ragkit.server.api.schemas.sessions import FoldersSchema, RevokedSchema, SharedSessionSchema, ShareSchema
from ragkit.server.page.suggestions import MAX_LISTED, follow_ups, suggestions

router = APIRouter()
MAX_FOLDERS = 200
Language = Annotated[
    str, Query(max_length=20, description="Of the words around names: en, de, fr or es; English for every other one.")
]


@router.get("/suggestions", response_model=SuggestionsSchema)
async def suggest_questions(context: ContextDep, language: Language = "en") -> Any:
    """Suggest first questions about the documents, without a model."""
    try:
        return {"questions": await context.read(lambda session: suggestions(session, language))}
    except NotAKnowledgeBase:
        return {"questions": []}


@router.get("/session/{session_id}/suggestions", response_model=SuggestionsSchema)
async def suggest_follow_ups(context: ContextDep, session_id: Id, language: Language = "en") -> Any:
    """Suggest follow-up questions from headings of the documents that the last answer cites, without a model."""
    session = await context.sessions.get(session_id)
    return {"questions": await context.read(lambda reads: follow_ups(reads, session, language))}


@router.get("/folders", response_model=FoldersSchema)
async def list_folders(context: ContextDep) -> Any:
    """List the folders of the documents: a `source` of /chat. Of very many documents, those of the first."""
    try:
        return {"folders": await context.read(folders)}
    except NotAKnowledgeBase:
        return {"folders": []}


@router.post("/session/{session_id}/share", response_model=ShareSchema)
async def share_session(context: ContextDep, session_id: Id) -> Any:
    """Create the read-only link of a session, or get it again: `GET /shared/{share_id}`, on the page `#/shared/ID`."""
    return await context.shares.share(session_id)


@router.delete("/session/{session_id}/share", response_model=RevokedSchema)
async def revoke_share(context: ContextDep, session_id: Id) -> Any:
    """Revoke the link of a session."""
    await context.shares.revoke(session_id)
    return {"revoked": True}


@router.get("/shared/{share_id}", response_model=SharedSessionSchema)
async def get_shared_session(context: ContextDep, share_id: Id) -> Any:
    """Get a session by its link, which needs no token: title and messages, without traces, ratings and costs.

    Where tokens are required, citations have the names of files and quotes, and nothing that leads to the documents.
    """
    session = await context.sessions.get(await context.shares.find_session(share_id))
    history: Any = session["history"]
    hidden = {"trace_id": None, "feedback": None, "usage": None, "error": None}
    shown = [{**message, **hidden} for message in history]
    if context.settings.tokens:
        shown = [{**m, "citations": [_without_place(item) for item in m["citations"]]} for m in shown]
    return {"title": session["title"], "updated": session["updated"], "history": shown}


def _without_place(citation: dict[str, Any]) -> dict[str, Any]:
    """A citation with the name of its file, without the folder, ids and other files."""
    name = citation["source"].rstrip("/").rpartition("/")[2]
    return {**citation, "source": name, "document_id": None, "chunk_id": None, "also_in": []}


def folders(session: Session) -> list[dict[str, Any]]:
    """The folders that hold documents, with how many are below each."""
    counts: Counter[str] = Counter()
    for row in session.list_documents("", MAX_LISTED):
        path = row.source.rpartition("/")[0]
        while path and not path.endswith(":/"):
            counts[path] += 1
            path = path.rpartition("/")[0]
    total = max(counts.values(), default=0)
    kept = {path: count for path, count in counts.items() if count < total}
    most = sorted(kept, key=lambda path: (-kept[path], path))[:MAX_FOLDERS]
    return [{"source": display_name(path), "documents": kept[path]} for path in sorted(most)]
