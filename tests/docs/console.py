"""Console blocks: `$ command` lines that are run, and the output that is shown for them."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points, metadata
from itertools import dropwhile
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Timer

import click

from ragkit.distribution import DISTRIBUTION

_TIMES = re.compile(r"\d[\d.,]*(?= (?:s|ms|a second|CPU s)\b|/s\b)")
_EXPANDED = re.compile(r"[|&;<>$`*?~(){}\\#!]|\n")
_QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*\"""")
_SEPARATORS = frozenset({"|", "||", "&&", ";", "&"})


@dataclass(frozen=True)
class Command:
    """One command and the output that the page shows for it."""

    line: int
    text: str
    shown: str
    """Expected output; '' if the page shows none."""


@dataclass(frozen=True)
class CommandResult:
    """The exit code and output of a command."""

    code: int
    """124 after a timeout."""
    out: str
    err: str = ""

    def shows(self, shown: str) -> bool:
        """Whether stdout, stderr or both match the output on the page. Progress on stderr need not be shown."""
        return any(matches(shown, actual) for actual in (self.out, self.err, self.out + self.err, self.err + self.out))


def commands(code: str, first_line: int = 1) -> list[Command]:
    """The commands of a block. A backslash at the end of a line continues it; text before the first `$` is an error."""
    result: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(code.splitlines(), first_line):
        if line.startswith("$ "):
            result.append((number, line[2:], []))
        elif result and result[-1][1].endswith("\\") and not result[-1][2]:
            result[-1] = (result[-1][0], result[-1][1] + "\n" + line, [])
        elif result:
            result[-1][2].append(line)
        elif line.strip():
            raise AssertionError(f"line {number}: a console block begins with `$ command`, not with {line!r}")
    return [Command(number, text, "\n".join(shown).strip("\n")) for number, text, shown in result]


def matches(shown: str, actual: str) -> bool:
    """Whether `actual` matches `shown`: `...` matches anything, and times are ignored."""
    parts = [re.escape(_plain(part)) for part in _TIMES.sub("0", shown).split("...")]
    return re.fullmatch(".*".join(parts), _plain(_TIMES.sub("0", actual)), re.DOTALL) is not None


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


def run(
    command: Command, directory: Path, environment: Mapping[str, str], *, runs_on: bool = False, seconds: float = 120
) -> CommandResult:
    """Run a command in a directory.

    A command with `runs_on` is interrupted once either stream has the shown output. A command that is still
    running after `seconds` is killed and gets exit code 124.
    """
    with (
        TemporaryFile("w+", encoding="utf-8") as errors,
        subprocess.Popen(
            ["bash", "-c", f"exec {command.text}" if runs_on else command.text],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if runs_on else errors,
            text=True,
            start_new_session=True,  # a separate process group, so that child processes are killed too
        ) as started,
    ):
        timed_out = Event()

        def end() -> None:
            timed_out.set()
            os.killpg(started.pid, signal.SIGKILL)

        timer = Timer(seconds, end)
        timer.start()
        try:
            result = "".join(_until(started, command.shown if runs_on else None))
        finally:
            timer.cancel()
        started.wait()
        errors.seek(0)
        if timed_out.is_set():
            return CommandResult(124, result, f"{errors.read()}\nstill running after {seconds:g} s: mark it `runs on`")
        return CommandResult(started.returncode, result, errors.read())


def arguments(command: Command) -> list[str] | None:
    """The arguments of a command that is one `ragkit` and nothing that bash would expand; None of any other."""
    if not command.text.startswith("ragkit ") or _EXPANDED.search(_QUOTED.sub("", command.text)):
        return None
    return shlex.split(command.text)[1:]


def verb(command: Command) -> str:
    """What the command calls: its words up to the first option or path, as far as `ragkit` knows them."""
    group, words = _root(), []
    for word in arguments(command) or ():
        inner = group.get_command(click.Context(group), word) if isinstance(group, click.Group) else None
        if inner is None:
            break
        group = inner
        words.append(word)
    return " ".join(words)


def _until(started: subprocess.Popen[str], shown: str | None) -> Iterator[str]:
    """The lines of a process; once they match `shown`, interrupt it and yield no more lines."""
    assert started.stdout is not None
    result, is_interrupted = "", False
    for line in started.stdout:
        if not is_interrupted:
            result += line
            yield line
        if shown is not None and not is_interrupted and matches(shown, result):
            is_interrupted = True
            os.killpg(started.pid, signal.SIGINT)


def problems(text: str) -> Iterator[str]:
    """Problems of a command that cannot be run: unknown verbs, options and extras."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words = list(lexer)
    for extra in re.findall(r"ragkit-kb\[([\w,-]+)\]", text):
        known = metadata(DISTRIBUTION).get_all("Provides-Extra") or []
        yield from (f"ragkit has no extra {item!r}" for item in extra.split(",") if item not in known)
    for part in _simple(words):
        called = list(dropwhile(re.compile(r"\w+=").match, part))  # without variables set before it
        if called[:1] == ["ragkit"]:
            yield from _unknown(called[1:])


def _simple(words: list[str]) -> Iterator[list[str]]:
    """The simple commands of a line: split at pipes and the like."""
    part: list[str] = []
    for word in [*words, ";"]:
        if word in _SEPARATORS:
            yield part
            part = []
        else:
            part.append(word)


def _unknown(words: list[str]) -> Iterator[str]:
    """Parse the words like click and yield the unknown options and verbs."""
    command = _root()
    context = click.Context(command, info_name="ragkit")
    known = _options(command)
    rest = iter(words)
    for word in rest:
        if word.startswith((">", "<", "2>")):
            return
        name, equals, _ = word.partition("=")
        if word.startswith("-") and word not in ("-", "--", "-h", "--help"):
            option = known.get(name) or known.get(name[:2])
            if option is None:
                yield f"`{context.command_path}` has no option {name}"
            elif not (option.is_flag or option.count or equals) and name in known:
                next(rest, None)  # its value
        elif isinstance(command, click.Group) and (inner := command.get_command(context, word)):
            command, context = inner, click.Context(inner, context, word)
            known |= _options(command)
        elif isinstance(command, click.Group):
            yield f"`{context.command_path}` has no verb {word!r}"
            return


def _options(command: click.Command) -> dict[str, click.Option]:
    result = [item for item in command.params if isinstance(item, click.Option)]
    return {name: item for item in result for name in (*item.opts, *item.secondary_opts)}


@cache
def _root() -> click.Command:
    """The command group of the entry point `ragkit`."""
    main = next(iter(entry_points(group="console_scripts", name="ragkit"))).load()
    return next(item for item in vars(sys.modules[main.__module__]).values() if isinstance(item, click.Group))
