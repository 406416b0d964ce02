"""Markdown files of site builders: what a reader of the site does not see is no text; offsets and lines stay."""

from __future__ import annotations

import pytest

from ragkit.load.text.markdown import MarkdownLoader
from ragkit.records import TABLE_LEVEL, Document


def load(text: str, name: str = "a.md") -> Document:
    document = MarkdownLoader().load(text.encode(), name)
    assert len(document.text) == len(text)
    assert [place for place, char in enumerate(document.text) if char == "\n"] == [
        place for place, char in enumerate(text) if char == "\n"
    ] or "<table" in text
    assert document.text.count("\n") == text.count("\n")
    return document


def words(text: str, name: str = "a.md") -> str:
    return " ".join(load(text, name).text.split())


@pytest.mark.parametrize(
    "head",
    [
        "---\ntitle: Zeta\nweight: 800\naliases:\n  - /z\n---\n",
        '+++\ntitle = "Zeta"\nweight = 800\n+++\n',
        '{\n  "title": "Zeta",\n  "weight": 800\n}\n',
        "---\r\ntitle: Zeta\r\nweight: 800\r\n...\r\n",
    ],
)
def test_front_matter_is_metadata_and_no_passage(head: str) -> None:
    document = load(f"{head}\nZeta stores logs.\n")
    assert document.text.strip() == "Zeta stores logs."
    assert (document.title, document.metadata["weight"]) == ("Zeta", 800)


def test_front_matter_that_cannot_be_read_is_no_passage() -> None:
    assert words("---\ntitle: [Zeta\nweight: 800\n---\nZeta stores logs.\n") == "Zeta stores logs."


@pytest.mark.parametrize("text", ['{"a": 1}', "{ braces } are words", '{"a": 1} follows', '{"a": }\nwords'])
def test_braces_that_are_no_front_matter_stay(text: str) -> None:
    assert load(text).text == text


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("{{< admonition type=note >}}\nIt waits.\n{{< /admonition >}}", "It waits."),
        ('{{% tab title="Linux" %}}\nRun it.\n{{% /tab %}}', "Linux Run it."),
        ('{% include nav.html %}\nIt waits. {{< relref "a" >}}', "It waits."),
        (":::tip[Do this]\nRun it.\n:::", "Do this Run it."),
        ("::: warning\nHot.\n:::", "warning Hot."),
        ("::::{note} Title\nHot.\n::::", "Title Hot."),
        ('!!! warning "Keep off"\n    Hot.', "Keep off Hot."),
        ("??? note\n    Hot.", "note Hot."),
        ("> [!WARNING]\n> Hot.", "> WARNING > Hot."),
        ("Text <!-- never\nseen --> on.", "Text on."),
        ("# Pump {#pump-id}\n\nWords {: .lead }", "# Pump Words"),
        ('### 9.5 <small>May</small> { id="9.5" }', "### 9.5 May"),
        ("<details><summary>More</summary>\n<b>It</b> runs.<br/>\n</details>", "More It runs."),
        ('<p align="center">The <em>pump</em></p>', "The pump"),
        ('a <svg viewBox="0 0 1 1"><path d="M1 1"/></svg>b', "a b"),
    ],
)
def test_marks_of_site_builders_are_no_text(text: str, seen: str) -> None:
    assert words(text) == seen


@pytest.mark.parametrize(
    "text",
    [
        "```html\n<td>{{< x >}}</td>\n```",
        "Use `<td>` and `{{< x >}}` here.",
        "~~~\n:::note\n<!-- shown -->\n~~~",
        "Call it with <your-key> and <name>.",
        "If a < b and c > d: ok",
        "{curly} words",
        "1. a\n   ```\n   <br>\n   ```\n2. b",
        "===\nshown\n",
    ],
)
def test_code_and_placeholders_stay(text: str) -> None:
    assert load(text).text == text


def test_imports_and_elements_of_mdx_are_no_text() -> None:
    text = "import Tabs from '@theme/T';\n\n# Run\n\n<Tabs>\n<TabItem label=\"Linux\">\n\nDo it.\n</TabItem>\n</Tabs>"
    assert words(text) == "# Run Linux Do it."
    assert words("<Card>Kept: a word</Card>", "a.mdx") == "Kept: a word"
    assert words("A List<String> and a <Card>") == "A List<String> and a <Card>"


def test_html_headings_are_headings() -> None:
    document = load('<h2 id="d" align="center">Deploy</h2>\n\nwords\n')
    assert [(heading.level, heading.text) for heading in document.headings] == [(2, "Deploy")]


def test_rows_of_html_tables_stand_on_one_line_below_their_names() -> None:
    text = (
        "<table>\n<caption>Prices</caption>\n<thead><tr><th>Name</th><th>Price</th></tr></thead>\n"
        "<tr>\n  <td>Pump</td>\n  <td>40 <b>EUR</b></td>\n</tr>\n<tr><td>Valve</td>\n<td>7 EUR</td></tr>\n</table>\n"
        "End.\n"
    )
    document = load(text)
    lines = document.text.split("\n")
    assert [line.strip() for line in lines if line.strip()] == [
        "Prices",
        "Name | Price",
        "Pump | 40 EUR",
        "Valve | 7 EUR",
        "End.",
    ]
    assert lines.index(next(line for line in lines if "Valve" in line)) == text.split("\n").index("<tr><td>Valve</td>")
    [names] = [heading for heading in document.headings if heading.level == TABLE_LEVEL]
    assert names.text == "Name | Price"
    assert document.text[names.start : names.end].split() == ["Pump", "|", "40", "EUR", "Valve", "|", "7", "EUR"]


def test_a_table_on_one_line_has_a_line_for_each_row() -> None:
    document = load("<table><tr><td>Pump</td><td>40</td></tr><tr><td>Valve</td><td>7</td></tr></table>")
    assert [line.strip() for line in document.text.splitlines() if line.strip()] == ["Pump | 40", "Valve | 7"]


def test_a_cell_of_many_lines_loses_no_word() -> None:
    cell = "\n".join(f"word{number}" for number in range(40))
    shown = words(f"<table><tr><td>a</td><td>{cell}</td></tr></table>")
    assert [word for word in shown.split() if word != "|"] == ["a", *cell.split()]
