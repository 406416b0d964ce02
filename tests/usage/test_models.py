"""Model constants: generated from the current data, with limits and prices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ragkit
from ragkit import models
from ragkit.models import Anthropic, Cohere, Gemini, OpenAI, Voyage
from ragkit.usage.model_info import ModelInfo, Price

ROOT = Path(__file__).parent.parent.parent


def constants() -> list[ModelInfo]:
    """Every constant of every provider."""
    classes = [value for value in vars(models).values() if isinstance(value, type) and value not in (ModelInfo, Price)]
    return [value for cls in classes for value in vars(cls).values() if isinstance(value, ModelInfo)]


def test_a_constant_has_the_limits_and_price_of_its_model() -> None:
    model = OpenAI.GPT_4O
    assert model == ModelInfo("openai", "gpt-4o", 128_000, 16_384, Price(2.5, 10, 1.25))
    assert (model.id, model.name) == ("gpt-4o", "openai:gpt-4o")
    assert OpenAI.TEXT_EMBEDDING_3_SMALL.kind == "embedding"
    assert Cohere.RERANK_V3_5.price.search_usd == 2.0
    assert Voyage.VOYAGE_3_5.context_window == 32_000
    assert (Anthropic.CLAUDE_SONNET_4_5.max_output_tokens, Gemini.GEMINI_2_5_PRO.provider) == (64_000, "gemini")
    assert ragkit.ModelInfo is ModelInfo


def test_there_are_more_than_130_constants_without_duplicates() -> None:
    names = [model.name for model in constants()]
    assert len(names) > 130
    assert len(set(names)) == len(names)


def test_the_generated_file_is_up_to_date() -> None:
    subprocess.run([sys.executable, "scripts/make_models.py", "--check"], cwd=ROOT, check=True)
