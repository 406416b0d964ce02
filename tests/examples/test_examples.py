"""Every program in examples/ runs offline in an empty directory and prints what it should."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from ragkit import KnowledgeBase

EXAMPLES = Path(__file__).parents[2] / "examples"
SAMPLE = EXAMPLES.parent / "data" / "sample"
QUESTION = "How long does a full dewar stay cold?"
ANSWER = "The dewar holds 6.0 litres and keeps cold for 16 hours when full. [1]"

OUTPUT = {
    "own_loader": [
        "Fire drill on 2026-03-12. Location: Assembly point 2, behind the workshop. [1]",
        "events.ics#20260312",
    ],
    "own_embedder": ["The compressor is serviced every 400 hours."],
    "agent_with_tools": [
        "handoff_to_planner(reason='a trip')",
        "distance_km(origin='Bern', destination='Zurich')",
        "train_minutes(km=95)",
        "book(destination='Zurich', seats=2)",
        "The train takes 57 minutes. Two seats are booked.",
    ],
    "guardrail_and_budget": ["Write to [email]", "budget of 2000 tokens exceeded"],
    "structured_output": ["A-17 129.5 ['chair']", "total_eur"],
    "streaming_chat": ["Nice to meet you, Ada.", "Your name is Ada.", "4 messages were sent with the second question"],
    "metadata_filters": ["pump-2025.md", "The pump is serviced every 400 hours."],
    "migrate_store": ["20 chunks copied, 0 tokens embedded, problems: ()", "same hits"],
    "evaluation": ["no regression"],
}
"""Program -> lines, or beginnings of lines, that it prints in this order."""
WITH_ARGUMENTS = {"cited_answers", "mcp_client", "web_app"}


def run(name: str, directory: Path, *arguments: str) -> str:
    """The output of a program in `directory`, with warnings as errors and without API keys."""
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments]
    result = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a folder of manuals, and what the first example prints for it."""
    directory = tmp_path_factory.mktemp("cited")
    shutil.copytree(SAMPLE / "manuals", directory / "manuals")
    output = run("cited_answers", directory, "manuals", QUESTION, "kb")
    (directory / "output.txt").write_text(output, encoding="utf-8")
    return directory


def test_every_program_is_tested_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == OUTPUT.keys() | WITH_ARGUMENTS
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"`{path.name}" in listed for path in EXAMPLES.glob("*.py"))


@pytest.mark.rotating
@pytest.mark.parametrize("name", sorted(OUTPUT))
def test_a_program_prints_the_expected_lines_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    output = run(name, tmp_path)
    assert list(tmp_path.iterdir()) == []
    position = 0
    for line in OUTPUT[name]:
        assert line in output[position:]
        position = output.index(line, position) + len(line)


def test_programs_are_short() -> None:
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in EXAMPLES.glob("*.py")}
    assert all(15 <= count <= 60 for count in lines.values()), lines


def test_cited_answers(indexed: Path) -> None:
    output = (indexed / "output.txt").read_text(encoding="utf-8").splitlines()
    assert output[1] == ANSWER
    again = run("cited_answers", indexed, "manuals", QUESTION)
    assert again.splitlines() == output
    assert any(line.startswith("[1] liquid-nitrogen.pdf, page 3: ") for line in output)


def test_an_mcp_client_asks_the_knowledge_base(indexed: Path) -> None:
    output = run("mcp_client", indexed, "kb", QUESTION)
    assert output.startswith(
        "tools: ask, find_text, list_documents, outline, read_document, search_knowledge_base, status\n" + ANSWER
    )


def test_a_web_application_answers(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(indexed)
    spec = importlib.util.spec_from_file_location("web_app", EXAMPLES / "web_app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with TestClient(module.app) as client:
        reply = client.get("/ask", params={"q": QUESTION}).json()
    assert reply["answer"].splitlines()[0] == ANSWER
    assert reply["citations"][0]["page"] == 3


def test_the_knowledge_base_of_the_first_program_passes_verify(indexed: Path) -> None:
    with KnowledgeBase.open(indexed / "kb") as kb:
        assert kb.verify().is_sound
