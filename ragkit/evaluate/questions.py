"""Reads questions with expected answers and sources from JSON lines, CSV or a directory in BEIR format."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragkit.errors import RagkitError
from ragkit.records import JSON, content_id

LIST_SEPARATOR = ";"
"""Separates several answers or sources in one cell of a CSV file."""


class QuestionsInvalid(RagkitError):
    """A questions file, or a report of earlier questions, is invalid."""

    def __init__(self, place: str, problem: str, hint: str) -> None:
        super().__init__(place, problem, hint)
        self.place, self.problem, self.hint = place, problem, hint

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}; {self.hint}"


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its expected answers and sources."""

    id: str
    text: str
    answers: tuple[str, ...] = ()
    """Alternative answers; empty if unknown."""
    sources: Mapping[str, int] = field(default_factory=dict)
    """Relevance grade (>= 1) by file. A file is identified by the end of its path."""
    answerable: bool = True
    """Whether the documents answer the question."""
    kind: str = ""
    """A label to group questions by."""
    further_answers: tuple[tuple[str, ...], ...] = ()
    """Further parts of the answer with the alternatives of each; an answer needs all parts."""
    first: bool = True
    """Whether a good answer says it in its first sentence or first list."""

    @property
    def answer_parts(self) -> tuple[tuple[str, ...], ...]:
        """The alternatives of every part of the answer; empty if the answer is unknown."""
        return (self.answers, *self.further_answers) if self.answers else ()

    def with_renamed_sources(self, names: Mapping[str, str]) -> Question:
        """The question with the sources in `names` renamed."""
        return replace(self, sources={names.get(name, name): grade for name, grade in self.sources.items()})

    def with_display_sources(self, display: Callable[[str], str]) -> Question:
        """The question with display names as sources, so that a questions file works on other machines."""
        return self.with_renamed_sources({name: display(name) for name in self.sources})

    def to_dict(self) -> dict[str, JSON]:
        """The question as one line of a questions file."""
        return {
            "id": self.id,
            "question": self.text,
            "answers": [list(part) for part in self.answer_parts] if self.further_answers else list(self.answers),
            "sources": dict(self.sources),
            "answerable": self.answerable,
            "kind": self.kind,
            **({} if self.first else {"first": False}),
        }


def read_questions(path: Path) -> list[Question]:
    """The questions of a file (`.jsonl`, `.csv`) or of a directory in BEIR format, in order.

    A JSON line or CSV row has `question` (or `text`, `query`), and optionally `id`, `answers` (or `answer`),
    `sources` (or `source`; names, or names with grades), `answerable`, `kind`, `first`. `answers` has
    alternatives, or in JSON a list of alternatives for each part of the answer.

    Raises:
        QuestionsInvalid: the file is missing, has another format, or is empty.
    """
    if path.is_dir():
        questions = read_beir_questions(path)
    elif not path.exists():
        raise QuestionsInvalid(str(path), "file not found", "pass a .jsonl or .csv file, or a BEIR directory")
    elif path.suffix.lower() == ".csv":
        questions = [_parse_question(row, place) for place, row in _read_csv_rows(path)]
    else:
        questions = [_parse_question(row, place) for place, row in _read_json_rows(path)]
    if not questions:
        raise QuestionsInvalid(str(path), "no questions", "write at least one")
    [(question_id, count)] = Counter(question.id for question in questions).most_common(1)
    if count > 1:
        raise QuestionsInvalid(str(path), f"duplicate id {question_id!r}", "ids must be unique")
    return questions


def read_beir_questions(folder: Path) -> list[Question]:
    """The judged questions of a directory with `queries.jsonl` and `qrels.tsv`; sources are document ids."""
    grades: dict[str, dict[str, int]] = {}
    tables = [folder / "qrels.tsv", folder / "qrels" / "test.tsv"]
    judgements = next((table for table in tables if table.exists()), None)
    if judgements is None or not (folder / "queries.jsonl").exists():
        raise QuestionsInvalid(str(folder), "queries.jsonl or qrels.tsv is missing", "see the format of BEIR datasets")
    for number, line in enumerate(_read_text(judgements).splitlines()[1:], start=2):
        parts = line.split("\t")
        if len(parts) != 3 or not parts[2].lstrip("-").isdigit():
            problem = f"expected 3 columns (got {len(parts)})"
            raise QuestionsInvalid(f"{judgements}:{number}", problem, "write query, document, grade")
        if int(parts[2]) > 0:
            grades.setdefault(parts[0], {})[parts[1]] = int(parts[2])
    questions = []
    for place, row in _read_json_rows(folder / "queries.jsonl"):
        name = str(row.get("_id", ""))
        if name in grades:
            questions.append(_parse_question({**row, "id": name, "sources": grades[name]}, place))
    return questions


def read_beir_corpus(folder: Path) -> Iterator[tuple[str, str, str]]:
    """(id, title, text) of every document of a directory in BEIR format."""
    for place, row in _read_json_rows(folder / "corpus.jsonl"):
        if not isinstance(row.get("_id"), str) or not isinstance(row.get("text"), str):
            raise QuestionsInvalid(place, "`_id` or `text` is missing", "see the format of BEIR datasets")
        yield str(row["_id"]), str(row.get("title") or ""), str(row["text"])


def write_beir_documents(folder: Path, target: Path) -> dict[str, str]:
    """Write the documents of a directory in BEIR format as files, unless they exist. Returns file names by id."""
    target.mkdir(parents=True, exist_ok=True)
    names: dict[str, str] = {}
    for number, (document_id, title, text) in enumerate(read_beir_corpus(folder)):
        slug = re.sub(r"[^\w-]+", "_", document_id)[:80]
        names[document_id] = f"{number:07}-{slug}.md"
        content = f"# {title}\n\n{text}" if title else text
        path = target / names[document_id]
        if not path.exists() or path.read_text("utf-8") != content:
            path.write_text(content, "utf-8")
    return names


def _parse_question(row: Mapping[str, JSON], place: str) -> Question:
    text = next((row[key] for key in ("question", "text", "query") if row.get(key)), None)
    if not isinstance(text, str) or not text.strip():
        raise QuestionsInvalid(place, "`question` is missing", "write one question per line")
    answers, *further = _parse_answers(row.get("answers", row.get("answer")), place) or ((),)
    sources = _parse_grades(row.get("sources", row.get("source")), place)
    answerable, first = (_parse_flag(row, key, place) for key in ("answerable", "first"))
    question_id, kind = str(row.get("id") or content_id(text)[:8]), str(row.get("kind") or "")
    return Question(question_id, text.strip(), answers, sources, answerable, kind, tuple(further), first)


def _parse_flag(row: Mapping[str, JSON], key: str, place: str) -> bool:
    value = row.get(key, True)
    if not isinstance(value, bool):
        raise QuestionsInvalid(place, f"invalid `{key}` {value!r}", "write true or false")
    return value


def _parse_answers(value: JSON, place: str) -> list[tuple[str, ...]]:
    """The alternatives of every part: a flat list is one part."""
    if isinstance(value, list) and value and all(isinstance(item, list) for item in value):
        parts = [_parse_strings(item, place, "answers") for item in value]
        if not all(parts):
            raise QuestionsInvalid(place, "a part of `answers` is empty", "write at least one wording of every part")
        return parts
    alternatives = _parse_strings(value, place, "answers")
    return [alternatives] if alternatives else []


def _parse_strings(value: JSON, place: str, key: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,) if value else ()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(str(item) for item in value)
    raise QuestionsInvalid(place, f"invalid `{key}` {value!r}", "write a list of strings")


def _parse_grades(value: JSON, place: str) -> dict[str, int]:
    if isinstance(value, Mapping):
        if not all(isinstance(grade, int) for grade in value.values()):
            raise QuestionsInvalid(place, "grades in `sources` must be integers", "write 1 for a relevant file")
        return {str(name): grade for name, grade in value.items() if isinstance(grade, int) and grade > 0}
    return dict.fromkeys(_parse_strings(value, place, "sources"), 1)


def _read_json_rows(path: Path) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise QuestionsInvalid(place, f"invalid JSON ({error})", "write one object per line") from error
        if not isinstance(row, dict):
            raise QuestionsInvalid(place, "not a JSON object", "write one object per line")
        yield place, row


_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _read_csv_rows(path: Path) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    reader = csv.DictReader(_read_text(path).splitlines())
    for row in reader:
        place = f"{path}:{reader.line_num}"
        values: dict[str, JSON] = {
            str(key).strip(): value for key, value in row.items() if isinstance(value, str) and value.strip()
        }
        for key in ("answers", "sources"):
            if isinstance(values.get(key), str):
                values[key] = [item.strip() for item in str(values[key]).split(LIST_SEPARATOR) if item.strip()]
        for key in ("answerable", "first"):
            if key in values:
                values[key] = _BOOLEANS.get(str(values[key]).lower(), values[key])
        yield place, values


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionsInvalid(str(path), f"cannot be read ({error})", "save it as UTF-8 text") from error
