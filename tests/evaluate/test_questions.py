"""Question files: supported formats, and errors for invalid files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ragkit.evaluate.questions import Question, QuestionsInvalid, read_beir_corpus, read_questions


def test_the_parts_of_an_answer_are_read_with_their_alternatives(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(
        '{"id": "a", "question": "Which limits?", "answers": [["soft"], ["hard", "strict"]], "first": false}\n'
        '{"id": "b", "question": "How long?", "answers": ["27 days", "a month"], "source": ["leave.md"]}\n'
    )
    parts, flat = read_questions(path)
    assert (parts.answer_parts, parts.first) == ((("soft",), ("hard", "strict")), False)
    assert (flat.answer_parts, flat.first, dict(flat.sources)) == ((("27 days", "a month"),), True, {"leave.md": 1})
    (tmp_path / "again.jsonl").write_text("".join(json.dumps(q.to_dict()) + "\n" for q in (parts, flat)))
    assert read_questions(tmp_path / "again.jsonl") == [parts, flat]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"question": "q", "answers": [["a"], []]}', "a part of `answers` is empty; write at least one wording"),
        ('{"question": "q", "answers": [["a"], "b"]}', "invalid `answers`"),
        ('{"question": "q", "first": "perhaps"}', "invalid `first` 'perhaps'; write true or false"),
    ],
)
def test_invalid_parts_are_refused(tmp_path: Path, row: str, message: str) -> None:
    (tmp_path / "q.jsonl").write_text(row + "\n")
    with pytest.raises(QuestionsInvalid, match=re.escape(message)):
        read_questions(tmp_path / "q.jsonl")


def test_questions_are_read_from_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(
        '{"id": "a", "question": " How? ", "answers": ["so"], "sources": {"x.md": 2, "y.md": 0}, "kind": "k"}\n'
        "\n"
        '{"query": "When?", "answer": "now", "source": "z.md"}\n'
        '{"text": "Why?", "answerable": false}\n'
    )
    result = read_questions(path)
    assert result[0] == Question("a", "How?", ("so",), {"x.md": 2}, True, "k")
    assert (result[1].text, result[1].answers, result[1].sources) == ("When?", ("now",), {"z.md": 1})
    assert (result[2].answerable, result[2].answers, result[2].sources) == (False, (), {})
    assert len({item.id for item in result}) == 3
    assert [item.id for item in read_questions(path)] == [item.id for item in result]


def test_a_question_can_be_written_and_read_back(tmp_path: Path) -> None:
    question = Question("q1", "Wie „geht“ das?", ("so", "anders"), {"a.md": 1}, True, "fact")
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps(question.to_dict(), ensure_ascii=False), "utf-8")
    assert read_questions(path) == [question]


def test_csv_cells_can_contain_lists(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text('\ufeffid,question,answers,sources,answerable\n1,"How, then?",so; thus,a.md;b.md,yes\n2,No?,,,no\n')
    assert read_questions(path) == [
        Question("1", "How, then?", ("so", "thus"), {"a.md": 1, "b.md": 1}, True),
        Question("2", "No?", (), {}, False),
    ]


def test_a_beir_folder_gives_its_judged_questions(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "title": "T", "text": "one"}\n{"_id": "d2", "text": "two"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "One?"}\n{"_id": "q2", "text": "Nobody judged"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n")
    assert read_questions(tmp_path) == [Question("q1", "One?", (), {"d1": 2})]
    assert list(read_beir_corpus(tmp_path)) == [("d1", "T", "one"), ("d2", "", "two")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.jsonl", "", r"q\.jsonl: no questions; write at least one"),
        ("q.jsonl", '{"id": 1}', r"q\.jsonl:1: `question` is missing; write one question per line"),
        ("q.jsonl", '{"question": "a"}\n{', r"q\.jsonl:2: invalid JSON \(.*\); write one object per line"),
        ("q.jsonl", "[1]", r"q\.jsonl:1: not a JSON object"),
        ("q.jsonl", '{"question": "a", "answers": [1]}', r"q\.jsonl:1: invalid `answers` \[1\]; write a list"),
        ("q.jsonl", '{"question": "a", "answerable": "no"}', r"invalid `answerable` 'no'; write true or false"),
        ("q.jsonl", '{"question": "a", "sources": {"x": 0.5}}', "grades in `sources` must be integers"),
        ("q.jsonl", '{"id": "x", "question": "a"}\n{"id": "x", "question": "b"}', "duplicate id 'x'"),
        ("q.csv", "question,answerable\na,perhaps\n", r"q\.csv:2: invalid `answerable` 'perhaps'; write true or false"),
    ],
)
def test_an_invalid_file_is_an_error_with_its_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(QuestionsInvalid, match=message):
        read_questions(tmp_path / name)


def test_a_missing_or_binary_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(QuestionsInvalid, match=r"file not found; pass a \.jsonl or \.csv file"):
        read_questions(tmp_path / "none.jsonl")
    with pytest.raises(QuestionsInvalid, match=r"queries\.jsonl or qrels\.tsv is missing"):
        read_questions(tmp_path)
    (tmp_path / "q.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(QuestionsInvalid, match=r"cannot be read .*; save it as UTF-8 text"):
        read_questions(tmp_path / "q.jsonl")
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "One?"}')
    (tmp_path / "qrels.tsv").write_text("head\nq1 d1 1\n")
    with pytest.raises(QuestionsInvalid, match=r"qrels\.tsv:2: expected 3 columns .*; write query, document, grade"):
        read_questions(tmp_path)
