"""The tool `aggregate_records`: counts and sums over records, by a fixed grammar."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from ragkit.agent.tools.base import Tool, ToolContext, ToolResult
from ragkit.agent.tools.function_schema import ToolSignature, read_signature
from ragkit.answer.base import both_filters
from ragkit.index.aggregate import FieldAggregate
from ragkit.records import Where
from ragkit.store.filters.where_syntax import parse_where

TOOL_NAME = "aggregate_records"
AggregateFunction: TypeAlias = Literal["count", "sum", "min", "max", "mean"]
NO_CONTEXT = ToolContext()
"""The context of a call without an agent."""


INSTRUCTIONS = f"""\
Count, add up and compare records with {TOOL_NAME}; what it computed needs no number of a passage.
"""


class RecordReader(Protocol):
    """Computes over the metadata of documents: a `Session` of a knowledge base."""

    def filter_notes(self, where: Where) -> list[str]:
        """What a filter cannot match."""

    def aggregate(self, field: str = "", where: Where = None) -> FieldAggregate:
        """The numbers in a field of the documents that a filter selects."""


@runtime_checkable
class Aggregator(Protocol):
    """What may hold records: a knowledge base, or a session of it."""

    @property
    def has_records(self) -> bool:
        """Whether agents get the tool: some documents are records."""

    def session(self) -> AbstractContextManager[RecordReader]:
        """One state of the documents."""


class AggregateTool:
    """Lets a model count and sum instead of reading every record. Pass `tool` to any agent."""

    def __init__(self, records: Aggregator, where: Where = None) -> None:
        """`where`: a metadata filter that applies to everything that is computed."""
        self._records = records
        self._where = where

    @property
    def tool(self) -> Tool:
        """The tool to register with an agent."""
        signature = _tool_signature()
        return Tool(TOOL_NAME, signature.summary, self.aggregate_records, signature.schema, signature=signature)

    def aggregate_records(
        self, function: AggregateFunction, field: str = "", where: str = "", *, context: ToolContext = NO_CONTEXT
    ) -> ToolResult:
        """Count records, or compute the sum, minimum, maximum or mean of a numeric field over them.

        Args:
            function: What to compute.
            field: The field, such as `price`; empty for `count`.
            where: A condition on metadata such as `format == "csv" and year >= 2020`; empty for all records.
        """
        condition = both_filters(self._where, parse_where(where) if where.strip() else None)
        with self._records.session() as session:
            found = session.aggregate(field, condition)
            notes = "".join(f"; {note}" for note in session.filter_notes(condition)) if not found.documents else ""
        if function == "count":
            return ToolResult(f"{found.documents} records{notes}", found)
        value = {"sum": found.sum, "min": found.min, "max": found.max, "mean": found.mean}[function]
        if not found.numbers:
            fields = f"; fields with numbers: {', '.join(found.known_fields)}" if found.known_fields else ""
            return ToolResult(f"no number in the field {field!r} of {found.documents} records{notes}{fields}", found)
        return ToolResult(f"{function} of {field} over {found.numbers} of {found.documents} records: {value}", found)


@cache
def _tool_signature() -> ToolSignature:
    return read_signature(AggregateTool.aggregate_records, context_type=ToolContext, hidden=("self",))
