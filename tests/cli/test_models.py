"""`ragkit models --local` lists the exported models of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Ragkit
from tests.embed.exported_models import graph, table, write_json, write_model, write_reranker
from tests.gguf_models import write_chat_model, write_minilm_gguf


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


def test_gguf_files_are_listed_with_the_name_to_use(workplace: Path, ragkit: Ragkit) -> None:
    folder = workplace / "models"
    folder.mkdir()
    write_chat_model(folder / "chat.gguf")
    write_minilm_gguf(folder / "embed.gguf")
    write_minilm_gguf(folder / "rerank.gguf", reranker=True)
    (folder / "cut.gguf").write_bytes((folder / "chat.gguf").read_bytes()[:9000])
    listed = ragkit("models", "--local", "--json").json["models"]
    assert [(model["path"], model["kind"], model["max_tokens"]) for model in listed] == [
        ("models/chat.gguf", "chat", 2048),
        ("models/embed.gguf", "embedding", 256),
        ("models/rerank.gguf", "reranker", 256),
    ]
    assert ragkit("models", "--local").out.splitlines()[1:] == [
        "--model gguf:models/chat.gguf                   chat             1M   2,048      2  chat.gguf",
        "embed: {name: gguf, path: models/embed.gguf}    embedding               256     46  embed.gguf",
        "rerank: {name: gguf, path: models/rerank.gguf}  reranker                256     46  rerank.gguf",
    ]


def test_a_listed_chat_model_answers(workplace: Path, ragkit: Ragkit) -> None:
    (workplace / "models").mkdir()
    write_chat_model(workplace / "models" / "chat.gguf", context=8192)
    (name,) = [model["use"] for model in ragkit("models", "--local", "--json").json["models"]]
    (workplace / "note.txt").write_text("Paris is the capital.")
    ragkit("index", "note.txt")
    answer = ragkit("ask", "What is the capital of France", *name.split(), "--json").json
    assert answer["model"] == "gguf:models/chat.gguf"
    assert answer["usage"]["llm_cost_usd"] == 0
    assert answer["usage"]["completion_tokens"] > 0


def test_doctor_says_what_a_gguf_model_lacks(workplace: Path, ragkit: Ragkit) -> None:
    path = write_chat_model(workplace / "chat.gguf")
    (workplace / "ragkit.yaml").write_text("answer: {provider: 'gguf:chat.gguf'}\n")
    assert "ok   model: gguf:chat.gguf, 2,048 tokens of context" in ragkit("doctor").out
    path.unlink()
    line = next(line for line in ragkit("doctor", code=1).out.splitlines() if line.startswith("FAIL"))
    assert line == (
        "FAIL model: model must be an existing GGUF file: `ragkit models --local` lists those of this machine"
        " (got 'chat.gguf')  -> ragkit models --local"
    )
