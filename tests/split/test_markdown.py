"""The default splitter on Markdown, and on documents with headings."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragkit.records import Document, Heading
from ragkit.split.markdown import MarkdownSplitter
from ragkit.split.options import SplitOptions
from ragkit.split.structure import markdown_blocks, section_level
from tests.split.samples import handbook, paragraph, recursive, sentence, texts, word_starts


def markdown(text: str) -> Document:
    return Document(text, format="markdown")


def section(number: int, words: int) -> str:
    return f"## Section {number}\n\n" + " ".join(["word"] * (words - 3)) + "."


def chunk_texts(text: str, chunk_size: int, chunk_overlap: int = 0) -> list[str]:
    document = markdown(text)
    return texts(document, recursive(document, chunk_size, chunk_overlap))


def test_chunks_begin_at_headings_where_sections_fill_them() -> None:
    sections = [section(number, 80) for number in range(6)]
    assert chunk_texts("\n\n".join(sections), 100, 20) == sections


def test_small_neighbouring_sections_share_a_chunk() -> None:
    sections = [section(number, 30) for number in range(9)]
    assert chunk_texts("\n\n".join(sections), 100) == ["\n\n".join(sections[first : first + 3]) for first in (0, 3, 6)]


def test_a_title_stays_with_the_first_section() -> None:
    text = "# Title\n\n" + section(1, 60) + "\n\n" + section(2, 60)
    assert chunk_texts(text, 100) == ["# Title\n\n" + section(1, 60), section(2, 60)]


def test_boundaries_between_sections_are_preferred_to_those_between_subsections() -> None:
    parts = ["## One", paragraph(random.Random(1), 2, 2), "### Part of one", paragraph(random.Random(2), 2, 2)]
    text = "\n\n".join([*parts, *(part.replace("one", "two").replace("One", "Two") for part in parts)])
    assert [piece.split("\n")[0] for piece in chunk_texts(text, 90)] == ["## One", "## Two"]


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(60, 200))
def test_a_heading_stays_with_the_text_after_it(seed: int, size: int) -> None:
    for piece in chunk_texts(handbook(seed, sections=6), size, size // 5):
        assert not piece.rsplit("\n", 1)[-1].startswith("#")


def test_a_subsection_overlaps_but_a_new_section_does_not() -> None:
    filling = "\n\n".join(paragraph(random.Random(seed), 4, 4) for seed in range(2))
    text = f"# Title\n\n## One\n\n{filling}\n\n### Detail\n\n{filling}\n\n## Two\n\n{filling}"
    document = markdown(text)
    spans = recursive(document, 100, 30)
    headed = {
        title: text[after[0] : before[1]]
        for before, after in pairwise(spans)
        for title in ("### Detail", "## Two")
        if text[before[1] :].lstrip().startswith(title)
    }
    assert headed["## Two"] == ""
    assert 0 < len(headed["### Detail"].split()) <= 30


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(0, 40), st.sampled_from(["```", "~~~~"]))
def test_a_fenced_block_that_fits_is_never_cut(seed: int, overlap: int, fence: str) -> None:
    rng = random.Random(seed)
    blocks, parts = [], []
    for _ in range(6):
        lines = "\n\n".join(f"    call_{line}(a)" for line in range(rng.randint(1, 45)))
        blocks.append(f"{fence}python\n{lines}\n{fence}")
        parts += [paragraph(rng), "### Heading", blocks[-1]]
    chunks = chunk_texts("\n\n".join(parts), 100, overlap)
    assert all(any(block in chunk for chunk in chunks) for block in blocks)


def test_a_fenced_block_too_long_for_a_chunk_is_split_between_lines() -> None:
    lines = [f"    call_{line}(with, some, arguments)" for line in range(60)]
    chunks = chunk_texts("```\n" + "\n".join(lines) + "\n```", 40)
    assert "\n".join(chunks).split("\n") == ["```", *lines, "```"]


def test_a_number_sign_in_a_fenced_block_is_not_a_heading() -> None:
    text = "## Real\n\n```sh\n# not a heading\n```\n\ntext\n\n## Also real"
    assert [block.level for block in markdown_blocks(markdown(text))] == [2, 0, 2]


def test_an_unclosed_fence_extends_to_the_end() -> None:
    text = "before\n\n```\ncode\n\n# in the code"
    [block] = markdown_blocks(markdown(text))
    assert text[block.start : block.end] == "```\ncode\n\n# in the code"


@pytest.mark.parametrize("row", ["| cell one | cell two |", "cell one | cell two"])
def test_a_table_that_fits_is_never_cut(row: str) -> None:
    table = "\n".join([row, "--- | ---" if row[0] == "c" else "|---|---|", *[row] * 10])
    text = "\n\n".join([sentence(random.Random(1), 24, 24), sentence(random.Random(2), 24, 24), table])
    assert any(table in piece for piece in chunk_texts(text, 90, 20))


def test_a_table_too_long_for_a_chunk_is_split_between_rows_and_overlaps_by_rows() -> None:
    rows = [f"| row {number} | with a cell | and another cell |" for number in range(40)]
    chunks = chunk_texts("| a | b | c |\n|---|---|---|\n" + "\n".join(rows), 80, 20)
    assert {line for chunk in chunks for line in chunk.split("\n")} == {"| a | b | c |", "|---|---|---|", *rows}
    assert [line for chunk in chunks for line in chunk.split("\n")] != ["| a | b | c |", "|---|---|---|", *rows]


def test_a_row_longer_than_the_overlap_is_not_repeated() -> None:
    rows = [f"| {number} " + "| cell and cell " * 8 + "|" for number in range(20)]
    document = markdown("| a |\n|---|\n" + "\n".join(rows))
    assert all(before[1] <= after[0] for before, after in pairwise(recursive(document, 100, 20)))


def test_headings_of_the_document_are_used_if_there_are_any() -> None:
    text = "First line\n==========\n\ntext\n\n# not a heading for the loader\n\nmore"
    document = Document(text, format="markdown", headings=(Heading(0, 1, "First line"),))
    [block] = markdown_blocks(document)
    assert text[block.start : block.end] == "First line\n=========="


def test_a_heading_offset_may_point_to_its_text() -> None:
    text = "intro\n\n## Heading\n\ntext"
    [block] = markdown_blocks(Document(text, format="markdown", headings=(Heading(10, 2, "Heading"),)))
    assert text[block.start : block.end] == "## Heading"


@pytest.mark.parametrize(
    ("levels", "expected"), [([], 1), ([1], 1), ([1, 2, 2], 2), ([1, 1, 2], 1), ([2, 2], 2), ([3, 1, 2], 2)]
)
def test_top_sections_are_the_highest_headings_below_a_title(levels: list[int], expected: int) -> None:
    assert section_level(levels) == expected


def test_chunks_start_at_headings_in_every_format() -> None:
    sections = [f"Section {number}\n" + " ".join(["word"] * 75) + "." for number in range(5)]
    text = "\n\n".join(sections)
    headings = tuple(Heading(text.index(section_text), 1, section_text.split("\n")[0]) for section_text in sections)
    document = Document(text, format="html", headings=headings)
    assert texts(document, recursive(document, 100, 20)) == sections


def test_headings_without_any_text_between_them_fill_chunks() -> None:
    chunks = chunk_texts("\n".join(f"# Heading {number}" for number in range(100)), 30)
    assert len(chunks) == 10


def test_the_markdown_splitter_treats_any_format_as_markdown() -> None:
    document = Document(handbook(3), format="text")
    spans = MarkdownSplitter(SplitOptions(200, 40)).spans(document, word_starts)
    assert list(spans) == recursive(markdown(document.text))


@pytest.mark.parametrize("seed", range(3))
def test_an_edit_at_the_top_of_a_markdown_text_changes_few_chunks(seed: int) -> None:
    old = handbook(seed)
    new = old.replace("# The handbook\n\n", "# The handbook\n\nA new sentence was added here. ")
    before, after = chunk_texts(old, 200, 40), chunk_texts(new, 200, 40)
    assert len(set(after) - set(before)) < 0.05 * len(after)
    assert sum(len(chunk.split()) for chunk in after) / len(after) > 140
