"""Write GGUF files: a chat model whose answers are known, and the shipped embedder.

The chat model reads nothing but the last token: each token that it knows is followed by one other. Its engine,
tokenizer, template and sampling are real.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from ragkit.embed.minilm import MODEL_FOLDER

Array = NDArray[np.float32]
Field = str | int | float | bool | Sequence[str] | Sequence[int] | Sequence[float]

ALIGNMENT = 32
WIDTH = 320
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
PLAIN_TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
TOOL_TEMPLATE = "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}" + PLAIN_TEMPLATE
CALL = '{"name": "weather", "arguments": {"city": "Oslo"}}'
CHAINS = (
    ("France", "Paris", " is", " the capital."),
    ("Italy", "Rome"),
    ("Oslo?", CALL),
    ("rain", "It rains."),
    ("forever", " tick", " tock", " tick"),
    ("think", "<think>", "hmm", "</think>", "Done."),
)
"""What follows a token; the last one is followed by the end, unless it stood before."""


def write_gguf(path: Path, fields: Mapping[str, Field], tensors: Mapping[str, NDArray[np.floating]]) -> Path:
    """A file of version 3; tensors are float32 or float16."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(fields))]
    head += [_text(key) + _field(value) for key, value in fields.items()]
    offset = 0
    for name, array in tensors.items():
        shape = struct.pack(f"<I{array.ndim}Q", array.ndim, *reversed(array.shape))
        kind = 1 if array.dtype == np.float16 else 0
        head.append(_text(name) + shape + struct.pack("<IQ", kind, offset))
        offset += _padded(array.nbytes)
    start = b"".join(head)
    with path.open("wb") as file:
        file.write(start.ljust(_padded(len(start)), b"\0"))
        for array in tensors.values():
            file.write(array.tobytes().ljust(_padded(array.nbytes), b"\0"))
    return path


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _field(value: Field) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    first = value[0]
    if isinstance(first, str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(_text(str(item)) for item in value)
    kind, form = (6, "f") if isinstance(first, float) else (5, "i")
    return struct.pack("<IIQ", 9, kind, len(value)) + struct.pack(f"<{len(value)}{form}", *value)


def write_chat_model(
    path: Path, *, template: str = PLAIN_TEMPLATE, context: int = 2048, more: Mapping[str, Field] = {}
) -> Path:
    """A model that continues CHAINS, with a file of 2 MB. `more`: fields to add or to replace."""
    words = list(dict.fromkeys(word for chain in CHAINS for word in chain))
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[USER_DEFINED] * len(words)]
    output = np.zeros((len(pieces), WIDTH), np.float32)
    output[2] = 1
    for chain in CHAINS:
        for before, after in pairwise(chain):
            output[pieces.index(after), pieces.index(before)] = 5
    fields: dict[str, Field] = {
        "general.architecture": "llama",
        "general.type": "model",
        "general.name": "Chains",
        "general.size_label": "1M",
        "llama.context_length": context,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": 32,
        "llama.block_count": 1,
        "llama.attention.head_count": 10,
        "llama.attention.layer_norm_rms_epsilon": 1e-6,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": [0.0] * len(pieces),
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": template,
        **more,
    }
    nothing = np.zeros((WIDTH, WIDTH), np.float32)
    tensors = {
        "token_embd.weight": np.eye(len(pieces), WIDTH, dtype=np.float32),
        "output.weight": output,
        "output_norm.weight": np.ones(WIDTH, np.float32),
        "blk.0.attn_norm.weight": np.ones(WIDTH, np.float32),
        "blk.0.ffn_norm.weight": np.ones(WIDTH, np.float32),
        **{f"blk.0.attn_{part}.weight": nothing for part in ("q", "k", "v", "output")},
        "blk.0.ffn_gate.weight": np.zeros((32, WIDTH), np.float32),
        "blk.0.ffn_up.weight": np.zeros((32, WIDTH), np.float32),
        "blk.0.ffn_down.weight": np.zeros((WIDTH, 32), np.float32),
    }
    return write_gguf(path, fields, tensors)


def write_minilm_gguf(path: Path, *, reranker: bool = False) -> Path:
    """The weights of the shipped embedder, in 16 bits: 45 MB. `reranker`: with a head that gives one score."""
    tensors = _minilm_tensors()
    if reranker:
        tensors["cls.output.weight"] = np.random.default_rng(7).normal(size=(1, 384)).astype(np.float32)
        tensors["cls.output.bias"] = np.zeros(1, np.float32)
    vocabulary = json.loads((MODEL_FOLDER / "tokenizer.json").read_bytes())["model"]["vocab"]
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    special = [piece.startswith("[") and piece.endswith("]") and len(piece) > 2 for piece in pieces]
    fields: dict[str, Field] = {
        "general.architecture": "bert",
        "general.type": "model",
        "general.name": "MiniLM",
        "bert.context_length": 256,
        "bert.embedding_length": 384,
        "bert.feed_forward_length": 1536,
        "bert.block_count": 6,
        "bert.attention.head_count": 12,
        "bert.attention.layer_norm_epsilon": 1e-12,
        "bert.attention.causal": False,
        "bert.pooling_type": 4 if reranker else 1,
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [
            piece if rare else piece[2:] if piece.startswith("##") else f"\u2581{piece}"
            for piece, rare in zip(pieces, special, strict=True)
        ],
        "tokenizer.ggml.token_type": [CONTROL if rare else NORMAL for rare in special],
        "tokenizer.ggml.token_type_count": 2,
        "tokenizer.ggml.unknown_token_id": 100,
        "tokenizer.ggml.cls_token_id": 101,
        "tokenizer.ggml.bos_token_id": 101,
        "tokenizer.ggml.seperator_token_id": 102,  # so in the format
        "tokenizer.ggml.eos_token_id": 102,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.mask_token_id": 103,
    }
    return write_gguf(path, fields, tensors)


def _minilm_tensors() -> dict[str, NDArray[np.floating]]:
    """The tensors of the shipped graph: its matrices are 8 bits with a scale for each column."""
    graph = onnx.load(str(MODEL_FOLDER / "model.onnx")).graph
    constants = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    nodes = {kind: [node.input for node in graph.node if node.op_type == kind] for kind in KINDS}
    factors = {node.output[0]: constants.get(node.input[1]) for node in graph.node if node.op_type == "Mul"}
    quantized = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "QuantizeLinear"}

    def matrix(names: Sequence[str]) -> tuple[Array, Array]:
        factor = factors.get(quantized[names[0]])  # of the inputs, which the graph scales before it rounds them
        weights = constants[names[1]].astype(np.float32) * constants[names[3]]
        return weights if factor is None else weights * factor[:, None], constants[names[6]]

    norms = [(constants[names[1]], constants[names[2]]) for names in nodes["LayerNormalization"]]
    products = [matrix(names) for names in nodes["MatMulIntegerToFloat"]]
    tensors: dict[str, NDArray[np.floating]] = {
        "token_embd.weight": (constants["c0"] * constants["c1"]).astype(np.float16),
        "position_embd.weight": constants["c3"].astype(np.float32),
        "token_types.weight": np.zeros((2, 384), np.float32),
        "token_embd_norm.weight": norms[0][0],
        "token_embd_norm.bias": norms[0][1],
    }
    for layer in range(6):
        (joined, joined_bias), out, up, down = products[4 * layer : 4 * layer + 4]
        parts = zip("qkv", np.split(joined, 3, axis=1), np.split(joined_bias, 3), strict=True)
        linear = {f"attn_{part}": (weights, bias) for part, weights, bias in parts}
        linear |= {"attn_output": out, "ffn_up": up, "ffn_down": down}
        for name, (weights, bias) in linear.items():
            tensors[f"blk.{layer}.{name}.weight"] = np.ascontiguousarray(weights.T).astype(np.float16)
            tensors[f"blk.{layer}.{name}.bias"] = bias
        for name, norm in zip(("attn_output_norm", "layer_output_norm"), norms[1 + 2 * layer :], strict=False):
            tensors[f"blk.{layer}.{name}.weight"], tensors[f"blk.{layer}.{name}.bias"] = norm
    return tensors


KINDS = ("LayerNormalization", "MatMulIntegerToFloat")
