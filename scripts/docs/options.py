"""Render the options page: every component of every registry, with its options."""

from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any, Literal, get_args, get_origin, get_type_hints

import griffe
from markdown_pages import summary, table, walk

from ragkit.pipeline.schema import json_schema
from ragkit.registry import Registry

ORDER = ["source", "loader", "splitter", "embedder", "store", "retriever", "reranker", "provider", "runner"]
HEAD = ("Option", "Type", "Default", "What it does")
SECTIONS = {
    "source": "sources",
    "loader": "load",
    "splitter": "split",
    "embedder": "embed",
    "store": "store",
    "retriever": "retrieve",
    "reranker": "retrieve.rerank",
    "provider": "answer.provider",
    "runner": "run",
}


def registries(package: griffe.Module) -> list[Registry[object]]:
    """The registries of all kinds, in the order of the page."""
    attributes = [item for item in walk(package) if item.is_attribute and str(item.annotation).startswith("Registry[")]
    found = [getattr(import_module(item.parent.path), item.name) for item in attributes if item.parent]
    return sorted(found, key=lambda registry: ORDER.index(registry.kind))


def undocumented_options(package: griffe.Module) -> Iterator[str]:
    """Components and options without a docstring."""
    for registry in registries(package):
        for name, spec in registry.specs.items():
            if not summary(package, spec.target.replace(":", ".")):
                yield f"{registry.kind} {name}"
            options_class = registry.options_class(name)
            for field in fields(options_class) if options_class else ():
                if not described(package, options_class, field.name):
                    yield f"{registry.kind} {name}: {field.name}"


def options(package: griffe.Module) -> str:
    """The whole page."""
    text = (
        "# Options of every part\n\nA section of a [pipeline file](../how-to/pipelines.md) names one part and sets its "
        "options.\n`ragkit pipeline schema` prints the same as a JSON Schema for your editor.\n\n"
    )
    for registry in registries(package):
        text += f"## {registry.kind.capitalize()}s: `{SECTIONS[registry.kind]}`\n\n"
        for name, spec in registry.specs.items():
            text += f"### `{name}` {{: #{registry.kind}-{name} }}\n\n"
            text += summary(package, spec.target.replace(":", ".")) + "\n\n"
            text += f"Needs `pip install 'ragkit-kb[{spec.extra}]'`.\n\n" if spec.extra else ""
            options_class = registry.options_class(name)
            text += table(HEAD, *rows(package, options_class)) + "\n" if options_class else ""
    answer = json_schema()["$defs"]["answer"]["properties"]
    answer_rows = (
        (f"`{key}`", kinds(value), f"`{value.get('default')!r}`", value.get("description", ""))
        for key, value in answer.items()
    )
    return text + "## Answer: `answer`\n\nOne section without a choice of parts.\n\n" + table(HEAD, *answer_rows)


def rows(package: griffe.Module, options_class: type[Any]) -> Iterator[tuple[str, ...]]:
    """One row per field of an options class, with the docstring of the field."""
    hints = get_type_hints(options_class)
    for field in fields(options_class):
        hint = hints[field.name]
        value = field.default if field.default_factory is MISSING else field.default_factory()
        name = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
        name = " | ".join(map(repr, get_args(hint))) if get_origin(hint) is Literal else name
        default = "required" if value is MISSING else f"`{value!r}`"
        yield (
            f"`{field.name}`",
            f"`{name.replace('typing.', '')}`",
            default,
            described(package, options_class, field.name),
        )


def described(package: griffe.Module, options_class: type[Any], name: str) -> str:
    """The docstring below a field of the class or of a base class."""
    for cls in options_class.__mro__:
        owner = f"{cls.__module__}.{cls.__qualname__}".partition(".")[2]
        if cls.__module__.startswith("ragkit") and name in (members := package[owner].members):
            docstring = members[name].docstring
            return docstring.value if docstring else ""
    return ""


def kinds(schema: dict[str, Any]) -> str:
    """The types of a JSON Schema property."""
    names = [str(choice.get("type") or choice.get("enum") or "") for choice in schema.get("anyOf", [schema])]
    return ", ".join(f"`{name}`" for name in names if name)
