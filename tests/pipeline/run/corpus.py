"""A reproducible folder of text files, and the contents of an index over it."""

from __future__ import annotations

import random
from pathlib import Path

from ragkit.index.report import IndexReport
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Chunk
from tests import reads

FILES = 60
WORDS = ("amber", "brook", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty", "ledge", "quarry")


def write_corpus(folder: Path, files: int = FILES, seed: int = 7) -> Path:
    """Write files of one to forty paragraphs. Every tenth has the text of the first, and one is empty."""
    rng = random.Random(seed)
    folder.mkdir(parents=True)
    first = ""
    for number in range(files):
        paragraphs = [" ".join(rng.choices(WORDS, k=50)) + f" {number}." for _ in range(rng.randint(1, 40))]
        first = first or "\n\n".join(paragraphs)
        text = first if number % 10 == 0 else "\n\n".join(paragraphs)
        (folder / f"{number:03}.txt").write_text("" if number == 11 else text, encoding="utf-8")
    return folder


def pipeline(run: str = "{name: local}") -> Pipeline:
    """A pipeline without a model."""
    return Pipeline.from_yaml(f"embed: {{name: hashing, dimension: 64}}\nrun: {run}\n", environ={})


def indexed(kb: Path, folder: Path, run: str = "{name: local}", options: IndexOptions | None = None) -> IndexReport:
    """Index a folder into a new knowledge base."""
    with KnowledgeBase.open(kb, pipeline(run)) as base:
        return base.index(folder, options=options)


Content = tuple[list[Chunk], list[tuple[str, float]], bytes]


def content(kb: Path) -> Content:
    """The chunks, the hits and scores of a hybrid search, and the bytes of the vectors."""
    with KnowledgeBase.open(kb) as base:
        hits = [(hit.chunk.id, hit.score) for hit in base.search("the quarry at the ledge", top_k=50)]
        return list(reads.chunks(base)), hits, (kb / "vectors-1.f32").read_bytes()[64:]
