"""The state of a server and of its knowledge bases."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict


class BasesSchema(TypedDict):
    """The knowledge bases of a server."""

    bases: Annotated[list[str], Field(description="Their names, the default first; empty for one without a name.")]
    current: Annotated[str, Field(description="The one that this request chose.")]
    managed: Annotated[bool, Field(description="This client may make, rename and delete them.")]


class HealthSchema(TypedDict):
    """The server is alive."""

    status: Literal["live"]


class ReadySchema(TypedDict):
    """The server is ready."""

    status: Literal["ready"]
    parts: Annotated[
        dict[str, str],
        Field(description="`knowledge_base` and `state` (sessions, traces and jobs): `ok`, or why it fails."),
    ]


class KnowledgeBaseStatusSchema(TypedDict):
    """The keys of `status --json`."""

    kb: Annotated[str, Field(description="Directory of the knowledge base.")]
    pipeline: Annotated[str, Field(description="Name of the pipeline.")]
    generation: Annotated[int, Field(description="Number of the index version.")]
    files: Annotated[int, Field(description="Number of files.")]
    failed: Annotated[int, Field(description="Files that could not be indexed.")]
    documents: Annotated[int, Field(description="Number of documents.")]
    chunks: Annotated[int, Field(description="Number of passages.")]
    vectors: Annotated[int, Field(description="Number of vectors.")]
    bytes: Annotated[int, Field(description="Size on disk.")]
    sources: Annotated[list[str], Field(description="The indexed folders, files and URLs.")]
    settings: Annotated[dict[str, Any], Field(description="The settings of the pipeline.")]
    stale: Annotated[int, Field(description="Indexed files that changed or were deleted since.")]
    store: Annotated[str, Field(description="Name of the vector store.")]
    failures: Annotated[
        list[dict[str, Any]], Field(description="The first files that could not be indexed, by source.")
    ]
    language_note: Annotated[str, Field(description="If the embedder does not know the language of most of the text.")]
    database: Annotated[
        dict[str, Any] | None,
        Field(description="The database of the knowledge base, its last publication, and the processes that use it."),
    ]


class StatusResultSchema(KnowledgeBaseStatusSchema):
    """The result of the MCP tool `status`."""

    version: Annotated[str, Field(description="The version of ragkit.")]


class StatusSchema(KnowledgeBaseStatusSchema):
    """The status of the knowledge base and of the server."""

    server: Annotated[dict[str, Any], Field(description="The version, models and limits of the server.")]


class IndexReportSchema(TypedDict):
    """The result of `index`: the keys of `index --json`."""

    kb: Annotated[str, Field(description="Directory of the knowledge base.")]
    files: Annotated[dict[str, int], Field(description="Number of files by change.")]
    chunks: Annotated[dict[str, int], Field(description="Number of passages by change.")]
    embedded: Annotated[int, Field(description="Texts sent to the embedder.")]
    failures: Annotated[list[dict[str, str]], Field(description="Files that could not be indexed.")]
    skipped: Annotated[list[dict[str, str]], Field(description="Skipped files, with the reason.")]
    usage: Annotated[dict[str, Any], Field(description="Tokens and cost in US dollars.")]
    seconds: Annotated[float, Field(description="Duration.")]
