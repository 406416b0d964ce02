"""Questions with what answers them, read from JSON lines, CSV or a folder in the shape of the BEIR benchmark."""

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
"""What stands between several answers or sources in one cell of a CSV file."""


class QuestionsInvalid(RagkitError):
    """A file of questions cannot be used."""

    def __init__(self, place: str, problem: str, hint: str) -> None:
        super().__init__(place, problem, hint)
        self.place, self.problem, self.hint = place, problem, hint

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}; {self.hint}"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, what answers it, and where that stands."""

    id: str
    text: str
    answers: tuple[str, ...] = ()
    """Each of them answers it; empty when nobody wrote one down."""
    sources: Mapping[str, int] = field(default_factory=dict)
    """File -> grade: which files answer it, and how well (1 and more). A file is named by the end of its path."""
    answerable: bool = True
    """Whether the documents answer it at all."""
    kind: str = ""
    """Any word to group questions by."""

    def with_renamed_sources(self, names: Mapping[str, str]) -> Question:
        """The question with its sources by other names, where they have one."""
        return replace(self, sources={names.get(name, name): grade for name, grade in self.sources.items()})

    def with_display_sources(self, shown: Callable[[str], str]) -> Question:
        """Its sources as a report shows them, so that a file of questions can be used elsewhere too."""
        return self.with_renamed_sources({name: shown(name) for name in self.sources})

    def to_dict(self) -> dict[str, JSON]:
        """The question as a line of a questions file."""
        return {
            "id": self.id,
            "question": self.text,
            "answers": list(self.answers),
            "sources": dict(self.sources),
            "answerable": self.answerable,
            "kind": self.kind,
        }


def read_questions(path: Path) -> list[Question]:
    """The questions of a file (`.jsonl`, `.csv`) or of a BEIR-shaped folder, in their order.

    A line of JSON, or a row of CSV, has `question` (or `text`, `query`), and if known `id`, `answers` (or `answer`),
    `sources` (or `source`; names, or names with grades), `answerable`, `kind`.

    Raises:
        QuestionsInvalid: it is not there, has another form, or holds no question.
    """
    if path.is_dir():
        found = read_beir_questions(path)
    elif not path.exists():
        raise QuestionsInvalid(str(path), "there is no such file", "name a .jsonl or .csv file, or a BEIR folder")
    elif path.suffix.lower() == ".csv":
        found = [_parse_question(row, place) for place, row in _read_csv_rows(path)]
    else:
        found = [_parse_question(row, place) for place, row in _read_json_rows(path)]
    if not found:
        raise QuestionsInvalid(str(path), "holds no questions", "write at least one")
    [(identity, often)] = Counter(one.id for one in found).most_common(1)
    if often > 1:
        raise QuestionsInvalid(str(path), f"the id {identity!r} stands there twice", "give each question its own")
    return found


def read_beir_questions(folder: Path) -> list[Question]:
    """The judged questions of a folder with `queries.jsonl` and `qrels.tsv`; sources are ids of documents."""
    grades: dict[str, dict[str, int]] = {}
    tables = [folder / "qrels.tsv", folder / "qrels" / "test.tsv"]
    judgements = next((one for one in tables if one.exists()), None)
    if judgements is None or not (folder / "queries.jsonl").exists():
        raise QuestionsInvalid(str(folder), "has no queries.jsonl with a qrels.tsv", "see the shape of BEIR's datasets")
    for number, line in enumerate(_read_text(judgements).splitlines()[1:], start=2):
        parts = line.split("\t")
        if len(parts) != 3 or not parts[2].lstrip("-").isdigit():
            raise QuestionsInvalid(f"{judgements}:{number}", "three columns were expected", "query, document, grade")
        if int(parts[2]) > 0:
            grades.setdefault(parts[0], {})[parts[1]] = int(parts[2])
    found = []
    for place, row in _read_json_rows(folder / "queries.jsonl"):
        name = str(row.get("_id", ""))
        if name in grades:
            found.append(_parse_question({**row, "id": name, "sources": grades[name]}, place))
    return found


def read_beir_corpus(folder: Path) -> Iterator[tuple[str, str, str]]:
    """(id, title, text) of every document of a BEIR-shaped folder."""
    for place, row in _read_json_rows(folder / "corpus.jsonl"):
        if not isinstance(row.get("_id"), str) or not isinstance(row.get("text"), str):
            raise QuestionsInvalid(place, "a document needs `_id` and `text`", "see the shape of BEIR's datasets")
        yield str(row["_id"]), str(row.get("title") or ""), str(row["text"])


def write_beir_documents(folder: Path, target: Path) -> dict[str, str]:
    """Write the documents of a BEIR-shaped folder as files, those that are not there yet. Returns id -> name."""
    target.mkdir(parents=True, exist_ok=True)
    names: dict[str, str] = {}
    for number, (identity, title, text) in enumerate(read_beir_corpus(folder)):
        slug = re.sub(r"[^\w-]+", "_", identity)[:80]
        names[identity] = f"{number:07}-{slug}.md"
        written = f"# {title}\n\n{text}" if title else text
        path = target / names[identity]
        if not path.exists() or path.read_text("utf-8") != written:
            path.write_text(written, "utf-8")
    return names


def _parse_question(row: Mapping[str, JSON], place: str) -> Question:
    text = next((row[key] for key in ("question", "text", "query") if row.get(key)), None)
    if not isinstance(text, str) or not text.strip():
        raise QuestionsInvalid(place, "has no `question`", "each line holds one")
    answers = _parse_strings(row.get("answers", row.get("answer")), place, "answers")
    sources = _parse_grades(row.get("sources", row.get("source")), place)
    answerable = row.get("answerable", True)
    if not isinstance(answerable, bool):
        raise QuestionsInvalid(place, f"`answerable` is {answerable!r}", "write true or false")
    identity = str(row.get("id") or content_id(text)[:8])
    return Question(identity, text.strip(), answers, sources, answerable, str(row.get("kind") or ""))


def _parse_strings(value: JSON, place: str, key: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,) if value else ()
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(str(one) for one in value)
    raise QuestionsInvalid(place, f"`{key}` is {value!r}", "write a list of strings")


def _parse_grades(value: JSON, place: str) -> dict[str, int]:
    if isinstance(value, Mapping):
        if not all(isinstance(grade, int) for grade in value.values()):
            raise QuestionsInvalid(place, "a grade in `sources` is not a whole number", "write 1 for what answers")
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
            raise QuestionsInvalid(place, f"is no JSON ({error})", "write one object a line") from error
        if not isinstance(row, dict):
            raise QuestionsInvalid(place, "is no JSON object", "write one object a line")
        yield place, row


def _read_csv_rows(path: Path) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    lines = csv.DictReader(_read_text(path).splitlines())
    for row in lines:
        place = f"{path}:{lines.line_num}"
        found: dict[str, JSON] = {
            str(key).strip(): value for key, value in row.items() if isinstance(value, str) and value.strip()
        }
        for key in ("answers", "sources"):
            if isinstance(found.get(key), str):
                found[key] = [one.strip() for one in str(found[key]).split(LIST_SEPARATOR) if one.strip()]
        if "answerable" in found:
            word = str(found["answerable"]).lower()
            found["answerable"] = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
                word, str(found["answerable"])
            )
        yield place, found


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionsInvalid(str(path), f"cannot be read ({error})", "it must be a text file in UTF-8") from error
