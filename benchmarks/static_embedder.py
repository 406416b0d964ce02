"""Compare the embedder `static` with BM25 and minilm: quality and speed.

    python benchmarks/static_embedder.py FOLDER [FOLDER ...] [--speed DIR] [--cache DIR] [--seed S]

Each FOLDER has the BEIR layout (see `beir.py`) and is split as in a knowledge base. Each nDCG is followed by the
difference to BM25 alone, the interval that contains 95 % of the bootstrap samples of the paired difference, and a `*`
if the interval excludes 0. `--speed` indexes the files below DIR with the pipelines `fast` and `default`, each in a
separate process, embeds the chunks with both embedders, and prints CPU seconds.
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
from retrieval_alternatives import _cell, _values, split_documents

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
"""Weights of the cosines of `static`."""


def quality(folder: Path, cache: Path | None, seed: int) -> list[str]:
    """A Markdown table of the quality on one collection."""
    from beir import embedded

    collection, model = read_collection(folder), MiniLM()
    chunks = split_documents(collection.documents, model, RecursiveOptions())
    texts, queries = [f"{chunk.header}\n{chunk.text}" for chunk in chunks], list(collection.queries.values())
    static = StaticEmbedder()

    def dependencies(embedder: EmbeddingProvider, rows: object, query_rows: object) -> RetrieverDependencies:
        return RetrieverDependencies(InMemoryChunkIndex(chunks, rows), CachedQueries(embedder, queries, query_rows))  # type: ignore[arg-type]

    static_dependencies = dependencies(static, static.embed_texts(texts), static.embed_texts(queries))
    minilm_dependencies = dependencies(model, embedded(model, texts, cache), embedded(model, queries, cache))
    retrievers: dict[str, Retriever] = {
        "BM25 alone": LexicalRetriever(LexicalOptions(), static_dependencies),
        "static alone": DenseRetriever(DenseOptions(), static_dependencies),
        **{
            f"BM25 and static, {weight}": HybridRetriever(HybridOptions(dense_weight=weight), static_dependencies)
            for weight in WEIGHTS
        },
        "minilm alone": DenseRetriever(DenseOptions(), minilm_dependencies),
        "BM25 and minilm (default)": HybridRetriever(HybridOptions(), minilm_dependencies),
    }
    values = {name: _values(retriever, collection) for name, retriever in retrievers.items()}
    lines = [
        f"\n{collection.name}: {len(queries)} questions\n",
        "| retrieval | nDCG@10 | MRR@10 |",
        "| --- | --- | --- |",
    ]
    for name, own in values.items():
        base = None if name == "BM25 alone" else values["BM25 alone"]
        cells = [_cell(own[metric], base[metric] if base else None, seed) for metric in ("ndcg", "mrr")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def speed(folder: Path) -> list[str]:
    """CPU seconds of indexing and of embedding."""
    lines = ["\n| | minilm (`default`) | static (`fast`) | times as fast |", "| --- | --- | --- | --- |"]
    with TemporaryDirectory(prefix="ragkit-static-") as work:
        index_seconds = {name: _index(folder, Path(work) / name, name) for name in ("default", "fast")}
        with KnowledgeBase.open(Path(work) / "default", Pipeline.default()) as kb, kb.session() as session:
            texts = list(dict.fromkeys(embedding_text(chunk) for chunk in session.chunks()))
    embed_seconds = [_embed(MiniLM(), texts), _embed(StaticEmbedder(), texts)]
    for name, (slow, fast) in {
        f"embedding {len(texts)} chunks, CPU s": embed_seconds,
        "the whole index run, CPU s": list(index_seconds.values()),
    }.items():
        lines.append(f"| {name} | {slow:.2f} | {fast:.3f} | {slow / fast:.0f} |")
    return lines


def _embed(embedder: EmbeddingProvider, texts: Sequence[str]) -> float:
    embedder.embed_texts(texts[:8])
    started_at = time.process_time()
    embedder.embed_texts(texts)
    return time.process_time() - started_at


def _index(folder: Path, kb: Path, pipeline: str) -> float:
    """CPU seconds of an index run, including the start of the process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "ragkit", "index", str(folder), "--kb", str(kb), "--pipeline", pipeline, "-q"]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "RAGKIT_OFFLINE": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: Sequence[str]) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--speed", type=Path, metavar="DIR", help="index this folder with both pipelines")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here between runs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap")
    options = parser.parse_args(arguments)
    for folder in options.folders:
        print("\n".join(quality(folder, options.cache, options.seed)))
    if options.speed:
        print("\n".join(speed(options.speed)))
    print(f"\nseed {options.seed}; " + ", ".join(f"{name} {value}" for name, value in versions().items()))


if __name__ == "__main__":
    main(sys.argv[1:])
