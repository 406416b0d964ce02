"""The beginning of a conversation: suggested questions, folders, one source; links to sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document, Heading
from ragkit.server.start_api import asked
from tests.server.conftest import HASHING
from tests.server.parts import serving


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("How long does it last?", ["How long does it last?"]),
        ("3.2 Cutting the hedge:", ["What does garden.md say about \u201cCutting the hedge\u201d?"]),
        ("Table of contents", []),
        ("Hedge", []),
        ("2024 2025 1.5", []),
        ("A heading that goes on and on and never comes to an end at all", []),
    ],
)
def test_a_heading_becomes_a_question_only_if_it_says_something(heading: str, expected: list[str]) -> None:
    document = Document(heading, source="/docs/garden.md", headings=(Heading(0, 2, heading),))
    assert asked(document) == expected


def test_suggestions_and_folders_come_from_the_documents(tmp_path: Path) -> None:
    for name in ("a/one.md", "a/two.md", "b/three.md"):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(f"# Top\n\n## Care of {Path(name).stem} saws\n\nOil them.\n", "utf-8")
    with KnowledgeBase.open(tmp_path / "own", Pipeline.from_yaml(HASHING)) as kb:
        kb.index(tmp_path / "docs")
    with serving(tmp_path / "own") as (_, client):
        questions = client.get("/suggestions").json()["questions"]
        folders = client.get("/folders").json()["folders"]
        answers = {
            folder["source"]: client.post("/chat", json={"message": "Care of saws?", "source": folder["source"]}).json()
            for folder in folders
        }
        unknown = client.post("/chat", json={"message": "Care?", "source": "/nowhere"})
    assert questions[0] == "What does one.md say about \u201cCare of one saws\u201d?"
    assert [(Path(folder["source"]).name, folder["documents"]) for folder in folders] == [("a", 2), ("b", 1)]
    for source, answer in answers.items():
        cited = [citation["source"] for citation in answer["message"]["citations"]]
        assert cited
        assert all(item.startswith(f"{source}/") for item in cited)
    assert unknown.status_code == 400
    assert unknown.json()["error"]["message"].startswith("no document has the source '/nowhere'")


def test_a_link_shows_a_session_until_it_is_revoked(base: Path) -> None:
    with serving(base) as (_, client):
        answer = client.post("/chat", json={"message": "When is the hedge cut?"}).json()
        session = answer["session_id"]
        link = client.post(f"/session/{session}/share").json()
        assert client.post(f"/session/{session}/share").json() == link
        shown = client.get(f"/shared/{link['share_id']}").json()
        assert set(shown) == {"title", "updated", "history"}
        assert shown["history"][1]["content"] == answer["response"]
        assert shown["history"][1]["trace_id"] is None
        assert client.get(f"/shared/{session}").status_code == 404
        assert client.delete(f"/session/{session}/share").json() == {"revoked": True}
        assert client.get(f"/shared/{link['share_id']}").status_code == 404
        assert client.delete(f"/session/{session}/share").status_code == 404
        assert client.post(f"/session/{session}/share").json()["share_id"] != link["share_id"]
        assert client.post("/session/none/share").status_code == 404
