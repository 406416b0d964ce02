"""Ratings of answers become questions for `ragkit eval`; sessions are searched; answers are replaced."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from ragkit.cli import cli
from ragkit.evaluate.questions import read_questions
from tests.server.api.test_limits import code_of
from tests.server.conftest import HASHING
from tests.server.parts import serving

GRID = """pipeline: base.yaml
documents: {documents}
questions: {questions}
metric: mrr@5
grid:
  retrieve.dense_weight: [0.2, 0.8]
"""
QUESTIONS = [f"When is the hedge cut, and who asks for the {n}. time?" for n in range(20)]


def test_twenty_thumbs_become_a_file_that_eval_and_tune_take(base: Path, built: Path, tmp_path: Path) -> None:
    with serving(base) as (_, client):
        for number, question in enumerate(QUESTIONS):
            answer = client.post("/chat", json={"message": question}).json()["message"]
            body = {"message_id": answer["id"], "rating": "up" if number % 2 else "down"}
            if body["rating"] == "down":
                body |= {"reason": ("wrong", "unanswerable")[number % 4 // 2], "note": "no"}
            rated = client.post("/feedback", json=body).json()
            assert rated["feedback"]["rating"] == body["rating"]
            assert {**rated, "feedback": None} == answer
        assert client.get("/session/" + client.get("/sessions").json()["sessions"][0]["id"]).status_code == 200
    file = tmp_path / "rated.jsonl"
    options = ["eval", "--kb", str(base), "--retrieval-only"]
    first = CliRunner().invoke(cli, [*options, "--feedback", "--save", str(file)])
    assert first.exit_code == 0, first.output
    questions = read_questions(file)
    assert {question.text for question in questions} == set(QUESTIONS)
    kinds = [question.kind for question in questions]
    assert [kinds.count(kind) for kind in ("thumbs up", "thumbs down: wrong", "thumbs down: unanswerable")] == [
        10,
        5,
        5,
    ]
    assert all(question.sources for question in questions if question.kind == "thumbs up" and question.answerable)
    assert {question.answerable for question in questions if "unanswerable" in question.kind} == {False}
    again = CliRunner().invoke(cli, [*options, str(file)])
    assert again.exit_code == 0, again.output
    grid = tmp_path / "grid.yaml"
    (tmp_path / "base.yaml").write_text(f"extends: default\n{HASHING}", "utf-8")
    grid.write_text(GRID.format(documents=built.parent / "docs", questions=file), "utf-8")
    options = ["--work", str(tmp_path / "work"), "--save", str(tmp_path / "tuned.yaml")]
    tuned = CliRunner().invoke(cli, ["tune", str(grid), *options])
    assert tuned.exit_code == 0, tuned.output
    assert (tmp_path / "tuned.yaml").exists()


def test_eval_without_ratings_says_how_to_get_them(base: Path) -> None:
    result = CliRunner().invoke(cli, ["eval", "--kb", str(base), "--feedback"])
    assert "rate answers on the page" in str(result.exception)


def test_a_rating_is_changed_and_taken_back(base: Path) -> None:
    with serving(base) as (_, client):
        answer = client.post("/chat", json={"message": QUESTIONS[0]}).json()
        body = {"message_id": answer["message"]["id"], "rating": "down", "reason": "incomplete", "note": "and who?"}
        assert client.post("/feedback", json=body).json()["feedback"] == {
            "rating": "down", "reason": "incomplete", "note": "and who?"
        }  # fmt: skip
        stored = client.get(f"/session/{answer['session_id']}").json()["history"][-1]
        assert stored["feedback"]["rating"] == "down"
        assert client.post("/feedback", json={**body, "rating": None}).json()["feedback"] is None
        assert code_of(client.post("/feedback", json={**body, "message_id": "none"})) == (404, "message_not_found")
        assert code_of(client.post("/feedback", json={**body, "rating": "great"})) == (400, "invalid_request")


def test_sessions_are_found_by_their_title_and_messages(base: Path) -> None:
    with serving(base) as (_, client):
        client.post("/chat", json={"message": "When is the HEDGE cut?"})
        client.post("/session/start", json={"title": "100% of the_pond"})

        def titles(text: str) -> list[str]:
            return [row["title"] for row in client.get("/sessions", params={"q": text}).json()["sessions"]]

        assert titles("hedge") == ["When is the HEDGE cut?"]
        assert titles("0% of the_") == ["100% of the_pond"]
        assert titles("the%pond") == []
        assert len(titles("")) == 2


def test_a_question_is_edited_in_its_place(base: Path) -> None:
    with serving(base) as (_, client):
        first = client.post("/chat", json={"message": "When is the hedge cut?"}).json()
        session = {"session_id": first["session_id"]}
        second = client.post("/chat", json={**session, "message": "Who cuts it?"}).json()
        body = {**session, "message": "What is cut in August?", "replace": second["trace_id"]}
        client.post("/chat", json=body)
        history = client.get(f"/session/{first['session_id']}").json()["history"]
        asked = [message["content"] for message in history if message["role"] == "user"]
        assert asked == ["When is the hedge cut?", "What is cut in August?"]
        assert code_of(client.post("/chat", json=body)) == (404, "message_not_found")
        assert code_of(client.post("/chat", json={"message": "x", "replace": "y"})) == (400, "invalid_value")
        client.post("/chat", json={**session, "message": "Again?", "replace": first["trace_id"]})
        history = client.get(f"/session/{first['session_id']}").json()["history"]
        assert [message["content"] for message in history if message["role"] == "user"] == ["Again?"]
