"""Questions about whole documents by their form, and the names of documents in them."""

from __future__ import annotations

import pytest

from ragkit.answer.extractive.whole import may_be_whole
from ragkit.answer.extractive.whole.names import find_named, names_no_other, read_name
from ragkit.answer.extractive.whole.questions import Asked, read_document_question

DOCUMENTS = [
    ("/d/guide/pump.md", "Pumps: how they work"),
    ("/d/guide/index.md", "Guide"),
    ("/d/notes/index.md", "Notes"),
    ("/d/pep-0008.rst", "Style Guide for Python Code"),
]


@pytest.mark.parametrize(
    ("question", "asked", "name", "other"),
    [
        ("What is pump.md about?", Asked.CONTENT, "pump.md", ""),
        ("Please summarize the paper “Pumps”.", Asked.CONTENT, "the paper “Pumps”", ""),
        ("Worum geht es in pump.md?", Asked.CONTENT, "pump.md", ""),
        ("Fasse pump.md zusammen.", Asked.CONTENT, "pump.md", ""),
        ("De quoi parle pump.md ?", Asked.CONTENT, "pump.md", ""),
        ("Résume pump.md", Asked.CONTENT, "pump.md", ""),
        ("¿De qué trata pump.md?", Asked.CONTENT, "pump.md", ""),
        ("What are the main sections of pump.md?", Asked.SECTIONS, "pump.md", ""),
        ("Gib mir die Gliederung von pump.md", Asked.SECTIONS, "pump.md", ""),
        ("Quelles sont les sections de pump.md ?", Asked.SECTIONS, "pump.md", ""),
        ("¿Cuáles son las secciones principales de pump.md?", Asked.SECTIONS, "pump.md", ""),
        ("List the chapters of pump.md", Asked.SECTIONS, "pump.md", ""),
        ("Nenne mir die Kapitel von pump.md", Asked.SECTIONS, "pump.md", ""),
        ("Liste les chapitres de pump.md", Asked.SECTIONS, "pump.md", ""),
        ("Enumera los capítulos de pump.md", Asked.SECTIONS, "pump.md", ""),
        ("What headings does pump.md have?", Asked.SECTIONS, "pump.md", ""),
        ("Which main sections does pump.md contain?", Asked.SECTIONS, "pump.md", ""),
        ("Welche Kapitel hat pump.md?", Asked.SECTIONS, "pump.md", ""),
        ("Quelles parties contient pump.md ?", Asked.SECTIONS, "pump.md", ""),
        ("¿Qué apartados tiene pump.md?", Asked.SECTIONS, "pump.md", ""),
        ("What is the title of pump.md?", Asked.TITLE, "pump.md", ""),
        ("Wie lautet der Titel von pump.md?", Asked.TITLE, "pump.md", ""),
        ("Quel est le titre de pump.md ?", Asked.TITLE, "pump.md", ""),
        ("¿Cuál es el título de pump.md?", Asked.TITLE, "pump.md", ""),
        ("Who wrote pump.md?", Asked.WHO, "pump.md", ""),
        ("Wer hat pump.md geschrieben?", Asked.WHO, "pump.md", ""),
        ("Qui a écrit pump.md ?", Asked.WHO, "pump.md", ""),
        ("¿Quién escribió pump.md?", Asked.WHO, "pump.md", ""),
        ("When was pump.md last updated?", Asked.WHEN, "pump.md", ""),
        ("Wann wurde pump.md zuletzt geändert?", Asked.WHEN, "pump.md", ""),
        ("¿Cuándo se publicó pump.md?", Asked.WHEN, "pump.md", ""),
        ("Which version is pump.md?", Asked.VERSION, "pump.md", ""),
        ("Which version of the pump guide is this?", Asked.VERSION, "the pump guide", ""),
        ("What changed between a.md and b.md?", Asked.CHANGES, "a.md", "b.md"),
        ("How do a.md and b.md differ?", Asked.CHANGES, "a.md", "b.md"),
        ("How is a.md different from b.md?", Asked.CHANGES, "a.md", "b.md"),
        ("Worin unterscheiden sich a.md und b.md?", Asked.CHANGES, "a.md", "b.md"),
        ("¿Qué cambió entre a.md y b.md?", Asked.CHANGES, "a.md", "b.md"),
        ("Which documents mention leave?", Asked.MENTION, "leave", ""),
        ("In wie vielen Dokumenten wird Urlaub erwähnt?", Asked.MENTION, "Urlaub", ""),
        ("Combien de documents mentionnent le gel ?", Asked.MENTION, "le gel", ""),
        ("¿Cuántos documentos mencionan Redux?", Asked.MENTION, "Redux", ""),
        ("List all documents about frost.", Asked.TOPIC, "frost", ""),
        ("Welche Dokumente gibt es über Frost?", Asked.TOPIC, "Frost", ""),
        ("Which papers were written by Ada Quill?", Asked.AUTHOR, "Ada Quill", ""),
        ("tl;dr of pump.md", Asked.CONTENT, "pump.md", ""),
        ("Overview of pump.md", Asked.CONTENT, "pump.md", ""),
        ("What topics does pump.md cover?", Asked.CONTENT, "pump.md", ""),
        ("What was discussed in pump.md?", Asked.CONTENT, "pump.md", ""),
        ("Who presented pump.md?", Asked.WHO, "pump.md", ""),
        ("What was on the agenda of pump.md?", Asked.AGENDA, "pump.md", ""),
        ("Who attended the meeting in pump.md?", Asked.ATTENDEES, "the meeting in pump.md", ""),
        ("Which meetings mention frost?", Asked.MENTION, "frost", ""),
        ("In welchen Protokollen wird Frost erwähnt?", Asked.MENTION, "Frost", ""),
        ("Which proposals are about frost?", Asked.TOPIC, "frost", ""),
        ("Which documents did Ada Quill write?", Asked.AUTHOR, "Ada Quill", ""),
        ("Which RFCs were written by Ada Quill?", Asked.AUTHOR, "Ada Quill", ""),
        ("Which RFCs were created in 2019?", Asked.DATED, "2019", ""),
        ("How many meeting notes of 2025 are there?", Asked.DATED, "2025", ""),
        ("Welche Dokumente sind aus dem Jahr 2019?", Asked.DATED, "2019", ""),
        ("How many frost RFCs are there?", Asked.TOPIC, "frost", ""),
        ("Which audits did Ada Quill lead?", Asked.AUTHOR, "Ada Quill", ""),
        ("Is there anything on gifts?", Asked.TOPIC, "gifts", ""),
        ("Was ist das neueste Protokoll?", Asked.NEWEST, "das neueste Protokoll", ""),
        ("Worum geht es im Protokoll vom 22. April 2015?", Asked.CONTENT, "im Protokoll vom 22. April 2015", ""),
        ("Show me the scope of the pump report", Asked.FIELD, "the pump report", "scope"),
        ("How many pages does pump.pdf have?", Asked.SIZE, "pump.pdf", "pages"),
        ("What is in the folder minutes?", Asked.ALL, "", "minutes"),
        ("How many documents are there?", Asked.ALL, "", ""),
        ("Wie viele Dokumente gibt es?", Asked.ALL, "", ""),
        ("Combien de documents y a-t-il ?", Asked.ALL, "", ""),
        ("¿Cuántos documentos hay?", Asked.ALL, "", ""),
    ],
)
def test_a_question_about_whole_documents_is_known_by_its_form(
    question: str, asked: Asked, name: str, other: str
) -> None:
    assert may_be_whole(question)
    read = read_document_question(question)
    assert read is not None and (read.asked, read.name, read.other) == (asked, name, other)


@pytest.mark.parametrize(
    "question",
    [
        "Which documents do I need for a visa?",
        "Which files are on the disk?",
        "How many files can be open at once?",
        "Which documents contain personal data?",
        "How do I list all files about to expire?",
        "Welche Unterlagen brauche ich?",
        "What are the parts of a pump?",
        "How many pages are there?",
        "How many documents were lost in 2019?",
        "Which meetings are on the agenda?",
        "What was the first battle in 1745?",
        "Which towns mention frost?",
        "",
        "?",
        "x" * 5000,
    ],
)
def test_every_other_question_is_none(question: str) -> None:
    assert read_document_question(question) is None


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("pump.md", ["/d/guide/pump.md"]),
        ("PUMP", ["/d/guide/pump.md"]),
        ("the document Pumps", ["/d/guide/pump.md"]),
        ("guide/index.md", ["/d/guide/index.md"]),
        ("index.md", ["/d/guide/index.md", "/d/notes/index.md"]),
        ("PEP 8", ["/d/pep-0008.rst"]),
        ("the Style Guide for Python Code", ["/d/pep-0008.rst"]),
        ("pump", ["/d/guide/pump.md"]),
        ("pumps.md", []),
        ("how they work", []),
        ("the page about style", ["/d/pep-0008.rst"]),
        ("the guide Style Guide for Python Code", ["/d/pep-0008.rst"]),
        ("the guide Python style", []),
        ("the pump manual", ["/d/guide/pump.md"]),
        ("the meeting in pump.md", ["/d/guide/pump.md"]),
        ("the style guide", ["/d/pep-0008.rst"]),
        ("Python style", ["/d/pep-0008.rst"]),
        ("style", []),
        ("the guide to something else", []),
        ("the page about pumps and style", []),
    ],
)
def test_a_document_is_named_by_path_file_name_title_or_the_beginning_of_a_title(text: str, sources: list[str]) -> None:
    assert find_named(read_name(text), DOCUMENTS) == sources


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("RFC 15", ["/d/015.md"]),
        ("the RFC 11", ["/d/011.md"]),
        ("the RFC about the admin API (revised)", ["/d/015.md"]),
        ("the RFC on locks", ["/d/045.md"]),
        ("RFC 1", []),
    ],
)
def test_a_document_of_a_numbered_series_is_named_by_its_number_or_its_title(text: str, sources: list[str]) -> None:
    name = read_name(text)
    assert name.is_file
    documents = [
        ("/d/011.md", "RFC 11: Admin API (superseded)"),
        ("/d/015.md", "RFC 15: Admin API (Revised)"),
        ("/d/045.md", "RFC 45: Locks"),
    ]
    assert find_named(name, documents) == sources


@pytest.mark.parametrize(
    "text", ["this document", "the PDF", "document", "diesem Dokument", "le fichier", "este archivo"]
)
def test_a_noun_alone_means_the_only_document(text: str) -> None:
    assert names_no_other(text)
    assert not names_no_other(f"{text} pump")


@pytest.mark.parametrize("question", ["What does Harvard say?", "What is covered in the warranty?"])
def test_a_question_about_what_something_says_is_one_about_a_document_only_if_it_names_a_file(question: str) -> None:
    read = read_document_question(question)
    assert read is not None and read.of_file and not read_name(read.name).is_file
