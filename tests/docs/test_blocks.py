"""Every code block of README.md and docs/ works as shown. See README.md in this folder."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from . import console, snippets
from .blocks import Block, blocks
from .conftest import RunHere, Workplace
from .pages import ROOT, TESTED_ELSEWHERE, name, pages

SECTIONS = frozenset({"load", "split", "embed", "store", "retrieve", "answer", "run", "extends", "profiles"})
BLOCKS = [block for page in pages() for block in blocks(page)]
DAILY = ("README.md", "docs/tutorial/")
"""Pages that are checked in each run of all tests; a tenth of the others is, by the day."""


def first_of_each_command() -> frozenset[tuple[Path, int]]:
    """Page and line of the first use of each command of `ragkit`: it is run in a process of its own."""
    found: dict[str, tuple[Path, int]] = {}
    for block in BLOCKS:
        if block.language == "console" and not block.marker.needs:
            for command in console.commands(block.code, block.line):
                if console.arguments(command) is not None:
                    found.setdefault(console.verb(command), (block.page, command.line))
    return frozenset(found.values())


IN_A_PROCESS = first_of_each_command()


def python(block: Block, place: Workplace, run_here: RunHere) -> None:
    """Run the block in the page's directory; if its requirement is missing, check imports and keywords."""
    created = snippets.compiled(block.code, block.page, block.line, asynchronous=True)
    if block.marker.needs:
        assert not list(snippets.problems(block.code))
        return
    names = place.names if block.marker.continues else {"__name__": "__main__"}
    before = Path.cwd()
    os.chdir(place.directory)
    try:
        result = eval(created, names)  # our own documentation; returns an awaitable
        if inspect.iscoroutine(result):
            asyncio.run(result)
    finally:
        os.chdir(before)


def shell(block: Block, place: Workplace, run_here: RunHere) -> None:
    """Run each command and compare its output; if its requirement is missing, check verbs and options."""
    results = console.commands(block.code, block.line)
    for command in results:
        assert not list(console.problems(command.text)), f"{name(block.page)}:{command.line}: {command.text}"
        last = command is results[-1]
        if block.marker.needs or command.text.startswith("pip install"):
            continue
        on = last and block.marker.runs_on
        words = (
            None
            if on or (block.page, command.line) in IN_A_PROCESS or place.has_plugins()
            else console.arguments(command)
        )
        if words is None:
            result = console.run(command, place.directory, place.environment, runs_on=on)
        else:
            result = run_here(words, place)
        expected = (0, 130, -2) if on else (block.marker.exit if last else 0,)
        assert result.code in expected, (
            f"{name(block.page)}:{command.line}: exit code {result.code}\n{result.out}{result.err}"
        )
        if command.shown and not result.shows(command.shown):
            assert result.out + result.err == command.shown, f"{name(block.page)}:{command.line}: {command.text}"


def script(block: Block, place: Workplace, run_here: RunHere) -> None:
    """Check the syntax of a shell script, and the verbs and options of every `ragkit`."""
    checked = subprocess.run(["bash", "-n"], input=block.code, text=True, capture_output=True, check=False)
    assert not checked.stderr
    assert not [item for line in block.code.splitlines() for item in console.problems(line)]


def yaml(block: Block, place: Workplace, run_here: RunHere) -> None:
    """Validate a pipeline file with `ragkit pipeline validate`; parse any other file."""
    results = YAML(typ="safe").load(block.code)
    if block.marker.needs:
        return
    if isinstance(results, Mapping) and set(results) <= SECTIONS:
        file = place.directory / "block.yaml"
        file.write_text(block.code, encoding="utf-8")
        command = console.Command(block.line, f"ragkit pipeline validate {file.name}", "")
        if place.has_plugins():
            result = console.run(command, place.directory, place.environment)
        else:
            result = run_here(console.arguments(command) or [], place)
        assert result.code == 0, result.out + result.err


def json_(block: Block, place: Workplace, run_here: RunHere) -> None:
    """Parse one JSON value, or one per line."""
    try:
        json.loads(block.code)
    except json.JSONDecodeError:
        for line in block.code.splitlines():
            json.loads(line)


def ini(block: Block, place: Workplace, run_here: RunHere) -> None:
    """Sections and keys."""
    ConfigParser(strict=False, interpolation=None).read_string(block.code)


def toml(block: Block, place: Workplace, run_here: RunHere) -> None:
    """Tables and keys."""
    tomllib.loads(block.code)


def nothing(block: Block, place: Workplace, run_here: RunHere) -> None:
    """Text that is not code: nothing to check."""


LANGUAGES: dict[str, Callable[[Block, Workplace, RunHere], None]] = {
    "python": python,
    "console": shell,
    "sh": script,
    "yaml": yaml,
    "json": json_,
    "jsonl": json_,
    "toml": toml,
    "ini": ini,
    "sql": nothing,
    "text": nothing,
    "mermaid": nothing,
}


def block_case(block: Block) -> object:
    page = name(block.page)
    marks = () if page.startswith(DAILY) else (pytest.mark.rotating,)
    return pytest.param(block, id=f"{page}:{block.line}:{block.language}", marks=marks)


@pytest.mark.parametrize("block", [*map(block_case, BLOCKS)])
@pytest.mark.usefixtures("no_network")
def test_a_block_works_as_shown(block: Block, workplaces: Callable[[Path], Workplace], run_here: RunHere) -> None:
    assert block.language in LANGUAGES, f"name its language, one of {', '.join(LANGUAGES)}"
    place = workplaces(block.page)
    if block.marker.file:
        path = place.directory / block.marker.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.code, encoding="utf-8")
    LANGUAGES[block.language](block, place, run_here)


@pytest.mark.parametrize("page, test", TESTED_ELSEWHERE.items())
def test_an_excluded_page_has_its_own_test(page: str, test: str) -> None:
    assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")
    assert ast.parse((ROOT / test).read_text(encoding="utf-8")).body
