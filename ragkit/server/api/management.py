"""Routes that change the knowledge base: uploads, sources, jobs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Body, Depends, Query, Request
from fastapi.responses import Response

from ragkit.errors import NotAKnowledgeBase
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.sources.added_documents import ADDED_ROOT
from ragkit.index.sources.ids import display_name, is_within
from ragkit.index.sources.web_pages import is_url, normalize_url
from ragkit.server.answering.streams import HEARTBEAT_SECONDS, EventStream
from ragkit.server.api import management_schemas, schemas
from ragkit.server.api.chat import Cursor, PageLimit
from ragkit.server.api.dependencies import AppContext, ContextDep, JsonObject
from ragkit.server.http_errors import ErrorResponse, RequestRejected, invalid_request, not_found
from ragkit.server.principals import may_edit, require_editor
from ragkit.server.settings import is_loopback
from ragkit.server.state.job_store import Job, JobRequest, job_json
from ragkit.server.state.upload_names import safe_name

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


async def require_insight() -> None:
    """Raises RequestRejected for users who are only readers: jobs and sources name files."""
    require_editor()


Owner = Depends(require_owner)
Insight = Depends(require_insight)


@router.post("/documents", response_model=management_schemas.UploadSchema, dependencies=[Owner], openapi_extra=_BINARY)
async def upload_document(request: Request, context: ContextDep, name: UploadName, index: IndexFlag = True) -> Any:
    """Upload a file into the folder of uploads, and index it. The body is the file itself."""
    if request.headers.get("content-type", "").startswith("multipart/"):
        raise RequestRejected(ErrorResponse(415, "send the file itself as the body", "unsupported_type"))
    safe, length = safe_name(name), request.headers.get("content-length", "")
    async with context.upload_limiter.slot():
        size = int(length) if length.isascii() and length.isdigit() else None
        upload = await context.uploads.receive(safe, request.stream(), size)
    job = await _submit(context, JobRequest("index", index=(str(context.uploads.folder),))) if index else None
    return {"name": upload.name, "bytes": upload.bytes, "replaced": upload.replaced, "job": job}


@router.delete("/documents/{document_id}", response_model=management_schemas.JobSchema, dependencies=[Owner])
async def delete_document(context: ContextDep, document_id: schemas.Id) -> Any:
    """Remove a document from the index; an uploaded file is deleted. A file of another folder stays where it is."""
    source = await _document_source(context, document_id)
    name = context.uploads.name_of(source)
    return await _submit(context, JobRequest("remove", (source,), () if name is None else (name,)))


@router.post("/documents/{document_id}/index", response_model=management_schemas.JobSchema, dependencies=[Owner])
async def index_document(context: ContextDep, document_id: schemas.Id) -> Any:
    """Read and index a document again, changed or not."""
    source = await _document_source(context, document_id)
    roots = await context.read(lambda: _read_roots(context))
    containing = [root for root in roots if is_within(source, root)]
    if not containing:
        raise invalid_request("the document belongs to no source", "document_id", "no_source", 409)
    return await _submit(context, JobRequest("index", (source,), index=(max(containing, key=len),)))


@router.get("/sources", response_model=management_schemas.SourceListSchema, dependencies=[Insight])
async def list_sources(request: Request, context: ContextDep) -> Any:
    """List the sources, the limits of uploads, and what this client may do. Works without a knowledge base."""
    try:
        sources = await context.read(lambda: _read_sources(context))
        exists = True
    except NotAKnowledgeBase:
        sources, exists = [], False
    usage, limits = await context.uploads.usage(), context.settings.limits
    uploads: JsonObject = {
        "id": _source_key(str(context.uploads.folder)),
        "source": display_name(str(context.uploads.folder)),
        "files": usage.files,
        "max_files": limits.upload_files,
        "bytes": usage.bytes,
        "max_bytes": limits.upload_bytes,
        "max_file_bytes": context.kb.max_file_bytes,
    }
    local = may_change(context) and _is_local(request, context)
    roots = list(context.settings.roots) if local else []
    return {
        "exists": exists, "sources": sources, "uploads": uploads, "roots": roots, "can_change": may_change(context)
    }  # fmt: skip


@router.post("/sources", response_model=management_schemas.JobSchema, dependencies=[Owner])
async def add_source(request: Request, context: ContextDep, body: management_schemas.AddSourceBody) -> Any:
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
    path = await context.read(lambda: _resolve_below(context.settings.roots, body.path or ""))
    return await _submit(context, JobRequest("index", index=(path,)))


@router.delete("/sources/{source_id}", response_model=management_schemas.JobSchema, dependencies=[Owner])
async def delete_source(context: ContextDep, source_id: schemas.Id) -> Any:
    """Remove a source with its documents from the index; uploaded files are deleted. Others stay where they are."""
    [source] = await _find_sources(context, [source_id])
    is_uploads = source == str(context.uploads.folder)
    return await _submit(context, JobRequest("remove", (source,), None if is_uploads else ()))


@router.post("/jobs", response_model=management_schemas.JobSchema, dependencies=[Owner])
async def start_job(context: ContextDep, body: Annotated[management_schemas.StartJobBody | None, Body()] = None) -> Any:
    """Index sources again: new, changed and deleted files. With `dry_run`, estimate what it would cost."""
    asked = body or management_schemas.StartJobBody()  # type: ignore[call-arg]
    if asked.sources:
        sources = await _find_sources(context, asked.sources)
    else:
        sources = list((await _known_sources(context)).values())
    if not sources:
        raise invalid_request("there is no source: upload a file or add a source first", "sources", "no_source", 409)
    request = JobRequest("index", index=tuple(sources), retry_failed=asked.retry_failed)
    return await _submit(context, replace(request, kind="dry_run") if asked.dry_run else request)


@router.get("/jobs", response_model=management_schemas.JobListSchema, dependencies=[Insight])
async def list_jobs(context: ContextDep, cursor: Cursor = None, limit: PageLimit = 50) -> Any:
    """List jobs, latest first."""
    jobs, next_cursor = await context.jobs.list(cursor, limit)
    return {"jobs": [_to_json(job) for job in jobs], "next": next_cursor}


@router.get("/jobs/{job_id}", response_model=management_schemas.JobSchema, dependencies=[Insight])
async def get_job(context: ContextDep, job_id: schemas.Id) -> Any:
    """Get a job with its progress."""
    return _to_json(await context.jobs.get(job_id))


@router.get(
    "/jobs/{job_id}/events",
    response_class=Response,
    responses={200: schemas.EVENT_STREAM_RESPONSE},
    dependencies=[Insight],
)
async def stream_job(context: ContextDep, job_id: schemas.Id) -> Response:
    """Stream a job as server-sent events: `progress` at every change, and `done` at the end, with the job as data."""
    return EventStream(_job_frames(context, await context.jobs.get(job_id)), _do_nothing)


@router.post("/jobs/{job_id}/cancel", response_model=management_schemas.JobSchema, dependencies=[Owner])
async def cancel_job(context: ContextDep, job_id: schemas.Id) -> Any:
    """Stop a job after the current file or batch. What was embedded is kept."""
    job = await context.jobs.cancel(job_id)
    context.job_runner.cancel(job_id)
    return _to_json(job)


@router.post("/jobs/{job_id}/resume", response_model=management_schemas.JobSchema, dependencies=[Owner])
async def resume_job(
    context: ContextDep, job_id: schemas.Id, body: Annotated[management_schemas.ResumeJobBody | None, Body()] = None
) -> Any:
    """Confirm the cost of a job, or go on with one that was cancelled or failed: it continues where it stopped."""
    limit = context.settings.limits.index_usd if body is None else body.max_cost_usd
    job = await context.jobs.resume(job_id, limit)
    context.job_runner.wake()
    return _to_json(job)


async def _submit(context: AppContext, request: JobRequest) -> JsonObject:
    job = await context.jobs.submit(replace(request, max_cost_usd=context.settings.limits.index_usd))
    context.job_runner.wake()
    return _to_json(job)


def _to_json(job: Job) -> JsonObject:
    sources = dict.fromkeys(map(display_name, (*job.request.index, *job.request.remove)))
    return {**job_json(job), "sources": list(sources)}


async def _job_frames(context: AppContext, job: Job) -> AsyncIterator[bytes]:
    last, silent = "", 0.0
    while True:
        text = json.dumps(_to_json(job), ensure_ascii=False)
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


async def _document_source(context: AppContext, document_id: str) -> str:
    document = await context.read(lambda: context.kb.find_document(document_id))
    if document is None:
        raise not_found("document", "document_not_found")
    return document.source


def _read_roots(context: AppContext) -> list[str]:
    with context.kb.reader.snapshot() as snapshot:
        return Catalog(snapshot.connection).roots()


def _read_sources(context: AppContext) -> list[JsonObject]:
    with context.kb.reader.snapshot() as snapshot:
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
        roots = await context.read(lambda: _read_roots(context))
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
