"""Code in manuals, formulas and environments are kept whole, and no overlap begins inside them."""

from __future__ import annotations

import pytest

from ragkit.load.router import Router
from ragkit.split.chunks import build_chunks
from ragkit.split.options import RecursiveOptions
from ragkit.split.recursive import RecursiveSplitter
from ragkit.split.token_index import estimate_token_starts

PROSE = "The pump runs when the tank is full, and it stops when the tank is empty. " * 5
LINES = [f"step_{number}()" for number in range(14)]
INDENTED = "".join(f"   {line}\n" for line in LINES)
PLAIN = "".join(f"{line}\n" for line in LINES)
BLOCKS = {
    "a.rst": f"Run this::\n\n{INDENTED}",
    "b.rst": f".. code-block:: python\n\n{INDENTED}",
    "a.md": f"```\n{PLAIN}```\n",
    "a.tex": f"\\begin{{lemma}}\n{PLAIN}\\end{{lemma}}\n",
    "b.tex": f"$$\n{PLAIN}$$\n",
}


def chunks(text: str, name: str) -> list[str]:
    _, document = Router().load(text.encode(), name)
    return [
        chunk.text for chunk in build_chunks(document, RecursiveSplitter(RecursiveOptions()), estimate_token_starts, "")
    ]


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("sentences", [1, 2, 3])
def test_a_block_is_in_one_chunk_and_no_other_begins_inside(name: str, sentences: int) -> None:
    text = f"{PROSE * sentences}\n\n{BLOCKS[name]}\n{PROSE}\n\n{PROSE}"
    found = [chunk for chunk in chunks(text, name) if "step_" in chunk]
    assert all(LINES[0] in chunk and LINES[-1] in chunk for chunk in found) and found


def test_a_note_is_no_code() -> None:
    text = ".. note::\n\n" + "".join(f"   {line}\n" for line in (PROSE * 2).split(". "))
    assert len(chunks(text, "a.rst")) == len(chunks(text.replace(".. note::", "Note"), "a.rst"))


def test_a_value_of_json_begins_a_chunk_with_its_name() -> None:
    text = ",".join(
        f'"exports.part_{number}": "Runs. Then it stops. See ./dist/part_{number}.js"' for number in range(40)
    )
    found = chunks(f"{{{text}}}", "a.json")
    assert len(found) > 3 and all(chunk.startswith("exports.part_") for chunk in found)


def test_a_row_longer_than_a_chunk_is_cut_at_a_sentence() -> None:
    row = " | ".join(f"Reading {number} of the pump is low. It stops at once." for number in range(40))
    text = f"| a | b |\n|---|---|\n| x | {row} |\n| y | z |\n"
    found = chunks(text, "a.md")
    assert len(found) > 2 and all(chunk.endswith((".", "|")) for chunk in found)


def test_no_overlap_reaches_a_key_or_an_item_of_yaml() -> None:
    record = (
        "- id: {0}\n  name:\n    first: Ann{0}\n    last: Lee{0}\n  bio:\n    birthday: 1900-01-{0}\n    gender: F\n"
    )
    found = chunks("".join(record.format(number) for number in range(10, 60)), "a.yaml")
    assert len(found) > 5 and all(chunk.startswith("- id:") for chunk in found)
