"""Documents, their text and places in it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from ragkit.server.api.schemas.answers import RectangleSchema


class DocumentSummarySchema(TypedDict):
    """A document in a list."""

    id: Annotated[str, Field(description="The id of the document.")]
    source: Annotated[str, Field(description="The file or URL.")]
    title: Annotated[str, Field(description="The title; may be empty.")]
    chunks: Annotated[int, Field(description="Number of passages.")]
    characters: Annotated[int, Field(description="Length of the text.")]
    format: Annotated[str, Field(description="The format, such as `pdf`.")]


class DocumentRowSchema(DocumentSummarySchema):
    """A document in a list, with the time of its last change."""

    modified: Annotated[str | None, Field(description="Time of the last change of the file; null if unknown.")]


class DocumentListSchema(TypedDict):
    """The result of `list_documents`, by source."""

    documents: Annotated[list[DocumentSummarySchema], Field(description="The documents.")]
    next: Annotated[str | None, Field(description="`cursor` of the next page; null on the last page.")]


class DocumentRowsSchema(TypedDict):
    """Documents by source."""

    documents: Annotated[list[DocumentRowSchema], Field(description="The documents.")]
    next: Annotated[str | None, Field(description="`cursor` of the next page; null on the last page.")]


class DocumentText(TypedDict):
    """The text of a document, or some of its lines, counted from 1."""

    id: Annotated[str, Field(description="The id of the document.")]
    source: Annotated[str, Field(description="The file or URL.")]
    title: Annotated[str, Field(description="The title; may be empty.")]
    format: Annotated[str, Field(description="The format, such as `pdf`.")]
    text: Annotated[str, Field(description="The returned lines.")]
    first_line: Annotated[int, Field(description="The first returned line, counted from 1.")]
    last_line: Annotated[int, Field(description="The last returned line.")]
    lines: Annotated[int, Field(description="Number of lines of the document.")]
    stale: Annotated[bool, Field(description="The file has changed or was deleted since it was indexed.")]


class DocumentLinesSchema(DocumentText):
    """The result of `get_document`."""

    next_line: Annotated[int | None, Field(description="`start_line` of the next part; null at the end.")]


class SectionSchema(TypedDict):
    """A heading of an outline."""

    title: Annotated[str, Field(description="The text of the heading.")]
    level: Annotated[int, Field(description="1 is the highest.")]
    place: Annotated[str, Field(description="Where it stands: `line 48`, `page 3`.")]


class OutlineSchema(TypedDict):
    """The result of `outline`."""

    source: Annotated[str, Field(description="The file or URL.")]
    title: Annotated[str, Field(description="The title; may be empty.")]
    sections: Annotated[list[SectionSchema], Field(description="The headings, in order.")]
    left_out: Annotated[int, Field(description="Headings beyond the limit of one result.")]


class TextPlaceSchema(TypedDict):
    """A place where a text was found."""

    place: Annotated[str, Field(description="Where it stands: `line 48`, `page 3`.")]
    text: Annotated[str, Field(description="Its line.")]


class TextMatchesSchema(TypedDict):
    """The places in one document."""

    source: Annotated[str, Field(description="The file or URL.")]
    title: Annotated[str, Field(description="The title; may be empty.")]
    count: Annotated[int, Field(description="All places.")]
    places: Annotated[list[TextPlaceSchema], Field(description="The first places.")]


class FoundTextSchema(TypedDict):
    """The result of `find_text`."""

    pattern: Annotated[str, Field(description="What was looked for.")]
    places: Annotated[int, Field(description="All places in all documents.")]
    matching: Annotated[int, Field(description="Documents with a place.")]
    searched: Annotated[int, Field(description="Documents that were read.")]
    complete: Annotated[bool, Field(description="Every document was read; else the time was used up.")]
    documents: Annotated[list[TextMatchesSchema], Field(description="Documents with a place, by source.")]
    left_out: Annotated[int, Field(description="Matching documents beyond the limit of one result.")]


class MarkSchema(TypedDict):
    """A part of the picture of a page, as shares of its width and height from its top left corner."""

    page: Annotated[int, Field(description="The page, counted from 1.")]
    left: Annotated[float, Field(description="Left edge.")]
    top: Annotated[float, Field(description="Upper edge.")]
    width: Annotated[float, Field(description="Width.")]
    height: Annotated[float, Field(description="Height.")]


class MatchSchema(TypedDict):
    """A place in the text of a document: offsets, and the page, counted from 1; null if the document has none."""

    start: int
    end: int
    page: int | None


class MatchesSchema(TypedDict):
    """Where words stand in a document; the first 500."""

    matches: list[MatchSchema]


class OverviewSchema(TypedDict):
    """What a document is about: sentences of it, and its main sections; `pages` is 0 for one without pages."""

    title: str
    format: str
    language: str | None
    pages: int
    characters: int
    summary: list[str]
    sections: list[str]


class HtmlTreeSchema(TypedDict):
    """What a reader sees of an HTML page: texts and elements, without anything that runs or loads."""

    tree: Annotated[
        list[Any],
        Field(description='Texts, and elements `{"tag", "children"}`, some with `href`, `colspan` or `rowspan`.'),
    ]


class RectanglesSchema(TypedDict):
    """Where a part of a document stands on the pages of its PDF file."""

    rectangles: Annotated[
        list[RectangleSchema],
        Field(description="One per line; empty for other formats, and for files that have changed."),
    ]
    marks: Annotated[
        list[MarkSchema], Field(description="The same in the pictures of `GET /documents/{document_id}/pages/{page}`.")
    ]
    stale: Annotated[bool, Field(description="The file has changed or was deleted since it was indexed.")]


class PageStartSchema(TypedDict):
    """The line on which a page starts."""

    page: Annotated[int, Field(description="The page, counted from 1.")]
    line: Annotated[int, Field(description="The line on which it starts.")]


class HeadingSchema(TypedDict):
    """A heading of a document."""

    line: Annotated[int, Field(description="Its line, counted from 1.")]
    level: Annotated[int, Field(description="1: the highest. 100: the column names of a table.")]
    text: Annotated[str, Field(description="Its text.")]


class DocumentSchema(DocumentText):
    """The text of a document, or an excerpt, with its pages."""

    view: Annotated[
        Literal["pages", "html", "markdown", "table", "code", "text"],
        Field(description="How it is shown as its readers know it."),
    ]
    language: Annotated[str, Field(description="The programming language of code; empty otherwise.")]
    headings: Annotated[list[HeadingSchema], Field(description="Headings in the returned lines.")]

    pages: Annotated[
        list[PageStartSchema], Field(description="All pages of the document; empty if the format has none.")
    ]
