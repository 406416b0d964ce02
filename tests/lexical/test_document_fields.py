"""Names, periods and versions of documents and questions become the same terms."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from ragkit.lexical.bm25_index import Bm25Index
from ragkit.lexical.document_fields import (
    DocumentFields,
    NamedDocuments,
    document_terms,
    document_version,
    find_named_documents,
    period_terms,
    question_terms,
)
from ragkit.records import Metadata


def fields(source: str = "", title: str = "", opening: str = "", metadata: Metadata | None = None) -> DocumentFields:
    return DocumentFields(source, title, metadata or {}, opening)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("AMAZON 2017 10K", ["year 2017"]),
        ("FY2022 and FY 23", ["year 2022", "year 2023"]),
        ("AMCOR_2023Q2_10Q", ["year 2023", "quarter 2"]),
        ("Q2 FY23", ["year 2023", "quarter 2"]),
        ("the Q2 10-Q", ["quarter 2"]),
        ("2Q22", ["year 2022", "quarter 2"]),
        ("the second quarter of 2023", ["year 2023", "quarter 2"]),
        ("fourth fiscal quarter", ["quarter 4"]),
        ("filed on 1st July 2022", ["year 2022", "date 2022-07-01"]),
        ("July 1, 2022", ["year 2022", "date 2022-07-01"]),
        ("8K_dated-2022-07-01", ["year 2022", "date 2022-07-01"]),
        ("guide_v2.3", ["version 2.3"]),
        ("version 4", ["version 4"]),
        ("page 12345 of 19999, bq1, q12", []),
    ],
)
def test_periods_and_versions_of_a_text(text: str, terms: list[str]) -> None:
    assert period_terms(text) == terms


def test_the_terms_of_a_file_name_weigh_more_than_those_of_the_title_and_of_the_opening() -> None:
    terms = document_terms(fields("/docs/BESTBUY_2019.pdf", "Annual report", "Dear Shareholders, welcome to Ohio"))
    assert [terms.count(term) for term in ("word bestbuy", "name annual", "name ohio", "year 2019")] == [4, 3, 1, 4]
    assert terms.count("word ohio") == 0  # a word of the text, not of the name


def test_metadata_names_people_and_periods_but_not_when_a_file_was_saved() -> None:
    metadata: Metadata = {"author": "Ada Lovelace", "date": "2021-03-01", "modified": "2024-01-01", "tags": ["engines"]}
    terms = set(document_terms(fields(metadata=metadata)))
    assert {"word ada", "name lovelac", "word engin", "year 2021", "date 2021-03-01"} <= terms
    assert "year 2024" not in terms


def test_two_words_of_a_question_are_one_word_of_a_file_name() -> None:
    weights = question_terms("What did Best Buy earn in FY2019?")
    assert weights["word bestbuy"] == weights["name best"] == weights["name buy"] == 1
    assert weights["word earn"] == 0.5 and weights["year 2019"] == 2
    assert not any("what" in term for term in weights)


def test_a_question_finds_the_document_of_its_company_and_year() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    index = Bm25Index(connection, "documents")
    index.create_tables()
    names = ["AMAZON_2017_10K", "AMAZON_2019_10K", "BESTBUY_2019_10K", "NIKE_2019_10K"]
    index.add(range(4), [document_terms(fields(f"/docs/{name}.pdf")) for name in names])
    named = find_named_documents(index, "What was Amazon's net income in FY2019?")
    scores = named.scores_of(np.arange(4))
    assert scores.argmax() == 1 and scores[0] > 0 and scores[2] == scores[3] > 0
    assert find_named_documents(index, "why?").scores_of(np.arange(2)).tolist() == [0.0, 0.0]


def test_scores_of_documents_that_are_not_named_are_0() -> None:
    named = NamedDocuments(np.array([2, 5], np.int64), np.array([1.5, 0.5], np.float32))
    assert named.scores_of(np.array([5, 1, 2, 9], np.int64)).tolist() == [0.5, 0.0, 1.5, 0.0]


def test_versions_of_one_document_have_a_name_in_common_and_an_order() -> None:
    policy = [document_version(f"/docs/{name}") for name in ("policy.md", "policy_v2.md", "Policy v10.md")]
    assert {family for family, _ in policy} == {"/docs/policy.md"}
    assert [version for _, version in policy] == sorted(version for _, version in policy)
    reports = [document_version(f"/docs/AMCOR_{period}_10Q.pdf") for period in ("2022", "2023Q2", "2023Q3", "2024")]
    assert len({family for family, _ in reports}) == 1
    assert [version for _, version in reports] == sorted(version for _, version in reports)
    assert document_version("/a/notes.md")[0] != document_version("/b/notes.md")[0]
