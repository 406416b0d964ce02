"""Write the matrix that makes the word vectors of `multilingual` white: ragkit/embed/multilingual/words.npy, 197 kB.

    python scripts/make_multilingual_words.py [--words 16000] [--seed 1]

The model embeds words drawn from its own vocabulary, of all its languages, each alone. Their vectors are centred,
projected onto their 256 principal directions, and scaled to the variance 1 in each: without this all of them point in
nearly the same direction. No document or question is read. The SHA-256 that it prints belongs into `words.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re

import numpy as np

from ragkit.embed.base import normalize_rows
from ragkit.embed.multilingual.embedder import WEIGHTS
from ragkit.embed.multilingual.weights import E5Model, read_pieces
from ragkit.embed.multilingual.words import WORD_DIMENSION, WORD_MATRIX

_WORD = re.compile(r"\u2581[^\W\d_]{3,}")
"""A piece of the vocabulary that is a word: it has a space before it."""


def main() -> None:
    """Embed the words, and write the matrix."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=16_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    model = E5Model(WEIGHTS)
    words = [number for number, piece in enumerate(read_pieces(WEIGHTS)) if _WORD.fullmatch(piece)]
    sample = random.Random(arguments.seed).sample(words, arguments.words)
    rows = np.stack([model.session.compute("states", model.states([0, word, 2])).reshape(-1) for word in sample])
    rows = normalize_rows(rows)
    mean = rows.mean(axis=0)
    _, spreads, directions = np.linalg.svd(rows - mean, full_matrices=False)
    matrix = directions[:WORD_DIMENSION].T / (spreads[:WORD_DIMENSION] / np.sqrt(len(rows)))
    np.save(WORD_MATRIX, np.vstack([-mean @ matrix, matrix]).astype(np.float16))
    print(f"{len(sample):,} words of {len(words):,}; {hashlib.sha256(WORD_MATRIX.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
