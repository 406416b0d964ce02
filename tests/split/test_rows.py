"""A chunk of a table begins at a row, in every format with rows."""

from __future__ import annotations

import pytest

from ragkit.load.router import Router
from ragkit.records import Document
from ragkit.split.chunks import build_chunks
from ragkit.split.options import RecursiveOptions
from ragkit.split.recursive import RecursiveSplitter
from ragkit.split.sentence_segmentation import sentence_spans
from ragkit.split.token_index import estimate_token_starts

ROWS = [
    (
        f"Station number {n} of the line",
        f"{n}.125",
        f"{n * 3}.250",
        f"Checked by fitter {n}. The doors were shut before; see note {n}.",
    )
    for n in range(1, 30)
]
NAMES = ("Station", "Bar", "Litres", "Remark")


def starts(document: Document) -> list[str]:
    chunks = build_chunks(document, RecursiveSplitter(RecursiveOptions()), estimate_token_starts, "")
    assert len(chunks) > 3
    return [chunk.text for chunk in chunks[1:]]


def html() -> str:
    cells = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in ROWS)
    names = "".join(f"<th>{name}</th>" for name in NAMES)
    return f"<h1>Checks</h1><table><tr>{names}</tr>{cells}</table>"


@pytest.mark.parametrize("name", ["a.html", "a.csv", "a.md"])
def test_a_chunk_begins_at_a_row(name: str) -> None:
    table = "\n".join(",".join(f'"{cell}"' for cell in row) for row in [NAMES, *ROWS])
    bars = "\n".join(f"| {' | '.join(row)} |" for row in [NAMES, ("---",) * 4, *ROWS])
    data = {"a.html": html(), "a.csv": table, "a.md": f"# Checks\n\n{bars}\n"}[name]
    begun = starts(Router().load(data.encode(), name)[1])
    assert [
        text[:30] for text in begun if not text.lstrip("| ").removeprefix("Station: ").startswith("Station number")
    ] == []


@pytest.mark.parametrize("kind", ["docx", "pptx", "pdf", "odt", "rtf", "xlsx"])
def test_a_row_is_not_cut_where_it_fits(kind: str) -> None:
    text = "\n".join(" | ".join(row) for row in [NAMES, *ROWS])
    begun = starts(Document(f"Words before it.\n\n{text}\n\nWords behind it.", format=kind))
    assert [line for line in begun if not line.startswith(("Station number", "Words behind"))] == []


def test_a_bar_in_running_text_changes_nothing() -> None:
    text = "Use the mark | between words. " * 150
    assert starts(Document(text, format="text")) == starts(Document(text, format=""))


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("Nach Art. 4 Abs. 5 der Ordnung. Sie endet.", 1),
        ("Siehe § 12 Abs. 2 Nr. 3 Buchst. a der Satzung. Dann endet sie.", 1),
        ("Laut Anl. 2 und Rn. 14 gilt es. So ist es.", 1),
        ("Voir l'art. 5 al. 2 de la loi. Elle finit.", 1),
        ("He trains his abs. 5 days a week he runs. It ends.", 1),
    ],
)
def test_a_reference_to_a_paragraph_ends_no_sentence(text: str, ends: int) -> None:
    assert len(sentence_spans(text)) == ends + 1
