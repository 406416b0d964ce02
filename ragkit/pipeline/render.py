"""A pipeline for human eyes: every value with where it came from, and drawings of the data path. Text in, text out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ragkit.masking import HIDDEN, is_secret, mask_passwords
from ragkit.pipeline.convert import field_default, is_required, settable_fields
from ragkit.pipeline.serialize import options_to_dict, to_flow_yaml, yaml_equal
from ragkit.pipeline.settings import Pipeline

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CODE_ORIGIN = "code"
"""The origin of what no file said."""
ORIGIN_COLUMN = 44
"""Where the origins begin, unless a value is longer."""


def render_resolved(pipeline: Pipeline) -> str:
    """Every option with its value and where it came from: `file:line:column`, profile, environment, --set, default.

    Values of options and variables that are named like secrets (`api_key`, `DB_PASSWORD`) are not shown.
    """
    lines = [f"{pipeline.name} ({pipeline.path})" if pipeline.path else pipeline.name]
    for key, rows in _option_groups(pipeline):
        lines += ["", f"{key}:", *(_align_origin(f"  {row}", origin) for row, origin in rows)]
    return "\n".join(lines) + "\n"


def render_text_diagram(pipeline: Pipeline) -> str:
    """The two ways through the pipeline, one station a line: from files to the store, from a question to an answer."""
    lines: list[str] = []
    for _, label, stations in _data_paths(pipeline):
        lines += [label, *(f"  -> {station:<9} {what}" for station, what in stations), ""]
    return "\n".join(lines[:-1]) + "\n"


def render_mermaid_diagram(pipeline: Pipeline) -> str:
    """The same as a Mermaid flow chart."""
    lines = ["flowchart LR"]
    for head, label, stations in _data_paths(pipeline):
        before = head
        lines.append(f"    {head}([{_escape_html(label)}])")
        for station, what in stations:
            lines += [f'    {station}["<b>{station}</b><br>{_escape_html(what)}"]', f"    {before} --> {station}"]
            before = station
    lines += ["    store -.-> retrieve"]
    return "\n".join(lines) + "\n"


def _data_paths(pipeline: Pipeline) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Where each way begins, what is written there, and its stations."""
    chosen: dict[str, list[str]] = {}
    for section, key, choice in pipeline.components():
        only = f" for {' '.join(choice.only)}" if choice.only else ""
        told = ", ".join([choice.name + only, *_changed_options(pipeline, key, choice.options)])
        chosen.setdefault(section.key, []).append(told)
    said = {key: " | ".join(parts) for key, parts in chosen.items()}
    provider = _format_value(pipeline, "answer", "provider", pipeline.answer.provider)
    answer = [
        provider,
        *(told for told in _changed_options(pipeline, "answer", pipeline.answer) if not told.startswith("provider ")),
    ]
    runner = "" if said["run"] == "local" else f", run by {said['run']}"
    return [
        ("files", f"files{runner}", [(key, said[key]) for key in ("load", "split", "embed", "store")]),
        ("question", "question", [("retrieve", said["retrieve"]), ("answer", ", ".join(answer))]),
    ]


def _changed_options(pipeline: Pipeline, key: str, options: DataclassInstance | None) -> list[str]:
    """`option value` of everything that differs from its default."""
    return [f"{name} {_format_value(pipeline, key, name, value)}" for name, value in options_to_dict(options).items()]


def _option_groups(pipeline: Pipeline) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    for section, key, choice in pipeline.components():
        if section.key == "run":
            yield "answer", _option_rows(pipeline, "answer", pipeline.answer)
        head: dict[str, object] = {"name": choice.name, **({"only": choice.only} if choice.only else {})}
        rows = [
            (
                f"{name}: {_format_value(pipeline, key, name, value)}",
                str(pipeline.find_origin(f"{key}.{name}", value) or CODE_ORIGIN),
            )
            for name, value in head.items()
        ]
        yield key, rows + _option_rows(pipeline, key, choice.options)


def _option_rows(pipeline: Pipeline, key: str, options: DataclassInstance | None) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for one in settable_fields(type(options)) if options is not None else ():
        value = getattr(options, one.name)
        unset = is_required(one) and value == ""
        at_default = unset or (not is_required(one) and yaml_equal(value, field_default(one)))
        origin = pipeline.find_origin(f"{key}.{one.name}", value)
        shown = "(the knowledge base)" if unset else _format_value(pipeline, key, one.name, value)
        rows.append((f"{one.name}: {shown}", str(origin or ("default" if at_default else CODE_ORIGIN))))
    return rows


def _format_value(pipeline: Pipeline, key: str, name: str, value: object) -> str:
    """A value on one line, unless it is a secret; text is shown as it is, with a single `$`."""
    origin = pipeline.find_origin(f"{key}.{name}", value)
    secret = any(is_secret(word) for word in (name, *(origin.variables if origin else ())))
    return HIDDEN if secret and value not in (None, "") else mask_passwords(to_flow_yaml(value).replace("$$", "$"))


def _align_origin(row: str, origin: str) -> str:
    return f"{row:<{ORIGIN_COLUMN}}  {origin}"


def _escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
