"""Markdown: the text is verbatim, headings are those of a renderer."""

from __future__ import annotations

import time

import pytest

from ragkit.load.options import MarkdownOptions
from ragkit.load.text.markdown import MAX_PARSED_CHARS, MarkdownLoader
from ragkit.records import Document


def load(text: str, options: MarkdownOptions | None = None) -> Document:
    return MarkdownLoader(options).load(text.encode(), "/x/a.md")


def headings(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.text) for heading in load(text).headings]


def test_text_is_the_raw_file_and_headings_point_into_it() -> None:
    text = "\r\n# One\r\n\r\nwords\r\n\r\nTwo\r\n---\r\n"
    document = load(text)
    assert document.text == text
    assert [(h.start, h.level, h.text) for h in document.headings] == [(2, 1, "One"), (20, 2, "Two")]
    assert document.title == "One"


@pytest.mark.parametrize(
    "text", ["```\n# no\n```", "~~~\n# no\n~~~", "    # no", "#no", "<!--\n# no\n-->", "\\# no", "text\n    # no"]
)
def test_a_number_sign_that_is_not_a_heading_is_ignored(text: str) -> None:
    assert headings(text) == []


def test_markup_inside_a_heading_is_removed() -> None:
    text = "# The *big* `code_x` [link](http://x.y) ![pic](p.png) &amp; \\* end #"
    assert headings(text) == [(1, "The big code_x link pic & * end")]


def test_a_heading_in_a_quote_or_list_counts() -> None:
    assert headings("> # quoted\n\n- ## listed") == [(1, "quoted"), (2, "listed")]


def test_front_matter_becomes_metadata_and_no_text() -> None:
    text = "---\ntitle: The Guide\ndate: 2024-05-06\ntags: [a, b]\nyear: 2024\nformat: mine\n---\n# First\n"
    document = load(text)
    assert document.text.strip() == "# First" and len(document.text) == len(text)
    assert document.title == "The Guide"
    assert document.metadata == {
        "title": "The Guide",
        "date": "2024-05-06",
        "tags": ["a", "b"],
        "year": 2024,
        "format": "markdown",
        "name": "a.md",
        "suffix": ".md",
    }
    assert [(h.start, h.text) for h in document.headings] == [(text.index("# First"), "First")]


def test_front_matter_in_toml_is_read() -> None:
    document = load('+++\ntitle = "T"\ndraft = true\n+++\nwords')
    assert (document.title, document.metadata["draft"]) == ("T", True)
    assert "title" not in load('\n+++\n\ntitle = "T"\n\n+++\n\nwords').text
    assert "a = 1" in load("words\n\n+++\na = 1\n+++\n").text


def test_front_matter_can_be_disabled() -> None:
    assert load("---\nyear: 2024\n---\nwords", MarkdownOptions(front_matter=False)).title == "year: 2024"


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.rotating
@pytest.mark.parametrize(
    "head",
    [
        BOMB,
        "a: !!python/object/apply:os.system [echo]",
        "a: [1,",
        "a: 1\na: 2",
        "- just\n- a list",
        "a: " + "[" * 5000,
        "? {a: b}\n: c",
        "a: " + "9" * 5000,
        "x: &a {y: *a}",
    ],
    ids=["bomb", "python", "open", "twice", "list", "deep", "key", "number", "loop"],
)
def test_invalid_or_malicious_front_matter_is_ignored_quickly(head: str) -> None:
    started = time.process_time()
    document = load(f"---\n{head}\n---\n# Real\n")
    assert document.metadata.keys() - {"access", "access_problem"} == {"format", "name", "suffix"}
    is_other = head.startswith(("-", "?"))
    assert document.metadata.get("access", "everyone") == ("everyone" if is_other else [])
    assert document.text.endswith("# Real\n")
    assert document.headings[-1].text == "Real"
    assert time.process_time() - started < 5


def test_a_thematic_break_is_not_front_matter() -> None:
    assert load("---\n\nwords without an end").metadata.keys() == {"format", "name", "suffix"}


PATHOLOGICAL = {
    "emphasis": "*a **a " * 20_000,
    "brackets": "[" * 50_000,
    "quotes": "> " * 5_000 + "x",
    "lists": "".join("  " * depth + "- x\n" for depth in range(300)),
    "backticks": "`" + "``" * 20_000,
    "entities": "&" * 100_000,
    "blank": "\n" * 200_000,
    "line": "x" * 2_000_000,
    "heading": "# " + "[a](" * 50_000,
}


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_malicious_markdown_is_parsed_quickly(name: str) -> None:
    started = time.process_time()
    load(PATHOLOGICAL[name])
    assert time.process_time() - started < 4


def test_a_text_too_long_for_the_parser_has_headings() -> None:
    filler = "words and words\n" * (MAX_PARSED_CHARS // 16 + 1)
    text = f"# One #\n```\n# no\n````\n{filler}## Two\n#\n~~~~\n~~~\n# no\n"
    document = load(text)
    assert [(h.start, h.level, h.text) for h in document.headings] == [(0, 1, "One"), (text.index("## Two"), 2, "Two")]
