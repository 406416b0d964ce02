"""Render a pipeline as text: every value with its origin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ragkit.config.convert import field_default, is_required, settable_fields
from ragkit.masking import HIDDEN, is_secret, mask_passwords
from ragkit.pipeline.serialize import is_unset, to_flow_yaml, yaml_equal
from ragkit.pipeline.settings import Pipeline

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CODE_ORIGIN = "code"
"""The origin of values that were set in code."""
ORIGIN_COLUMN = 44
"""The column of origins, unless a value is longer."""


def render_resolved(pipeline: Pipeline) -> str:
    """Every option with its value and origin: `file:line:column`, profile, environment, --set, default or code.

    Values of options and variables that are named like secrets (`api_key`, `DB_PASSWORD`) are hidden.
    """
    lines = [f"{pipeline.name} ({pipeline.path})" if pipeline.path else pipeline.name]
    for key, rows in _option_groups(pipeline):
        lines += ["", f"{key}:", *(f"  {row:<{ORIGIN_COLUMN - 2}}  {origin}" for row, origin in rows)]
    return "\n".join(lines) + "\n"


def _option_groups(pipeline: Pipeline) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    for section, key, component in pipeline.components():
        if section.key == "run":
            yield "answer", _option_rows(pipeline, "answer", pipeline.answer)
        rows = []
        for name, value in component.head().items():
            origin = pipeline.find_origin(f"{key}.{name}", value) or CODE_ORIGIN
            rows.append((f"{name}: {_format_value(pipeline, key, name, value)}", str(origin)))
        yield key, rows + _option_rows(pipeline, key, component.options)


def _option_rows(pipeline: Pipeline, key: str, options: DataclassInstance | None) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for field in settable_fields(type(options)) if options is not None else ():
        value = getattr(options, field.name)
        unset = is_unset(field, value)
        at_default = unset or (not is_required(field) and yaml_equal(value, field_default(field)))
        origin = pipeline.find_origin(f"{key}.{field.name}", value)
        shown = "(the knowledge base)" if unset else _format_value(pipeline, key, field.name, value)
        rows.append((f"{field.name}: {shown}", str(origin or ("default" if at_default else CODE_ORIGIN))))
    return rows


def _format_value(pipeline: Pipeline, key: str, name: str, value: object) -> str:
    """A value on one line, hidden if it is a secret; `$$` is shown as `$`."""
    origin = pipeline.find_origin(f"{key}.{name}", value)
    secret = any(is_secret(item) for item in (name, *(origin.variables if origin else ())))
    return HIDDEN if secret and value not in (None, "") else mask_passwords(to_flow_yaml(value).replace("$$", "$"))
