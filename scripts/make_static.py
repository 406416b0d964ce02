"""Make what the embedder `static` ships: a vector for each token, fitted to the sentence vectors of the shipped model.

    python scripts/make_static.py FOLDER [FOLDER ...] [--texts N] [--cache FILE]

FOLDER holds English texts: `.txt` files (paragraphs, put together to pieces of different length) and the files
`data.*` of WordNet (definitions, alone or a few together). What is shipped was made, with the default of N, from
`/usr/share/doc/python3.11/html/_sources` of the Debian package python3.11-doc 3.11.2-6+deb12u9 (PSF licence) and
`/usr/share/wordnet` of wordnet-base 1:3.0-37 (WordNet licence). No document or question of an evaluation is read.

How: the texts are embedded by the shipped model, their vectors centred and turned onto their 256 main directions. The
vector of a token begins as the model's vector of that token alone, held back by how common it is (SIF: Arora, Liang and
Ma, ICLR 2017). Ridge regression then moves the tokens' vectors to where the sum over a text's tokens is nearest to the
text's vector; tokens that no text has stay where they began. At last each token's vector is rounded to int8 with a
scale of its own. With `--cache` the model's vectors are kept in a file between runs.
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
"""Characters: a paragraph is put to those before it until they are longer than one of these, taken by chance."""
LONGEST = 1000
ALONE = 45_000
"""Definitions that are a text each."""
TOGETHER = (2, 3, 5)
"""How many of the others make a text, taken by chance."""
SIF = 1e-3
RIDGE = 0.05
STEPS = 15
"""Of the conjugate gradient. Fewer is as good as a larger ridge."""

Floats = NDArray[np.float32]


def definitions(folders: Sequence[Path], chance: random.Random) -> list[str]:
    """Entries of WordNet as `word, word: definition; "example"`: most of them alone, the others a few together."""
    entries: list[str] = []
    for kind in ("noun", "verb", "adj", "adv"):
        for path in (folder / f"data.{kind}" for folder in folders if (folder / f"data.{kind}").exists()):
            entries += filter(None, map(_entry, path.read_text("latin-1").splitlines()))
    chance.shuffle(entries)
    found, at = entries[:ALONE], ALONE
    while at < len(entries):
        count = chance.choice(TOGETHER)
        found.append(" ".join(entries[at : at + count]))
        at += count
    return found


def _entry(line: str) -> str:
    """One line of a data file; '' for a line that is none."""
    if line.startswith("  "):
        return ""
    head, _, meaning = line.partition(" | ")
    fields = head.split()
    words = [re.sub(r"\(.*\)", "", fields[4 + 2 * at]).replace("_", " ") for at in range(int(fields[3], 16))]
    return f"{', '.join(words)}: {meaning.strip()}"


def pieces(text: str, chance: random.Random) -> Iterator[str]:
    """The paragraphs of a text, put together to pieces of different length."""
    held = ""
    for paragraph in re.split(r"\n\s*\n", text):
        words = " ".join(paragraph.split())
        if len(words) < 30:
            continue
        held = f"{held} {words}".strip()
        if len(held) > chance.choice(LENGTHS):
            yield held[:LONGEST]
            held = ""
    if len(held) > 60:
        yield held[:LONGEST]


def texts_of(folders: Sequence[Path], count: int) -> list[str]:
    """So many of the texts, none twice; which ones is decided by the texts themselves."""
    chance = random.Random(0)
    found = dict.fromkeys(definitions(folders, chance))
    for path in (path for folder in folders for path in sorted(folder.rglob("*.txt"))):
        for document in DocumentLoader.from_file(path):
            found |= dict.fromkeys(pieces(document.text, chance))
    return sorted(found, key=lambda text: hashlib.blake2b(text.encode()).digest())[:count]


def counts(words: WordPieceTokenizer, texts: Sequence[str], tokens: int) -> sparse.csr_matrix:
    """How often each token is in each text: (len(texts), tokens)."""
    ids = [row[1:-1] for row in words.token_ids(texts)]  # without [CLS] and [SEP]
    places = np.concatenate([np.asarray(row, np.int64) for row in ids])
    starts = np.cumsum([0, *(len(row) for row in ids)])
    found = sparse.csr_matrix((np.ones(len(places), np.float32), places, starts), shape=(len(texts), tokens))
    found.sum_duplicates()
    return found


def alone(model: MiniLM, tokens: int) -> Floats:
    """The model's vector of each token, with nothing around it: (tokens, 384)."""
    session = model._load_session()
    cls, sep = model._load_tokenizer().token_ids([""])[0]
    rows = [
        session.run([[cls, token, sep] for token in range(at, min(at + 64, tokens))]) for at in range(0, tokens, 64)
    ]
    return normalize_rows(np.concatenate(rows))


def embed(embedder: EmbeddingProvider, texts: Sequence[str]) -> Floats:
    """The model's vectors, with a word on stderr now and then."""
    rows = []
    for at in range(0, len(texts), 1000):
        rows.append(embedder.embed_texts(texts[at : at + 1000]))
        print(f"{at + len(rows[-1])} of {len(texts)} texts embedded", file=sys.stderr, flush=True)
    return np.concatenate(rows)


def fit(texts: sparse.csr_matrix, wanted: Floats, begin: Floats) -> Floats:
    """The vectors of tokens whose sums over texts are nearest to `wanted`, and which stay near `begin`.

    Ridge regression of the difference to `begin`, by conjugate gradients with a diagonal preconditioner, for all
    columns at once.
    """
    moved = np.zeros_like(begin)
    rest = texts.T @ (wanted - texts @ begin)
    weight = (1 / (np.asarray(texts.multiply(texts).sum(axis=0)).ravel() + RIDGE))[:, None].astype(np.float32)
    step = weight * rest
    size = (rest * step).sum(axis=0)
    for _ in range(STEPS):
        ahead = texts.T @ (texts @ step) + RIDGE * step
        length = size / np.maximum((step * ahead).sum(axis=0), 1e-12)
        moved += length * step
        rest -= length * ahead
        next_size = (rest * (weight * rest)).sum(axis=0)
        step = weight * rest + next_size / np.maximum(size, 1e-12) * step
        size = next_size
    return np.asarray(begin + moved, np.float32)


def make(texts: Sequence[str], embedder: EmbeddingProvider, model: MiniLM) -> Floats:
    """The vectors of all tokens: (tokens, DIMENSION)."""
    words = model._load_tokenizer()
    tokens = len(json.loads((MODEL_FOLDER / "tokenizer.json").read_bytes())["model"]["vocab"])
    found = counts(words, texts, tokens)
    rows = embed(embedder, texts)
    mean = rows.mean(axis=0)
    directions = np.linalg.svd((rows - mean)[:20_000], full_matrices=False)[2][:DIMENSION].T
    wanted = normalize_rows((rows - mean) @ directions)
    seen = np.asarray(found.sum(axis=0)).ravel() + 1
    rare = (SIF / (SIF + seen / seen.sum())).astype(np.float32)
    single = alone(model, tokens)
    begin = normalize_rows((single - single.mean(axis=0)) @ directions) * rare[:, None]
    # a text's sum is brought to about length 1, so that long and short ones count alike
    lengths = np.sqrt(np.asarray(found.multiply(rare**2).sum(axis=1)).ravel() + 0.1)
    scaled = (sparse.diags((1 / lengths).astype(np.float32)) @ found).tocsr()
    guess = scaled @ begin
    return fit(scaled, wanted, begin * ((guess * wanted).sum() / (guess * guess).sum()))


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
    parser.add_argument("--texts", type=int, default=TEXTS, metavar="N", help="how many texts are fitted to")
    parser.add_argument("--cache", type=Path, metavar="FILE", help="keep the model's vectors here")
    options = parser.parse_args(arguments)
    model = MiniLM()
    texts = texts_of(options.folders, options.texts)
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
