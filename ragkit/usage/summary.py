"""Usage as text for people. It is made from the JSON of the usage alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragkit.records import JSON

Usage = Mapping[str, JSON]


def format_usage(usage: Usage) -> str:
    """Totals, then a line for each model and each tool."""
    models, tools = _entries(usage, "by_model"), _entries(usage, "by_tool")
    calls, hits = (int(sum(_number(entry.get(key)) for _, entry in models)) for key in ("calls", "cache_hits"))
    lines = [f"{_tokens(usage)}, {_count(calls, 'model call')}, {_cost(usage, models)}"]
    if hits:
        answered = f"{_count(hits, 'call')} answered by the response cache"
        lines.append(f"  saved {format_usd(usage.get('saved_cost_usd'))}: {answered}")
    lines += [
        f"  {name}: {_count(int(_number(entry.get('calls'))), 'call')}, {_details(entry)}" for name, entry in models
    ]
    lines += [
        f"  tool {name}: {_count(int(_number(entry.get('calls'))), 'call')}"
        + (f", {_details(entry)}" if _spent(entry) else "")
        for name, entry in tools
    ]
    return "\n".join(lines)


def format_usd(cost: JSON) -> str:
    """US dollars, below 0.1 with up to six places; `price unknown` for None."""
    if not isinstance(cost, int | float):
        return "price unknown"
    if 0 < cost < 1e-6:
        return "<$0.000001"
    return f"${cost:.2f}" if cost == 0 or cost >= 0.1 else f"${cost:.6f}".rstrip("0")


def _cost(usage: Usage, models: list[tuple[str, Usage]]) -> str:
    total = usage.get("total_cost_usd")
    if total is not None:
        return format_usd(total)
    known = sum(_number(entry.get(key)) for _, entry in models for key in ("llm_cost_usd", "embedding_cost_usd"))
    return f"cost unknown ({format_usd(known)} without the models whose price is unknown)"


def _tokens(usage: Usage) -> str:
    total = sum(_number(usage.get(key)) for key in ("prompt_tokens", "completion_tokens", "embedding_tokens"))
    parts = ", ".join(_token_parts(usage))
    return f"{total:,.0f} tokens" + (f" ({parts})" if parts else "")


def _token_parts(usage: Usage) -> Iterator[str]:
    names = {
        "prompt_tokens": "in",
        "completion_tokens": "out",
        "embedding_tokens": "embedded",
        "cached_tokens": "cached",
    }
    for key, word in names.items():
        if _number(usage.get(key)):
            yield f"{_number(usage.get(key)):,.0f} {word}"


def _details(entry: Usage) -> str:
    return f"{_tokens(entry)}, {format_usd(entry.get('total_cost_usd'))}"


def _spent(entry: Usage) -> bool:
    return bool(list(_token_parts(entry))) or entry.get("total_cost_usd") != 0


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _entries(usage: Usage, key: str) -> list[tuple[str, Usage]]:
    entries = usage.get(key)
    items = entries.items() if isinstance(entries, Mapping) else ()
    return [(name, entry) for name, entry in items if isinstance(entry, Mapping)]


def _number(value: JSON) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
