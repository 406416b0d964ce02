"""A pipeline for human eyes: every value with where it came from, and drawings of the data path. Text in, text out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ragkit.pipeline.choice import Choice, Origin
from ragkit.pipeline.convert import default_of, fields_of, is_required
from ragkit.pipeline.dump import flow, same, settings_of
from ragkit.pipeline.nodes import is_secret
from ragkit.pipeline.settings import Pipeline

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

HIDDEN = "(hidden)"
"""Stands for a value that must not be seen."""
COLUMN = 44
"""Where the origins begin, unless a value is longer."""


def show_resolved(pipeline: Pipeline) -> str:
    """Every option with its value and where it came from: `file:line:column`, profile, environment, --set, default.

    Values of options and variables that are named like secrets (`api_key`, `DB_PASSWORD`) are not shown.
    """
    lines = [f"{pipeline.name} ({pipeline.path})" if pipeline.path else pipeline.name]
    for key, rows in _groups(pipeline):
        lines += ["", f"{key}:", *(_aligned(f"  {row}", origin) for row, origin in rows)]
    return "\n".join(lines) + "\n"


def diagram_text(pipeline: Pipeline) -> str:
    """The two ways through the pipeline, one station a line: from files to the store, from a question to an answer."""
    lines: list[str] = []
    for head, stations in _ways(pipeline):
        lines += [head, *(f"  -> {station:<9} {what}" for station, what in stations), ""]
    return "\n".join(lines[:-1]) + "\n"


def diagram_mermaid(pipeline: Pipeline) -> str:
    """The same as a Mermaid flow chart."""
    lines = ["flowchart LR"]
    for head, stations in _ways(pipeline):
        before = head
        lines.append(f"    {head}([{head}])")
        for station, what in stations:
            lines += [f'    {station}["<b>{station}</b><br>{_escaped(what)}"]', f"    {before} --> {station}"]
            before = station
    lines += ["    store -.-> retrieve"]
    return "\n".join(lines) + "\n"


def _ways(pipeline: Pipeline) -> list[tuple[str, list[tuple[str, str]]]]:
    chosen: dict[str, list[str]] = {}
    for section, _, choice in pipeline.choices():
        chosen.setdefault(section.key, []).append(_summary(choice))
    said = {key: " | ".join(parts) for key, parts in chosen.items()}
    answer = ", ".join([pipeline.answer.provider, *_changed(pipeline.answer, skip="provider")])
    return [
        ("files", [(key, said[key]) for key in ("load", "split", "embed", "store")]),
        ("question", [("retrieve", said["retrieve"]), ("answer", answer)]),
    ]


def _summary(choice: Choice) -> str:
    only = f" for {' '.join(choice.only)}" if choice.only else ""
    return ", ".join([choice.name + only, *_changed(choice.options)])


def _changed(options: DataclassInstance | None, skip: str = "") -> list[str]:
    """`option value` of everything that differs from its default."""
    settings = settings_of(options)
    return [f"{name} {_shown(name, value, None)}" for name, value in settings.items() if name != skip]


def _groups(pipeline: Pipeline) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    for _, key, choice in pipeline.choices():
        named = pipeline.origins.get(f"{key}.name")
        rows = [(f"name: {choice.name}", str(named) if named else "code")]
        if choice.only:
            only = pipeline.origins.get(f"{key}.only")
            rows.append((f"only: {flow(choice.only)}", str(only) if only else "code"))
        yield key, rows + _rows(pipeline, key, choice.options)
    yield "answer", _rows(pipeline, "answer", pipeline.answer)


def _rows(pipeline: Pipeline, key: str, options: DataclassInstance | None) -> list[tuple[str, str]]:
    if options is None:
        return []
    rows: list[tuple[str, str]] = []
    for one in fields_of(type(options)):
        value = getattr(options, one.name)
        origin = pipeline.origins.get(f"{key}.{one.name}")
        if origin is not None and not same(origin.value, value):
            origin = None  # changed in code since it was read
        unset = is_required(one) and value == ""
        at_default = unset or (not is_required(one) and same(value, default_of(one)))
        came_from = str(origin) if origin else "default" if at_default else "code"
        shown = "(the knowledge base)" if unset else _shown(one.name, value, origin)
        rows.append((f"{one.name}: {shown}", came_from))
    return rows


def _shown(name: str, value: object, origin: Origin | None) -> str:
    secret = any(is_secret(word) for word in (name, *(origin.variables if origin else ())))
    return HIDDEN if secret and value not in (None, "") else flow(value).replace("$$", "$")


def _aligned(row: str, origin: str) -> str:
    return f"{row:<{COLUMN}}  {origin}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
