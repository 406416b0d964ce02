"""Routes for the files that documents were read from: pictures of pages, HTML as a tree, marks, download.

Only a file with the content that was indexed is shown: a citation of it stands where it says.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import partial
from itertools import islice
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse, Response

from ragkit.errors import LoadError
from ragkit.knowledge_base.session import Session
from ragkit.knowledge_base.sources.source_files import OriginalFile
from ragkit.load.html.tree import read_tree
from ragkit.load.pages.picture import draw_page
from ragkit.load.pages.rectangles import document_rectangles, page_marks
from ragkit.lru_cache import LruCache
from ragkit.records import Document
from ragkit.server.api.dependencies import AppContext, ContextDep, JsonObject
from ragkit.server.api.schemas.documents import HtmlTreeSchema, MatchesSchema, RectanglesSchema
from ragkit.server.api.schemas.requests import Id
from ragkit.server.concurrency import run_in_thread
from ragkit.server.http_errors import ErrorResponse, RequestRejected, not_found

router = APIRouter()
MAX_MATCHES = 500
"""Places of words in a document that are returned."""
MAX_PICTURES = 64
"""Pictures of pages that are kept in memory."""
MAX_PICTURE_BYTES = 1_500_000
"""Larger ones are drawn anew each time."""
CHANGED = "the file has changed since it was indexed, or was removed: index it again"
SAFE_HEADERS = {
    "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
}
Offset = Annotated[int, Query(ge=0, le=10**9, description="Offset in the text of the document.")]
Words = Annotated[str, Query(min_length=1, max_length=200, description="The words to find.")]
PageNumber = Annotated[int, Path(ge=1, le=10**6, description="The page, counted from 1.")]
PictureWidth = Annotated[
    int, Query(ge=100, le=2400, description="Pixels from left to right; a large page may get fewer.")
]
_pictures: LruCache[tuple[str, int, int], bytes] = LruCache(MAX_PICTURES)
_PNG: dict[int | str, dict[str, Any]] = {200: {"content": {"image/png": {}}}}
_FILE: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}


@router.get("/documents/{document_id}/rectangles", response_model=RectanglesSchema)
async def get_rectangles(context: ContextDep, document_id: Id, start: Offset, end: Offset) -> Any:
    """Get where a citation stands on the pages of a PDF file: `start` and `end` of the citation."""
    document = await _find(context, document_id)
    return await context.read(lambda session: _rectangles(session, document, start, end))


@router.get("/documents/{document_id}/find", response_model=MatchesSchema)
async def find_in_document(context: ContextDep, document_id: Id, q: Words) -> Any:
    """Find words in the text of a document, in any case and with any space between them."""
    document = await _find(context, document_id)
    return {"matches": await context.run(lambda: find_matches(document, q))}


@router.get("/documents/{document_id}/pages/{page}", response_class=Response, responses=_PNG)
async def get_page(context: ContextDep, document_id: Id, page: PageNumber, width: PictureWidth = 1200) -> Response:
    """Get a page of a PDF file as a PNG picture, drawn by the server."""
    document = await _find(context, document_id)
    _require_format(document, "pdf", "pages")
    if page > len(document.page_starts):
        raise not_found(f"page {page} of {len(document.page_starts)}", "page_not_found")
    original = await context.read(lambda session: _require_file(session, document))
    key = (original.content_hash, page, width)
    picture = _pictures.get(key)
    if picture is None:
        async with context.drawing_limiter.slot():
            picture = await run_in_thread(partial(_draw, original.data, page, width))
        if len(picture) <= MAX_PICTURE_BYTES:
            _pictures.set(key, picture)
    return Response(picture, media_type="image/png", headers=SAFE_HEADERS)


@router.get("/documents/{document_id}/html", response_model=HtmlTreeSchema)
async def get_html(context: ContextDep, document_id: Id) -> Any:
    """Get what a reader sees of an HTML page, as a tree without anything that runs or loads."""
    document = await _find(context, document_id)
    _require_format(document, "html", "a tree")
    return JSONResponse(await context.read(lambda session: _read_html(session, document)))


@router.get("/documents/{document_id}/file", response_class=Response, responses=_FILE)
async def download_file(context: ContextDep, document_id: Id) -> Response:
    """Get the file that a document was read from; of a part of a mail or archive, the whole file."""
    document = await _find(context, document_id)
    original = await context.read(lambda session: _require_original(session, document))
    name = original.source.rstrip("/").rpartition("/")[2] or "document"
    disposition = f"attachment; filename*=UTF-8''{quote(name.encode('utf-8', 'replace'), safe='')}"
    headers = {**SAFE_HEADERS, "content-disposition": disposition}
    return Response(original.data, media_type="application/octet-stream", headers=headers)


async def _find(context: AppContext, document_id: str) -> Document:
    document = await context.read(lambda session: session.find_document(document_id))
    if document is None:
        raise not_found("document", "document_not_found")
    return document


def _require_format(document: Document, wanted: str, what: str) -> None:
    if document.format != wanted:
        message = f"only {wanted} files have {what}: this document is {document.format}"
        raise RequestRejected(ErrorResponse(415, message, "unsupported_type"))


def _require_original(session: Session, document: Document) -> OriginalFile:
    original = session.original(document.source)
    if original is None:
        raise RequestRejected(ErrorResponse(409, CHANGED, "changed"))
    return original


def _require_file(session: Session, document: Document) -> OriginalFile:
    """The file of a document that is no part of another one."""
    original = _require_original(session, document)
    if original.source != document.source:
        message = "the document is a part of another file: download that one"
        raise RequestRejected(ErrorResponse(415, message, "part_of_a_file"))
    return original


def find_matches(document: Document, words: str) -> list[JsonObject]:
    """Where words stand in a document: offsets, and the page if it has pages; the first MAX_MATCHES."""
    pattern = re.compile(r"\s+".join(map(re.escape, words.split())), re.IGNORECASE)
    places = islice(pattern.finditer(document.text), MAX_MATCHES) if words.split() else ()
    return [
        {"start": found.start(), "end": found.end(), "page": bisect_right(document.page_starts, found.start()) or None}
        for found in places
    ]


def _rectangles(session: Session, document: Document, start: int, end: int) -> JsonObject:
    original = session.original(document.source)
    nothing: JsonObject = {"rectangles": [], "marks": [], "stale": original is None}
    if original is None or document.format != "pdf" or original.source != document.source:
        return nothing
    try:
        found = document_rectangles(original.data, document, start, end)
        marks = page_marks(original.data, found)
    except LoadError:
        return nothing
    return {
        "rectangles": [rectangle.to_json() for rectangle in found],
        "marks": [mark.to_json() for mark in marks],
        "stale": False,
    }


def _draw(data: bytes, page: int, width: int) -> bytes:
    try:
        return draw_page(data, page, width)
    except LoadError as error:
        raise RequestRejected(ErrorResponse(415, f"{error.reason}: {error.hint}", "cannot_be_drawn")) from error


def _read_html(session: Session, document: Document) -> JsonObject:
    original = _require_file(session, document)
    try:
        return {"tree": read_tree(original.data, document.source)}
    except LoadError as error:
        raise RequestRejected(ErrorResponse(415, f"{error.reason}: {error.hint}", "cannot_be_shown")) from error
