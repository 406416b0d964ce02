"""A pipeline for human eyes: every value with where it came from, and drawings of the data path. Text in, text out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ragkit.masking import HIDDEN, is_secret, without_password
from ragkit.pipeline.convert import default_of, fields_of, is_required
from ragkit.pipeline.dump import flow, same, settings_of
from ragkit.pipeline.settings import Pipeline

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CODE = "code"
"""The origin of what no file said."""
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
    for _, label, stations in _ways(pipeline):
        lines += [label, *(f"  -> {station:<9} {what}" for station, what in stations), ""]
    return "\n".join(lines[:-1]) + "\n"


def diagram_mermaid(pipeline: Pipeline) -> str:
    """The same as a Mermaid flow chart."""
    lines = ["flowchart LR"]
    for head, label, stations in _ways(pipeline):
        before = head
        lines.append(f"    {head}([{_escaped(label)}])")
        for station, what in stations:
            lines += [f'    {station}["<b>{station}</b><br>{_escaped(what)}"]', f"    {before} --> {station}"]
            before = station
    lines += ["    store -.-> retrieve"]
    return "\n".join(lines) + "\n"


def _ways(pipeline: Pipeline) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Where each way begins, what is written there, and its stations."""
    chosen: dict[str, list[str]] = {}
    for section, key, choice in pipeline.choices():
        only = f" for {' '.join(choice.only)}" if choice.only else ""
        told = ", ".join([choice.name + only, *_changed(pipeline, key, choice.options)])
        chosen.setdefault(section.key, []).append(told)
    said = {key: " | ".join(parts) for key, parts in chosen.items()}
    provider = _shown(pipeline, "answer", "provider", pipeline.answer.provider)
    answer = [
        provider,
        *(told for told in _changed(pipeline, "answer", pipeline.answer) if not told.startswith("provider ")),
    ]
    runner = "" if said["run"] == "local" else f", run by {said['run']}"
    return [
        ("files", f"files{runner}", [(key, said[key]) for key in ("load", "split", "embed", "store")]),
        ("question", "question", [("retrieve", said["retrieve"]), ("answer", ", ".join(answer))]),
    ]


def _changed(pipeline: Pipeline, key: str, options: DataclassInstance | None) -> list[str]:
    """`option value` of everything that differs from its default."""
    return [f"{name} {_shown(pipeline, key, name, value)}" for name, value in settings_of(options).items()]


def _groups(pipeline: Pipeline) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    for section, key, choice in pipeline.choices():
        if section.key == "run":
            yield "answer", _rows(pipeline, "answer", pipeline.answer)
        head: dict[str, object] = {"name": choice.name, **({"only": choice.only} if choice.only else {})}
        rows = [
            (f"{name}: {_shown(pipeline, key, name, value)}", str(pipeline.origin_of(f"{key}.{name}", value) or CODE))
            for name, value in head.items()
        ]
        yield key, rows + _rows(pipeline, key, choice.options)


def _rows(pipeline: Pipeline, key: str, options: DataclassInstance | None) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for one in fields_of(type(options)) if options is not None else ():
        value = getattr(options, one.name)
        unset = is_required(one) and value == ""
        at_default = unset or (not is_required(one) and same(value, default_of(one)))
        origin = pipeline.origin_of(f"{key}.{one.name}", value)
        shown = "(the knowledge base)" if unset else _shown(pipeline, key, one.name, value)
        rows.append((f"{one.name}: {shown}", str(origin or ("default" if at_default else CODE))))
    return rows


def _shown(pipeline: Pipeline, key: str, name: str, value: object) -> str:
    """A value on one line, unless it is a secret; text is shown as it is, with a single `$`."""
    origin = pipeline.origin_of(f"{key}.{name}", value)
    secret = any(is_secret(word) for word in (name, *(origin.variables if origin else ())))
    return HIDDEN if secret and value not in (None, "") else without_password(flow(value).replace("$$", "$"))


def _aligned(row: str, origin: str) -> str:
    return f"{row:<{COLUMN}}  {origin}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
