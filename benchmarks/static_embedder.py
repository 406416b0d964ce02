"""Does the embedder `static` earn its place: its quality beside BM25's and minilm's, and how much faster it is.

    python benchmarks/static_embedder.py FOLDER [FOLDER ...] [--speed DIR] [--cache DIR] [--seed S]

Each FOLDER is in the shape of the BEIR benchmark (see `beir.py`), split as a knowledge base splits it. Behind each nDCG
stands the difference to BM25 alone with the interval that holds 95 % of the bootstrap samples of the paired difference,
and a `*` where it leaves out 0. With `--speed` the files below DIR are indexed by the pipelines `fast` and `default`,
each in a process of its own, and their chunks are embedded by either embedder: CPU seconds.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent))
from beir import CachedQueries, read_collection, versions
from retrieval_alternatives import _cell, _values, chunks_of

from ragkit.embed.base import EmbeddingProvider
from ragkit.embed.minilm import MiniLM
from ragkit.embed.static import StaticEmbedder
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.retrieve.base import Retriever, RetrieverDependencies
from ragkit.retrieve.dense import DenseRetriever
from ragkit.retrieve.hybrid import HybridRetriever
from ragkit.retrieve.in_memory_index import InMemoryChunkIndex
from ragkit.retrieve.lexical import LexicalRetriever
from ragkit.retrieve.options import DenseOptions, HybridOptions, LexicalOptions
from ragkit.split.chunks import embedding_text
from ragkit.split.recursive import RecursiveOptions

WEIGHTS = (0.2, 0.3, 0.35, 0.4, 0.5)
"""Of the cosines of `static`."""


def quality(folder: Path, cache: Path | None, seed: int) -> list[str]:
    """A table in Markdown."""
    from beir import embedded

    collection, model = read_collection(folder), MiniLM()
    chunks = chunks_of(collection.documents, model, RecursiveOptions())
    texts, asked = [f"{chunk.header}\n{chunk.text}" for chunk in chunks], list(collection.queries.values())
    static = StaticEmbedder()

    def parts(embedder: EmbeddingProvider, rows: object, known: object) -> RetrieverDependencies:
        return RetrieverDependencies(InMemoryChunkIndex(chunks, rows), CachedQueries(embedder, asked, known))  # type: ignore[arg-type]

    near = parts(static, static.embed_texts(texts), static.embed_texts(asked))
    best = parts(model, embedded(model, texts, cache), embedded(model, asked, cache))
    retrievers: dict[str, Retriever] = {
        "BM25 alone": LexicalRetriever(LexicalOptions(), near),
        "static alone": DenseRetriever(DenseOptions(), near),
        **{
            f"BM25 and static, {weight}": HybridRetriever(HybridOptions(dense_weight=weight), near)
            for weight in WEIGHTS
        },
        "minilm alone": DenseRetriever(DenseOptions(), best),
        "BM25 and minilm (default)": HybridRetriever(HybridOptions(), best),
    }
    values = {name: _values(retriever, collection) for name, retriever in retrievers.items()}
    lines = [
        f"\n{collection.name}: {len(asked)} questions\n",
        "| retrieval | nDCG@10 | MRR@10 |",
        "| --- | --- | --- |",
    ]
    for name, own in values.items():
        base = None if name == "BM25 alone" else values["BM25 alone"]
        cells = [_cell(own[one], base[one] if base else None, seed) for one in ("ndcg", "mrr")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def speed(folder: Path) -> list[str]:
    """CPU seconds of indexing and of embedding."""
    lines = ["\n| | minilm (`default`) | static (`fast`) | times as fast |", "| --- | --- | --- | --- |"]
    with TemporaryDirectory(prefix="ragkit-static-") as work:
        whole = {name: _index(folder, Path(work) / name, name) for name in ("default", "fast")}
        with KnowledgeBase.open(Path(work) / "default", Pipeline.default()) as kb:
            texts = list(dict.fromkeys(embedding_text(chunk) for chunk in kb.chunks()))
    alone = [_embed(MiniLM(), texts), _embed(StaticEmbedder(), texts)]
    for name, (slow, fast) in {
        f"embedding {len(texts)} chunks, CPU s": alone,
        "the whole index run, CPU s": list(whole.values()),
    }.items():
        lines.append(f"| {name} | {slow:.2f} | {fast:.3f} | {slow / fast:.0f} |")
    return lines


def _embed(embedder: EmbeddingProvider, texts: Sequence[str]) -> float:
    embedder.embed_texts(texts[:8])
    began = time.process_time()
    embedder.embed_texts(texts)
    return time.process_time() - began


def _index(folder: Path, kb: Path, pipeline: str) -> float:
    """CPU seconds of an index run, start of the process included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "ragkit", "index", str(folder), "--kb", str(kb), "--pipeline", pipeline, "-q"]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "RAGKIT_OFFLINE": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: Sequence[str]) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--speed", type=Path, metavar="DIR", help="index what is in this folder, by either pipeline")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here between runs")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    options = parser.parse_args(arguments)
    for folder in options.folders:
        print("\n".join(quality(folder, options.cache, options.seed)))
    if options.speed:
        print("\n".join(speed(options.speed)))
    print(f"\nseed {options.seed}; " + ", ".join(f"{name} {value}" for name, value in versions().items()))


if __name__ == "__main__":
    main(sys.argv[1:])
