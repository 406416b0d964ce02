"""The embedder that ships with ragkit: all-MiniLM-L6-v2 in int8, 384 columns, no key, no download.

The files of the model lie beside this module, in `minilm_model/`; `scripts/export_minilm.py` made them. Nothing
of them but the small card `minilm.json` is read until a vector or a token is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import PROBE_TEXT, Row, Rows, normalize_rows
from ragkit.embed.batches import batch_by_length, run_batches_in_threads, usable_cpu_count
from ragkit.embed.model_files import read_model_card, read_verified
from ragkit.embed.options import MiniLMOptions
from ragkit.records import content_id
from ragkit.usage.meter import record_embedding

if TYPE_CHECKING:
    from ragkit.embed.onnx_session import OnnxSession
    from ragkit.embed.wordpiece import WordPieceTokenizer

MODEL_FOLDER = Path(__file__).parent / "minilm_model"


class MiniLMModelCard(TypedDict):
    """What `minilm.json` says, as far as it is used here."""

    name: str
    dimension: int
    max_tokens: int
    sha256: dict[str, str]


class MiniLM:
    """all-MiniLM-L6-v2 (Apache-2.0), int8, on the CPU.

    A row depends on its text alone, to the last bit: not on the texts it is embedded with, their order, or the number
    of threads. Between processor types rows differ a little (cosine about .995), as int8 products round differently.

    A text is read up to 256 tokens, special tokens included (about 1,000 characters of English); what is beyond is
    cut off and counted in `truncated_texts`. Every method may be called from several threads at once.

    Raises:
        KnowledgeBaseDamaged: a file of the model is missing, cut short or altered. On construction for the card, else on first use.
    """

    provider = "local"
    model = "minilm"

    def __init__(self, options: MiniLMOptions | None = None, *, folder: Path = MODEL_FOLDER) -> None:
        """Cheap: reads a small JSON file. `folder` holds the model's files; only tests give another."""
        self._options = options or MiniLMOptions()
        self._folder = folder
        self._card = cast("MiniLMModelCard", read_model_card(folder / "minilm.json", MiniLMModelCard.__required_keys__))
        self._lock = Lock()
        self._session: OnnxSession | None = None
        self._tokenizer: WordPieceTokenizer | None = None
        self._truncated_texts = 0

    @property
    def dimension(self) -> int:
        """384."""
        return self._card["dimension"]

    @property
    def max_tokens(self) -> int:
        """256, special tokens included."""
        return self._card["max_tokens"]

    @property
    def fingerprint(self) -> str:
        """Model name and a hash over the hashes of its files. Threads and batches are no part of it."""
        files = sorted(self._card["sha256"].items())
        return f"{self._card['name']}-int8:{content_id(*(part for file in files for part in file))[:16]}"

    @property
    def truncated_texts(self) -> int:
        """Texts embedded so far that were longer than the model reads."""
        return self._truncated_texts

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One row per text, in order: (len(texts), 384). Best called with some hundred texts or more at a time."""
        rows, tokens = self._embed(texts)
        record_embedding("minilm", tokens, 0.0, provider="local")
        return rows

    def _embed(self, texts: Sequence[str]) -> tuple[Rows, int]:
        """The rows of some texts, and how many tokens were read."""
        rows = np.empty((len(texts), self.dimension), np.float32)
        if not len(texts):
            return rows, 0
        ids, cut = self._load_tokenizer().token_ids(texts)
        session = self._load_session()
        batches = list(batch_by_length([len(row) for row in ids], self._options.token_budget))

        def compute(batch: Sequence[int]) -> None:
            rows[batch] = session.run([ids[place] for place in batch])

        run_batches_in_threads(compute, batches, self._options.threads or usable_cpu_count())
        with self._lock:
            self._truncated_texts += cut
        return normalize_rows(rows), sum(map(len, ids))

    def embed_query(self, text: str) -> Row:
        """The row of a question: (384,). The model wants no prefix."""
        return cast("Row", self.embed_texts([text])[0])

    def probe(self) -> Row:
        """The row of a fixed sentence: (384,). Kept with an index, it tells when other weights are at work."""
        return cast("Row", self._embed([PROBE_TEXT])[0][0])

    def token_starts(self, text: str) -> NDArray[np.int64]:
        """Character offset of each token's start: (n_tokens,), never falling, each in [0, len(text)).

        Special tokens are left out, nothing is cut off. Several tokens of one character (a Korean syllable is read as
        its letters) begin at the same offset. White space and control characters belong to no token.
        """
        return self._load_tokenizer().token_starts(text)

    def _load_tokenizer(self) -> WordPieceTokenizer:
        with self._lock:
            if self._tokenizer is None:
                # here, not at the head: asking for a fingerprint shall not import the package
                from ragkit.embed.wordpiece import WordPieceTokenizer  # noqa: PLC0415

                self._tokenizer = WordPieceTokenizer(self._read_file("tokenizer.json"), self.max_tokens)
            return self._tokenizer

    def _load_session(self) -> OnnxSession:
        with self._lock:
            if self._session is None:
                from ragkit.embed.onnx_session import OnnxSession  # noqa: PLC0415  # as above

                self._session = OnnxSession(self._read_file("model.onnx"), str(self._folder / "model.onnx"))
            return self._session

    def _read_file(self, name: str) -> bytes:
        """The bytes of a file of the model, once they are known to be the right ones."""
        return read_verified(self._folder / name, self._card["sha256"].get(name))
