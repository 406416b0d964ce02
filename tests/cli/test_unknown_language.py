"""A line of `index`, `status` and `doctor` if the embedder does not know the language of most of the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import HASHING, Ragkit
from tests.lexical.test_languages import ENGLISH, GERMAN, TEXTS

LINE = "most of the text is in German, and the embedder {} was trained on English"
FIX = "pip install 'ragkit-kb[multilingual]' && ragkit index --rebuild --set embed.name=multilingual"


def write(folder: Path, *texts: str) -> Path:
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["static", "minilm"])
def test_index_status_and_doctor_say_it_and_what_to_do(name: str, ragkit: Ragkit, workplace: Path) -> None:
    report = ragkit("index", write(workplace / "docs", GERMAN, GERMAN, ENGLISH), "--set", f"embed.name={name}")
    line = LINE.format(name)
    assert f"note: {line}: {FIX}" in report.err
    assert f"{line}: {FIX}" in ragkit("status").out.splitlines()
    assert ragkit("status", "--json").json["language_note"] == f"{line}: {FIX}"
    checks = {check["name"]: check for check in ragkit("doctor", "--json").json["checks"]}
    assert (checks["language"]["what"], checks["language"]["fix"], checks["language"]["ok"]) == (line, FIX, True)


def test_a_run_that_adds_nothing_does_not_repeat_it(ragkit: Ragkit, workplace: Path) -> None:
    docs = write(workplace / "docs", GERMAN)
    ragkit("index", docs, "--set", "embed.name=static")
    assert "German" not in ragkit("index", docs).err


@pytest.mark.parametrize("texts", [(ENGLISH, ENGLISH, GERMAN), (ENGLISH, TEXTS["Chinese"]), ("x = 1\n" * 30,)])
def test_nothing_is_said_of_english_and_of_code(texts: tuple[str, ...], ragkit: Ragkit, workplace: Path) -> None:
    report = ragkit("index", write(workplace / "docs", *texts), "--set", "embed.name=static")
    assert "was trained on" not in report.err + ragkit("status").out + ragkit("doctor").out


def test_nothing_is_said_if_the_embedder_has_no_language(ragkit: Ragkit, workplace: Path) -> None:
    (workplace / "ragkit.yaml").write_text(f"extends: default\n{HASHING}")
    assert "was trained on" not in ragkit("index", write(workplace / "docs", GERMAN)).err + ragkit("status").out
