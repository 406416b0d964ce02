"""Routes that change the knowledge base: uploads, sources, jobs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

from fastapi import APIRouter, Body, Depends, Query, Request
from fastapi.responses import Response

from ragkit.errors import NotAKnowledgeBase
from ragkit.index.catalog.sqlite import Catalog, FileRow
from ragkit.index.sources.added_documents import ADDED_ROOT
from ragkit.index.sources.ids import display_name, is_within
from ragkit.index.sources.web_pages import is_url, normalize_url
from ragkit.knowledge_base.session import Session
from ragkit.records import Document
from ragkit.server.answering.streams import HEARTBEAT_SECONDS, EventStream
from ragkit.server.api.chat import Cursor, PageLimit
from ragkit.server.api.dependencies import AppContext, ContextDep, JsonObject
from ragkit.server.api.schemas.management import (
    AddSourceBody,
    JobListSchema,
    JobSchema,
    ResumeJobBody,
    SourceListSchema,
    StartJobBody,
    UploadSchema,
)
from ragkit.server.api.schemas.requests import EVENT_STREAM_RESPONSE, Id
from ragkit.server.http_errors import ErrorResponse, RequestRejected, invalid_request, not_found
from ragkit.server.principals import CURRENT, may_edit, require_editor
from ragkit.server.settings import is_loopback
from ragkit.server.state.job_store import Job, JobRequest, job_json
from ragkit.server.state.upload_names import own_folder, safe_name
from ragkit.server.state.uploads import SeenDocument, StoredUpload

router = APIRouter()
EVENT_INTERVAL_S = 0.25
"""Seconds between two looks at a job for its events."""
UploadName = Annotated[str, Query(min_length=1, max_length=2000, description="The name: `a.pdf` or `manuals/a.pdf`.")]
IndexFlag = Annotated[bool, Query(description="Index it now. With false, start a job after the last file.")]
_BINARY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The bytes of the file.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


async def require_owner(context: ContextDep) -> None:
    """Raises RequestRejected for a token that may not change the knowledge base: neither the first, nor an editor's."""
    if not may_change(context):
        message = "only the first token of the server, and users with the role editor, may change the knowledge base"
        raise RequestRejected(ErrorResponse(403, message, "not_owner", "permission_error"))


def may_change(context: AppContext) -> bool:
    """Whether the current request may change the knowledge base."""
    return may_edit(without=not context.settings.tokens)


async def require_management() -> None:
    """Raises RequestRejected for users who are only readers: jobs and sources name files."""
    require_editor()


Owner = Depends(require_owner)
Insight = Depends(require_management)


@router.post("/documents", response_model=UploadSchema, dependencies=[Owner], openapi_extra=_BINARY)
async def upload_document(request: Request, context: ContextDep, name: UploadName, index: IndexFlag = True) -> Any:
    """Upload a file into the folder of uploads, and index it. The body is the file itself.

    An editor replaces a file that they may read; every other one is stored in a folder of their own, `@NAME/`, whether
    or not there is a file of this name.
    """
    if request.headers.get("content-type", "").startswith("multipart/"):
        raise RequestRejected(ErrorResponse(415, "send the file itself as the body", "unsupported_type"))
    safe, length = safe_name(name), request.headers.get("content-length", "")
    if index:
        await context.jobs.require_room(_by())
    replaces = None
    if not _sees_everything():
        replaces, safe = await _find_readable(context, safe), f"{_own_folder()}/{safe}"
    async with context.upload_limiter.slot():
        size = int(length) if length.isascii() and length.isdigit() else None
        upload = await context.uploads.receive(safe, request.stream(), size, replaces)
    indexing = JobRequest("index", index=(str(context.uploads.folder),))
    job = await _submit(context, indexing, has_room=True) if index else None
    return {"name": upload.name, "bytes": upload.bytes, "replaced": upload.replaced, "job": job}


@router.delete("/documents/{document_id}", response_model=JobSchema, dependencies=[Owner])
async def delete_document(context: ContextDep, document_id: Id) -> Any:
    """Remove a document from the index; an uploaded file is deleted. A file of another folder stays where it is.

    A file that was uploaded in its place since it was indexed stays, with its document.
    """
    document = await _find_document(context, document_id)
    return await _remove(context, [await context.read(lambda session: _read_seen(session, document))])


@router.post("/documents/{document_id}/index", response_model=JobSchema, dependencies=[Owner])
async def index_document(context: ContextDep, document_id: Id) -> Any:
    """Read and index a document again, changed or not."""
    document = await _find_document(context, document_id)
    file = await context.read(lambda session: _read_file(session, document.source))
    roots = await context.read(_read_roots)
    containing = [root for root in roots if is_within(file.source, root)]
    if not containing:
        raise invalid_request("the document belongs to no source", "document_id", "no_source", 409)
    request = JobRequest("index", index=(max(containing, key=len),), again=(file.source,))
    return await _submit(context, request)


@router.get("/sources", response_model=SourceListSchema, dependencies=[Insight])
async def list_sources(request: Request, context: ContextDep) -> Any:
    """List the sources, the limits of uploads, and what this client may do. Works without a knowledge base."""
    try:
        sources = await context.read(lambda session: _read_sources(context, session))
        exists = True
    except NotAKnowledgeBase:
        sources, exists = [], False
    usage, limits = await context.uploads.usage(await _readable_names(context)), context.settings.limits
    uploads: JsonObject = {
        "id": _source_key(str(context.uploads.folder)),
        "source": display_name(str(context.uploads.folder)),
        "files": usage.files,
        "max_files": limits.upload_files,
        "bytes": usage.bytes,
        "max_bytes": limits.upload_bytes,
        "max_file_bytes": context.uploads.max_file_bytes,
    }
    local = may_change(context) and _is_local(request, context)
    roots = list(context.settings.roots) if local else []
    return {
        "exists": exists, "sources": sources, "uploads": uploads, "roots": roots, "can_change": may_change(context),
        "is_owner": _sees_everything(),
    }  # fmt: skip


@router.post("/sources", response_model=JobSchema, dependencies=[Owner])
async def add_source(request: Request, context: ContextDep, body: AddSourceBody) -> Any:
    """Index a folder or file below the folders named at the start, for clients on this machine; or a web page."""
    if (body.path is None) == (body.url is None):
        raise invalid_request("give either path or url", "path")
    if body.url is not None:
        if not is_url(body.url) or urlsplit(body.url).scheme.lower() not in ("http", "https"):
            raise invalid_request("url must begin with http:// or https://", "url")
        if any(map(str.isspace, body.url.strip())):
            raise invalid_request("url must not contain spaces: write one in a path as %20", "url")
        return await _submit(context, JobRequest("index", index=(normalize_url(body.url),)))
    if not _is_local(request, context):
        message = "only clients on the machine of the server may add its folders"
        raise RequestRejected(ErrorResponse(403, message, "not_local", "permission_error"))
    path = await context.run(lambda: _resolve_below(context.settings.roots, body.path or ""))
    return await _submit(context, JobRequest("index", index=(path,)))


@router.delete("/sources/{source_id}", response_model=JobSchema, dependencies=[Owner])
async def delete_source(context: ContextDep, source_id: Id) -> Any:
    """Remove a source with its documents from the index; uploaded files are deleted. Others stay where they are.

    What is uploaded after the request stays. An editor removes the documents that they may read.
    """
    [source] = await _find_sources(context, [source_id])
    if not _sees_everything():
        return await _remove(context, await context.read(lambda session: _read_documents(session, source)))
    latest = await context.uploads.find_folder(source)
    if latest is None:
        return await _submit(context, JobRequest("remove", (source,)))
    return await _submit(context, JobRequest("remove", uploads_until=latest.number, place=latest.place))


@router.post("/jobs", response_model=JobSchema, dependencies=[Owner])
async def start_job(context: ContextDep, body: Annotated[StartJobBody | None, Body()] = None) -> Any:
    """Index sources again: new, changed and deleted files. With `dry_run`, estimate what it would cost."""
    asked = body or StartJobBody()  # type: ignore[call-arg]
    if asked.sources:
        sources = await _find_sources(context, asked.sources)
    else:
        sources = list((await _known_sources(context)).values())
    if not sources:
        raise invalid_request("there is no source: upload a file or add a source first", "sources", "no_source", 409)
    request = JobRequest("index", index=tuple(sources), retry_failed=asked.retry_failed)
    return await _submit(context, replace(request, kind="dry_run") if asked.dry_run else request)


@router.get("/jobs", response_model=JobListSchema, dependencies=[Insight])
async def list_jobs(context: ContextDep, cursor: Cursor = None, limit: PageLimit = 50) -> Any:
    """List jobs, latest first; owners see all, others their own."""
    jobs, next_cursor = await context.jobs.list(cursor, limit, None if _sees_everything() else _by())
    return {"jobs": [await _to_json(context, job) for job in jobs], "next": next_cursor}


@router.get("/jobs/{job_id}", response_model=JobSchema, dependencies=[Insight])
async def get_job(context: ContextDep, job_id: Id) -> Any:
    """Get a job with its progress."""
    return await _to_json(context, await _find_job(context, job_id))


@router.get(
    "/jobs/{job_id}/events", response_class=Response, responses={200: EVENT_STREAM_RESPONSE}, dependencies=[Insight]
)
async def stream_job(context: ContextDep, job_id: Id) -> Response:
    """Stream a job as server-sent events: `progress` at every change, and `done` at the end, with the job as data."""
    return EventStream(_job_frames(context, await _find_job(context, job_id)), _do_nothing)


@router.post("/jobs/{job_id}/cancel", response_model=JobSchema, dependencies=[Owner])
async def cancel_job(context: ContextDep, job_id: Id) -> Any:
    """Stop a job after the current file or batch. What was embedded is kept."""
    await _find_job(context, job_id)
    job = await context.jobs.cancel(job_id)
    context.job_runner.cancel(job_id)
    return await _to_json(context, job)


@router.post("/jobs/{job_id}/resume", response_model=JobSchema, dependencies=[Owner])
async def resume_job(context: ContextDep, job_id: Id, body: Annotated[ResumeJobBody | None, Body()] = None) -> Any:
    """Confirm the cost of a job, or go on with one that was cancelled or failed: it continues where it stopped."""
    limit = context.settings.limits.index_usd if body is None else body.max_cost_usd
    await _find_job(context, job_id)
    job = await context.jobs.resume(job_id, limit)
    context.job_runner.wake()
    return await _to_json(context, job)


async def _submit(context: AppContext, request: JobRequest, *, has_room: bool = False) -> JsonObject:
    asked = replace(request, max_cost_usd=context.settings.limits.index_usd, by=_by())
    job = await context.jobs.submit(asked, has_room=has_room)
    context.job_runner.wake()
    return await _to_json(context, job)


async def _remove(context: AppContext, documents: Sequence[SeenDocument]) -> JsonObject:
    """Queue the removal of documents as they are now, on the server that has their files."""
    uploads = await context.uploads.find([document.source for document in documents])
    by_place: dict[str, list[SeenDocument]] = {"": []}
    for document in documents:
        upload = uploads.get(document.source)
        if upload is None:
            by_place[""].append(document)
        else:
            seen = replace(document, name=upload.name, number=upload.number)
            by_place.setdefault(upload.place, []).append(seen)
    requests = [
        JobRequest("remove", documents=tuple(seen), place=place) for place, seen in by_place.items() if seen
    ] or [JobRequest("remove")]
    return [await _submit(context, request) for request in requests][-1]


async def _find_job(context: AppContext, job_id: str) -> Job:
    """A job that the principal may see. Raises RequestRejected."""
    job = await context.jobs.get(job_id)
    if not _sees_everything() and job.request.by != _by():
        raise not_found("job", "job_not_found")
    return job


async def _to_json(context: AppContext, job: Job) -> JsonObject:
    """A job as JobSchema. For all but owners without counts, and without failures of files that they may not read."""
    asked = job.request
    folder = asked.place.partition(":")[2] or str(context.uploads.folder)
    removed = (*asked.remove, *(document.source for document in asked.documents))
    names = (*(asked.again or asked.index), *removed, *([folder] if asked.uploads_until is not None else []))
    shown: JsonObject = {**job_json(job), "sources": list(dict.fromkeys(map(display_name, names)))}
    if not _sees_everything():
        shown |= {"progress": None, "report": None}
        if job.state.get("failures"):
            is_readable, prefix = await _readable_names(context), f"{display_name(str(context.uploads.folder))}/"
            shown["failures"] = [
                failure
                for failure in cast("list[dict[str, str]]", job.state["failures"])
                if failure["source"].startswith(prefix) and is_readable(failure["source"].removeprefix(prefix))
            ]
    return shown


async def _job_frames(context: AppContext, job: Job) -> AsyncIterator[bytes]:
    last, silent = "", 0.0
    while True:
        text = json.dumps(await _to_json(context, job), ensure_ascii=False)
        if job.has_ended:
            yield f"event: done\ndata: {text}\n\n".encode()
            return
        if text != last:
            yield f"event: progress\ndata: {text}\n\n".encode()
            last, silent = text, 0.0
        elif silent >= HEARTBEAT_SECONDS:
            yield b": keep-alive\n\n"
            silent = 0.0
        if context.runner.limiter.closed:  # the server stops: the job goes on with the next one
            return
        await asyncio.sleep(EVENT_INTERVAL_S)
        silent += EVENT_INTERVAL_S
        job = await context.jobs.get(job.id)


async def _do_nothing() -> None:
    """A client that stops reading does not stop the job."""


def _by() -> str:
    """Who asks for a job."""
    principal = CURRENT.get()
    return "" if principal is None else principal.name


def _sees_everything() -> bool:
    """Whether the principal may read every document."""
    principal = CURRENT.get()
    return principal is not None and principal.role == "owner"


def _own_folder() -> str:
    return own_folder(_by().removeprefix("user:").rpartition("@")[0])


async def _readable_names(context: AppContext) -> Callable[[str], bool]:
    """Says which uploads the principal may know by their names: their own, and those that they may read."""
    if _sees_everything():
        return lambda name: True
    own, folder = f"{_own_folder()}/", str(context.uploads.folder)
    try:
        documents = await context.read(lambda session: _read_documents(session, folder))
    except NotAKnowledgeBase:
        documents = []
    names = {document.source.removeprefix(f"{folder}/") for document in documents}
    return lambda name: name.startswith(own) or name in names


async def _find_readable(context: AppContext, name: str) -> StoredUpload | None:
    """An upload of which the principal may read everything; None if there is none, or not as it was indexed."""
    source = str(context.uploads.folder / name)
    upload = (await context.uploads.find([source])).get(source)
    try:
        original = await context.read(lambda session: session.original(source))
    except NotAKnowledgeBase:
        return None
    return upload if original is not None and upload is not None and upload.place == context.uploads.place else None


async def _find_document(context: AppContext, document_id: str) -> Document:
    document = await context.read(lambda session: session.find_document(document_id))
    if document is None:
        raise not_found("document", "document_not_found")
    return document


def _read_file(session: Session, source: str) -> FileRow:
    """The file of a document: that which holds it, if it is a part of one. Raises RequestRejected."""
    file = session.file_row(source)
    if file is None:
        raise not_found("document", "document_not_found")
    return file


def _read_seen(session: Session, document: Document) -> SeenDocument:
    """A document as it is to be removed. Raises RequestRejected if it is gone, or the principal may not remove it."""
    seen = [seen for seen in _read_documents(session, document.source) if seen.source == document.source]
    if seen and seen[0].id == document.id:
        return seen[0]
    if _sees_everything() or session.find_document(document.id) is None:
        raise not_found("document", "document_not_found")
    message = "only an owner may remove this document: not everyone may read all parts of its file"
    raise RequestRejected(ErrorResponse(403, message, "not_owner", "permission_error"))


def _read_documents(session: Session, folder: str) -> list[SeenDocument]:
    """The documents below a folder that the principal may remove: those of which they may read every part."""
    with session.snapshot() as snapshot:
        found = Catalog(snapshot.connection).seen_documents(folder)
        return [SeenDocument(*row) for row in found if not snapshot.shares_hidden_content(row[0])]


def _read_roots(session: Session) -> list[str]:
    with session.snapshot() as snapshot:
        return Catalog(snapshot.connection).roots()


def _read_sources(context: AppContext, session: Session) -> list[JsonObject]:
    with session.snapshot() as snapshot:
        catalog = Catalog(snapshot.connection)
        roots, files = catalog.roots(), list(catalog.files().values())
    rows: list[JsonObject] = []
    for root in roots:
        inside = [row.status for row in files if is_within(row.source, root)]
        counts: JsonObject = {"files": inside.count("indexed"), "failed": inside.count("failed")}
        name: JsonObject = {"id": _source_key(root), "source": display_name(root), "kind": _kind(context, root)}
        rows.append({**name, **counts})
    return rows


def _kind(context: AppContext, root: str) -> str:
    if root == str(context.uploads.folder):
        return "uploads"
    if root == ADDED_ROOT:
        return "added"
    return "url" if is_url(root) else "path"


def _source_key(root: str) -> str:
    return f"src_{blake2b(root.encode(), digest_size=12).hexdigest()}"


async def _known_sources(context: AppContext) -> dict[str, str]:
    """The sources by id, with the folder of uploads even before it is indexed; none without a knowledge base."""
    try:
        roots = await context.read(_read_roots)
    except NotAKnowledgeBase:
        roots = []
    folder = context.uploads.folder
    return {_source_key(root): root for root in [*roots, *([str(folder)] if folder.exists() else [])]}


async def _find_sources(context: AppContext, ids: Sequence[str]) -> list[str]:
    roots = await _known_sources(context)
    if unknown := [key for key in ids if key not in roots]:
        raise not_found(f"source {unknown[0][:80]!r}", "source_not_found")
    return [roots[key] for key in dict.fromkeys(ids)]


def _is_local(request: Request, context: AppContext) -> bool:
    """Whether the client is on the machine of the server, and the server only listens to such clients."""
    return is_loopback(context.settings.host) and request.client is not None and is_loopback(request.client.host)


def _resolve_below(roots: Sequence[str], path: str) -> str:
    """A path without links, if it exists below one of the roots. Whether another path exists is not said."""
    resolved = os.path.realpath(path) if "\0" not in path and Path(path).is_absolute() else ""
    if not any(Path(resolved).is_relative_to(os.path.realpath(root)) for root in roots) or not Path(resolved).exists():
        allowed = ", ".join(roots) or "none: start the server with --root FOLDER"
        message = f"path must be the absolute path of a folder or file below one of: {allowed}"
        raise RequestRejected(ErrorResponse(403, message, "path_not_allowed", "permission_error", "path"))
    return resolved
