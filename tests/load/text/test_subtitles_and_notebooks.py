"""Subtitles, notebooks, and text with the headings of a markup language."""

from __future__ import annotations

import json

import pytest

from ragkit.errors import LoadError
from ragkit.load.options import NotebookOptions
from ragkit.load.text.notebook import NotebookLoader
from ragkit.load.text.subtitles import SubtitlesLoader
from ragkit.load.text.text import TextLoader
from ragkit.records import Document
from tests.load.test_places import place_of

VTT = """WEBVTT - a talk

STYLE
::cue { color: red }

NOTE not said

1
00:01.000 --> 00:04.500 align:start
<v Ann>Hello <i>there</i> &amp; welcome.

00:04.500 --> 00:04.900
Hello again
everyone

01:00:05.000 --> 01:00:07.000
Hello again
everyone
"""


def test_subtitles_are_the_words_with_their_times() -> None:
    document = SubtitlesLoader().load(VTT.encode(), "/x/a.vtt")
    assert document.text == "Ann: Hello there & welcome.\nHello again everyone"
    assert place_of(document, "Ann: Hello") == "00:00:01-00:00:04"


SBV = "\n\n".join(f"0:00:0{n}.000,0:00:0{n + 1}.500\nword {n}\nof the talk" for n in range(5))


def test_a_text_file_that_begins_with_cues_is_subtitles() -> None:
    document = TextLoader().load(f"A talk about pumps\n\n{SBV}".encode(), "/x/talk.txt")
    assert document.text == "\n".join(["A talk about pumps", *(f"word {n} of the talk" for n in range(5))])
    assert (document.format, place_of(document, "word 3")) == ("subtitles", "00:00:03-00:00:04")
    assert TextLoader().load(SBV.replace("\n", "\r\n").encode(), "/x/talk.txt").text in document.text


@pytest.mark.parametrize(
    "text", ["0:00:01.000,0:00:02.500\nonce", "Lap,0:01:01.000,0:01:02.500\n" * 6, "0:01:01.000,0:01:02.500,3\n" * 6]
)
def test_times_that_are_no_cues_stay(text: str) -> None:
    assert TextLoader().load(text.encode(), "/x/a.txt").text == text


def test_subrip_is_read_like_webvtt() -> None:
    first = "1\r\n00:00:01,000 --> 00:00:02,000\r\n{\\an8}<font color=red>One</font>\r\n\r\n"
    text = f"{first}2\r\n01:02:03,500 --> 01:02:04,000\r\nTwo\r\n"
    document = SubtitlesLoader().load(text.encode(), "/x/a.srt")
    assert document.text == "One\nTwo"
    assert place_of(document, "Two") == "01:02:03-01:02:04"


def test_a_file_without_cues_keeps_its_text() -> None:
    assert SubtitlesLoader().load(b"no cues here", "/x/a.srt").text == "no cues here"


def notebook(*cells: object) -> bytes:
    return json.dumps({"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4}).encode()


def test_a_notebook_is_its_cells_with_their_outputs_as_text() -> None:
    stream = {"output_type": "stream", "text": ["\x1b[31m7\x1b[0m\n"]}
    image = {"output_type": "display_data", "data": {"image/png": "iVBOR", "text/plain": ["<Figure>"]}}
    failure = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["x"]}
    data = notebook(
        {"cell_type": "markdown", "source": ["# Pumps\n", "\n", "Words."]},
        {"cell_type": "code", "source": "# count\nprint(3 + 4)", "outputs": [stream, image, failure]},
        {"cell_type": "markdown", "source": "## Valves"},
    )
    document = NotebookLoader().load(data, "/x/a.ipynb")
    code = "```python\n# count\nprint(3 + 4)\n```"
    outputs = "```text\n7\n```\n\n```text\n<Figure>\n```\n\n```text\nValueError: no\n```"
    assert document.text == f"# Pumps\n\nWords.\n\n{code}\n\n{outputs}\n\n## Valves"
    assert [(h.level, h.text) for h in document.headings] == [(1, "Pumps"), (2, "Valves")]
    assert place_of(document, "print(3 + 4)") == "cell 2"
    bare = NotebookLoader(NotebookOptions(outputs=False)).load(data, "").text
    assert bare == f"# Pumps\n\nWords.\n\n{code}\n\n## Valves"


def test_an_older_notebook_is_read() -> None:
    data = json.dumps({"worksheets": [{"cells": [{"cell_type": "code", "input": ["x = 1"]}]}]}).encode()
    assert NotebookLoader().load(data, "").text == "```\nx = 1\n```"


@pytest.mark.parametrize("data", [b"[]", b"{}", b'{"cells": 7}', b'{"cells": [7, null, {"source": 8}]}'])
def test_json_that_is_no_notebook_has_no_text(data: bytes) -> None:
    assert NotebookLoader().load(data, "").text == ""


def test_invalid_json_is_an_error() -> None:
    with pytest.raises(LoadError, match=r"invalid notebook .*: open it in Jupyter and save it again"):
        NotebookLoader().load(b'{"cells": [', "/x/a.ipynb")


@pytest.mark.parametrize(
    ("source", "text", "headings"),
    [
        ("a.adoc", "= Book\n\nx\n\n== Part one\n\n==no\n", [(1, "Book"), (2, "Part one")]),
        (
            "a.tex",
            "\\title{The \\emph{Book}}\n\\section*{One}\nx\n\\subsection[short]{Two {x}}\n",
            [(1, "The Book"), (2, "One"), (3, "Two x")],
        ),
        ("a.org", "* One\nx\n** Two\n*bold*\n", [(1, "One"), (2, "Two")]),
    ],
)
def test_markup_languages_have_headings(source: str, text: str, headings: list[tuple[int, str]]) -> None:
    document: Document = TextLoader().load(text.encode(), f"/x/{source}")
    assert document.text == text
    assert [(heading.level, heading.text) for heading in document.headings] == headings
