"""What the generated pages share: Markdown tables, first lines of docstrings, the objects of a package."""

from collections.abc import Iterator

import griffe

from ragkit import _modules


def table(*rows: tuple[str, ...]) -> str:
    """A Markdown table, its first row the head."""
    lines = [rows[0], ("---",) * len(rows[0]), *rows[1:]]
    return "".join(
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) + " |\n" for row in lines
    )


def object_path(name: str) -> str:
    """`module.name` of a public name: where it is defined. Imports nothing, so that no extra is needed."""
    return f"{_modules()[name]}.{name}"


def summary(package: griffe.Module, path: str) -> str:
    """The first paragraph of the docstring of `ragkit...`, or ''."""
    thing = package[path.partition(".")[2]]
    return thing.docstring.value.partition("\n\n")[0] if thing.docstring else ""


def walk(thing: griffe.Object) -> Iterator[griffe.Object]:
    """Every object of a package, modules entered, aliases left out."""
    for member in thing.members.values():
        if isinstance(member, griffe.Object):
            yield member
            yield from walk(member) if member.is_module else ()
