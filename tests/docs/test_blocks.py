"""Every code block of README.md and docs/ does what it shows. README.md of this folder says how."""

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
from .conftest import Workplace
from .pages import ELSEWHERE, ROOT, name, pages

SECTIONS = frozenset({"load", "split", "embed", "store", "retrieve", "answer", "run", "extends", "profiles"})
BLOCKS = [block for page in pages() for block in blocks(page)]


def python(block: Block, place: Workplace) -> None:
    """Runs it in the page's directory; without what it needs, imports and keywords are checked."""
    made = snippets.compiled(block.code, block.page, block.line, asynchronous=True)
    if block.marker.needs:
        assert not list(snippets.problems(block.code))
        return
    names = place.names if block.marker.continues else {"__name__": "__main__"}
    before = Path.cwd()
    os.chdir(place.directory)
    try:
        result = eval(made, names)  # our own documentation; gives what to await
        if inspect.iscoroutine(result):
            asyncio.run(result)
    finally:
        os.chdir(before)


def shell(block: Block, place: Workplace) -> None:
    """Runs each command and compares what is shown; without what it needs, verbs and options are checked."""
    found = console.commands(block.code, block.line)
    for command in found:
        assert not list(console.problems(command.text)), f"{name(block.page)}:{command.line}: {command.text}"
        last = command is found[-1]
        if block.marker.needs or command.text.startswith("pip install"):
            continue
        on = last and block.marker.runs_on
        said = console.run(command, place.directory, place.environment, runs_on=on)
        wanted = (0, 130, -2) if on else (block.marker.exit if last else 0,)
        assert said.code in wanted, f"{name(block.page)}:{command.line}: exit code {said.code}\n{said.out}{said.err}"
        if command.shown and not said.shows(command.shown):
            assert said.out + said.err == command.shown, f"{name(block.page)}:{command.line}: {command.text}"


def script(block: Block, place: Workplace) -> None:
    """A shell script: its syntax, and the verbs and options of every `ragkit`."""
    checked = subprocess.run(["bash", "-n"], input=block.code, text=True, capture_output=True, check=False)
    assert not checked.stderr
    assert not [one for line in block.code.splitlines() for one in console.problems(line)]


def yaml(block: Block, place: Workplace) -> None:
    """A pipeline file is validated by `ragkit pipeline validate`; any other is read."""
    found = YAML(typ="safe").load(block.code)
    if block.marker.needs:
        return
    if isinstance(found, Mapping) and set(found) <= SECTIONS:
        file = place.directory / "block.yaml"
        file.write_text(block.code, encoding="utf-8")
        said = console.run(
            console.Command(block.line, f"ragkit pipeline validate {file.name}", ""), place.directory, place.environment
        )
        assert said.code == 0, said.out + said.err


def json_(block: Block, place: Workplace) -> None:
    """One JSON value, or one a line."""
    try:
        json.loads(block.code)
    except json.JSONDecodeError:
        for line in block.code.splitlines():
            json.loads(line)


def ini(block: Block, place: Workplace) -> None:
    """Sections and keys."""
    ConfigParser(strict=False, interpolation=None).read_string(block.code)


def toml(block: Block, place: Workplace) -> None:
    """Tables and keys."""
    tomllib.loads(block.code)


def nothing(block: Block, place: Workplace) -> None:
    """What is not code."""


LANGUAGES: dict[str, Callable[[Block, Workplace], None]] = {
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


@pytest.mark.parametrize("block", BLOCKS, ids=[f"{name(one.page)}:{one.line}:{one.language}" for one in BLOCKS])
@pytest.mark.usefixtures("no_network")
def test_a_block_does_what_it_shows(block: Block, workplaces: Callable[[Path], Workplace]) -> None:
    assert block.language in LANGUAGES, f"name its language, one of {', '.join(LANGUAGES)}"
    place = workplaces(block.page)
    if block.marker.file:
        path = place.directory / block.marker.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.code, encoding="utf-8")
    LANGUAGES[block.language](block, place)


@pytest.mark.parametrize("page, test", ELSEWHERE.items())
def test_a_page_that_is_left_out_has_a_test_of_its_own(page: str, test: str) -> None:
    assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")
    assert ast.parse((ROOT / test).read_text(encoding="utf-8")).body
