"""Statistics of tool calls over many runs: success, timing, parameters, streaming. Exports JSON, CSV, DuckDB."""

from __future__ import annotations

import csv
import json
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from io import StringIO
from pathlib import Path
from threading import Lock

from ragkit.argument_types import check_types
from ragkit.errors import shorten
from ragkit.records import JSON

MAX_PARAMETER_VALUES = 50
"""Distinct values counted per parameter; further values are counted as `(others)`."""
MAX_TIMINGS = 1000
"""Number of most recent timings kept per tool."""


@dataclass
class _ToolRecord:
    calls: int = 0
    failures: int = 0
    seconds: float = 0.0
    chunks: int = 0
    streamed: int = 0
    timings: list[float] = field(default_factory=list)
    values: dict[str, Counter[str]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class ToolStatistics:
    """The statistics of one tool."""

    tool: str
    calls: int
    successes: int
    failures: int
    success_rate: float
    """In [0, 1]."""
    total_seconds: float
    mean_seconds: float
    median_seconds: float
    max_seconds: float
    streamed_calls: int
    """Calls that streamed their output."""
    chunks: int
    parameters: Mapping[str, Mapping[str, int]]
    """Counts by parameter and value; values as JSON, truncated to 80 characters."""
    errors: Mapping[str, int]
    """Counts by kind of error."""


@check_types()
class AgentAnalytics:
    """Collects statistics of tool calls. Thread-safe; several agents may share one.

    Args:
        keep_values: count the values of parameters; disable it if they may be private.
    """

    def __init__(self, *, keep_values: bool = True) -> None:
        self.keep_values = keep_values
        self._lock = Lock()
        self._records: dict[str, _ToolRecord] = {}

    def record_tool(
        self, tool: str, arguments: Mapping[str, JSON], seconds: float, *, error: str = "", chunks: int = 0
    ) -> None:
        """Record one call. `error`: the kind of failure; empty if the tool succeeded."""
        with self._lock:
            record = self._records.setdefault(tool, _ToolRecord())
            record.calls += 1
            record.failures += bool(error)
            record.seconds += seconds
            record.chunks += chunks
            record.streamed += chunks > 0
            record.timings = [*record.timings[1 - MAX_TIMINGS :], seconds]
            if error:
                record.errors[error] += 1
            if self.keep_values:
                for name, value in arguments.items():
                    _count_value(record.values.setdefault(name, Counter()), value)

    def tools(self) -> list[ToolStatistics]:
        """The statistics of all called tools, sorted by name."""
        with self._lock:
            return [_to_statistics(name, self._records[name]) for name in sorted(self._records)]

    def tool(self, name: str) -> ToolStatistics | None:
        """The statistics of one tool; None if it was never called."""
        return next((statistics for statistics in self.tools() if statistics.tool == name), None)

    def summary(self) -> str:
        """A line for each tool, to print: calls, failures, timing."""
        return "\n".join(map(_summarize_tool, self.tools())) or "no tool calls"

    def reset(self) -> None:
        """Delete all records."""
        with self._lock:
            self._records.clear()

    def to_dict(self) -> dict[str, JSON]:
        """All statistics as JSON: `{"tools": [...]}`."""
        return {"tools": [asdict(tool) for tool in self.tools()]}

    def export_json(self, path: str | Path) -> None:
        """Write `to_dict` to a file."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n", "utf-8")

    def export_csv(self, path: str | Path) -> None:
        """Write a CSV file with one row per tool; parameters and errors as JSON."""
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(ToolStatistics.__dataclass_fields__)
        for tool in self.tools():
            cells = map(_to_cell, asdict(tool).values())
            writer.writerow([escape_formula(cell) if isinstance(cell, str) else cell for cell in cells])
        Path(path).write_text(text.getvalue(), "utf-8")


def escape_formula(text: str) -> str:
    """Prefix `text` with `'` if a spreadsheet would evaluate it as a formula; negative numbers stay."""
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text if text[0] == "-" else f"'{text}"


def _count_value(values: Counter[str], value: JSON) -> None:
    text = shorten(json.dumps(value, ensure_ascii=False, default=str), 80)
    values[text if text in values or len(values) < MAX_PARAMETER_VALUES else "(others)"] += 1


def _to_statistics(name: str, record: _ToolRecord) -> ToolStatistics:
    successes = record.calls - record.failures
    return ToolStatistics(
        tool=name,
        calls=record.calls,
        successes=successes,
        failures=record.failures,
        success_rate=successes / record.calls,
        total_seconds=record.seconds,
        mean_seconds=record.seconds / record.calls,
        median_seconds=statistics.median(record.timings),
        max_seconds=max(record.timings),
        streamed_calls=record.streamed,
        chunks=record.chunks,
        parameters={key: dict(values) for key, values in record.values.items()},
        errors=dict(record.errors),
    )


def _summarize_tool(tool: ToolStatistics) -> str:
    errors = ", ".join(f"{kind} {count}" for kind, count in sorted(tool.errors.items()))
    parts = [
        f"{tool.tool}: {tool.calls} call{'' if tool.calls == 1 else 's'}, {tool.success_rate:.0%} succeeded",
        f" ({errors})" if errors else "",
        f", mean {tool.mean_seconds * 1000:.0f} ms, longest {tool.max_seconds * 1000:.0f} ms",
        f", {tool.streamed_calls} streamed in {tool.chunks} chunks" if tool.chunks else "",
    ]
    return "".join(parts)


def _to_cell(value: object) -> str | int | float:
    return value if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False)
