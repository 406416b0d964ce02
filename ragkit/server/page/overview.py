"""Route for the overview of a document: its summary without a model, and its main sections."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from ragkit.answer.extractive.whole.look_up import summarize_extract
from ragkit.answer.extractive.whole.parts import main_sections
from ragkit.knowledge_base.session import Session
from ragkit.server.api.dependencies import ContextDep, JsonObject
from ragkit.server.api.schemas.documents import OverviewSchema
from ragkit.server.api.schemas.requests import Id
from ragkit.server.http_errors import not_found

router = APIRouter()
MAX_SECTIONS = 12
"""Sections that an overview names."""


@router.get("/documents/{document_id}/overview", response_model=OverviewSchema)
async def get_overview(context: ContextDep, document_id: Id) -> Any:
    """Get what a document is about: sentences of it, and the names of its main sections."""
    overview = await context.read(lambda session: read_overview(session, document_id))
    if overview is None:
        raise not_found("document", "document_not_found")
    return overview


def read_overview(session: Session, document_id: str) -> JsonObject | None:
    """The overview of a document; None: there is none with this id."""
    document = session.find_document(document_id)
    if document is None:
        return None
    summary = summarize_extract(session, document.source)
    return {
        "title": document.title,
        "format": document.format,
        "language": document.language,
        "pages": len(document.page_starts),
        "characters": len(document.text),
        "summary": [quote.passage.text for quote in summary.quoted.quotes],
        "sections": [section.title[:200] for section in main_sections(document)[:MAX_SECTIONS]],
    }
