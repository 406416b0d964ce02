"""Questions to one document, by its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragkit import KnowledgeBase
from ragkit.answer.extractive.whole.scope import find_scope
from ragkit.answer.outcome import Outcome

DOCUMENTS = [("/d/pump.md", "Pumps"), ("/d/Report 2024.txt", "Report"), ("/d/port.json", "")]


@pytest.mark.parametrize(
    ("question", "query", "source"),
    [
        ("What does pump.md say about leaks?", "leaks", "/d/pump.md"),
        ("What does the file pump.md tell us about leaks?", "leaks", "/d/pump.md"),
        ("What is said about leaks in pump.md?", "leaks", "/d/pump.md"),
        ("According to pump.md, how often is oil changed?", "how often is oil changed?", "/d/pump.md"),
        ("How often is oil changed according to Report 2024.txt?", "How often is oil changed?", "/d/Report 2024.txt"),
        ("In pump.md, how often is oil changed?", "how often is oil changed?", "/d/pump.md"),
        ("How often is oil changed in pump.md?", "How often is oil changed?", "/d/pump.md"),
        ('According to "Pumps", who changes the oil?', "who changes the oil?", "/d/pump.md"),
        ("What does port.json say about hosts?", "hosts", "/d/port.json"),
        ("Was steht in pump.md über Lecks?", "Lecks", "/d/pump.md"),
        ("Wie oft wird laut pump.md das Öl gewechselt?", "Wie oft wird das Öl gewechselt?", "/d/pump.md"),
        ("Que dit pump.md sur les fuites ?", "les fuites", "/d/pump.md"),
        ("Selon pump.md, qui change l'huile ?", "qui change l'huile?", "/d/pump.md"),
        ("¿Qué dice pump.md sobre las fugas?", "las fugas", "/d/pump.md"),
        ("Según pump.md, ¿quién cambia el aceite?", "¿quién cambia el aceite?", "/d/pump.md"),
    ],
)
def test_a_question_to_a_document_is_searched_there_without_its_name(question: str, query: str, source: str) -> None:
    scope = find_scope(question, DOCUMENTS)
    assert scope is not None and (scope.query, scope.sources) == (query, (source,))


@pytest.mark.parametrize(
    "question",
    [
        "How do I set the port in port.json?",  # documents are about such files
        "What does the pump say about leaks?",
        'What does "Valves" say about leaks?',
        "According to the report, who changes the oil?",
        "What is pump.md?",
        "Is version 2.0 faster according to anybody?",
    ],
)
def test_other_questions_are_searched_for_everywhere(question: str) -> None:
    assert find_scope(question, DOCUMENTS) is None


@pytest.mark.parametrize("question", ["What does pump.md say about oil?", 'According to "Pumps", who changes oil?'])
def test_a_query_to_a_document_is_a_question_to_it(question: str) -> None:
    scope = find_scope(question, DOCUMENTS)
    assert scope is not None
    assert find_scope(scope.of(scope.query), DOCUMENTS) == scope
    assert scope.where == {"source": {"$in": ["/d/pump.md"]}}


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    folder: Path = tmp_path_factory.mktemp("docs")
    (folder / "overview.md").write_text("# Overview\n\nLabels are printed in white on blue.\n")
    (folder / "operation.md").write_text("# Operation\n\nLabels are replaced every second spring.\n")
    with KnowledgeBase.open(folder.parent / "scope-kb") as opened:
        opened.index(folder)
        yield opened


@pytest.mark.parametrize("name", ["overview.md", "operation.md"])
def test_an_answer_is_from_the_named_document_and_says_so(kb: KnowledgeBase, name: str) -> None:
    answer = kb.ask(f"What does {name} say about labels?", model="extractive")
    assert {citation.source.rpartition("/")[2] for citation in answer.citations} == {name}
    assert (answer.outcome, answer.searched_for) == (Outcome.ANSWERED, f"labels (in {name})")


def test_what_the_named_document_does_not_hold_is_said_of_it(kb: KnowledgeBase) -> None:
    answer = kb.ask("What does overview.md say about salaries?", model="extractive")
    assert answer.abstained
    assert answer.text.startswith("Not in overview.md. Its nearest passages: [1]")
    assert {citation.source.rpartition("/")[2] for citation in answer.citations} == {"overview.md"}


def test_a_name_that_no_document_has_is_said_with_similar_ones(kb: KnowledgeBase) -> None:
    answer = kb.ask("What does overviews.md say about labels?", model="extractive")
    assert answer.text == ("Not in these documents: none of 2 has the name overviews.md. Similar names: overview.md.")


def test_a_conversation_keeps_to_the_named_document_for_one_question(kb: KnowledgeBase) -> None:
    agent = kb.agent(model="extractive")
    first = agent.ask("According to operation.md, how often are labels replaced?")
    second = agent.ask("How are labels printed?")
    assert {citation.source.rpartition("/")[2] for citation in first.citations} == {"operation.md"}
    assert "white on blue" in second.text


def test_a_name_of_several_documents_is_searched_in_all_of_them_and_said(tmp_path: Path) -> None:
    texts = {
        "north": "Labels in the north are blue and must have a number.",
        "south": "Southern labels are made of tin and carry the name of the driver.",
    }
    for folder, words in texts.items():
        (tmp_path / "docs" / folder).mkdir(parents=True)
        (tmp_path / "docs" / folder / "overview.md").write_text(f"# Overview\n\n## Labels\n\n{words}\n")
    (tmp_path / "docs" / "other.md").write_text("# Other\n\nLabels are printed on Mondays.\n")
    note = "2 documents have the name overview.md. All were searched: "
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        kb.index(tmp_path / "docs")
        answer = kb.ask("What does overview.md say about labels?", model="extractive")
        chat = kb.agent(model="extractive").ask("What does overview.md say about salaries?")
        one = kb.ask("What does south/overview.md say about labels?", model="extractive")
    assert {Path(citation.source).parent.name for citation in answer.citations} == {"north", "south"}
    assert f"\n\n{note}" in answer.text and "north/overview.md" in answer.text.partition(note)[2]
    assert chat.text.startswith("Not in overview.md.") and note in chat.text
    assert note not in one.text and {Path(citation.source).parent.name for citation in one.citations} == {"south"}


def test_a_name_of_too_many_documents_is_said(tmp_path: Path) -> None:
    for number in range(21):
        (tmp_path / "docs" / str(number)).mkdir(parents=True)
        (tmp_path / "docs" / str(number) / "index.md").write_text(f"# Index {number}\n\nLabels have {number} sides.\n")
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        kb.index(tmp_path / "docs")
        answer = kb.ask("What does index.md say about labels?", model="extractive")
    assert answer.text.startswith("21 documents have the name index.md; name one by its path:")
