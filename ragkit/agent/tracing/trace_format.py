"""A trace for people: a tree of text, or an HTML page. Both are made from the JSON of the trace alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from ragkit.agent.messages import canonical_json, json_objects
from ragkit.errors import shorten
from ragkit.records import JSON
from ragkit.usage.summary import format_usd

Span = Mapping[str, JSON]
MAX_CHARS = 80
"""Longest arguments, results and attributes in a line of the tree."""
_TOLD_OTHERWISE = {
    *("call_id", "chars", "stop_reason", "error", "tool_calls", "results"),
    *("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"),
}
"""Attributes that a line or its neighbours show in another way."""


def format_tree(trace: Mapping[str, JSON]) -> str:
    """The spans as a tree, one line each. Steps without duration and attributes are left out."""
    root = _mapping(trace.get("root"))
    calls = _calls_by_id(trace)
    lines = [f"{root.get('name')}  {', '.join(_totals(trace))}"]
    lines += _tree_lines(_visible_children(root), "", calls)
    return "\n".join(lines)


def _tree_lines(spans: list[Span], indent: str, calls: dict[str, list[Span]]) -> Iterator[str]:
    for index, span in enumerate(spans):
        last = index == len(spans) - 1
        yield f"{indent}{'└─ ' if last else '├─ '}{_span_line(span, calls)}"
        yield from _tree_lines(_visible_children(span), indent + ("   " if last else "│  "), calls)


def _span_line(span: Span, calls: dict[str, list[Span]]) -> str:
    kind, name = str(span.get("type")), str(span.get("name"))
    attributes = _mapping(span.get("attributes"))
    words = [name if kind in (name, "iteration") else f"{kind} {name}"]
    if kind == "tool":
        waiting = calls.get(str(attributes.get("call_id")))
        call = waiting.pop(0) if waiting else {}
        words[0] = f"tool {name}({_arguments(call)})"
        result = attributes.get("error") or call.get("result")
        words.append(f"{'failed: ' if attributes.get('error') else '-> '}{_short(str(result))}" if result else "")
    if _seconds(span) > 0:
        words.insert(1, _duration(_seconds(span)))
    words.append(", ".join(_model_usage(attributes)))
    for key, value in _shown_attributes(attributes):
        words.append(f"{key}={_short(value if isinstance(value, str) else canonical_json(value))}")
    if kind != "tool" and attributes.get("error"):
        words.append(f"failed: {_short(str(attributes['error']))}")
    return "  ".join(word for word in words if word)


def _visible_children(span: Span) -> list[Span]:
    return [child for child in json_objects(span.get("children")) if _is_visible(child)]


def _is_visible(span: Span) -> bool:
    attributes = _mapping(span.get("attributes"))
    kinds = ("llm_call", "tool", "retry", "handoff", "error")
    noted = span.get("type") in kinds or attributes.get("error") or any(_shown_attributes(attributes))
    return bool(noted or span.get("children") or _seconds(span) >= 0.001)


def _shown_attributes(attributes: Mapping[str, JSON]) -> Iterator[tuple[str, JSON]]:
    for key, value in attributes.items():
        told = key in _TOLD_OTHERWISE or (key == "attempts" and value == 1)
        if not told and value not in (None, "", 0, False):
            yield key, value


def _calls_by_id(trace: Mapping[str, JSON]) -> dict[str, list[Span]]:
    """The executed calls by id; ids may be used again in later turns."""
    calls: dict[str, list[Span]] = {}
    for call in json_objects(trace.get("tool_calls")):
        calls.setdefault(str(call.get("id")), []).append(call)
    return calls


def _totals(trace: Mapping[str, JSON]) -> list[str]:
    root, cost = _mapping(trace.get("root")), trace.get("total_cost_usd")
    return [_duration(_seconds(root)), f"{_number(trace.get('total_tokens')):,.0f} tokens", format_usd(cost)]


def _model_usage(attributes: Mapping[str, JSON]) -> list[str]:
    if "prompt_tokens" not in attributes:
        return []
    sent, received = _number(attributes["prompt_tokens"]), _number(attributes.get("completion_tokens"))
    cached = _number(attributes.get("cached_tokens"))
    return [
        f"{sent:,.0f} tokens in{f' ({cached:,.0f} cached)' if cached else ''}",
        f"{received:,.0f} out",
        format_usd(attributes.get("cost_usd")),
    ]


def _arguments(call: Span) -> str:
    arguments = _mapping(call.get("arguments"))
    return _short(", ".join(f"{key}={canonical_json(value)}" for key, value in arguments.items()))


def _short(text: str) -> str:
    return shorten(" ".join(text.split()), MAX_CHARS)


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms" if seconds >= 0.0005 else "<1 ms"


def _seconds(span: Span) -> float:
    return _number(span.get("ended")) - _number(span.get("started"))


def _number(value: JSON) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _mapping(value: JSON) -> Mapping[str, JSON]:
    return value if isinstance(value, Mapping) else {}


_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #4a7bd0; --tool: #3f9a63; --bad: #c8483c; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; } p { margin: .3rem 0; opacity: .8; }
table { border-collapse: collapse; width: 100%; } td { padding: .15rem .5rem; border-bottom: 1px solid var(--line); }
td:first-child { white-space: pre-wrap; overflow-wrap: anywhere; }
td.chart { width: 40%; } .bar { height: .7rem; min-width: 2px; border-radius: 2px; background: var(--bar); }
.tool .bar { background: var(--tool); } .failed .bar { background: var(--bad); }
.failed td:first-child { color: var(--bad); }
article { border: 1px solid var(--line); border-radius: 6px; padding: .5rem .8rem; margin: .5rem 0; }
article header { font-weight: 600; } article header small { font-weight: 400; opacity: .7; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0 0; font: 13px/1.45 ui-monospace, monospace; }
"""


def format_html(trace: Mapping[str, JSON]) -> str:
    """One page with the timeline, the tool calls and the messages. Needs no network and runs no script."""
    root = _mapping(trace.get("root"))
    calls = _calls_by_id(trace)
    settings = [f"{key} {value}" for key, value in _mapping(trace.get("config")).items()]
    title = escape(f"{root.get('name')}: trace {trace.get('id')}")
    rows = "".join(_html_rows(_visible_children(root), 0, _seconds(root) or 1.0, calls))
    tool_calls = "".join(_html_call(call) for call in json_objects(trace.get("tool_calls")))
    turns = "".join(_html_turn(turn) for turn in json_objects(trace.get("turns")))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>{title}</h1><p>{escape(' · '.join([*_totals(trace), *settings]))}</p>"
        f"<h2>Timeline</h2><table>{rows}</table>"
        f"{f'<h2>Tool calls</h2>{tool_calls}' if tool_calls else ''}"
        f"{f'<h2>Messages</h2>{turns}' if turns else ''}</body></html>\n"
    )


def _html_rows(spans: list[Span], depth: int, total: float, calls: dict[str, list[Span]]) -> Iterator[str]:
    for span in spans:
        left, width = 100 * _number(span.get("started")) / total, 100 * _seconds(span) / total
        failed = "failed" if _mapping(span.get("attributes")).get("error") or span.get("type") == "error" else ""
        yield (
            f'<tr class="{escape(str(span.get("type")))} {failed}">'
            f'<td style="padding-left: {depth * 1.2 + 0.5:.1f}rem">{escape(_span_line(span, calls))}</td>'
            f'<td class="chart"><div class="bar" style="margin-left: {left:.2f}%; width: {width:.2f}%"></div></td></tr>'
        )
        yield from _html_rows(_visible_children(span), depth + 1, total, calls)


def _html_call(call: Span) -> str:
    error = f"<pre>{escape(str(call['error']))}</pre>" if call.get("error") else ""
    note = f"{_number(call.get('duration_ms')):.0f} ms, {_number(call.get('full_result_length')):.0f} characters"
    arguments = escape(canonical_json(call.get("arguments")))
    return _html_article(str(call.get("name")), note, f"<pre>{arguments}</pre>{error}", str(call.get("result")))


def _html_turn(turn: Span) -> str:
    wanted = ", ".join(str(call.get("name")) for call in json_objects(turn.get("tool_calls")))
    note = f"{turn.get('timestamp')}{f', calls {wanted}' if wanted else ''}"
    return _html_article(str(turn.get("role")), note, "", str(turn.get("content")))


def _html_article(title: str, note: str, before: str, text: str) -> str:
    body = f"<pre>{escape(text)}</pre>" if text else ""
    return f"<article><header>{escape(title)} <small>{escape(note)}</small></header>{before}{body}</article>"
