"""An embedder without a model's run: each token has one vector, and a text is the sum of its tokens'.

The vectors were fitted to the sentence vectors of the shipped model; they lie beside this module, in `static_model/`,
and `scripts/make_static.py` made them. Hundreds of times as fast as `minilm`, and nearer to it than to mere words: see
`docs/explanation/retrieval.md`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import PROBE_TEXT, Row, Rows, normalize_rows
from ragkit.embed.minilm import MODEL_FOLDER as TOKENIZER_FOLDER
from ragkit.embed.model_files import read_model_card, read_verified
from ragkit.records import content_id
from ragkit.usage.meter import record_embedding

if TYPE_CHECKING:
    from ragkit.embed.wordpiece import WordPieceTokenizer

MODEL_FOLDER = Path(__file__).parent / "static_model"
MAX_TOKENS = 8192
"""Tokens of one text that are read. There is no need for a limit; a text of more has no one subject."""


class StaticModelCard(TypedDict):
    """What `static.json` says, as far as it is used here."""

    name: str
    dimension: int
    sha256: dict[str, str]


class StaticEmbedder:
    """Sums of token vectors, int8, 256 columns. No key, no download, no model to run.

    A row depends on its text alone, to the last bit. A text without tokens gets the row that is 1 in the first column.
    Every method may be called from several threads at once.

    Raises:
        KnowledgeBaseDamaged: a file is missing, cut short or altered. On construction for the card, else on first use.
    """

    provider = "local"
    model = "static"

    def __init__(self, *, folder: Path = MODEL_FOLDER) -> None:
        """Cheap: reads a small JSON file. `folder` holds the vectors; only tests give another."""
        self._folder = folder
        self._card = cast("StaticModelCard", read_model_card(folder / "static.json", StaticModelCard.__required_keys__))

    @property
    def dimension(self) -> int:
        """256."""
        return self._card["dimension"]

    @property
    def max_tokens(self) -> int:
        """8,192, special tokens included."""
        return MAX_TOKENS

    @property
    def fingerprint(self) -> str:
        """Name and a hash over the hashes of the files."""
        files = sorted(self._card["sha256"].items())
        return f"{self._card['name']}:{content_id(*(part for file in files for part in file))[:16]}"

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One row per text, in order: (len(texts), 256)."""
        rows, tokens = self._embed(texts)
        record_embedding("static", tokens, 0.0, provider="local")
        return rows

    def embed_query(self, text: str) -> Row:
        """The row of a question: (256,)."""
        return cast("Row", self.embed_texts([text])[0])

    def probe(self) -> Row:
        """The row of a fixed sentence: (256,)."""
        return cast("Row", self._embed([PROBE_TEXT])[0][0])

    def token_starts(self, text: str) -> NDArray[np.int64]:
        """Character offset of each token's start, as `minilm` has it: (n_tokens,), never falling."""
        return self._tokenizer.token_starts(text)

    def _embed(self, texts: Sequence[str]) -> tuple[Rows, int]:
        """The rows of some texts, and how many tokens were read."""
        rows = np.zeros((len(texts), self.dimension), np.float32)
        if not len(texts):
            return rows, 0
        ids = [row[1:-1] for row in self._tokenizer.token_ids(texts)[0]]  # without [CLS] and [SEP]
        vectors = self._token_vectors
        for place, tokens in enumerate(ids):  # one by one: what is summed stays in the processor's cache
            rows[place] = vectors.take(np.array(tokens, np.int64), axis=0).sum(axis=0)
        rows[~rows.any(axis=1), 0] = 1
        return normalize_rows(rows), sum(map(len, ids))

    @cached_property
    def _token_vectors(self) -> NDArray[np.float32]:
        """(tokens, 256): 31 MB."""
        vectors, scales = (np.load(io.BytesIO(self._read_file(name))) for name in ("vectors.npy", "scales.npy"))
        return np.asarray(vectors * scales[:, None], np.float32)

    @cached_property
    def _tokenizer(self) -> WordPieceTokenizer:
        # here, not at the head: asking for a fingerprint shall not import the package
        from ragkit.embed.wordpiece import WordPieceTokenizer  # noqa: PLC0415

        return WordPieceTokenizer(self._read_file("tokenizer.json"), MAX_TOKENS)

    def _read_file(self, name: str) -> bytes:
        """The bytes of a file, once they are known to be the right ones. The tokenizer is that of `minilm`."""
        folder = TOKENIZER_FOLDER if name == "tokenizer.json" else self._folder
        return read_verified(folder / name, self._card["sha256"].get(name))
