"""Commands and options that had other names up to 0.3, which still work in 0.4 and print a note."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragkit.cli.terminal import echo

OLD_COMMANDS = {"rm": "remove", "why": "explain"}
OLD_OPTIONS = {
    "serve": {"--any-model": "--accept-unknown-models", "--grace": "--shutdown-timeout", "--watch": "--watch-interval"},
    "eval": {"--write-with": "--question-model", "--write": "--save", "--depth": "--top-k"},
    "tune": {"--write": "--save"},
}


def rename_options(command: str, arguments: Sequence[str]) -> Iterator[str]:
    """The arguments of a command with its options by their names of today; what follows `--` stays."""
    old = OLD_OPTIONS.get(command, {})
    for number, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == "--" and not equals:
            yield from arguments[number:]
            return
        if name in old:
            echo(f"note: `{name}` is now `{old[name]}`", err=True)
        yield f"{old.get(name, name)}{equals}{value}"
