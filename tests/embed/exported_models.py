"""Make folders with exported models: tiny ones of random weights, and the shipped one with its token vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from ragkit.embed.minilm import MODEL_FOLDER
from ragkit.records import JSON

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sleeps", "dog", "barks", "invoice", "was", "sent", "query",
         "passage", ":", "die", "katze", "el", "gato", "кошка", "спит"]  # fmt: skip
WIDTH = 6


def write_json(path: Path, content: JSON) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), "utf-8")


def tokenizer(*, special_tokens: bool = True) -> Tokenizer:
    made = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = Lowercase(), Whitespace()
    if special_tokens:
        ends = [("[CLS]", 2), ("[SEP]", 3)]
        made.post_processor = TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ends)
    return made


def table(seed: int = 0, width: int = WIDTH) -> NDArray[np.float32]:
    """The vectors of the words of the tiny models."""
    return np.random.default_rng(seed).normal(size=(len(WORDS), width)).astype(np.float32)


def graph(
    vectors: NDArray[np.float32], *, inputs: Sequence[str] = ("input_ids", "attention_mask"), integer: int = 7
) -> onnx.ModelProto:
    """token ids -> last_hidden_state: the vector of each token."""
    node = helper.make_node("Gather", ["vectors", "input_ids"], ["last_hidden_state"])
    given = [helper.make_tensor_value_info(name, integer, ["batch", "sequence"]) for name in inputs]
    shape = ["batch", "sequence", vectors.shape[1]]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, shape)
    made = helper.make_graph([node], "tiny", given, [output], [numpy_helper.from_array(vectors, "vectors")])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def write_model(
    folder: Path,
    model: onnx.ModelProto | None = None,
    *,
    file: str = "onnx/model.onnx",
    pooling: Mapping[str, JSON] | None = None,
    config: Mapping[str, JSON] | None = None,
    special_tokens: bool = True,
) -> Path:
    """A folder as `optimum` and sentence-transformers write it."""
    write_json(folder / "config.json", {"model_type": "bert", "hidden_size": WIDTH, **(config or {})})
    tokenizer(special_tokens=special_tokens).save(str(folder / "tokenizer.json"))
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model or graph(table()), str(folder / file))
    if pooling is not None:
        modules = ["Transformer", "Pooling", "Normalize"]
        kinds: list[JSON] = [{"idx": i, "type": f"sentence_transformers.models.{m}"} for i, m in enumerate(modules)]
        write_json(folder / "modules.json", kinds)
        write_json(folder / "1_Pooling" / "config.json", dict(pooling))
    return folder


def write_minilm(folder: Path) -> Path:
    """The shipped weights as an exported model: its graph ends before pooling, at the vectors of the tokens."""
    model = onnx.load(str(MODEL_FOLDER / "model.onnx"))
    pooled = next(node for node in model.graph.node if node.op_type == "ReduceL2").input[0]
    states = next(node for node in model.graph.node if pooled in node.output).input[1]
    for node in model.graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == states:
                    names[i] = "last_hidden_state"
    del model.graph.output[:]
    model.graph.output.append(
        helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["texts", "tokens", 384])
    )
    write_json(folder / "config.json", {"model_type": "bert", "hidden_size": 384, "max_position_embeddings": 512})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 256})
    (folder / "tokenizer.json").write_bytes((MODEL_FOLDER / "tokenizer.json").read_bytes())
    onnx.save(model, str(folder / "model.onnx"))
    return folder


def write_reranker(folder: Path, *, identity: bool, labels: int = 1) -> Path:
    """A cross-encoder whose score is the sum of a word's number times its type, over the pair."""
    nodes = [
        helper.make_node("Mul", ["input_ids", "token_type_ids"], ["weighted"]),
        helper.make_node("Cast", ["weighted"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["floats", "axes"], ["sums"], keepdims=1),
        helper.make_node("Mul", ["sums", "scale"], ["logits"]),
    ]
    given = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", labels])
    scale = np.full((1, labels), 0.01, np.float32)
    constants = [numpy_helper.from_array(np.array([1]), "axes"), numpy_helper.from_array(scale, "scale")]
    made = helper.make_graph(nodes, "pairs", given, [output], constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    config: dict[str, JSON] = {"architectures": ["BertForSequenceClassification"]}
    if identity:
        config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.linear.Identity"}
    return write_model(folder, model, config=config)
