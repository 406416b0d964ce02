"""Build the model of the embedder `static`: a vector per token, fitted to the sentence vectors of the shipped model.

    python scripts/make_static.py FOLDER [FOLDER ...] [--texts N] [--cache FILE]

FOLDER contains English texts: `.txt` files (paragraphs, joined to pieces of different length) and the files
`data.*` of WordNet (definitions, single or a few together). The shipped model was built with the default N from
`/usr/share/doc/python3.11/html/_sources` of the Debian package python3.11-doc 3.11.2-6+deb12u9 (PSF licence) and
`/usr/share/wordnet` of wordnet-base 1:3.0-37 (WordNet licence). No document or question of an evaluation is read.

Method: the shipped model embeds the texts; their vectors are centred and projected onto their 256 principal directions.
The initial vector of a token is the model's vector of that token alone, weighted down by its frequency (SIF: Arora,
Liang and Ma, ICLR 2017). Ridge regression then fits the token vectors so that the sum over a text's tokens is nearest
to the text's vector; tokens that occur in no text keep their initial vectors. Finally each token vector is rounded to
int8 with its own scale. `--cache` keeps the model's vectors in a file between runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from cached_embedder import CachedEmbedder, SqliteVectorCache
from numpy.typing import NDArray
from scipy import sparse

from ragkit.embed.base import EmbeddingProvider, normalize_rows
from ragkit.embed.minilm import MODEL_FOLDER, MiniLM
from ragkit.embed.wordpiece import WordPieceTokenizer
from ragkit.load.document_loader import DocumentLoader

TARGET = Path(__file__).parents[1] / "ragkit" / "embed" / "static_model"
DIMENSION = 256
TEXTS = 24_000
LENGTHS = (80, 250, 500, 800)
"""Characters: paragraphs are joined until they are longer than one of these, chosen at random."""
LONGEST = 1000
ALONE = 45_000
"""Number of definitions that are a text each."""
TOGETHER = (2, 3, 5)
"""Number of other definitions per text, chosen at random."""
SIF = 1e-3
RIDGE = 0.05
STEPS = 15
"""Steps of the conjugate gradient. Fewer steps have the effect of a larger ridge."""

Floats = NDArray[np.float32]


def definitions(folders: Sequence[Path], rng: random.Random) -> list[str]:
    """Entries of WordNet as `word, word: definition; "example"`: most of them single, the others a few together."""
    entries: list[str] = []
    for kind in ("noun", "verb", "adj", "adv"):
        for path in (folder / f"data.{kind}" for folder in folders if (folder / f"data.{kind}").exists()):
            entries += filter(None, map(_entry, path.read_text("latin-1").splitlines()))
    rng.shuffle(entries)
    texts, at = entries[:ALONE], ALONE
    while at < len(entries):
        count = rng.choice(TOGETHER)
        texts.append(" ".join(entries[at : at + count]))
        at += count
    return texts


def _entry(line: str) -> str:
    """The entry of one line of a data file; '' for a line without an entry."""
    if line.startswith("  "):
        return ""
    head, _, meaning = line.partition(" | ")
    fields = head.split()
    words = [re.sub(r"\(.*\)", "", fields[4 + 2 * at]).replace("_", " ") for at in range(int(fields[3], 16))]
    return f"{', '.join(words)}: {meaning.strip()}"


def join_paragraphs(text: str, rng: random.Random) -> Iterator[str]:
    """The paragraphs of a text, joined to pieces of different length."""
    piece = ""
    for paragraph in re.split(r"\n\s*\n", text):
        words = " ".join(paragraph.split())
        if len(words) < 30:
            continue
        piece = f"{piece} {words}".strip()
        if len(piece) > rng.choice(LENGTHS):
            yield piece[:LONGEST]
            piece = ""
    if len(piece) > 60:
        yield piece[:LONGEST]


def select_texts(folders: Sequence[Path], count: int) -> list[str]:
    """`count` distinct texts, chosen by their hashes."""
    rng = random.Random(0)
    texts = dict.fromkeys(definitions(folders, rng))
    for path in (path for folder in folders for path in sorted(folder.rglob("*.txt"))):
        for document in DocumentLoader.from_file(path):
            texts |= dict.fromkeys(join_paragraphs(document.text, rng))
    return sorted(texts, key=lambda text: hashlib.blake2b(text.encode()).digest())[:count]


def count_tokens(words: WordPieceTokenizer, texts: Sequence[str], tokens: int) -> sparse.csr_matrix:
    """The count of each token in each text: (len(texts), tokens)."""
    ids = [row[1:-1] for row in words.token_ids(texts)]  # without [CLS] and [SEP]
    columns = np.concatenate([np.asarray(row, np.int64) for row in ids])
    starts = np.cumsum([0, *(len(row) for row in ids)])
    matrix = sparse.csr_matrix((np.ones(len(columns), np.float32), columns, starts), shape=(len(texts), tokens))
    matrix.sum_duplicates()
    return matrix


def embed_tokens(model: MiniLM, tokens: int) -> Floats:
    """The model's vector of each token alone: (tokens, 384)."""
    session = model._load_session()
    cls, sep = model._load_tokenizer().token_ids([""])[0]
    rows = [
        session.run([[cls, token, sep] for token in range(at, min(at + 64, tokens))]) for at in range(0, tokens, 64)
    ]
    return normalize_rows(np.concatenate(rows))


def embed(embedder: EmbeddingProvider, texts: Sequence[str]) -> Floats:
    """The model's vectors; prints progress to stderr."""
    rows = []
    for at in range(0, len(texts), 1000):
        rows.append(embedder.embed_texts(texts[at : at + 1000]))
        print(f"{at + len(rows[-1])} of {len(texts)} texts embedded", file=sys.stderr, flush=True)
    return np.concatenate(rows)


def fit(texts: sparse.csr_matrix, targets: Floats, initial: Floats) -> Floats:
    """Token vectors near `initial` whose sums over texts are nearest to `targets`.

    Ridge regression of the difference to `initial`, by conjugate gradients with a diagonal preconditioner, for all
    columns at once.
    """
    difference = np.zeros_like(initial)
    residual = texts.T @ (targets - texts @ initial)
    weight = (1 / (np.asarray(texts.multiply(texts).sum(axis=0)).ravel() + RIDGE))[:, None].astype(np.float32)
    step = weight * residual
    size = (residual * step).sum(axis=0)
    for _ in range(STEPS):
        product = texts.T @ (texts @ step) + RIDGE * step
        length = size / np.maximum((step * product).sum(axis=0), 1e-12)
        difference += length * step
        residual -= length * product
        next_size = (residual * (weight * residual)).sum(axis=0)
        step = weight * residual + next_size / np.maximum(size, 1e-12) * step
        size = next_size
    return np.asarray(initial + difference, np.float32)


def make(texts: Sequence[str], embedder: EmbeddingProvider, model: MiniLM) -> Floats:
    """The vectors of all tokens: (tokens, DIMENSION)."""
    words = model._load_tokenizer()
    tokens = len(json.loads((MODEL_FOLDER / "tokenizer.json").read_bytes())["model"]["vocab"])
    matrix = count_tokens(words, texts, tokens)
    rows = embed(embedder, texts)
    mean = rows.mean(axis=0)
    directions = np.linalg.svd((rows - mean)[:20_000], full_matrices=False)[2][:DIMENSION].T
    targets = normalize_rows((rows - mean) @ directions)
    seen = np.asarray(matrix.sum(axis=0)).ravel() + 1
    rare = (SIF / (SIF + seen / seen.sum())).astype(np.float32)
    single = embed_tokens(model, tokens)
    initial = normalize_rows((single - single.mean(axis=0)) @ directions) * rare[:, None]
    # scale each text's sum to about length 1, so that long and short texts have equal weight
    lengths = np.sqrt(np.asarray(matrix.multiply(rare**2).sum(axis=1)).ravel() + 0.1)
    scaled = (sparse.diags((1 / lengths).astype(np.float32)) @ matrix).tocsr()
    guess = scaled @ initial
    return fit(scaled, targets, initial * ((guess * targets).sum() / (guess * guess).sum()))


def write(vectors: Floats, folder: Path, card: dict[str, object]) -> None:
    """Round to int8 and write the vectors, their scales and the card."""
    folder.mkdir(exist_ok=True)
    scales = np.abs(vectors).max(axis=1, keepdims=True) / 127
    scales[scales == 0] = 1
    np.save(folder / "vectors.npy", np.round(vectors / scales).astype(np.int8))
    np.save(folder / "scales.npy", scales.astype(np.float32).ravel())
    files = {name: (folder / name).read_bytes() for name in ("vectors.npy", "scales.npy")}
    files["tokenizer.json"] = (MODEL_FOLDER / "tokenizer.json").read_bytes()
    card |= {
        "sha256": {name: hashlib.sha256(raw).hexdigest() for name, raw in files.items()},
        "bytes": {name: len(raw) for name, raw in files.items() if name != "tokenizer.json"},
    }
    (folder / "static.json").write_text(json.dumps(card, indent=2) + "\n", "utf-8")


def main(arguments: Sequence[str]) -> None:
    """Write `ragkit/embed/static_model/`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--texts", type=int, default=TEXTS, metavar="N", help="number of texts to fit")
    parser.add_argument("--cache", type=Path, metavar="FILE", help="keep the model's vectors here")
    options = parser.parse_args(arguments)
    model = MiniLM()
    texts = select_texts(options.folders, options.texts)
    embedder = CachedEmbedder(model, SqliteVectorCache(options.cache)) if options.cache else model
    card: dict[str, object] = {
        "name": "static-minilm",
        "license": "Apache-2.0",
        "made_by": "scripts/make_static.py",
        "made_from": model.fingerprint,
        "texts": len(texts),
        "dimension": DIMENSION,
    }
    write(make(texts, embedder, model), TARGET, card)
    print((TARGET / "static.json").read_text("utf-8"))


if __name__ == "__main__":
    main(sys.argv[1:])
