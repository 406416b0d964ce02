"""The words of the page in its languages: each has all words of the modules, and none that are not used."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ragkit.server.page import static_files

STATIC = Path(static_files.__file__).parent / "static"
_CALL = re.compile(r"\bt\(|\btn\(")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_MARKED = re.compile(r"data-t>([^<]+)<")
OF_THE_SERVER = {
    "quote found", "numbers match", "partly supported", "not checked", "likely", "uncertain", "strong", "fair", "weak",
    "Theme: system", "Theme: light", "Theme: dark", "Sessions and views", "Find a session", "{n} added", "{n} updated",
    "{n} unchanged", "{n} removed", "{n} failed", "{n} skipped",
}  # fmt: skip
"""Words that the modules compose or take from the server."""


def used_words() -> set[str]:
    """The English words in calls of t and tn, and in the first file of the page."""
    words = {word.strip() for word in _MARKED.findall((STATIC / "index.html").read_text("utf-8"))}
    for module in STATIC.glob("*.js"):
        text = module.read_text("utf-8")
        for call in _CALL.finditer(text):
            literal = _TEXT.match(text, call.end())
            if literal is not None:
                words.add(json.loads(literal[0]))
    return words


def placeholders(text: str) -> set[str]:
    """The values of a text: {name}."""
    return set(re.findall(r"\{\w+\}", text))


@pytest.mark.parametrize("language", ["de", "es", "fr", "ja"])
def test_a_language_has_every_word_of_the_page_with_its_values(language: str) -> None:
    words = json.loads((STATIC / "words" / f"words-{language}.json").read_text("utf-8"))
    used = used_words() | OF_THE_SERVER
    assert len(used) > 250
    assert used - set(words) == set()
    modules = "".join(map(_read, STATIC.glob("*.js")))
    unused = {word for word in words if word not in used and f'"{word}"' not in modules}
    assert unused == set()
    for english, translated in words.items():
        assert placeholders(english) == placeholders(translated), english
        assert translated.strip(), english


def _read(file: Path) -> str:
    return file.read_text("utf-8")
