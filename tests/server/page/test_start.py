"""The beginning of a conversation: suggested questions, folders, one source; links to sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document, Heading
from ragkit.server.page.suggestions import asked, suggestions
from ragkit.server.settings import ServerLimits, ServerSettings
from tests.server.conftest import HASHING
from tests.server.parts import serving

TOKENS = ("the-token-of-the-owner", "the-token-of-a-reader")
SAWS = """# Saws

## Oiling the saw blade

Oil the saw blade with linseed oil in October.

## Hanging up saws

The saw hangs on the long nail above the bench.

## Sharpening the teeth

File the teeth twice a year with the flat file.

## Words of nobody

## Contents
"""


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


@pytest.mark.parametrize(
    ("language", "question"),
    [
        ("en", "What is \u201cCare of the garden\u201d about?"),
        ("de", "Worum geht es in \u201eCare of the garden\u201c?"),
        ("fr", "De quoi parle \u00ab Care of the garden \u00bb ?"),
        ("es", "\u00bfDe qu\u00e9 trata \u00abCare of the garden\u00bb?"),
        ("ja", "What is \u201cCare of the garden\u201d about?"),
    ],
)
def test_a_first_question_names_a_title_and_is_answered_in_every_language(
    tmp_path: Path, language: str, question: str
) -> None:
    (tmp_path / "garden.md").write_text("# Care of the garden\n\nThe hedge is cut twice a year, and never in May.\n")
    (tmp_path / "build.py").write_text("def build() -> None:\n    pass\n")
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(HASHING)) as kb:
        kb.index(tmp_path / "garden.md", tmp_path / "build.py")
        with kb.session() as session:
            assert suggestions(session, language) == [question]
        assert kb.ask(question).text.startswith("The hedge is cut twice a year")


def test_suggestions_and_folders_come_from_the_documents(tmp_path: Path) -> None:
    for name in ("a/one.md", "a/two.md", "b/three.md"):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        text = "# Top\n\n## Care of {0} saws\n\nOil them.\n\n## 2.1 Who may use {0} saws?\n\nAll.\n"
        (tmp_path / "docs" / name).write_text(text.format(Path(name).stem), "utf-8")
    with KnowledgeBase.open(tmp_path / "own", Pipeline.from_yaml(HASHING)) as kb:
        kb.index(tmp_path / "docs")
    with serving(tmp_path / "own") as (_, client):
        questions = client.get("/suggestions").json()["questions"]
        german = client.get("/suggestions?language=de").json()["questions"]
        folders = client.get("/folders").json()["folders"]
        answers = {
            folder["source"]: client.post("/chat", json={"message": "Care of saws?", "source": folder["source"]}).json()
            for folder in folders
        }
        unknown = client.post("/chat", json={"message": "Care?", "source": "/nowhere"})
    assert questions == [
        "Who may use one saws?", "Who may use two saws?", "What is one.md about?", "What is two.md about?"
    ]  # fmt: skip
    assert german[2:] == ["Worum geht es in one.md?", "Worum geht es in two.md?"]
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


def test_the_link_needs_no_token_and_opens_nothing_else(base: Path) -> None:
    settings = ServerSettings(port=0, tokens=TOKENS, limits=ServerLimits(shared_per_minute=5))
    with serving(base, settings=settings) as (_, client):
        owner = {"authorization": f"Bearer {TOKENS[0]}"}
        answer = client.post("/chat", json={"message": "When is the hedge cut?"}, headers=owner).json()
        session = answer["session_id"]
        path = f"/session/{session}/share"
        share = client.post(path, headers=owner).json()["share_id"]
        response = client.get(f"/shared/{share}")
        assert response.status_code == 200
        [citation, *_] = response.json()["history"][1]["citations"]
        [known, *_] = answer["message"]["citations"]
        assert (citation["source"], citation["quote"]) == ("garden.md", known["quote"])
        for secret in (session, known["document_id"], known["chunk_id"], str(base.parent), answer["trace_id"]):
            assert secret not in response.text
        for method, other in (
            ("GET", f"/session/{session}"),
            ("GET", f"/session/{share}"),
            ("GET", f"/session/{session}/suggestions"),
            ("GET", f"/documents/{known['document_id']}"),
            ("GET", "/sessions"),
            ("POST", f"/shared/{share}"),
            ("DELETE", path),
            ("GET", f"/shared/{share}/../../sessions"),
        ):
            assert client.request(method, other).status_code == 401, other
        assert [client.get(f"/shared/share_{n}").status_code for n in range(5)] == [404, 404, 404, 404, 429]
        assert client.get("/sessions", headers=owner).status_code == 200
        assert client.delete(path, headers=owner).json() == {"revoked": True}
    with serving(base, settings=settings) as (_, client):
        assert client.get(f"/shared/{share}").status_code == 404


def test_follow_up_questions_name_unused_sections_that_a_search_finds(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "saws.md").write_text(SAWS, "utf-8")
    (tmp_path / "docs" / "tea.md").write_text("# Tea\n\n## Green tea leaves\n\nThey steep for two minutes.\n", "utf-8")
    with KnowledgeBase.open(tmp_path / "own", Pipeline.from_yaml(HASHING)) as kb:
        kb.index(tmp_path / "docs")
    with serving(tmp_path / "own") as (_, client):
        fresh = client.post("/session/start").json()["id"]
        assert client.get(f"/session/{fresh}/suggestions").json() == {"questions": []}
        answer = client.post("/chat", json={"message": "Where does the saw hang?"}).json()
        assert {Path(item["source"]).name for item in answer["message"]["citations"]} == {"saws.md"}
        path = f"/session/{answer['session_id']}/suggestions"
        questions = client.get(path).json()["questions"]
        body = {"message": questions[0], "session_id": answer["session_id"]}
        assert client.post("/chat", json=body).json()["message"]["citations"]
        assert questions[0] not in client.get(path).json()["questions"]
        refused = client.post("/chat", json={"message": "Who won the 1998 world cup?"}).json()
        assert refused["message"]["abstained"] is True
        assert client.get(f"/session/{refused['session_id']}/suggestions").json() == {"questions": []}
        assert client.get("/session/none/suggestions").status_code == 404
    name = "What does saws.md say about \u201c{}\u201d?"
    assert questions == [name.format("Sharpening the teeth"), name.format("Oiling the saw blade")]
