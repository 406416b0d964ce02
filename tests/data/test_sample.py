"""The sample folder and its questions match their description in `data/README.md`."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.data.extract import pages_of, text_of

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "data" / "sample"
FILES = sorted(path for path in SAMPLE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
TEXTS = {path.relative_to(SAMPLE).as_posix(): text_of(path) for path in FILES}
GENERATED = [name for name in TEXTS if Path(name).suffix in {".pdf", ".docx", ".xlsx", ".pptx"}]
ANSWERABLE_KINDS = {"fact", "table", "procedure", "number", "superseded", "code", "email", "slides"}


@dataclass(frozen=True)
class Question:
    """One line of `data/questions.jsonl`; unknown and missing keys are errors."""

    id: str
    question: str
    answers: list[str]
    sources: list[str]
    answerable: bool
    kind: str


LINES = (ROOT / "data" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
QUESTIONS = [Question(**json.loads(line)) for line in LINES]
ANSWERABLE = [question for question in QUESTIONS if question.answerable]
UNANSWERABLE = [question for question in QUESTIONS if not question.answerable]


def normalize(text: str) -> str:
    """The text in lower case: answers must be in their sources verbatim."""
    return text.lower()


@pytest.fixture(scope="module")
def generated_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated files, generated again in an empty folder."""
    folder = tmp_path_factory.mktemp("generated")
    script = ROOT / "scripts" / "make_sample.py"
    subprocess.run(
        [sys.executable, "-W", "error", script, "--out", folder], check=True, capture_output=True, timeout=120
    )
    return folder


def test_the_folder_has_43_files_of_eleven_formats() -> None:
    assert Counter(path.suffix for path in FILES) == {
        ".md": 16,
        ".txt": 6,
        ".html": 4,
        ".csv": 4,
        ".eml": 3,
        ".json": 2,
        ".py": 2,
        ".pdf": 2,
        ".docx": 2,
        ".xlsx": 1,
        ".pptx": 1,
    }


def test_the_folder_has_25_to_35_thousand_words() -> None:
    assert 25_000 <= sum(len(text.split()) for text in TEXTS.values()) <= 35_000


def test_the_folder_has_long_and_short_documents() -> None:
    lengths = [len(text.split()) for text in TEXTS.values()]
    assert sum(length >= 1000 for length in lengths) >= 9
    assert sum(length < 300 for length in lengths) >= 8


def test_each_manual_in_pdf_has_five_pages() -> None:
    pages = {name: len(pages_of(SAMPLE / name)) for name in GENERATED if name.endswith(".pdf")}
    assert pages == {"manuals/aldane-telescope.pdf": 5, "manuals/liquid-nitrogen.pdf": 5}


@pytest.mark.parametrize(
    ("name", "page", "words"),
    [
        ("manuals/aldane-telescope.pdf", 3, "takes 0.8 seconds"),
        ("manuals/aldane-telescope.pdf", 4, "340 turns"),
        ("manuals/liquid-nitrogen.pdf", 3, "16 hours"),
        ("manuals/liquid-nitrogen.pdf", 4, "37 to 40 °C"),
    ],
)
def test_the_words_are_on_this_page_only(name: str, page: int, words: str) -> None:
    pages = [number for number, text in enumerate(pages_of(SAMPLE / name), 1) if words in text]
    assert pages == [page]


def test_the_slides_have_notes() -> None:
    assert "the ninth is 2 centimetres higher" in TEXTS["slides/volunteer-training.pptx"]


def test_every_public_name_of_the_python_tools_has_a_docstring() -> None:
    for path in (SAMPLE / "software" / "skytool").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        public = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        assert [node.name for node in public if not ast.get_docstring(node)] == []


def test_no_document_names_a_reachable_host() -> None:
    addresses = [word for text in TEXTS.values() for word in text.split() if "://" in word]
    assert [word for word in addresses if ".example" not in word] == []


def test_the_binary_files_match_the_output_of_the_script(generated_folder: Path) -> None:
    # compare texts, not bytes: other versions of the libraries write different files
    names = sorted(
        path.relative_to(generated_folder).as_posix() for path in generated_folder.rglob("*") if path.is_file()
    )
    assert names == sorted(GENERATED)
    assert [name for name in names if text_of(generated_folder / name) != TEXTS[name]] == []


def test_the_output_of_the_script_is_deterministic(generated_folder: Path, tmp_path: Path) -> None:
    script = ROOT / "scripts" / "make_sample.py"
    subprocess.run([sys.executable, script, "--out", tmp_path], check=True, capture_output=True, timeout=120)
    assert [
        name for name in GENERATED if (tmp_path / name).read_bytes() != (generated_folder / name).read_bytes()
    ] == []


def test_there_are_79_answerable_and_16_unanswerable_questions() -> None:
    assert (len(ANSWERABLE), len(UNANSWERABLE)) == (79, 16)


def test_ids_are_consecutive() -> None:
    assert [question.id for question in QUESTIONS] == [f"q{number:03}" for number in range(1, len(QUESTIONS) + 1)]


def test_questions_are_unique() -> None:
    assert len({normalize(question.question) for question in QUESTIONS}) == len(QUESTIONS)


def test_every_kind_of_question_is_used() -> None:
    assert {question.kind for question in ANSWERABLE} == ANSWERABLE_KINDS
    assert Counter(question.kind for question in UNANSWERABLE) == {"near": 10, "off-topic": 6}


@pytest.mark.parametrize("question", ANSWERABLE, ids=lambda question: question.id)
def test_every_source_contains_the_first_answer(question: Question) -> None:
    assert question.sources
    absent = [name for name in question.sources if normalize(question.answers[0]) not in normalize(TEXTS[name])]
    assert absent == []


def test_an_answer_is_a_short_phrase() -> None:
    long = [answer for question in ANSWERABLE for answer in question.answers if len(answer.split()) > 8]
    assert long == []


def test_no_question_contains_its_answer() -> None:
    ids = [
        question.id
        for question in ANSWERABLE
        if any(normalize(answer) in normalize(question.question) for answer in question.answers)
    ]
    assert ids == []


def test_an_unanswerable_question_has_neither_answer_nor_source() -> None:
    assert [question.id for question in UNANSWERABLE if question.answers or question.sources] == []


def test_every_file_but_one_is_a_source() -> None:
    sources = {name for question in ANSWERABLE for name in question.sources}
    assert set(TEXTS) - sources == {"handbook/welcome.md"}


def test_a_superseded_rule_and_its_successor_disagree() -> None:
    old, new = TEXTS["policies/weather-closing-2019.md"], TEXTS["policies/weather-closing-2024.md"]
    assert ("| 18 m/s |" in old, "| 15 m/s |" in old) == (True, False)
    assert ("| 18 m/s |" in new, "| 15 m/s |" in new) == (False, True)
