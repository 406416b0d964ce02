"""Faults of other packages that have no other test here; docs/explanation/dependency-faults.md has the whole list."""

from __future__ import annotations

import ast
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Message
from ragkit.agent.tools.builtin import ToolError, calculate
from ragkit.answer.tool import RAGTool
from ragkit.errors import RagkitError
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.load.mail.eml import EmlLoader
from ragkit.pipeline.settings import Pipeline
from ragkit.records import JSON
from ragkit.usage.analytics import escape_formula

ROOT = Path(__file__).parents[2]
FAULTS = (ROOT / "docs" / "explanation" / "dependency-faults.md").read_text("utf-8")
MARKERS: dict[str, JSON] = {
    "lc": 1,
    "type": "constructor",
    "id": ["langchain", "llms", "OpenAI"],
    "kwargs": {"api_key": {"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]}},
    "__class__": "ragkit.records.Document",
    "!!python/object": "os.system",
}
TEMPLATES = "{{ ''.__class__.__mro__ }} {0.__class__} {x} %s %(a)s ${HOME} {% for a in b %}{% endfor %} $HOME"


def open_kb(folder: Path, store: str = "sqlite") -> KnowledgeBase:
    pipeline = Pipeline.from_yaml(f"embed: {{name: hashing, dimension: 64}}\nstore: {{name: {store}}}\n")
    return KnowledgeBase.open(folder / "kb", pipeline)


def test_every_test_that_the_lessons_name_exists() -> None:
    named = re.findall(r"`([\w/]+/test_\w+\.py)::(test_\w+)`", FAULTS)
    known = {
        (path.relative_to(ROOT / "tests").as_posix(), node.name)
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert [item for item in named if item not in known] == []
    assert re.findall(r"^\| (\d+) \|", FAULTS, re.MULTILINE) == [str(number) for number in range(1, 42)]


def test_data_with_type_markers_stays_data(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(f"---\n{json.dumps(MARKERS)}\n---\nwords of mine")
    with open_kb(tmp_path) as kb:
        kb.index(tmp_path / "a.md")
        [hit] = kb.search("words")
    assert {key: hit.chunk.metadata[key] for key in MARKERS} == MARKERS
    memory = ConversationMemory()
    memory.add(Message.user(json.dumps(MARKERS)))
    [message] = ConversationMemory.from_json(memory.to_json()).get_history()
    assert json.loads(message.content) == MARKERS


def test_templates_in_documents_and_questions_are_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"words of mine {TEMPLATES}")
    with open_kb(tmp_path) as kb:
        kb.index(tmp_path / "a.txt")
        displayed = RAGTool(kb).search_knowledge_base(f"words {TEMPLATES}").content
        answer = kb.ask(f"words {TEMPLATES}")
    assert TEMPLATES in displayed
    assert answer.question == f"words {TEMPLATES}"


ESCAPES = (
    "().__class__.__base__.__subclasses__()",
    "(lambda: 0).__globals__",
    "[x for x in (1,)]",
    "(x for x in (1,)).gi_frame.f_back.f_globals",
    "__import__('os').system('id')",
    "abs.__self__.eval('1')",
    "f'{1}'",
    "1 if 1 else 2",
    "sum(*[[1]])",
    "(a := 1)",
    "pow.__call__(2, 3)",
    "exec('1')",
    "open('/etc/passwd').read()",
    "9**9**9**9",
    "10**(10**5)",
    "-" * 900 + "1",
    "(" * 400 + "1" + ")" * 400,
    "max(1, key=exec)",
)


@pytest.mark.parametrize("text", ESCAPES)
def test_the_calculator_cannot_be_escaped(text: str) -> None:
    try:
        assert abs(calculate(text)) == 1  # signs and parentheses alone
        assert set(text) <= set("-()1")
    except ToolError:
        pass


class PickleBomb:
    """Creates a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.mark,)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("lancedb", "chroma")]


@pytest.mark.parametrize("store", ["sqlite", "faiss", "duckdb", *SLOW])
def test_a_pickle_in_place_of_any_file_is_never_loaded(tmp_path: Path, store: str) -> None:
    mark = tmp_path / "owned"
    (tmp_path / "a.txt").write_text("words of mine")
    with open_kb(tmp_path, store) as kb:
        kb.index(tmp_path / "a.txt")
    bomb = pickle.dumps(PickleBomb(mark))
    files = [path for path in (tmp_path / "kb").rglob("*") if path.is_file() and path.suffix not in (".json", ".yaml")]
    complete = {path: path.read_bytes() for path in files}
    for path in files:
        path.write_bytes(bomb)
        try:
            with open_kb(tmp_path, store) as kb:
                kb.search("words")
        except RagkitError as error:
            assert "\n" not in str(error).strip()
        assert not mark.exists(), path.name
        path.write_bytes(complete[path])


def test_the_name_of_an_attachment_is_never_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = (
        b"From: a@b.c\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=z\n\n--z\n\nhello\n--z\n"
        b'Content-Disposition: attachment; filename="../../etc/cron.d/x"\n\n* * * * * root id\n--z--\n'
    )
    document = EmlLoader().load(data, "/x/a.eml")
    assert "../../etc/cron.d/x" in document.text
    assert "root id" not in document.text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1+cmd", "@SUM(A1)", "\t=1", "\r=1"])
def test_names_in_csv_are_not_formulas(cell: str) -> None:
    assert escape_formula(cell) == f"'{cell}"
    assert escape_formula("openai:gpt-4o") == "openai:gpt-4o"
    assert escape_formula("-1.5") == "-1.5"


def test_every_test_that_the_scoreboard_names_exists() -> None:
    named = re.findall(
        r"`(tests/[\w/]+(?:\.py)?)(?:::(test_\w+))?`", (ROOT / "docs" / "reliability.md").read_text("utf-8")
    )
    assert len(named) > 20
    for path, name in named:
        assert (ROOT / path).exists(), path
        assert not name or f"def {name}(" in (ROOT / path).read_text("utf-8"), name
