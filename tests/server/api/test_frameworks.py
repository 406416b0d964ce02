"""LangChain and LlamaIndex as clients, in their own environment (created by `make test-slow`)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TypeAlias

import pytest

from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.usage.tokens import Tokens
from tests.server.parts import SEARCH, serving
from tests.server.transcripts import recorded

PYTHON = os.environ.get("RAGKIT_FRAMEWORKS_PYTHON", ".venv-frameworks/bin/python")
TEXT = "It is cut in August [1]."
CITED = Completion(Message.assistant(TEXT), Tokens(20, 5, cost_usd=0.0))
Turn: TypeAlias = str | ToolCall | Completion
ARGUMENTS = ['{"town": "Oslo"}', '{"town": "Rome"}', '{"town": "Rome"}']


@pytest.mark.slow
def test_langchain_and_llama_index_work_as_with_openai(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [vocabulary] = Path(PYTHON).parents[1].glob("lib/python3*/site-packages/llama_index/core/_static/tiktoken_cache")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(vocabulary))
    cited: list[Turn] = [SEARCH, CITED]
    provider = ScriptedProvider([*cited, *ARGUMENTS, *cited * 6])
    with (
        serving(base, provider) as (served, _),
        recorded(served.url, "langchain") as langchain,
        recorded(served.url, "llama-index") as llama_index,
    ):
        process = subprocess.run(
            [PYTHON, str(Path(__file__).with_name("framework_clients.py")), langchain, llama_index],
            env={"PATH": os.environ["PATH"], "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout.splitlines()[-1])
    assert "input[0] has a token id that cl100k_base does not have (0 to 100276)" in result["langchain"].pop("refused")
    assert result["langchain"] == {
        "answer": TEXT,
        "streamed": TEXT.removesuffix("[1]."),
        "forced": [["get_weather", {"town": "Oslo"}]],
        "structured": {"town": "Rome"},
        "called": {"town": "Rome"},
        "responses": TEXT,
        "responses_streamed": TEXT,
        "dimensions": [64, 64],
        "query": 64,
        "as_tokens": True,
    }
    assert result["llama_index"] == {
        "completed": TEXT,
        "answer": TEXT,
        "streamed": TEXT,
        "dimensions": [64, 64],
        "named": 64,
    }
