"""Searches, answers and their citations, also as output schemas of MCP tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from ragkit.agent.tools.function_schema import ToolSchema, inline_references
from ragkit.answer.outcome import Outcome


class HitScores(TypedDict):
    """The score of each retriever; null if it was not used."""

    dense: Annotated[float | None, Field(description="Cosine similarity, in [-1, 1].")]
    lexical: Annotated[float | None, Field(description="BM25 score, >= 0.")]
    rerank: Annotated[float | None, Field(description="Score on the reranker's scale.")]


class HitSchema(TypedDict):
    """A hit of `search --json`, with the id of its document."""

    rank: Annotated[int, Field(description="Position in the hits, from 1.")]
    chunk_id: Annotated[str, Field(description="The id of the passage.")]
    document_id: Annotated[str, Field(description="The id for `GET /documents/{document_id}`.")]
    source: Annotated[str, Field(description="The file or URL.")]
    text: Annotated[str, Field(description="The text of the passage.")]
    score: Annotated[float, Field(description="Ranking score: higher is better, comparable within one search only.")]
    scores: Annotated[HitScores, Field(description="The scores of the retrievers.")]
    start: Annotated[int, Field(description="Offset of the first character in the document.")]
    end: Annotated[int, Field(description="Offset after the last character.")]
    place: Annotated[str, Field(description="Where it stands in the file: lines, a page, cells of a sheet, a time.")]
    start_line: Annotated[int, Field(description="The first line of the document's text, counted from 1.")]
    end_line: Annotated[int, Field(description="The last line.")]
    page: Annotated[int | None, Field(description="The page, counted from 1; null if the format has none.")]
    heading: Annotated[list[str], Field(description="The headings above the passage, outermost first.")]
    metadata: Annotated[dict[str, Any], Field(description="Metadata of the document.")]
    context: Annotated[str, Field(description="Where the passage stands, in a sentence of a model; or empty.")]
    also_in: Annotated[list[str], Field(description="Other sources with a passage that says the same, at most 100.")]
    explain: NotRequired[Annotated[dict[str, Any], Field(description="Ranks and shares of the score by retriever.")]]


class SearchSchema(TypedDict):
    """The hits of a search, best first."""

    question: Annotated[str, Field(description="The query.")]
    hits: Annotated[list[HitSchema], Field(description="The hits, best first.")]
    usage: Annotated[dict[str, Any], Field(description="Tokens and cost in US dollars.")]


class SearchResultSchema(SearchSchema):
    """The result of `search_knowledge_base`."""

    evidence: Annotated[float, Field(description="How well the passages support an answer, in [0, 1].")]


class AggregateSchema(TypedDict):
    """The result of `aggregate_records`."""

    field: Annotated[str, Field(description="The field; empty when only records were counted.")]
    documents: Annotated[int, Field(description="Records that the condition selects.")]
    numbers: Annotated[int, Field(description="Those with a number in the field.")]
    sum: Annotated[float, Field(description="0 without a number.")]
    min: Annotated[float | None, Field(description="null without a number.")]
    max: Annotated[float | None, Field(description="null without a number.")]
    mean: Annotated[float | None, Field(description="null without a number.")]


class RectangleSchema(TypedDict):
    """A part of a page of a PDF file, in PDF points from its bottom left corner."""

    page: Annotated[int, Field(description="The page, counted from 1.")]
    left: Annotated[float, Field(description="Left edge.")]
    bottom: Annotated[float, Field(description="Lower edge.")]
    right: Annotated[float, Field(description="Right edge.")]
    top: Annotated[float, Field(description="Upper edge.")]


class CitationSchema(TypedDict):
    """A citation of `ask --json`, with the id of its document."""

    n: Annotated[int, Field(description="The number in the answer, as `[n]`.")]
    source: Annotated[str, Field(description="The file or URL.")]
    document_id: Annotated[str | None, Field(description="The id for `GET /documents/{document_id}`.")]
    page: Annotated[int | None, Field(description="The page, counted from 1; null if the format has none.")]
    place: Annotated[str, Field(description="Where it stands in the file: lines, a page, cells of a sheet, a time.")]
    rectangles: Annotated[
        list[RectangleSchema] | None,
        Field(description="null: `GET /documents/{document_id}/rectangles` reads them from the file."),
    ]
    start_line: Annotated[int, Field(description="The first line of the document's text, counted from 1.")]
    end_line: Annotated[int, Field(description="The last line.")]
    start: Annotated[int, Field(description="Offset of the first character in the document.")]
    end: Annotated[int, Field(description="Offset after the last character.")]
    quote: Annotated[str, Field(description="The cited text.")]
    verified: Annotated[bool, Field(description="The quote equals the indexed text.")]
    stale: Annotated[bool, Field(description="The file has changed or was deleted since it was indexed.")]
    score: Annotated[float, Field(description="Ranking score of the passage.")]
    support: Annotated[str, Field(description="What was checked, in plain words: `numbers match`, `not supported`.")]
    also_in: NotRequired[Annotated[list[str], Field(description="Other sources with a passage that says the same.")]]
    by: NotRequired[Annotated[str, Field(description="Who cites it: `model`, or `ragkit`, which adds and corrects.")]]


class StatementSchema(TypedDict):
    """A statement of an answer, held against the passages that it cites."""

    text: Annotated[str, Field(description="The statement, without citations.")]
    citations: Annotated[list[int], Field(description="The numbers of the passages that it cites.")]
    support: Literal["supported", "partly", "not_found", "no_citation"]
    checks: Annotated[list[str], Field(description="What was found in the passages.")]
    reason: Annotated[str, Field(description="What is wrong; empty if it is supported.")]
    found_in: Annotated[int | None, Field(description="The number of another passage that supports it.")]
    found_at: Annotated[str | None, Field(description="The source of that passage.")]


Evidence = Annotated[
    float, Field(description="How likely the answer is right; of a model's answer, how well the passages support one.")
]
Confidence = Annotated[
    Literal["likely", "uncertain"] | None, Field(description="`evidence` in words; null for a model's answer.")
]


class AnswerSchema(TypedDict):
    """The result of `ask`."""

    question: Annotated[str, Field(description="The question.")]
    searched_for: Annotated[
        str, Field(description="The question as ragkit searched it, if completed or corrected; else empty.")
    ]
    answer: Annotated[str, Field(description="The text, with citations as `[n]`.")]
    abstained: Annotated[bool, Field(description="The documents do not contain an answer.")]
    outcome: Annotated[Outcome, Field(description="What kind of answer it is.")]
    notices: Annotated[list[str], Field(description="What a reader must be told, one line each.")]
    unknown_citations: Annotated[list[int], Field(description="Citation numbers taken out: they were never shown.")]
    unsupported_reasons: Annotated[list[str], Field(description="Why `strict` fails on it, one line each.")]
    evidence: Evidence
    confidence: Confidence
    supported: Annotated[float | None, Field(description="Share of the statements that are supported, in [0, 1].")]
    statements: Annotated[list[StatementSchema], Field(description="What the answer claims, in order.")]
    citations: Annotated[list[CitationSchema], Field(description="The citations, by number.")]
    model: Annotated[str, Field(description="The model that answered.")]
    usage: Annotated[
        dict[str, Any], Field(description="Tokens and cost in US dollars, in total, by tool and by iteration.")
    ]
    trace_id: Annotated[str, Field(description="The id of the trace.")]


class SuggestionsSchema(TypedDict):
    """First questions, or follow-up questions."""

    questions: Annotated[list[str], Field(description="At most 4, of follow-ups 3; none if no heading is fit for one.")]


def output_schema(result: type) -> ToolSchema:
    """The JSON Schema of a TypedDict, without references."""
    return inline_references(TypeAdapter(result).json_schema())
