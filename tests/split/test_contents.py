"""Tables of contents and indexes with leaders are no passages; what looks like one and tells something is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragkit.records import Document
from ragkit.split.chunks import build_chunks
from ragkit.split.contents import find_contents, without_contents
from ragkit.split.options import RecursiveOptions
from ragkit.split.recursive import RecursiveSplitter
from ragkit.split.token_index import estimate_token_starts

TITLES = ["What is R?", "Installing R", "Packages", "Graphics", "Memory", "Reporting bugs"]
BODY = "\n\n".join(
    f"{n} {title}\nIt is told here what {title.lower()} means to a reader." for n, title in enumerate(TITLES, 1)
)


def entries(line: Callable[[int, str], str]) -> str:
    return "\n".join(line(number, title) for number, title in enumerate(TITLES, 1))


def chunk_texts(text: str, tokens: int = 60) -> list[str]:
    splitter = RecursiveSplitter(RecursiveOptions(chunk_size=tokens, chunk_overlap=0))
    return [chunk.text for chunk in build_chunks(Document(text), splitter, estimate_token_starts, "f")]


@pytest.mark.parametrize(
    "line",
    [
        lambda n, title: f"{n} {title} . . . . . . . . . . . . . . . . . . {3 * n}",
        lambda n, title: f"Chapter {n}. {title}......................{3 * n}",
        lambda n, title: f"{n}.{n} {title} …………… {n}",
        lambda n, title: f"{title} ........ {['i', 'ii', 'iii', 'iv', 'v', 'vi'][n - 1]}",
        lambda n, title: f"{n} | {title} | ........ | {n}",
        lambda n, title: f"{n} A long title that begins above\n{title} . . . . . . . {n}",
    ],
)
def test_a_table_of_contents_is_in_no_chunk(line: Callable[[int, str], str]) -> None:
    text = f"The R manual\n\nContents\n{entries(line)}\n\n{BODY}"
    found = chunk_texts(text)
    assert not any("...." in chunk or ". . ." in chunk or "…" in chunk for chunk in found)
    assert "What is R?" in "".join(found)
    assert "".join(BODY.split()) in "".join("".join(found).split())
    assert "Contents" not in found


@pytest.mark.parametrize("mark", ["- ", "* ", "1. ", "   + "])
def test_links_to_the_headings_of_a_document_are_in_no_chunk(mark: str) -> None:
    links = "\n".join(f"{mark}[{title}](#{title.lower().replace(' ', '-')})" for title in TITLES)
    body = "\n\n".join(f"## {title}\n\nIt is told here what {title.lower()} means to a reader." for title in TITLES)
    found = chunk_texts(f"# The R manual\n\nR computes.\n\n{links}\n\n{body}")
    assert not any("](#" in chunk for chunk in found)
    assert "".join(f"#TheRmanualRcomputes.{body}".split()) == "".join("".join(found).split())


@pytest.mark.parametrize(
    "line",
    [
        lambda title: f"- [{title}](#{title[:4]}): what it is",
        lambda title: f"- [{title}](other.md#{title[:4]})",
        lambda title: f"[{title}](#{title[:4]})",
        lambda title: f"- [{title}](#{title[:4]})\n  for the reader",
        lambda title: f"- [{title} or none](#{title[:4]})",
    ],
)
def test_lists_of_links_that_say_more_or_lead_elsewhere_are_kept(line: Callable[[str], str]) -> None:
    links = "\n".join(map(line, TITLES))
    assert find_contents(f"# The R manual\n\n{links}\n\n{BODY}") == []


def test_an_index_is_in_no_chunk() -> None:
    words = ["graphics", "installing", "means", "memory", "packages", "reader", "reporting", "told"]
    index = "\n".join(f"{word} . . . . . . . . {97 * n % 61}" for n, word in enumerate(words))
    assert chunk_texts(f"{BODY}\n\nIndex\n{index}") == chunk_texts(BODY)


@pytest.mark.parametrize(
    "lines",
    [
        ["Coffee ........ 4", "Tea ........ 3", "Cake ........ 5", "Soup ........ 6", "Bread ........ 2"],
        ["Supply voltage ...... 5 V", "Current ...... 2 mA", "Weight ...... 40 g", "Height ...... 9 mm"],
        ["What is R? ........ 4", "Installing R ...... 9"],
        ["Fred Miller ......... 92,500 184,952", "Ann Lee .......... 112,500 184,952"] * 3,
        ["We waited ....", "and waited ....", "and then ....", "nothing came ...."],
    ],
)
def test_lines_with_leaders_that_tell_something_stay(lines: list[str]) -> None:
    text = "\n".join([*lines, "", BODY])
    assert find_contents(text) == []
    assert "".join("".join(chunk_texts(text)).split()) == "".join(text.split())


def test_contents_in_the_middle_of_a_chunk_part_it() -> None:
    text = f"Before.\n{entries(lambda n, title: f'{title} ...... {n}')}\nBehind.\n\n{BODY}"
    assert chunk_texts(text, tokens=2000)[0] == "Before."
    assert chunk_texts(text, tokens=2000)[1].startswith("Behind.")


@example(["Packages ..... 4", "x" * 130, *["Packages ..... 4"] * 4, "x" * 130])
@given(st.lists(st.sampled_from([*TITLES, "", "x" * 130, "Packages ..... 4", "Memory . . . . . 5", "Graphics …… 6"])))
def test_nothing_else_is_left_out(lines: list[str]) -> None:
    text = "\n".join(lines)
    contents = find_contents(text)
    spans = [(0, len(text))] if text.strip() else []
    kept = list(without_contents(spans, contents, text))
    left_out = "".join(text[a:b] for a, b in contents)
    found = "".join([*(text[a:b] for a, b in kept), left_out])
    missing = Counter("".join(text.split())) - Counter("".join(found.split()))
    heads = ["".join(title.split()) for title in TITLES]  # beside contents, a line of three words is their heading
    assert not missing or (contents and not missing - Counter("".join(heads) * 2))
