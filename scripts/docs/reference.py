"""Write the reference pages: docs/reference/{api/*,cli,options,http,errors}.md.

Everything is read from the package: names from `ragkit/__init__.pyi`, commands from click, options from the registries,
endpoints from the FastAPI application.
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
    """The names of `ragkit` without the errors, which have their own page."""
    return {
        name for name in set(dir(ragkit)) - {"__version__"} if object_path(name) != f"{errors_module.__name__}.{name}"
    }


def api(package: griffe.Module) -> Iterator[tuple[str, str]]:
    public = public_names()
    grouped = [name for group in GROUPS.values() if "module" not in group for name in group["names"]]
    if wrong := sorted({name for name in grouped if grouped.count(name) > 1} | public.symmetric_difference(grouped)):
        sys.exit(f"groups.json must contain each public name of ragkit once; check {', '.join(wrong)}")
    index = (
        "# Python API\n\nEverything that `from ragkit import ...` gives, and two modules. "
        "Errors have [their own page](../errors.md).\n\n"
        "Names that are not listed here are internal and may change in any release.\n"
    )
    for page, group in GROUPS.items():
        module = group.get("module")
        paths = {name: f"{module}.{name}" if module else object_path(name) for name in group["names"]}
        rows = [(f"[`{name}`][{path}]", summary(package, path)) for name, path in paths.items()]
        index += f"\n## [{group['title']}]({page}.md)\n\n{table(('Name', 'What it is'), *rows)}"
        body = "".join(f"::: {path}\n\n" for path in paths.values())
        statement = f"from {module or 'ragkit'} import {', '.join(group['names'])}"
        yield f"api/{page}", f"# {group['title']}\n\n`{statement}`\n\n{body}"
    yield "api/index", index


def cli(command: click.Command, context: click.Context, inherited: frozenset[str] = frozenset()) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    level = "#" * min(4, 1 + len(context.command_path.split()) - 1)
    text = f"{level} {context.command_path}\n\n" if context.parent else "# Command line\n\n"
    for part in cleandoc(command.help or "").split("\n\n"):  # click: \b marks text that must not be wrapped
        text += "```sh\n" + cleandoc(part[1:].strip("\n")) + "\n```\n\n" if part[:1] == "\b" else f"{part}\n\n"
    shown = [param for param in command.params if isinstance(param, click.Option) and param.opts[-1] not in inherited]
    records = [record for option in shown if (record := option.get_help_record(context))]
    text += f"```text\n{usage}\n```\n\n"
    text += (
        table(("Option", "What it does"), *((f"`{record[0]}`", record[1]) for record in records)) + "\n"
        if records
        else ""
    )
    global_options = inherited | {param.opts[-1] for param in command.params} if not context.parent else inherited
    if not context.parent:
        text += "These options work before and after the command. All have `--json`: one JSON object on stdout.\n\n"
        text += "## Exit codes\n\n" + table(("Code", "Meaning"), *EXIT_CODES) + "\n"
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        verb = command.get_command(context, name)
        text += cli(verb, click.Context(verb, context, name), global_options) if verb else ""
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
    for child in [cls for cls in classes if any(base.path == root.path for base in cls.resolved_bases)]:
        child_tree, child_pages = errors(classes, child, depth + 1)
        tree, pages = tree + child_tree, pages + child_pages
    return tree, pages


def undocumented(package: griffe.Module) -> Iterator[str]:
    """Public names, and their public methods, without a docstring."""
    for name in sorted({*dir(ragkit)} - {"__version__"}):
        item = package[object_path(name).partition(".")[2]]
        members = item.members.values() if isinstance(item, griffe.Class) else ()
        methods = [m for m in members if isinstance(m, griffe.Function) and not m.name.startswith("_")]
        yield from (entry.path for entry in (item, *methods) if not entry.docstring and not entry.overloads)


def undocumented_verbs(command: click.Command, path: str) -> Iterator[str]:
    """Commands and options without help."""
    if not command.help:
        yield path
    own_options = [param for param in command.params if isinstance(param, click.Option)]
    yield from (f"{path} {option.opts[0]}" for option in own_options if not option.help)
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
    classes = [item for item in walk(package) if isinstance(item, griffe.Class)]
    root = package[object_path("RagkitError").partition(".")[2]]
    tree, described = errors(classes, root)
    pages[ERRORS] = (
        "# Errors\n\nEvery error that ragkit raises on purpose is a `RagkitError`. Its values are attributes, so you "
        "need not parse messages.\nThe messages of the command line: "
        f"[error messages](../error-messages.md).\n\n{tree}\n{described}"
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
        if not path.exists() or path.read_text() != text:  # an unchanged page is not rendered again
            path.write_text(text)


if __name__ == "__main__":
    main()
