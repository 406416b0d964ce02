"""`embed: {name: onnx}`: pooling, prompts, limits and files of exported models, against numpy and the shipped model."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from ragkit import KnowledgeBase, Pipeline
from ragkit.embed import EMBEDDERS
from ragkit.embed.base import EmbeddingProvider, ProbingEmbedder, TokenizingEmbedder
from ragkit.embed.minilm import MiniLM
from ragkit.embed.onnx import OnnxEmbedder
from ragkit.embed.onnx_folder import read_folder
from ragkit.embed.options import OnnxOptions
from ragkit.errors import InvalidOption, MissingExtra
from ragkit.records import JSON, Chunk, Hit
from ragkit.retrieve import RERANKERS
from ragkit.retrieve.options import RerankOptions
from ragkit.retrieve.rerank_onnx import OnnxReranker
from ragkit.usage.meter import Meter, use_meter
from tests.embed.exported_models import (
    WORDS,
    graph,
    table,
    tokenizer,
    write_json,
    write_minilm,
    write_model,
    write_reranker,
)

TEXTS = ["the cat sleeps", "the dog barks", "an invoice was sent", "cat", ""]
Floats = NDArray[np.float32]


def vectors_of(text: str, vectors: Floats | None = None) -> Floats:
    """The vectors of the tokens of a text, by hand: (tokens, width)."""
    known = {word: number for number, word in enumerate(WORDS)}
    ids = [known["[CLS]"], *(known.get(word, known["[UNK]"]) for word in text.lower().split()), known["[SEP]"]]
    return (table() if vectors is None else vectors)[ids]


def unit(row: Floats) -> Floats:
    return np.asarray(row / np.linalg.norm(row), np.float32)


POOLINGS: dict[str, Callable[[Floats], Floats]] = {
    "pooling_mode_cls_token": lambda v: v[0],
    "pooling_mode_mean_tokens": lambda v: np.asarray(v.mean(axis=0)),
    "pooling_mode_max_tokens": lambda v: np.asarray(v.max(axis=0)),
    "pooling_mode_mean_sqrt_len_tokens": lambda v: np.asarray(v.sum(axis=0) / np.sqrt(len(v))),
    "pooling_mode_weightedmean_tokens": lambda v: np.asarray(
        np.average(v, axis=0, weights=np.arange(1, len(v) + 1)), np.float32
    ),
    "pooling_mode_lasttoken": lambda v: v[-1],
}


@pytest.mark.parametrize("flag", POOLINGS)
def test_each_pooling_is_that_of_numpy(flag: str, tmp_path: Path) -> None:
    flags: dict[str, JSON] = {name: name == flag for name in POOLINGS}
    rows = OnnxEmbedder(str(write_model(tmp_path, pooling=flags))).embed_texts(TEXTS)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [unit(POOLINGS[flag](vectors_of(text))) for text in TEXTS], atol=1e-6)


def test_several_poolings_are_joined(tmp_path: Path) -> None:
    folder = write_model(tmp_path, pooling={"pooling_mode_max_tokens": True, "pooling_mode_cls_token": True})
    embedder = OnnxEmbedder(str(folder))
    vectors = vectors_of("the cat sleeps")
    assert (embedder.dimension, read_folder(folder).dimension) == (12, 12)
    expected = unit(np.concatenate([vectors[0], vectors.max(axis=0)]))
    np.testing.assert_allclose(embedder.embed_query("the cat sleeps"), expected, atol=1e-6)


def test_a_folder_without_a_pooling_takes_the_mean(tmp_path: Path) -> None:
    row = OnnxEmbedder(str(write_model(tmp_path))).embed_query("the cat")
    np.testing.assert_allclose(row, unit(vectors_of("the cat").mean(axis=0)), atol=1e-6)


def test_the_shipped_weights_as_an_exported_model_give_the_shipped_vectors(tmp_path: Path) -> None:
    exported = OnnxEmbedder(str(write_minilm(tmp_path)))
    texts = [*TEXTS, "word " * 400, "漢字かな", "x" * 5000, "\ud800 lone"]
    np.testing.assert_allclose(exported.embed_texts(texts), MiniLM().embed_texts(texts), atol=1e-5)
    assert (exported.dimension, exported.max_tokens) == (384, 256)
    text = "The boiler, of 1984, is in the cellar: ünïcode."
    np.testing.assert_array_equal(exported.token_starts(text), MiniLM().token_starts(text))


def test_a_graph_that_pools_by_itself_is_not_pooled_again(tmp_path: Path) -> None:
    model = graph(table())
    model.graph.node.append(
        helper.make_node("ReduceMax", ["last_hidden_state"], ["sentence_embedding"], axes=[1], keepdims=0)
    )
    model.graph.output.append(helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", 6]))
    row = OnnxEmbedder(str(write_model(tmp_path, model))).embed_query("the cat")
    np.testing.assert_allclose(row, unit(vectors_of("the cat").max(axis=0)), atol=1e-6)


@pytest.mark.parametrize("inputs", [("input_ids",), ("input_ids", "attention_mask", "token_type_ids", "position_ids")])
@pytest.mark.parametrize("integer", [TensorProto.INT64, TensorProto.INT32])
def test_a_graph_gets_the_inputs_that_it_has(inputs: tuple[str, ...], integer: int, tmp_path: Path) -> None:
    folder = write_model(tmp_path, graph(table(), inputs=inputs, integer=integer))
    row = OnnxEmbedder(str(folder)).embed_query("the cat")
    np.testing.assert_allclose(row, unit(vectors_of("the cat").mean(axis=0)), atol=1e-6)


def test_prompts_are_those_of_the_folder_unless_options_say_otherwise(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    write_json(
        folder / "config_sentence_transformers.json", {"prompts": {"query": "query : ", "passage": "passage : "}}
    )
    embedder = OnnxEmbedder(str(folder))
    np.testing.assert_allclose(embedder.embed_query("cat"), unit(vectors_of("query : cat").mean(axis=0)), atol=1e-6)
    row = embedder.embed_texts(["cat"])[0]
    np.testing.assert_allclose(row, unit(vectors_of("passage : cat").mean(axis=0)), atol=1e-6)
    plain = OnnxEmbedder(OnnxOptions(str(folder), query_prompt="", document_prompt=""))
    np.testing.assert_array_equal(plain.embed_query("cat"), plain.embed_texts(["cat"])[0])
    assert plain.fingerprint != embedder.fingerprint


def test_a_default_prompt_stands_before_questions_and_texts(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    prompts: JSON = {"prompts": {"clustering": "passage : "}, "default_prompt_name": "clustering"}
    write_json(folder / "config_sentence_transformers.json", prompts)
    expected = unit(vectors_of("passage : cat").mean(axis=0))
    np.testing.assert_allclose(OnnxEmbedder(str(folder)).embed_query("cat"), expected, atol=1e-6)


def test_vectors_can_be_truncated(tmp_path: Path) -> None:
    folder = str(write_model(tmp_path))
    whole, short = OnnxEmbedder(folder), OnnxEmbedder(OnnxOptions(folder, dimensions=4))
    assert (whole.dimension, short.dimension) == (6, 4)
    np.testing.assert_allclose(short.embed_query("the cat"), unit(whole.embed_query("the cat")[:4]), atol=1e-6)
    with pytest.raises(
        InvalidOption, match=r"embed\.dimensions must be at most 6, the dimension of the model \(got 7\)"
    ):
        _ = OnnxEmbedder(OnnxOptions(folder, dimensions=7)).dimension


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"sentence_bert_config.json": {"max_seq_length": 8}}, 8),
        ({"tokenizer_config.json": {"model_max_length": 9}}, 9),
        ({"tokenizer_config.json": {"model_max_length": 10**30}}, 512),
        ({"config.json": {"max_position_embeddings": 12}}, 12),
        ({"config.json": {"max_position_embeddings": 514, "model_type": "xlm-roberta", "pad_token_id": 1}}, 512),
        ({"sentence_bert_config.json": {"max_seq_length": 128}, "config.json": {"max_position_embeddings": 64}}, 64),
    ],
)
def test_texts_end_at_the_least_limit_that_a_file_names(files: dict[str, JSON], limit: int, tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    for name, content in files.items():
        write_json(folder / name, content)
    embedder = OnnxEmbedder(str(folder))
    assert embedder.max_tokens == limit
    words = " ".join(["cat"] * (limit - 2))
    np.testing.assert_array_equal(embedder.embed_query(words), embedder.embed_query(f"{words} dog dog"))


def test_a_vector_depends_on_its_text_alone(tmp_path: Path) -> None:
    embedder = OnnxEmbedder(OnnxOptions(str(write_minilm(tmp_path)), threads=2, token_budget=64))
    texts = ["the cat sleeps", "the dog barks", "an invoice was sent to the dog", "", "the cat sleeps"]
    together = embedder.embed_texts(texts)
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(embedder.embed_texts([text])[0], row, atol=1e-6)
    assert embedder.embed_texts([]).shape == (0, 384)


def test_an_empty_text_without_special_tokens_has_a_vector(tmp_path: Path) -> None:
    rows = OnnxEmbedder(str(write_model(tmp_path, special_tokens=False))).embed_texts(["", "cat"])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)


def test_tokens_are_counted_and_cost_nothing(tmp_path: Path) -> None:
    embedder, meter = OnnxEmbedder(str(write_model(tmp_path))), Meter()
    with use_meter(meter):
        embedder.embed_texts(["the cat", "cat"])
    assert (meter.usage().embedding_tokens, meter.usage().embedding_cost_usd) == (7, 0.0)


def test_the_embedder_follows_the_protocols(tmp_path: Path) -> None:
    embedder: EmbeddingProvider = OnnxEmbedder(str(write_model(tmp_path)))
    assert isinstance(embedder, TokenizingEmbedder)
    assert isinstance(embedder, ProbingEmbedder)
    np.testing.assert_array_equal(embedder.token_starts("the cat  sleeps"), [0, 4, 9])


def test_the_fingerprint_is_of_the_content_and_not_of_the_place(tmp_path: Path) -> None:
    first = write_model(tmp_path / "a" / "tiny")
    shutil.copytree(first, tmp_path / "b" / "tiny")
    moved = OnnxEmbedder(str(tmp_path / "b" / "tiny"))
    assert moved.fingerprint == OnnxEmbedder(str(first)).fingerprint
    other = write_model(tmp_path / "c" / "tiny", graph(table(seed=1)))
    assert OnnxEmbedder(str(other)).fingerprint != moved.fingerprint
    write_json(first / "1_Pooling" / "config.json", {"pooling_mode_cls_token": True})
    assert OnnxEmbedder(str(first)).fingerprint != moved.fingerprint


def test_a_quantized_graph_is_used_when_it_is_named(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    write_model(folder, graph(table(seed=1)), file="onnx/model_quantized.onnx")
    np.testing.assert_allclose(
        OnnxEmbedder(str(folder)).embed_query("cat"), unit(vectors_of("cat").mean(axis=0)), atol=1e-6
    )
    expected = unit(vectors_of("cat", table(seed=1)).mean(axis=0))
    for name in ("onnx/model_quantized.onnx", "model_quantized.onnx"):
        row = OnnxEmbedder(OnnxOptions(str(folder), file=name)).embed_query("cat")
        np.testing.assert_allclose(row, expected, atol=1e-6)
    with pytest.raises(InvalidOption, match=r"embed\.file must be one of onnx/model.onnx, onnx/model_quantized.onnx"):
        OnnxEmbedder(OnnxOptions(str(folder), file="model_int4.onnx"))


def test_weights_beside_the_graph_are_read(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    model = onnx.load(str(folder / "onnx/model.onnx"))
    path = folder / "onnx/model.onnx"
    onnx.save_model(model, str(path), save_as_external_data=True, location="model.onnx_data", size_threshold=0)
    row = OnnxEmbedder(str(folder)).embed_query("cat")
    np.testing.assert_allclose(row, unit(vectors_of("cat").mean(axis=0)), atol=1e-6)
    (folder / "onnx/model.onnx_data").unlink()
    with pytest.raises(InvalidOption, match="a graph that onnxruntime can load"):
        OnnxEmbedder(str(folder)).embed_query("cat")


def hostile(folder: Path) -> dict[str, tuple[Callable[[], object], str]]:
    """Title -> (what is done to a good folder, what the message says)."""
    wide = graph(np.full((len(WORDS), 6), np.nan, np.float32))
    few = graph(table()[:4])
    flat = graph(table())
    flat.graph.node[0].op_type = "Identity"
    del flat.graph.node[0].input[:]
    flat.graph.node[0].input.append("vectors")
    foreign = graph(table(), inputs=("input_ids", "pixel_values"))
    dense: JSON = [{"type": "sentence_transformers.models.Dense"}]

    def save(model: onnx.ModelProto) -> Callable[[], object]:
        return lambda: onnx.save(model, str(folder / "onnx/model.onnx"))

    return {
        "no config": ((folder / "config.json").unlink, "config.json is missing in this one"),
        "no tokenizer": ((folder / "tokenizer.json").unlink, "tokenizer.json is missing in this one"),
        "no graph": ((folder / "onnx/model.onnx").unlink, "optimum-cli export onnx"),
        "config is no JSON": (lambda: (folder / "config.json").write_text("{"), "JSON in this file"),
        "config is a list": (lambda: (folder / "config.json").write_text("[]"), "a JSON object in this file"),
        "tokenizer is no JSON": (lambda: (folder / "tokenizer.json").write_text("{"), "the tokenizer of a model"),
        "graph is text": (lambda: (folder / "onnx/model.onnx").write_text("weights"), "a graph that onnxruntime can"),
        "graph is empty": (lambda: (folder / "onnx/model.onnx").write_bytes(b""), "a graph that onnxruntime can load"),
        "another vocabulary": (save(few), "fits its tokenizer"),
        "not finite": (save(wide), "finite numbers"),
        "no vectors of texts": (save(flat), "one vector for each text or token"),
        "other inputs": (save(foreign), r"a graph over token ids; this one has the inputs input_ids .*pixel_values"),
        "a stage after pooling": (lambda: write_json(folder / "modules.json", dense), "has Dense"),
        "unknown pooling": (
            lambda: write_json(folder / "1_Pooling/config.json", {"pooling_mode": "attention"}),
            "names another one",
        ),
        "pooling without the prompt": (
            lambda: write_json(folder / "1_Pooling/config.json", {"include_prompt": False}),
            "include_prompt: false",
        ),
    }


@pytest.mark.parametrize("title", hostile(Path()))
def test_a_damaged_folder_is_one_clear_line(title: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    damage, message = hostile(folder)[title]
    damage()
    with pytest.raises(InvalidOption, match=message) as caught:
        OnnxEmbedder(str(folder)).embed_query("the cat sleeps")
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


def test_a_place_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"embed\.path must be a folder with an exported model"):
        OnnxEmbedder(str(tmp_path / "none"))
    with pytest.raises(InvalidOption, match=r"embed\.path must be a folder with an exported model \(got ''\)"):
        OnnxOptions("")


def hits(*texts: str) -> list[Hit]:
    return [Hit(Chunk(str(i), "d", "s", text, 0, len(text), 1, 1), 1.0, {}, i + 1) for i, text in enumerate(texts)]


@pytest.mark.parametrize("identity", [True, False])
def test_a_cross_encoder_scores_pairs_with_its_activation(identity: bool, tmp_path: Path) -> None:
    folder = write_reranker(tmp_path, identity=identity)
    texts = ["the cat", "the dog barks", "invoice"]
    pairs = [tokenizer().encode("who barks", text) for text in texts]
    logits = np.array([0.01 * sum(a * b for a, b in zip(p.ids, p.type_ids, strict=True)) for p in pairs])
    expected = logits if identity else 1 / (1 + np.exp(-logits))
    found = OnnxReranker(RerankOptions("onnx", model=str(folder)), MiniLM()).scores("who barks", hits(*texts))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_rerankers_and_embedders_are_told_apart(tmp_path: Path) -> None:
    pairs, texts = write_reranker(tmp_path / "pairs", identity=True), write_model(tmp_path / "texts")
    with pytest.raises(InvalidOption, match=r"this one is a reranker: `rerank: \{name: onnx\}`"):
        OnnxEmbedder(str(pairs))
    with pytest.raises(InvalidOption, match=r"this one is an embedding model: `embed: \{name: onnx\}`"):
        OnnxReranker(RerankOptions("onnx", model=str(texts)), MiniLM())
    three = write_reranker(tmp_path / "three", identity=True, labels=3)
    with pytest.raises(InvalidOption, match=r"one score for each pair; this one has the shape \(1, 3\)"):
        OnnxReranker(RerankOptions("onnx", model=str(three)), MiniLM()).scores("a", hits("the cat"))


def test_a_pipeline_names_a_model_and_a_reranker_of_its_own(tmp_path: Path) -> None:
    model, pairs = write_minilm(tmp_path / "minilm"), write_reranker(tmp_path / "pairs", identity=True)
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "boiler.md").write_text("# Boiler\n\nThe boiler is cleaned on the first Monday of the month.\n")
    (docs / "cat.md").write_text("# Cat\n\nThe cat sleeps on the boiler.\n")
    rerank = f"retrieve: {{rerank: {{name: onnx, model: {pairs}}}}}"
    text = f"extends: default\nembed: {{name: onnx, path: {model}}}\n{rerank}\n"
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(text)) as kb:
        assert kb.index(docs).embedded == 2
        assert {Path(hit.source).name for hit in kb.search("When is the boiler cleaned?")} == {"boiler.md", "cat.md"}
        assert "first Monday" in kb.ask("When is the boiler cleaned?").text
    shutil.move(model, tmp_path / "moved" / "minilm")
    with KnowledgeBase.open(
        tmp_path / "kb", Pipeline.from_yaml(text.replace(str(model), str(tmp_path / "moved/minilm")))
    ) as kb:
        assert kb.index(docs).embedded == 0


@pytest.mark.parametrize("question", ["die katze", "el gato", "кошка спит"])
def test_questions_of_other_languages_meet_the_vectors_of_a_multilingual_model(question: str, tmp_path: Path) -> None:
    vectors = table()
    for word, same in {
        "katze": "cat",
        "gato": "cat",
        "кошка": "cat",
        "спит": "sleeps",
        "die": "the",
        "el": "the",
    }.items():
        vectors[WORDS.index(word)] = vectors[WORDS.index(same)]
    model = write_model(tmp_path / "multilingual", graph(vectors))
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, text in {"cat": "the cat sleeps", "dog": "the dog barks", "invoice": "invoice was sent"}.items():
        (docs / f"{name}.txt").write_text(text)
    pipeline = Pipeline.from_yaml(f"extends: default\nembed: {{name: onnx, path: {model}}}\n")
    with KnowledgeBase.open(tmp_path / "kb", pipeline) as kb:
        kb.index(docs)
        assert Path(kb.search(question)[0].source).name == "cat.txt"


def test_without_tokenizers_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for module in ("ragkit.embed.onnx", "ragkit.retrieve.rerank_onnx"):
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(MissingExtra, match=r"the embedder 'onnx' needs .*pip install 'ragkit-kb\[onnx\]'"):
        EMBEDDERS.find("onnx")
    with pytest.raises(MissingExtra, match=r"the reranker 'onnx' needs .*pip install 'ragkit-kb\[onnx\]'"):
        RERANKERS.find("onnx")
    assert EMBEDDERS.find("minilm")().embed_query("the bundled model needs no package").shape == (384,)
