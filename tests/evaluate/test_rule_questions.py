"""Questions generated from documents: of each kind, from every file, reproducible, and never verbatim."""

from __future__ import annotations

from collections import Counter

from ragkit.evaluate.off_topic_questions import OFF_TOPIC_QUESTIONS
from ragkit.evaluate.rule_questions import generate_questions
from ragkit.records import Document, Heading

MANUAL = """Boiler manual

Starting the boiler

The expansion valve is a brass fitting that lets water leave when the pressure rises. It takes eleven minutes to start.
The working pressure of the boiler in the cellar is 3.217 bar after maintenance by the plumber.

Notes

It is a good idea to wait. The plumber Aldous Quentin visits the cellar before every winter to clean the boiler filter.
"""
GARDEN = """Garden diary

Cutting the hedge

The hedge along the southern wall was cut twice in summer and 48.5 kilograms of leaves were composted by the gardener.
"""


def words(text: str) -> list[str]:
    """A plain analyser: words of more than three letters, in lower case."""
    bare = "".join(item if item.isalnum() or item == "." else " " for item in text.lower())
    return [word.strip(".") for word in bare.split() if len(word.strip(".")) > 3 or word[0].isdigit()]


def document(text: str, source: str, *headings: str) -> Document:
    result = tuple(Heading(text.index(item), 1, item) for item in headings)
    return Document(text, source=source, headings=result)


DOCUMENTS = [
    document(MANUAL, "boiler.md", "Boiler manual", "Starting the boiler", "Notes"),
    document(GARDEN, "garden.md", "Garden diary", "Cutting the hedge", "Garden diary"),
]


def test_each_kind_of_question_is_generated() -> None:
    created = generate_questions(DOCUMENTS, words, 40)
    texts = {item.text: item for item in created}
    assert texts["What is the expansion valve?"].answers == ("a brass fitting",)
    assert texts["What is the expansion valve?"].sources == {"boiler.md": 1}
    assert texts["What do the documents say about cutting the hedge?"].kind == "heading"
    assert {item.answers for item in created if item.kind == "cloze"} == {("3.217",), ("48.5",), ("Aldous",)}
    assert "What do the documents say about Notes?" not in texts  # a word without content
    assert not any("It is" in text or text.startswith("What is it") for text in texts)


def test_a_fifth_of_the_questions_is_off_topic() -> None:
    created = generate_questions(DOCUMENTS, words, 10)
    outside = [item for item in created if not item.answerable]
    assert (len(outside), {item.kind for item in outside}) == (2, {"off_topic"})
    spoken = {term for item in DOCUMENTS for term in words(item.text)}
    assert all(not spoken.intersection(words(item.text)) and not item.sources for item in outside)


def test_words_of_the_documents_are_not_off_topic() -> None:
    everything = document(" ".join(OFF_TOPIC_QUESTIONS[:-2]) + " boil egg", "all.txt")
    outside = [item.text for item in generate_questions([everything], words, 300) if not item.answerable]
    assert set(OFF_TOPIC_QUESTIONS[:-2]).isdisjoint(outside) or all(text in OFF_TOPIC_QUESTIONS for text in outside)
    assert OFF_TOPIC_QUESTIONS[0] not in outside


def test_the_same_seed_gives_the_same_questions_and_another_gives_others() -> None:
    first = generate_questions(DOCUMENTS, words, 8, seed=1)
    assert first == generate_questions(list(reversed(DOCUMENTS)), words, 8, seed=1)
    assert first != generate_questions(DOCUMENTS, words, 8, seed=2)
    assert len({item.id for item in first}) == len(first) == 8


def test_a_question_contains_neither_its_sentence_nor_its_answer() -> None:
    for item in generate_questions(DOCUMENTS, words, 40):
        if item.kind == "cloze":
            [source] = item.sources
            text = next(document.text for document in DOCUMENTS if document.source == source)
            queries = item.text.partition(": ")[2].rstrip("?")
            assert queries not in text.lower()
            assert item.answers[0].lower() not in queries


def test_a_long_file_does_not_crowd_out_the_others() -> None:
    long = "\n\n".join(
        f"The widget{n} is a part of the machine{n} with {n}.5 grams of grease in its bearing." for n in range(500)
    )
    created = generate_questions([*DOCUMENTS, document(long, "long.txt")], words, 24)
    files = Counter(source for item in created for source in item.sources)
    assert files["boiler.md"] >= 4
    assert files["garden.md"] >= 2


def test_documents_without_content_give_only_off_topic_questions() -> None:
    assert {item.kind for item in generate_questions([document("ok\n", "a.txt")], words, 10)} == {"off_topic"}
