"""litellm as a client, in its own environment (created by `make test-slow`): it pins an older `openai`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.usage.tokens import Tokens
from tests.server.parts import SEARCH, serving

PYTHON = os.environ.get("RAGKIT_LITELLM_PYTHON", ".venv-litellm/bin/python")
CITED = Completion(Message.assistant("It is cut in August [1]."), Tokens(20, 5, cost_usd=0.0))


@pytest.mark.slow
def test_litellm_works_as_with_openai(base: Path) -> None:
    weather = ToolCall("get_weather", {"town": "Oslo"}, "call_1")
    provider = ScriptedProvider([SEARCH, CITED, SEARCH, CITED, SEARCH, weather, "Rain, and August [1]."])
    with serving(base, provider) as (served, _):
        process = subprocess.run(
            [PYTHON, str(Path(__file__).with_name("litellm_client.py")), served.url],
            env={"PATH": os.environ["PATH"], "LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout.splitlines()[-1])
    assert "unknown model 'gpt-4o'" in result.pop("error_message")
    assert result == {
        "complete": "It is cut in August [1].",
        "tokens": 5,
        "streamed": "It is cut in August [1].",
        "streamed_tokens": [5],
        "finish": "tool_calls",
        "call": ["get_weather", {"town": "Oslo"}],
        "final": "Rain, and August [1].",
        "dimensions": [64, 64],
    }
