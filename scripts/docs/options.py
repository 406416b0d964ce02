"""The options page: every part of every registry, with the fields of its options."""

from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any, Literal, get_args, get_origin, get_type_hints

import griffe
from markdown_pages import summary, table, walk

from ragkit.pipeline.schema import json_schema
from ragkit.registry import Registry

ORDER = ["loader", "splitter", "embedder", "store", "retriever", "reranker", "provider", "runner"]
HEAD = ("Option", "Type", "Default", "What it does")
SECTIONS = {
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
    places = [one for one in walk(package) if one.is_attribute and str(one.annotation).startswith("Registry[")]
    found = [getattr(import_module(one.parent.path), one.name) for one in places if one.parent]
    return sorted(found, key=lambda one: ORDER.index(one.kind))


def undocumented_options(package: griffe.Module) -> Iterator[str]:
    """Parts and options without a docstring."""
    for registry in registries(package):
        for name, spec in registry.specs.items():
            if not summary(package, spec.target.replace(":", ".")):
                yield f"{registry.kind} {name}"
            made = registry.options_class(name)
            for one in fields(made) if made else ():
                if not described(package, made, one.name):
                    yield f"{registry.kind} {name}: {one.name}"


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
            made = registry.options_class(name)
            text += table(HEAD, *rows(package, made)) + "\n" if made else ""
    answer = json_schema()["$defs"]["answer"]["properties"]
    given = (
        (f"`{key}`", kinds(one), f"`{one.get('default')!r}`", one.get("description", "")) for key, one in answer.items()
    )
    return text + "## Answer: `answer`\n\nOne section without a choice of parts.\n\n" + table(HEAD, *given)


def rows(package: griffe.Module, made: type[Any]) -> Iterator[tuple[str, ...]]:
    """One row for each field of an options class; the docstring stands where the field is defined."""
    hints = get_type_hints(made)
    for one in fields(made):
        hint, value = hints[one.name], one.default if one.default_factory is MISSING else one.default_factory()
        name = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
        name = " | ".join(map(repr, get_args(hint))) if get_origin(hint) is Literal else name
        default = "required" if value is MISSING else f"`{value!r}`"
        yield f"`{one.name}`", f"`{name.replace('typing.', '')}`", default, described(package, made, one.name)


def described(package: griffe.Module, made: type[Any], name: str) -> str:
    """The docstring under a field, of the class or of one that it inherits from."""
    for one in made.__mro__:
        owner = f"{one.__module__}.{one.__qualname__}".partition(".")[2]
        if one.__module__.startswith("ragkit") and name in (members := package[owner].members):
            found = members[name].docstring
            return found.value if found else ""
    return ""


def kinds(one: dict[str, Any]) -> str:
    """The types of a JSON Schema property."""
    found = [str(each.get("type") or each.get("enum") or "") for each in one.get("anyOf", [one])]
    return ", ".join(f"`{each}`" for each in found if each)
