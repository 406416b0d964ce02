"""Write the reference pages: docs/reference/{api/*,cli,options,http,errors}.md.

Everything is read from the package: names from `ragkit/__init__.pyi`, verbs from click, options from the registries,
endpoints from the FastAPI application. No place of a name is written here.
"""

import json
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click
import griffe
from http_api import http_api
from markdown_pages import object_path, summary, table, walk
from options import options, undocumented_options

import ragkit
from ragkit import errors as errors_module
from ragkit.cli import cli as command_group

GROUPS = json.loads(Path(__file__).with_name("groups.json").read_text())  # page: title, public names
ERRORS = "errors"


def public_names() -> set[str]:
    """The names of `ragkit`, errors excluded: they have a page of their own."""
    return {
        name for name in set(dir(ragkit)) - {"__version__"} if object_path(name) != f"{errors_module.__name__}.{name}"
    }


def api(package: griffe.Module) -> Iterator[tuple[str, str]]:
    public, grouped = public_names(), [name for one in GROUPS.values() for name in one["names"]]
    if wrong := sorted({name for name in grouped if grouped.count(name) > 1} | public.symmetric_difference(grouped)):
        sys.exit(f"groups.json must hold each public name of ragkit once; check {', '.join(wrong)}")
    index = (
        "# Python API\n\nEverything that `from ragkit import ...` gives. Errors have [their own page](../errors.md)."
        "\n\nNames that are not listed here are internal and may change in any release.\n"
    )
    for page, group in GROUPS.items():
        rows = [(f"[`{name}`][{object_path(name)}]", summary(package, object_path(name))) for name in group["names"]]
        index += f"\n## [{group['title']}]({page}.md)\n\n{table(('Name', 'What it is'), *rows)}"
        body = "".join(f"::: {object_path(name)}\n\n" for name in group["names"])
        yield f"api/{page}", f"# {group['title']}\n\n`from ragkit import {', '.join(group['names'])}`\n\n{body}"
    yield "api/index", index


def cli(command: click.Command, context: click.Context, everywhere: frozenset[str] = frozenset()) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    level = "#" * min(4, 1 + len(context.command_path.split()) - 1)
    text = f"{level} {context.command_path}\n\n" if context.parent else "# Command line\n\n"
    for part in cleandoc(command.help or "").split("\n\n"):  # click marks what it must not wrap with \b
        text += "```sh\n" + cleandoc(part[1:].strip("\n")) + "\n```\n\n" if part[:1] == "\b" else f"{part}\n\n"
    shown = [one for one in command.params if isinstance(one, click.Option) and one.opts[-1] not in everywhere]
    records = [record for one in shown if (record := one.get_help_record(context))]
    text += f"```text\n{usage}\n```\n\n"
    text += table(("Option", "What it does"), *((f"`{one[0]}`", one[1]) for one in records)) + "\n" if records else ""
    below = everywhere | {one.opts[-1] for one in command.params} if not context.parent else everywhere
    if not context.parent:
        text += "These options work before and after the verb. Every verb has `--json`: one JSON object on stdout.\n\n"
        text += "## Exit codes\n\n" + table(("Code", "Meaning"), *EXIT_CODES) + "\n"
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        verb = command.get_command(context, name)
        text += cli(verb, click.Context(verb, context, name), below) if verb else ""
    return text


EXIT_CODES = (
    ("0", "done"),
    ("1", "error, or a check failed"),
    ("2", "wrong usage"),
    ("3", "the knowledge base was built with other settings"),
    ("4", "budget exceeded"),
    ("5", "verification failed"),
    ("6", "no supported answer, with `--strict`"),
    ("7", "finished, some files failed"),
    ("130", "interrupted"),
)


def errors(classes: list[griffe.Class], root: griffe.Class, depth: int = 0) -> tuple[str, str]:
    described = " ".join(root.docstring.value.partition("\n\n")[0].split()) if root.docstring else ""
    tree, pages = f"{'    ' * depth}- [`{root.name}`][{root.path}]: {described}\n", f"::: {root.path}\n\n"
    for inner in [one for one in classes if any(base.path == root.path for base in one.resolved_bases)]:
        below = errors(classes, inner, depth + 1)
        tree, pages = tree + below[0], pages + below[1]
    return tree, pages


def undocumented(package: griffe.Module) -> Iterator[str]:
    """Public names, and their public methods, without a docstring."""
    for name in sorted({*dir(ragkit)} - {"__version__"}):
        thing = package[object_path(name).partition(".")[2]]
        members = thing.members.values() if isinstance(thing, griffe.Class) else ()
        methods = [one for one in members if isinstance(one, griffe.Function) and not one.name.startswith("_")]
        yield from (one.path for one in (thing, *methods) if not one.docstring and not one.overloads)


def undocumented_verbs(command: click.Command, path: str) -> Iterator[str]:
    """Verbs and options without help."""
    if not command.help:
        yield path
    yield from (f"{path} {one.opts[0]}" for one in command.params if isinstance(one, click.Option) and not one.help)
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            verb = command.get_command(click.Context(command), name)
            yield from undocumented_verbs(verb, f"{path} {name}") if verb else ()


def main(target: Path = Path("docs/reference")) -> None:
    package = griffe.load("ragkit")  # reads the sources, imports nothing
    assert isinstance(package, griffe.Module)
    pages = {**dict(api(package)), "cli": cli(command_group, click.Context(command_group, info_name="ragkit"))}
    pages["options"] = options(package)
    pages["http"] = http_api()
    classes = [one for one in walk(package) if isinstance(one, griffe.Class)]
    root = package[object_path("RagkitError").partition(".")[2]]
    tree, described = errors(classes, root)
    pages[ERRORS] = (
        "# Errors\n\nEvery error that ragkit raises on purpose is a `RagkitError`. Its values are attributes, so you "
        "need not parse messages.\nMessages of the command line, word by word: "
        f"[mistakes](../mistakes.md).\n\n{tree}\n{described}"
    )
    if problems := [
        *undocumented(package),
        *undocumented_verbs(command_group, "ragkit"),
        *undocumented_options(package),
    ]:
        sys.exit("without documentation:\n" + "\n".join(problems))
    for name, text in pages.items():
        path = target / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:  # what did not change is not rendered again
            path.write_text(text)


if __name__ == "__main__":
    main()
