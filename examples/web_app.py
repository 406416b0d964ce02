"""Cited answers in a web application of your own: GET /ask?q=... (needs the extra `server`).

Run it with `uvicorn web_app:app`. Calls of a knowledge base block, so FastAPI runs a plain `def` route in a thread.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict

from fastapi import FastAPI, Request

from ragkit import KnowledgeBase


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    with KnowledgeBase.open("kb") as kb:
        with kb.session() as session:
            session.require_ready()
        app.state.kb = kb
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/ask")
def ask(request: Request, q: str) -> dict[str, object]:
    answer = request.app.state.kb.ask(q)
    return {"answer": answer.text, "citations": [asdict(citation) for citation in answer.citations]}
