"""`ragkit models --local` lists the exported models of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Ragkit
from tests.embed.exported_models import graph, table, write_json, write_model, write_reranker


@pytest.fixture
def models(workplace: Path) -> Path:
    folder = workplace / "models"
    write_model(folder / "tiny", pooling={"pooling_mode_cls_token": True})
    write_model(folder / "tiny", graph(table()), file="onnx/model_quantized.onnx")
    write_json(folder / "tiny" / "config_sentence_transformers.json", {"prompts": {"query": "query: "}})
    write_reranker(folder / "pairs", identity=True)
    write_json(folder / "weights" / "config.json", {})  # no tokenizer, no graph
    return folder


def test_local_models_are_listed_with_what_their_files_say(models: Path, ragkit: Ragkit) -> None:
    result = ragkit("models", "--local", "--json")
    pairs, tiny = result.json["models"]
    assert (pairs["path"], pairs["kind"], pairs["dimension"]) == ("models/pairs", "reranker", None)
    assert (tiny["path"], tiny["kind"], tiny["dimension"], tiny["max_tokens"]) == ("models/tiny", "embedding", 6, 512)
    assert (tiny["pooling"], tiny["query_prompt"], tiny["document_prompt"]) == (["cls"], "query: ", "")
    assert tiny["files"] == ["onnx/model.onnx", "onnx/model_quantized.onnx"]
    assert tiny["bytes"] == (models / "tiny/onnx/model.onnx").stat().st_size
    shown = ragkit("models", "--local").out
    assert [line.split()[:2] for line in shown.splitlines()[1:]] == [
        ["models/pairs", "reranker"],
        ["models/tiny", "embedding"],
    ]


def test_local_models_are_looked_for_where_one_says(
    models: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = models.rename(models.parent / "elsewhere")
    monkeypatch.setenv("HF_HOME", str(models.parent / "none"))
    assert ragkit("models", "--local", "--json").json == {"models": []}
    assert len(ragkit("models", "--local", str(moved), "--json").json["models"]) == 2
    monkeypatch.setenv("RAGKIT_MODELS", str(moved))
    assert len(ragkit("models", "--local", "--json").json["models"]) == 2
    wrong = ragkit("models", "--local", "none", code=2)
    assert "NAME must be a folder to look for models in, after --local (got 'none')" in wrong.err
