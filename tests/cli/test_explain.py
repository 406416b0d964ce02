"""`ragkit explain`: ranks of the passage, and why it was cut off or not indexed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import HASHING, Ragkit


@pytest.fixture
def house(workplace: Path, ragkit: Ragkit) -> Path:
    """Four files: one unreadable, one hidden, one empty."""
    folder = workplace / "house"
    (folder / "sub").mkdir(parents=True)
    (folder / "boiler.md").write_text(
        "# Boiler\n\nThe boiler filter is cleaned on the first Monday.\n\nThe valve is brass.\n"
    )
    (folder / "garden.txt").write_text(
        "The hedge is cut in August. The boiler is not in the garden; the filter neither.\n"
    )
    (folder / "sub" / "garden.txt").write_text("A rose.\n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing")
    (folder / ".hidden.md").write_text("Hidden words.\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    (workplace / "ragkit.yaml").write_text(HASHING)
    ragkit("index", "house", code=7)
    return workplace


def test_a_passage_that_is_found_has_its_rank_in_every_ranking(house: Path, ragkit: Ragkit) -> None:
    result = ragkit("explain", "boiler filter Monday piano", "--expect", "boiler.md:3", "--json").json
    assert [stage["name"] for stage in result["stages"]] == ["lexical", "dense", "hybrid"]
    assert [stage["rank"] for stage in result["stages"]] == [1, 1, 1]
    assert (result["rank"], result["source"], result["line"]) == (1, "house/boiler.md", 3)
    assert (result["shared_words"], result["missing_words"]) == (["boiler", "filter", "Monday"], ["piano"])
    assert result["advice"] == ["none: it is hit 1"]


def test_a_passage_that_is_cut_off_is_reported_with_advice(house: Path, ragkit: Ragkit) -> None:
    result = ragkit("explain", "boiler filter Monday", "--expect", "house/garden.txt", "-k", "1", code=1)
    assert "result     cut off: top_k is 1" in result.out
    assert "  - top_k 2 instead of 1" in result.out
    assert "  - other words: the passage lacks Monday" in result.out


def test_a_filter_that_excludes_the_passage_is_reported(house: Path, ragkit: Ragkit) -> None:
    result = ragkit(
        "explain", "hedge August", "--expect", "house/garden.txt", "--where", 'format == "markdown"', "--json", code=1
    )
    assert [stage["rank"] for stage in result.json["stages"]] == [None, None, None]
    assert result.json["advice"] == ["remove --where: the passage does not match it"]


@pytest.mark.parametrize(
    ("expect", "reason"),
    [
        ("broken.pdf", "broken.pdf is not in the index: it could not be parsed: "),
        ("house/.hidden.md", "is not in the index: it was skipped: hidden file"),
        ("house/picture.png", "is not in the index: it was skipped: "),
        ("none.md", "none.md is not in the index: no file of this name is in house"),
        ("ragkit.yaml", "is not in the index: it is outside of the indexed folders: ragkit index ragkit.yaml"),
        ("boiler.md:99", "boiler.md:99 is not in the index: line must be <= 5, the last line with text (got 99)"),
    ],
)
def test_a_file_that_is_not_indexed_is_reported_with_the_reason(
    house: Path, ragkit: Ragkit, expect: str, reason: str
) -> None:
    assert reason in ragkit("explain", "filter", "--expect", expect, code=1).out


def test_an_ambiguous_file_name_is_an_error(house: Path, ragkit: Ragkit) -> None:
    result = ragkit("explain", "rose", "--expect", "garden.txt", code=1)
    assert "'garden.txt' is ambiguous (house/garden.txt, house/sub/garden.txt): write more of its path" in result.err
    assert ragkit("explain", "rose", "--expect", "sub/garden.txt").code == 0


# the passage by its words

HEAT = """# Heating

The boiler of the cellar is cleaned by Ms Aldous on the first Monday of every month.

The boiler of the attic is cleaned by Mr Brand on the second Tuesday of every month.

## Notes of the caretaker

Rain fell on the garden party in June, and everybody went home early.
"""


@pytest.fixture
def heating(workplace: Path, ragkit: Ragkit) -> Path:
    """A file whose sentences compete for an answer, indexed with the shipped embedder."""
    (workplace / "house").mkdir()
    (workplace / "house" / "heating.md").write_text(HEAT)
    ragkit("index", "house")
    return workplace


def test_the_passage_is_found_by_its_words(heating: Path, ragkit: Ragkit) -> None:
    question = "Who cleans the boiler of the attic?"
    result = ragkit("explain", question, "--text", "cleaned by Mr Brand", "--json").json
    assert (result["source"], result["line"], result["rank"]) == ("house/heating.md", 5, 1)
    named = ragkit("explain", question, "--expect", "heating.md", "--text", "went home early", "--json").json
    assert (named["source"], named["line"]) == ("house/heating.md", 9)


def test_a_text_that_is_not_indexed_is_reported(heating: Path, ragkit: Ragkit) -> None:
    result = ragkit("explain", "Who cleans the boiler?", "--text", "purple elephants", code=1)
    assert "'purple elephants' is not in the index: no indexed file has the text 'purple elephants'" in result.out
    named = ragkit("explain", "Who cleans it?", "--expect", "heating.md", "--text", "purple", "--json", code=1).json
    assert named["not_loaded"] == "it does not have the text 'purple'"


def test_a_page_that_a_file_does_not_have_is_reported(heating: Path, ragkit: Ragkit) -> None:
    out = ragkit("explain", "Who cleans the boiler?", "--expect", "heating.md:p2", code=1).out
    assert "heating.md:p2 is not in the index: page 2 has no text" in out


def test_something_must_be_expected(heating: Path, ragkit: Ragkit) -> None:
    assert "say what is expected: --expect" in ragkit("explain", "Who cleans the boiler?", code=2).err
