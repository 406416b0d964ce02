"""What is no text is left out of documents of every format, and counted; everything else stays."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.errors import UnsupportedFormat
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.load.router import LoaderRoute, Router
from ragkit.load.shared.noise import LEFT_OUT, find_long_runs, find_wordless_spans
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document

CODED = base64.b64encode(random.Random(3).randbytes(3_000)).decode()
WRAPPED = "\n".join(CODED[start : start + 76] for start in range(0, 3_000, 76))
MINIFIED = (
    "!function(e,t){var n=e.doc;" + "if(n.get(t)){n.set(t,{a:1,b:[2]});return!0}else{n.pop(e)};" * 60 + "}(window,x);"
)
PATH = "M12 2C6.48 2 2 6.48 2 12s4.48 10 10 10 10-4.48 10-10S17.52 2 12 2z" * 3
HASHES = "\n".join(hashlib.sha256(str(n).encode()).hexdigest() + f"  file{n}.tar" for n in range(40))


def load(text: str, name: str) -> Document:
    return Router().load(text.encode(), name)[1]


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.py", "a.log", "a.yaml"])
@pytest.mark.parametrize("noise", [CODED, WRAPPED, MINIFIED, f'"{PATH}"', CODED.replace("+", "-").replace("/", "_")])
def test_what_is_no_text_is_left_out_and_counted(name: str, noise: str) -> None:
    text = f"The pump runs.\n\n{noise}\n\nThe valve stays shut.\n"
    document = load(text, name)
    assert document.text.replace('"', "").split() == ["The", "pump", "runs.", "The", "valve", "stays", "shut."]
    assert document.text.count("\n") == text.count("\n")
    assert document.metadata[LEFT_OUT] == len(text) - len(document.text)


def test_an_index_run_says_what_it_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(f"The pump runs.\n\n{CODED}\n")
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("embed: {name: hashing, dimension: 16}\n")) as kb:
        [note] = kb.index(tmp_path / "a.md").notes
        assert note.startswith("4,000 characters that are no text left out") and "a.md: 4,000" in note
        assert all(len(hit.text) < 100 for hit in kb.search("pump"))


def test_hashes_of_a_list_are_left_out_and_a_few_are_not() -> None:
    assert "file7.tar" in load(HASHES, "SHA256SUMS").text and len(load(HASHES, "SHA256SUMS").text) < 700
    few = "The checksum is " + HASHES.split()[0] + " for the pump."
    assert load(few, "a.txt").text == few


def test_headings_and_lines_below_stay_right() -> None:
    document = load(f"# One\n\n{WRAPPED}\n\n# Two\n\nwords\n", "a.md")
    assert [document.text[h.start :].split("\n")[0] for h in document.headings] == ["# One", "# Two"]
    page = load(f"<h1>One</h1><pre>{WRAPPED}</pre>\n<h2>Two</h2><p>words</p>", "a.html")
    assert page.text.split() == ["One", "Two", "words"]
    assert [page.text[h.start :].split("\n")[0] for h in page.headings] == ["One", "Two"]
    assert page.places[-1].start == page.text.index("words")


def test_values_of_json_that_are_no_text_are_left_out() -> None:
    document = load(json.dumps({"name": "pump.png", "data": CODED, "note": "blue"}), "a.json")
    assert document.text.split() == ["name:", "pump.png", "data:", "note:", "blue"]


@pytest.mark.parametrize(
    "text",
    [
        "See https://example.org/docs/operations/storage/retention/compactor-configuration-and-deletion-of-logs/index.html",
        "src/components/sidebar/collapsible-section/CollapsibleSectionHeaderTitle.component.stories.tsx is it",
        "=" * 300 + "\nTitle\n" + "-" * 300,
        "这是一个没有空格的很长的段落，" * 200,
        "|" + "|".join(f"cell {n}" for n in range(400)) + "|",
        "1.5,2.5," * 300,
        " ".join(["A long line of words that somebody wrote (in haste); and which does not end."] * 60),
        '{"level": "info", "message": "disk is full", "n": 1}' * 40,
        "- fix: a ([#1](https://github.com/a/b/issues/1)) ([abc](https://github.com/a/b/commit/abcdef1234567))\n" * 40,
    ],
)
def test_what_somebody_may_read_stays(text: str) -> None:
    assert load(text, "a.txt").text == text


SVG = (
    '<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"><title>Pump</title><desc>How it works</desc>\n'
    f'<path d="{PATH}"/><image href="data:image/png;base64,{CODED}"/>\n<text x="1"><tspan>Inlet</tspan> <tspan>valve'
    "</tspan></text><style>.a{fill:red}</style>\n<switch><foreignObject><div>Cellar</div></foreignObject>"
    "<text>Cellar</text></switch></svg>"
)


def test_a_drawing_is_its_title_its_description_and_its_texts() -> None:
    document = load(SVG, "a.svg")
    assert document.text == "Pump\nHow it works\nInlet valve\nCellar"
    assert document.title == "Pump"
    assert [place.number for place in document.places] == [2, 2, 4]  # the third is the line behind the second


def test_a_part_of_a_drawing_whose_title_is_its_label_stands_once() -> None:
    parts = "".join(f"<g><title>{text}</title><text>{text}</text></g>" for text in ("Tank", "Pump"))
    assert load(f'<svg xmlns="http://www.w3.org/2000/svg">{parts}<text>Tank</text></svg>', "a.svg").text == (
        "Tank\nPump\nTank"
    )


def test_a_drawing_without_words_has_no_text() -> None:
    assert load('<svg xmlns="http://www.w3.org/2000/svg"><path d="M1 1"/></svg>', "a.svg").text == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *[(name, "a file that LaTeX") for name in ("a.aux", "a.bst", "a.tlg")],
        *[(name, "a lock file") for name in ("package-lock.json", "yarn.lock", "go.sum", "Cargo.lock", "uv.lock")],
        *[(name, "a source map") for name in ("app.js.map", "x.min.css.map")],
        *[(name, "a minified script") for name in ("jquery.min.js", "jquery-3.7.min.js", "site.min.css")],
    ],
)
def test_files_for_programs_are_skipped_by_name(name: str, reason: str) -> None:
    with pytest.raises(UnsupportedFormat, match=reason):
        load('{"a": 1}', f"/x/{name}")


@pytest.mark.parametrize("name", ["lock.md", "clock.json", "road.map", "minutes.js", "admin.js", "sum.go"])
def test_files_of_similar_names_are_read(name: str) -> None:
    assert load('{"a": 1}', name).text


def test_a_route_for_a_suffix_reads_such_a_file() -> None:
    router = Router([LoaderRoute("text", suffixes=(".lock",))])
    assert router.load(b"pump 1.0", str(Path("/x/uv.lock")))[1].text == "pump 1.0"


NUMBERS = [f"{n * 7919 % 1000:.2f} {n * 31} -{n}" for n in range(60)]


def test_bare_numbers_are_left_out_and_counted() -> None:
    text = "The probe was read by hand.\n\n" + "\n".join(NUMBERS) + "\nThe run was stopped.\n"
    document = load(text, "a.txt")
    assert document.text.split() == ["The", "probe", "was", "read", "by", "hand.", "The", "run", "was", "stopped."]
    assert document.metadata[LEFT_OUT] == len(text) - len(document.text)


def test_a_long_row_of_bare_numbers_is_left_out_behind_its_label() -> None:
    text = "Loans, bad: " + " | ".join(str(n * 37 % 101) for n in range(150)) + " and more\n"
    assert load(text, "a.txt").text.split() == ["Loans,", "bad:", "and", "more"]


@pytest.mark.parametrize(
    "text",
    [
        "depth width height\n" + "\n".join(NUMBERS),  # names above
        "\n".join(f"2031-05-{n % 28 + 1:02} {line}" for n, line in enumerate(NUMBERS)),
        "\n".join(NUMBERS[:15]),
        "\n".join(f"{line} mm" for line in NUMBERS),
        "\n".join("+-----+-----+--+" if n % 2 else "|  7  |  8  |  |" for n in range(60)),
    ],
)
def test_numbers_that_something_explains_stay(text: str) -> None:
    assert load(text, "a.txt").text == text


def test_numbers_below_the_names_of_a_table_stay() -> None:
    rows = "\n".join(f"| {line.replace(' ', ' | ')} |" for line in NUMBERS)
    assert load(f"Readings:\n\n| a | b | c |\n|---|---|---|\n{rows}\n", "a.md").text.count("\n| ") == 61


def test_of_a_drawing_the_labels_are_read() -> None:
    layer = "  0\nLINE\n  8\nPUMP HOUSE\n 10\n12.5\n"
    labels = "  0\nTEXT\n  1\nInlet valve\n  0\nMTEXT\n  3\n{\\fArial|b0;Closes at\n  1\n 4 bar}\\PBy hand\n"
    text = f"999\nmade by a program\n  0\nSECTION\n  2\nENTITIES\n{layer * 40}{labels}  0\nENDSEC\n  0\nEOF\n"
    document = load(text.replace("\n", "\r\n"), "plan.dxf")
    assert document.text == "Inlet valve\nCloses at 4 bar By hand"
    assert document.metadata[LEFT_OUT] == len(text.replace("\n", "\r\n")) - len(document.text)


def test_of_a_framemaker_file_the_paragraphs_are_read() -> None:
    style = "<PgfCatalog\n <Pgf\n  <PgfTag `Body'>\n  <PgfLIndent 0.0\">\n >\n>\n"
    flow = (
        "<TextFlow\n <Para\n  <PgfTag `Body'>\n  <ParaLine\n   <String `The pump isn\\xd5 t '>\n  >\n  <ParaLine\n"
        "   <String `oiled'>\n   <Char HardSpace>\n   <String `twice.'>\n  >\n >\n"
        " <Para\n  <ParaLine\n   <String `Say \\qno\\q.'>\n  >\n >\n>\n"
    )
    assert load(f"<MIFFile 9.00>\n{style * 30}{flow}", "manual.mif").text == "The pump isn’t oiled twice.\n\nSay 'no'."


PIECES = st.sampled_from(["pump", " ", "\n", "\u3000", "\x1c", "7", "1.5 ", "-", "é", "\u0300"])


@given(st.lists(st.tuples(PIECES, st.integers(1, 230)), max_size=12))
def test_the_places_of_noise_are_those_of_a_search_of_the_whole_text(parts: list[tuple[str, int]]) -> None:
    text = "".join(piece * count for piece, count in parts)
    assert list(find_wordless_spans(text)) == [found.span() for found in re.finditer(r"[\W\d_]{200,}", text)]
    assert list(find_long_runs(text)) == [found.span() for found in re.finditer(r"(?<!\S)\S{32,}", text)]
