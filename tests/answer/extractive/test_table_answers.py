"""Answers from tables of several formats: every row can be one, and a cell without the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import docx
import pytest
from reportlab.lib.colors import black
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate, Table

from ragkit.knowledge_base.knowledge_base import KnowledgeBase

COLUMNS = ("Ticket", "Adult", "Child")
ROWS = (("Day", "12.50", "6.00"), ("Evening", "9.00", "4.50"), ("Year", "60.00", "30.00"))
FORMATS = ("md", "html", "docx", "pdf")


def write(path: Path) -> None:
    """A file with the table, its first row first."""
    intro, rows = "Ticket prices in euros.", [COLUMNS, *ROWS]
    if path.suffix == ".md":
        lines = [f"| {' | '.join(row)} |" for row in rows]
        path.write_text("\n".join(["# Prices", "", intro, "", lines[0], "|---|---|---|", *lines[1:], ""]), "utf-8")
    elif path.suffix == ".html":
        cells = [
            "".join(f"<{'td' if i else 'th'}>{cell}</{'td' if i else 'th'}>" for cell in row)
            for i, row in enumerate(rows)
        ]
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        path.write_text(f"<html><body><h1>Prices</h1><p>{intro}</p><table>{body}</table></body></html>", "utf-8")
    elif path.suffix == ".docx":
        document = docx.Document()
        document.add_heading("Prices", 1)
        document.add_paragraph(intro)
        table = document.add_table(rows=0, cols=len(COLUMNS))
        for row in rows:
            for cell, text in zip(table.add_row().cells, row, strict=True):
                cell.text = text
        document.save(str(path))
    else:
        style = getSampleStyleSheet()
        table = Table(rows, colWidths=[120, 80, 80], style=[("GRID", (0, 0), (-1, -1), 0.5, black)])
        parts = [Paragraph("Prices", style["Heading1"]), Paragraph(intro, style["BodyText"]), table]
        SimpleDocTemplate(str(path), pagesize=A4).build(parts)


@pytest.fixture(scope="module", params=FORMATS)
def kb(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "docs").mkdir()
    write(folder / "docs" / f"prices.{request.param}")
    with KnowledgeBase.open(folder / "kb") as opened:
        opened.index(folder / "docs")
        yield opened


@pytest.mark.parametrize(("ticket", "price"), [(row[0], row[2]) for row in ROWS])
def test_every_row_can_be_the_answer(kb: KnowledgeBase, ticket: str, price: str) -> None:
    answer = kb.ask(f"How much is a {ticket.lower()} ticket for a child?")
    assert answer.text == f"Ticket: {ticket}; Child: {price} [1]"
    assert answer.citations[0].verified
    assert all(other not in answer.text for row in ROWS if row[0] != ticket for other in row)


def test_a_row_is_whole_if_no_column_is_asked_for(kb: KnowledgeBase) -> None:
    assert kb.ask("What does an evening ticket cost?").text.startswith("Ticket: Evening; Adult: 9.00; Child: 4.50 [1]")


def test_a_list_has_the_other_rows(kb: KnowledgeBase) -> None:
    text = kb.ask("Which types of tickets are there?").text
    assert all(row[0] in text for row in ROWS)


@pytest.mark.parametrize(
    "question", ["What are the adult and child prices of each ticket?", "How much is every ticket?"]
)
def test_all_rows_of_a_small_table_answer_what_is_asked_of_each(kb: KnowledgeBase, question: str) -> None:
    answer = kb.ask(question, model="extractive")
    lines = [f"- Ticket: {ticket}; Adult: {adult}; Child: {child}" for ticket, adult, child in ROWS]
    assert answer.text.startswith("\n".join(lines))
    assert answer.citations[0].verified


def test_one_row_answers_what_is_asked_of_one_thing_each_time(kb: KnowledgeBase) -> None:
    answer = kb.ask("What does a child pay for an evening ticket on each visit?", model="extractive")
    assert answer.text.startswith("Ticket: Evening; Child: 4.50")


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_each_record_of_json_is_a_row(tmp_path: Path, suffix: str) -> None:
    cities = ("Kiel", "Bremen", "Hamburg", "Kiel", "Bremen", "Kiel", "Bremen", "Kiel", "Bremen", "Hamburg", "Kiel")
    records = [
        {"order": 1000 + i, "city": city, "goods": f"bolts; size {i}", "status": "paid" if i % 2 else "open"}
        for i, city in enumerate(cities)
    ]
    text = json.dumps(records) if suffix == ".json" else "\n".join(map(json.dumps, records))
    (tmp_path / f"orders{suffix}").write_text(text)
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        kb.index(tmp_path / f"orders{suffix}")
        listed = kb.ask("Which orders are from Hamburg?", model="extractive")
        one = kb.ask("What is the status of order 1004?", model="extractive")
    rows = {line.rpartition(" [")[0] for line in listed.text.splitlines()}
    assert rows == {f"order: {n}; city: Hamburg; goods: bolts; size {n - 1000}; status: {status}"
                    for n, status in ((1002, "open"), (1009, "paid"))}  # fmt: skip
    assert one.text == "order: 1004; status: open [1]"
    assert one.citations[0].verified


WEIRS = ("Harrow", "Wend", "Quill")
RELEASES = ["version,codename,release,eol"] + [
    f"{n},{name},20{n:02}-{12 - n % 3}-{11 + n},20{n + 3:02}-12-{10 + n % 4}"
    for n, name in enumerate(
        ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Ginkgo", "Hazel", "Ivy", "Juniper"), 5
    )
]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the codename of Harrow 12?", "version: 12; codename: Hazel"),
        ("When was Harrow 8 released?", "version: 8; release: 2008-10-19"),
        ("What is the eol of Ginkgo?", "version: 11; codename: Ginkgo; eol: 2014-12-13"),
    ],
)
def test_a_number_or_a_name_names_the_row_with_that_cell(tmp_path: Path, question: str, answer: str) -> None:
    (tmp_path / "harrow-releases.csv").write_text("\n".join(RELEASES))
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        kb.index(tmp_path / "harrow-releases.csv")
        assert kb.ask(question, model="extractive").text == f"{answer} [1]"
        assert kb.ask("What is the codename of Harrow 17?", model="extractive").abstained


def test_what_a_question_says_of_a_row_is_not_what_it_asks(tmp_path: Path) -> None:
    ferries = [("F7", "Heron"), ("K2", "Curlew"), ("B9", "Godwit")]
    (tmp_path / "ferries.csv").write_text(
        "\n".join(["ferry-code,ferry-name,berth", *(f"{a},{b},3" for a, b in ferries)])
    )
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        kb.index(tmp_path / "ferries.csv")
        assert (
            kb.ask("Which ferry has the code K2?", model="extractive").text == "ferry-code: K2; ferry-name: Curlew [1]"
        )
        assert kb.ask("What is the ferry code of Heron?", model="extractive").text.startswith("ferry-code: F7;")


def test_of_a_row_with_many_columns_the_part_with_the_asked_one_is_quoted(tmp_path: Path) -> None:
    parts = ("upper gate", "lower gate", "north wall", "south wall", "fish pass", "footbridge")
    columns = [f"{kind} of the {part}" for kind in ("height", "width", "weight", "colour", "keeper") for part in parts]
    rows = [[name[:2].upper(), name, *(f"{n} of {len(name)}" for n, _ in enumerate(columns))] for name in WEIRS]
    text = "\n".join(map(",".join, [["code", "name", *columns], *rows]))
    (tmp_path / "weirs.csv").write_text(text)
    with KnowledgeBase.open(tmp_path / "kb", "default") as kb:
        kb.index(tmp_path / "weirs.csv")
        answer = kb.ask("What is the keeper of the footbridge of Harrow?", model="extractive")
    assert answer.text == "code: HA; keeper of the footbridge: 29 of 6 [1]"
