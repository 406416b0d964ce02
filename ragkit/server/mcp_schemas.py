"""The structured results of the MCP tools, as models, and the JSON Schemas that clients are given of them."""

from __future__ import annotations

from pydantic import BaseModel

from ragkit.agent.tools.function_schema import ToolSchema, inline_references


class HitScores(BaseModel):
    """What each retriever says of a passage; null where it was not asked."""

    dense: float | None
    lexical: float | None
    rerank: float | None


class HitSchema(BaseModel):
    """A hit of `search --json`, and the id of its document."""

    rank: int
    chunk_id: str
    document_id: str
    source: str
    text: str
    score: float
    scores: HitScores
    start: int
    end: int
    start_line: int
    end_line: int
    page: int | None
    heading: list[str]
    metadata: dict[str, object]


class SearchResultSchema(BaseModel):
    """Of `search_knowledge_base`."""

    question: str
    evidence: float
    hits: list[HitSchema]
    usage: dict[str, object]


class CitationSchema(BaseModel):
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


class AnswerSchema(BaseModel):
    """Of `ask`."""

    question: str
    answer: str
    abstained: bool
    evidence: float
    citations: list[CitationSchema]
    model: str
    usage: dict[str, object]
    trace_id: str


class DocumentLinesSchema(BaseModel):
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


class DocumentSummarySchema(BaseModel):
    """A document in a list."""

    id: str
    source: str
    title: str
    chunks: int
    characters: int
    format: str


class DocumentListSchema(BaseModel):
    """Of `list_documents`."""

    documents: list[DocumentSummarySchema]
    next: str | None


class KnowledgeBaseStatusSchema(BaseModel):
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


class IndexReportSchema(BaseModel):
    """Of `index`: the keys of `index --json`."""

    kb: str
    files: dict[str, int]
    chunks: dict[str, int]
    embedded: int
    failures: list[dict[str, str]]
    skipped: list[dict[str, str]]
    usage: dict[str, object]
    seconds: float


def output_schema(shape: type[BaseModel]) -> ToolSchema:
    """The JSON Schema of one of these, with every reference written out."""
    return inline_references(shape.model_json_schema())
