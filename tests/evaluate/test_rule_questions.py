"""Questions generated from documents: of each kind that people ask, from every file, reproducible, never verbatim."""

from __future__ import annotations

from collections import Counter

import pytest

from ragkit.evaluate.action_drafts import how_to_drafts
from ragkit.evaluate.document_outline import DocumentOutline
from ragkit.evaluate.fact_drafts import fact_drafts
from ragkit.evaluate.off_topic_questions import OFF_TOPIC_QUESTIONS
from ragkit.evaluate.question_drafts import QuestionDraft, cell_drafts, definition_drafts, number_drafts
from ragkit.evaluate.rule_questions import DRAFT_RULES, KIND_SHARES, generate_questions
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Document, Heading

MANUAL = """# Boiler manual

## Starting the boiler

The expansion valve is a brass fitting that lets water leave when the pressure rises.
The working pressure of the cellar boiler is 3.217 bar after maintenance by the plumber.
The cellar boiler has four safety valves. The safety valves cannot be removed by hand.
To drain the cellar boiler, use `boilerctl --drain` in the cellar.
The valve board was founded in 1987 in the town. The old boiler was designed by Aldous Quentin.

It is a good idea to wait.
"""
OPTIONS = """BOILERCTL(1)

OPTIONS

       --quiet
              Suppress all messages about the state of the burner.

       --verbose
              Print more messages about the state of the burner. The default is 250 lines.

       --drain
              Drain the water of the boiler into the cellar. boilerctl needs root for that. boilerctl waits.
"""
GARDEN = """# Garden diary

## Cutting the hedge

The hedge along the southern wall was planted in 1961. The gardener is a person who cuts the hedge twice in summer.
"""
TABLE = "name: Andorra; capital: Andorra la Vella; population: 77,000; joined: 1993-07-28\n"


def document(text: str, source: str, format_: str = "markdown", title: str = "") -> Document:
    headings = tuple(
        Heading(text.index(line) + line.index(" ") + 1, line.count("#"), line.lstrip("# "))
        for line in text.splitlines()
        if line.startswith("#")
    )
    return Document(text, source=source, headings=headings, format=format_, title=title)


BOILER = document(MANUAL, "/docs/boiler.md", title="Boiler manual")
BOILERCTL = document(OPTIONS, "/docs/boilerctl.1.txt", "text")
DIARY = document(GARDEN, "/docs/garden.md", title="Garden diary")
COUNTRIES = document(TABLE * 3, "/docs/countries.csv", "csv")
DOCUMENTS = [BOILER, BOILERCTL, DIARY, COUNTRIES]


def found(drafts: list[QuestionDraft]) -> dict[str, tuple[tuple[str, ...], ...]]:
    return {draft.text: draft.answers for draft in drafts}


def test_a_definition_is_asked_of_a_sentence_that_says_what_something_is() -> None:
    drafts = found(list(definition_drafts(DocumentOutline(BOILER))))
    assert drafts["What is the expansion valve?"] == (("a brass fitting",),)
    assert not any("it" in text.split() for text in drafts)


def test_numbers_are_asked_with_their_unit_counts_and_defaults() -> None:
    manual = found(list(number_drafts(DocumentOutline(BOILER))))
    assert manual["What is the working pressure of the cellar boiler?"] == (("3.217 bar",),)
    assert manual["How many safety valves does the cellar boiler have?"] == (("four safety valves",),)
    assert found(list(number_drafts(DocumentOutline(BOILERCTL))))["What is the default of --verbose?"] == (
        ("250 lines",),
    )


def test_cells_of_a_table_are_asked_by_their_column() -> None:
    drafts = found(list(cell_drafts(DocumentOutline(COUNTRIES))))
    assert drafts["What is the population of Andorra la Vella?"] == (("77,000",),)
    assert drafts["When was Andorra la Vella joined?"] == (("1993-07-28",),)


def test_a_how_to_asks_for_the_option_or_the_command() -> None:
    assert found(list(how_to_drafts(DocumentOutline(BOILER))))["How do I drain the cellar boiler?"] == (
        ("boilerctl --drain",),
    )
    options = found(list(how_to_drafts(DocumentOutline(BOILERCTL))))
    assert options["How do I suppress all messages about the state of the burner?"] == (("--quiet",),)


def test_facts_ask_who_and_when() -> None:
    drafts = found(list(fact_drafts(DocumentOutline(BOILER))))
    assert drafts["Who designed the old boiler?"] == (("Aldous Quentin",),)
    assert drafts["When was the valve board founded?"] == (("1987",),)


@pytest.mark.parametrize(
    ("source", "title", "text", "topic"),
    [
        ("/d/rsync.1.txt", "", "rsync copies. With rsync, files are copied. Run rsync.", "rsync"),
        ("/d/bashref.pdf", "", "Bash is a shell. Bash reads. Run Bash.", "Bash"),
        ("/d/x.html", "git-clean(1)", "It cleans the tree.", "git clean"),
        ("/d/exim-retry.html", "", "Exim retries. Exim waits. Exim gives up after the retry.", "Exim"),
        ("/d/backups.html", "", "The backups are kept. A backup is a copy. Each backup is read.", ""),
        ("/d/manual.pdf", "", "The manual of the manual in the manual.", ""),
    ],
)
def test_the_name_of_the_subject_is_that_of_the_text(source: str, title: str, text: str, topic: str) -> None:
    assert DocumentOutline(Document(text, source=source, title=title)).topic == topic


def test_code_and_other_languages_give_no_questions() -> None:
    german = "Der Kessel ist ein Gerät, das Wasser erhitzt. Der Druck des Kessels ist 3,2 bar. " * 3
    python = "The valve is a fitting that opens the pipe of the boiler."
    documents = [Document(german, source="k.md"), Document(python, source="k.py", language="python")]
    assert [DocumentOutline(item).units for item in documents] == [[], []]


def test_the_kinds_are_those_of_people_and_a_fifth_has_no_answer() -> None:
    created = generate_questions(DOCUMENTS, extract_terms, 20)
    kinds = Counter(item.kind for item in created)
    answered = {*KIND_SHARES, "number"} - {"cell"}
    assert set(kinds) <= answered | {"unanswerable-on", "unanswerable-off"}
    assert set(kinds) >= {"definition", "number", "how-to", "unanswerable-off"}
    outside = [item for item in created if not item.answerable]
    assert len(outside) == 4
    assert all(not item.sources and not item.answers for item in outside)
    assert all(item.sources and item.answers for item in created if item.answerable)
    assert set(DRAFT_RULES) == set(KIND_SHARES)


def test_words_of_the_documents_are_not_off_topic() -> None:
    spoken = {term for item in DOCUMENTS for term in extract_terms(item.text)}
    outside = [q for q in generate_questions(DOCUMENTS, extract_terms, 40) if q.kind == "unanswerable-off"]
    assert outside
    assert all(item.text in OFF_TOPIC_QUESTIONS and spoken.isdisjoint(extract_terms(item.text)) for item in outside)


def test_a_question_about_a_subject_without_an_answer_has_words_that_its_document_lacks() -> None:
    created = generate_questions([BOILERCTL, DIARY], extract_terms, 60)
    on_topic = [item.text for item in created if item.kind == "unanswerable-on"]
    assert any("boilerctl" in text for text in on_topic)
    words = set(extract_terms(OPTIONS))
    assert not any(set(extract_terms(text)) <= words for text in on_topic if "boilerctl" in text)


def test_the_same_seed_gives_the_same_questions_and_another_gives_others() -> None:
    first = generate_questions(DOCUMENTS, extract_terms, 12, seed=1)
    assert first == generate_questions(list(reversed(DOCUMENTS)), extract_terms, 12, seed=1)
    assert first != generate_questions(DOCUMENTS, extract_terms, 12, seed=2)
    assert len({item.id for item in first}) == len(first)


def test_no_question_holds_its_answer() -> None:
    for seed in range(5):
        for item in generate_questions(DOCUMENTS, extract_terms, 40, seed):
            assert not any(wording.lower() in item.text.lower() for part in item.answer_parts for wording in part)


def test_a_long_file_does_not_crowd_out_the_others() -> None:
    long = "\n\n".join(
        f"The widget{n} of the mill is a part that holds the machine{n} in the hall." for n in range(500)
    )
    created = generate_questions([*DOCUMENTS, document(long, "/docs/long.md")], extract_terms, 24)
    files = Counter(source for item in created for source in item.sources)
    assert files["/docs/boiler.md"] >= 4
    assert files["/docs/boilerctl.1.txt"] >= 2


def test_documents_without_content_give_only_off_topic_questions() -> None:
    created = generate_questions([document("ok\n", "a.md")], extract_terms, 10)
    assert {item.kind for item in created} == {"unanswerable-off"}
