"""The tool `aggregate_records`: counts and sums over records, by a fixed grammar."""

from __future__ import annotations

from functools import cache
from typing import Literal, Protocol

from ragkit.agent.tools.base import Tool, ToolContext, ToolResult
from ragkit.agent.tools.function_schema import ToolSignature, read_signature
from ragkit.answer.base import Where
from ragkit.index.aggregate import FieldAggregate
from ragkit.store.filters.where_syntax import parse_where

TOOL_NAME = "aggregate_records"


class Aggregator(Protocol):
    """Computes over the metadata of documents: a knowledge base."""

    def aggregate(self, field: str = "", where: Where = None) -> FieldAggregate:
        """The numbers in a field of the documents that a filter selects."""


class AggregateTool:
    """Lets a model count and sum instead of reading every record. Pass `tool` to any agent."""

    def __init__(self, records: Aggregator) -> None:
        self._records = records

    @property
    def tool(self) -> Tool:
        """The tool to register with an agent."""
        signature = _tool_signature()
        return Tool(TOOL_NAME, signature.summary, self._aggregate, signature.schema, signature=signature)

    def _aggregate(
        self,
        function: Literal["count", "sum", "min", "max", "mean"],
        field: str = "",
        where: str = "",
        *,
        context: ToolContext,
    ) -> ToolResult:
        """Count records, or compute the sum, minimum, maximum or mean of a numeric field over them.

        Args:
            function: What to compute.
            field: The field, such as `price`; empty for `count`.
            where: A condition on metadata such as `format == "csv" and year >= 2020`; empty for all records.
        """
        del context
        found = self._records.aggregate(field, parse_where(where) if where.strip() else None)
        if function == "count":
            return ToolResult(f"{found.documents} records", found)
        value = {"sum": found.sum, "min": found.min, "max": found.max, "mean": found.mean}[function]
        if not found.numbers:
            return ToolResult(f"no number in the field {field!r} of {found.documents} records", found)
        return ToolResult(f"{function} of {field} over {found.numbers} of {found.documents} records: {value}", found)


@cache
def _tool_signature() -> ToolSignature:
    return read_signature(AggregateTool._aggregate, context_type=ToolContext, hidden=("self",))
