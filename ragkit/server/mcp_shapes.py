"""The structured results of the MCP tools, as models, and the JSON Schemas that clients are given of them."""

from __future__ import annotations

from pydantic import BaseModel

from ragkit.agent.tools.schema import Schema, plain_schema


class Scores(BaseModel):
    """What each retriever says of a passage; null where it was not asked."""

    dense: float | None
    lexical: float | None
    rerank: float | None


class PassageShape(BaseModel):
    """A hit of `search --json`, and the id of its document."""

    rank: int
    chunk_id: str
    document_id: str
    source: str
    text: str
    score: float
    scores: Scores
    start: int
    end: int
    start_line: int
    end_line: int
    page: int | None
    heading: list[str]
    metadata: dict[str, object]


class Found(BaseModel):
    """Of `search_knowledge_base`."""

    question: str
    evidence: float
    hits: list[PassageShape]
    usage: dict[str, object]


class CitationShape(BaseModel):
    """A citation of `ask --json`, and the id of its document."""

    n: int
    source: str
    document_id: str
    page: int | None
    start_line: int
    end_line: int
    start: int
    end: int
    quote: str
    verified: bool
    stale: bool
    score: float


class Answered(BaseModel):
    """Of `ask`."""

    question: str
    answer: str
    abstained: bool
    evidence: float
    citations: list[CitationShape]
    model: str
    usage: dict[str, object]
    trace_id: str


class DocumentText(BaseModel):
    """Of `get_document`."""

    id: str
    source: str
    title: str
    format: str
    text: str
    first_line: int
    last_line: int
    lines: int
    next_line: int | None
    stale: bool


class DocumentLine(BaseModel):
    """A document in a list."""

    id: str
    source: str
    title: str
    chunks: int
    characters: int
    format: str


class DocumentList(BaseModel):
    """Of `list_documents`."""

    documents: list[DocumentLine]
    next: str | None


class StatusShape(BaseModel):
    """Of `status`: the keys of `status --json`."""

    kb: str
    pipeline: str
    generation: int
    files: int
    failed: int
    documents: int
    chunks: int
    vectors: int
    bytes: int
    sources: list[str]
    settings: dict[str, object]
    stale: int
    version: str


class IndexShape(BaseModel):
    """Of `index`: the keys of `index --json`."""

    kb: str
    files: dict[str, int]
    chunks: dict[str, int]
    embedded: int
    failures: list[dict[str, str]]
    skipped: list[dict[str, str]]
    usage: dict[str, object]
    seconds: float


def schema_of(shape: type[BaseModel]) -> Schema:
    """The JSON Schema of one of these, with every reference written out."""
    return plain_schema(shape.model_json_schema())
