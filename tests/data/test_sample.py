"""The sample folder and its questions keep what `data/README.md` says of them."""

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
MADE = [name for name in TEXTS if Path(name).suffix in {".pdf", ".docx", ".xlsx", ".pptx"}]
ANSWERABLE_KINDS = {"fact", "table", "procedure", "number", "superseded", "code", "email", "slides"}


@dataclass(frozen=True)
class Question:
    """One line of `data/questions.jsonl`; a key too many or too few is an error."""

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


def plain(text: str) -> str:
    """Lower case, and nothing else: an answer must stand in its source letter by letter."""
    return text.lower()


@pytest.fixture(scope="module")
def made_anew(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made files, made once more into an empty folder."""
    folder = tmp_path_factory.mktemp("made")
    script = ROOT / "scripts" / "make_sample.py"
    subprocess.run(
        [sys.executable, "-W", "error", script, "--out", folder], check=True, capture_output=True, timeout=120
    )
    return folder


def test_the_folder_holds_43_files_of_eleven_formats() -> None:
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


def test_the_folder_holds_between_25_and_35_thousand_words() -> None:
    assert 25_000 <= sum(len(text.split()) for text in TEXTS.values()) <= 35_000


def test_long_documents_stand_beside_short_notes() -> None:
    lengths = [len(text.split()) for text in TEXTS.values()]
    assert sum(length >= 1000 for length in lengths) >= 9
    assert sum(length < 300 for length in lengths) >= 8


def test_each_manual_in_pdf_has_five_pages() -> None:
    pages = {name: len(pages_of(SAMPLE / name)) for name in MADE if name.endswith(".pdf")}
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
def test_these_words_stand_on_this_page_alone(name: str, page: int, words: str) -> None:
    found = [number for number, text in enumerate(pages_of(SAMPLE / name), 1) if words in text]
    assert found == [page]


def test_the_slides_keep_their_notes() -> None:
    assert "the ninth is 2 centimetres higher" in TEXTS["slides/volunteer-training.pptx"]


def test_the_python_tools_have_a_docstring_on_every_public_name() -> None:
    for path in (SAMPLE / "software" / "skytool").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        public = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        assert [node.name for node in public if not ast.get_docstring(node)] == []


def test_no_document_names_a_reachable_host() -> None:
    addresses = [word for text in TEXTS.values() for word in text.split() if "://" in word]
    assert [word for word in addresses if ".example" not in word] == []


def test_the_binary_files_are_what_the_script_makes(made_anew: Path) -> None:
    # texts and not bytes: another version of a library may write the same words otherwise
    made = sorted(path.relative_to(made_anew).as_posix() for path in made_anew.rglob("*") if path.is_file())
    assert made == sorted(MADE)
    assert [name for name in made if text_of(made_anew / name) != TEXTS[name]] == []


def test_the_script_makes_the_same_bytes_twice(made_anew: Path, tmp_path: Path) -> None:
    script = ROOT / "scripts" / "make_sample.py"
    subprocess.run([sys.executable, script, "--out", tmp_path], check=True, capture_output=True, timeout=120)
    assert [name for name in MADE if (tmp_path / name).read_bytes() != (made_anew / name).read_bytes()] == []


def test_there_are_79_answerable_and_16_unanswerable_questions() -> None:
    assert (len(ANSWERABLE), len(UNANSWERABLE)) == (79, 16)


def test_ids_count_up_without_a_gap() -> None:
    assert [question.id for question in QUESTIONS] == [f"q{number:03}" for number in range(1, len(QUESTIONS) + 1)]


def test_no_question_is_asked_twice() -> None:
    assert len({plain(question.question) for question in QUESTIONS}) == len(QUESTIONS)


def test_every_kind_of_answer_is_asked_for() -> None:
    assert {question.kind for question in ANSWERABLE} == ANSWERABLE_KINDS
    assert Counter(question.kind for question in UNANSWERABLE) == {"near": 10, "off-topic": 6}


@pytest.mark.parametrize("question", ANSWERABLE, ids=lambda question: question.id)
def test_the_first_answer_stands_in_each_source(question: Question) -> None:
    assert question.sources
    absent = [name for name in question.sources if plain(question.answers[0]) not in plain(TEXTS[name])]
    assert absent == []


def test_an_answer_is_a_short_phrase() -> None:
    long = [answer for question in ANSWERABLE for answer in question.answers if len(answer.split()) > 8]
    assert long == []


def test_a_question_does_not_give_its_answer_away() -> None:
    given = [one.id for one in ANSWERABLE if any(plain(answer) in plain(one.question) for answer in one.answers)]
    assert given == []


def test_an_unanswerable_question_has_neither_answer_nor_source() -> None:
    assert [question.id for question in UNANSWERABLE if question.answers or question.sources] == []


def test_nearly_every_file_is_asked_about() -> None:
    asked = {name for question in ANSWERABLE for name in question.sources}
    assert set(TEXTS) - asked == {"handbook/welcome.md"}


def test_a_superseded_rule_and_its_successor_disagree() -> None:
    old, new = TEXTS["policies/weather-closing-2019.md"], TEXTS["policies/weather-closing-2024.md"]
    assert ("| 18 m/s |" in old, "| 15 m/s |" in old) == (True, False)
    assert ("| 18 m/s |" in new, "| 15 m/s |" in new) == (False, True)
