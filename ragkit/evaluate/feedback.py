"""Questions from what readers of the page said about answers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from ragkit.errors import RagkitError
from ragkit.evaluate.questions import Question
from ragkit.sqlite_errors import DATABASE_ERRORS

STATE_FILE = "server.sqlite"
"""The file of the server with its sessions, in the directory of the knowledge base."""
_RATED = (
    "SELECT a.id, q.content, a.detail FROM messages a JOIN messages q ON q.session = a.session AND q.trace = a.trace"
    " AND q.role = 'user' WHERE a.role = 'assistant' AND json_extract(a.detail, '$.feedback.rating') IS NOT NULL"
    " ORDER BY a.key"
)


def feedback_questions(directory: Path) -> list[Question]:
    """The rated questions of the server of a knowledge base, oldest first.

    A good answer says which files are relevant: those that it cites; or that the documents do not contain an answer. A
    bad one has no expected sources; of the reasons, `unanswerable` says that the documents do not contain an answer.

    Raises:
        RagkitError: the server has no sessions here, or nobody rated an answer.
    """
    path = directory / STATE_FILE
    rows: list[tuple[str, str, str]] = []
    if path.exists():
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            rows = connection.execute(_RATED).fetchall()
        except DATABASE_ERRORS as error:
            raise RagkitError(f"{path} cannot be read ({error})") from error
        finally:
            connection.close()
    if not rows:
        raise RagkitError(f"no answer was rated in {directory}: rate answers on the page of `ragkit serve`")
    return [_to_question(identity, text, json.loads(detail)) for identity, text, detail in rows]


def _to_question(identity: str, text: str, detail: Mapping[str, object]) -> Question:
    feedback, citations = detail["feedback"], detail.get("citations") or []
    assert isinstance(feedback, dict) and isinstance(citations, list)  # noqa: S101 - as the server stores them
    # without a model, the question that was searched for is complete: "and how often?" alone is none
    question = str(detail.get("searched_for") or text)
    if feedback["rating"] == "up":
        abstained = bool(detail.get("abstained"))
        sources = {} if abstained else {str(citation["source"]): 1 for citation in citations}
        return Question(identity, question, sources=sources, answerable=not abstained, kind="thumbs up")
    reason = str(feedback.get("reason") or "other")
    return Question(identity, question, answerable=reason != "unanswerable", kind=f"thumbs down: {reason}")
