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
from importlib.metadata import entry_points, metadata
from itertools import dropwhile
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Timer

import click

from ragkit.distribution import DISTRIBUTION

_TIMES = re.compile(r"\d[\d.,]*(?= (?:s|ms|a second|CPU s)\b|/s\b)")
_SEPARATORS = frozenset({"|", "||", "&&", ";", "&"})


@dataclass(frozen=True)
class Command:
    """One command and the output that the page shows for it."""

    line: int
    text: str
    shown: str
    """'' where the page shows nothing, which promises nothing."""


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it said."""

    code: int
    """124 when it was ended because it took too long."""
    out: str
    err: str = ""

    def shows(self, shown: str) -> bool:
        """Whether it said what a page shows: on stdout, on stderr, or on both. Progress on stderr need not be shown."""
        return any(matches(shown, met) for met in (self.out, self.err, self.out + self.err, self.err + self.out))


def commands(code: str, first_line: int = 1) -> list[Command]:
    """The commands of a block. A backslash at the end of a line goes on; text before the first `$` is an error."""
    found: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(code.splitlines(), first_line):
        if line.startswith("$ "):
            found.append((number, line[2:], []))
        elif found and found[-1][1].endswith("\\") and not found[-1][2]:
            found[-1] = (found[-1][0], found[-1][1] + "\n" + line, [])
        elif found:
            found[-1][2].append(line)
        elif line.strip():
            raise AssertionError(f"line {number}: a console block begins with `$ command`, not with {line!r}")
    return [Command(number, text, "\n".join(shown).strip("\n")) for number, text, shown in found]


def matches(shown: str, met: str) -> bool:
    """Whether `met` is what `shown` promises: `...` stands for anything, and times are not compared."""
    parts = [re.escape(_plain(part)) for part in _TIMES.sub("0", shown).split("...")]
    return re.fullmatch(".*".join(parts), _plain(_TIMES.sub("0", met)), re.DOTALL) is not None


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


def run(
    command: Command, directory: Path, environment: Mapping[str, str], *, runs_on: bool = False, seconds: float = 120
) -> Said:
    """Runs a command in a directory.

    A command that runs on is interrupted as soon as the shown output stands there, on either stream. Whatever is still
    running after `seconds` is ended, and exit code 124 says so.
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
            start_new_session=True,  # a group of its own, so that what it starts ends with it
        ) as started,
    ):
        late = Event()

        def end() -> None:
            late.set()
            os.killpg(started.pid, signal.SIGKILL)

        timer = Timer(seconds, end)
        timer.start()
        try:
            said = "".join(_until(started, command.shown if runs_on else None))
        finally:
            timer.cancel()
        started.wait()
        errors.seek(0)
        if late.is_set():
            return Said(124, said, f"{errors.read()}\nstill running after {seconds:g} s: mark it `runs on`")
        return Said(started.returncode, said, errors.read())


def _until(started: subprocess.Popen[str], shown: str | None) -> Iterator[str]:
    """The lines of a process; once they are what is `shown`, it is interrupted and no further one is given."""
    assert started.stdout is not None
    said, told = "", False
    for line in started.stdout:
        if not told:
            said += line
            yield line
        if shown is not None and not told and matches(shown, said):
            told = True
            os.killpg(started.pid, signal.SIGINT)


def problems(text: str) -> Iterator[str]:
    """What is wrong with a command that cannot be run: verbs, options and extras that do not exist."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words = list(lexer)
    for extra in re.findall(r"ragkit-kb\[([\w,-]+)\]", text):
        known = metadata(DISTRIBUTION).get_all("Provides-Extra") or []
        yield from (f"ragkit has no extra {one!r}" for one in extra.split(",") if one not in known)
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
    """Follows the words from verb to verb, as click does, and says which options and verbs it does not know."""
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
    found = [one for one in command.params if isinstance(one, click.Option)]
    return {name: one for one in found for name in (*one.opts, *one.secondary_opts)}


def _root() -> click.Command:
    """The command group behind `ragkit`, wherever it lives."""
    main = next(iter(entry_points(group="console_scripts", name="ragkit"))).load()
    return next(one for one in vars(sys.modules[main.__module__]).values() if isinstance(one, click.Group))
