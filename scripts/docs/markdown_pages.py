"""Helpers of the generated pages: Markdown tables, first paragraphs of docstrings, the objects of a package."""

from collections.abc import Iterator

import griffe

from ragkit import _modules


def table(*rows: tuple[str, ...]) -> str:
    """A Markdown table; the first row is the header."""
    lines = [rows[0], ("---",) * len(rows[0]), *rows[1:]]
    return "".join(
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) + " |\n" for row in lines
    )


def object_path(name: str) -> str:
    """`module.name` where a public name is defined. Imports nothing, so no extra is needed."""
    return f"{_modules()[name]}.{name}"


def summary(package: griffe.Module, path: str) -> str:
    """The first paragraph of the docstring of `ragkit...`, or ''."""
    item = package[path.partition(".")[2]]
    return item.docstring.value.partition("\n\n")[0] if item.docstring else ""


def walk(item: griffe.Object) -> Iterator[griffe.Object]:
    """Every object of a package, recursively through modules, without aliases."""
    for member in item.members.values():
        if isinstance(member, griffe.Object):
            yield member
            yield from walk(member) if member.is_module else ()
