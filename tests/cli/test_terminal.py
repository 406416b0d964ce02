"""Text of documents cannot control the terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from ragkit.cli.terminal import replace_control_chars
from tests.cli.conftest import Ragkit

ATTACKS = {
    "clipboard": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\",
    "clear": "\x1b[2J\x1b[H",
    "hidden": "\x1b[8mnot seen",
    "eight bits": "\x9b2J",
    "line over line": "good\rbad",
    "backspace": "bad\b\b\bgood",
    "reading order": "\u202egnp.exe",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_control_characters_are_replaced(name: str) -> None:
    result = replace_control_chars(f"before {ATTACKS[name]} after")
    assert not set(result) & set("\x1b\x07\x08\x9b\r\u202e")
    assert result.startswith("before ")
    assert result.endswith(" after")


def test_colours_tabs_and_line_ends_stay() -> None:
    assert replace_control_chars("\x1b[1mbold\x1b[0m\ta\r\nb\n") == "\x1b[1mbold\x1b[0m\ta\nb\n"


@pytest.fixture
def attacked(workplace: Path, hashing: Path, ragkit: Ragkit) -> Path:
    """A knowledge base over one hostile file with a hostile name."""
    (workplace / "docs").mkdir()
    (workplace / "docs" / "bad\x1b[2J.txt").write_text("roses " + " ".join(ATTACKS.values()))
    ragkit("index", "docs")
    return workplace


@pytest.mark.parametrize("verb", [("search", "roses"), ("list",), ("ask", "What of roses?"), ("list", "--chunks")])
def test_a_terminal_gets_no_control_characters(attacked: Path, verb: tuple[str, ...]) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ragkit", *verb], cwd=attacked, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    result = b""
    try:
        while piece := os.read(ours, 65536):
            result += piece
    except OSError:  # the other side is closed
        pass
    process.wait(timeout=30)
    os.close(ours)
    assert b"roses" in result or verb[0] == "list"
    for sign in (b"\x1b]", b"\x1b[2J", b"\x1b[8m", b"\x07", b"\x08", "\x9b".encode(), "\u202e".encode()):
        assert sign not in result


def test_a_pipe_gets_the_text_as_it_is(attacked: Path, ragkit: Ragkit) -> None:
    [chunk] = ragkit("list", "--chunks", "--json").lines
    assert ATTACKS["clipboard"] in chunk["text"]


def test_json_lines_have_no_other_line_ends(workplace: Path, hashing: Path, ragkit: Ragkit) -> None:
    (workplace / "docs").mkdir()
    (workplace / "docs" / "a.txt").write_text("one\u2028two\u2029three\x85four\x9b2J")
    ragkit("index", "docs")
    result = ragkit("list", "--chunks", "--json")
    [chunk] = result.lines
    assert chunk["text"] == "one\u2028two\u2029three\x85four\x9b2J"
    assert not set(result.out.rstrip("\n")) & set("\n\u2028\u2029\x85\x9b")
