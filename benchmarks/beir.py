"""Measure nDCG@10, recall@10 and MRR@10 of each retriever on folders with the BEIR layout.

    python benchmarks/beir.py FOLDER [FOLDER ...] [--chunks] [--half 0|1] [--json] [--cache DIR]

A folder contains `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`) and `qrels.tsv` (a header,
then query id, document id, grade). Queries without judgements are skipped. By default each document is one passage, as
in other benchmarks, and the embedder truncates it at its limit; with `--chunks` documents are split as in a knowledge
base, and a document is ranked by its best chunk. `--half` uses every other query, from the first or from the second
one, to fit on one half and test on the other. `sentences` is `hybrid` with that reranker, as in the pipeline `quality`;
it reuses the vectors of sentences from earlier queries.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ragkit.embed.base import EmbeddingProvider, MonolingualEmbedder, Row, Rows, TokenizingEmbedder, WeightedEmbedder
from ragkit.embed.minilm import MiniLM
from ragkit.lexical.analyzer import ANALYZER_VERSION
from ragkit.records import Chunk, Document, content_id
from ragkit.retrieve.base import Retriever, RetrieverDependencies
from ragkit.retrieve.dense import DenseRetriever
from ragkit.retrieve.hybrid import HybridRetriever
from ragkit.retrieve.in_memory_index import InMemoryChunkIndex
from ragkit.retrieve.lexical import LexicalRetriever
from ragkit.retrieve.options import DenseOptions, HybridOptions, LexicalOptions, RerankOptions
from ragkit.retrieve.rerank import RerankingRetriever
from ragkit.retrieve.rerank_sentences import SentenceReranker
from ragkit.split.options import RecursiveOptions
from ragkit.split.recursive import RecursiveSplitter
from ragkit.store.base import validate_rows

DEPTH = 10
"""Number of judged documents of each ranking."""
CHUNKS_READ = 50
"""Number of chunks to retrieve, enough for ten documents."""

Grades = Mapping[str, int]
"""Document id -> grade; above 0 is relevant."""


@dataclass(frozen=True)
class Collection:
    """A collection of documents and questions with judgements."""

    name: str
    documents: list[Document]
    queries: dict[str, str]
    grades: dict[str, Grades]


@dataclass(frozen=True)
class Figures:
    """Means over the judged queries of a collection."""

    collection: str
    retriever: str
    ndcg: float
    recall: float
    mrr: float
    queries: int
    ms_per_query: float


def ndcg(ranking: Sequence[str], grades: Grades, depth: int = DEPTH) -> float:
    """Normalised discounted cumulative gain in [0, 1] with the grade as gain, as in trec_eval.

    Source: Järvelin and Kekäläinen, ACM Transactions on Information Systems 20(4), 2002, doi:10.1145/582415.582418.
    """
    gains = [max(0, grades.get(document, 0)) for document in ranking[:depth]]
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:depth]
    return _discounted(gains) / _discounted(ideal)


def recall(ranking: Sequence[str], grades: Grades, depth: int = DEPTH) -> float:
    """The share of the relevant documents among the first `depth`."""
    relevant = {document for document, grade in grades.items() if grade > 0}
    return len(relevant.intersection(ranking[:depth])) / len(relevant)


def reciprocal_rank(ranking: Sequence[str], grades: Grades, depth: int = DEPTH) -> float:
    """1 / rank of the first relevant document, 0 when none is among the first `depth`."""
    return next((1 / rank for rank, document in enumerate(ranking[:depth], 1) if grades.get(document, 0) > 0), 0.0)


METRICS = (ndcg, recall, reciprocal_rank)


def read_collection(folder: Path) -> Collection:
    """Read a folder; skip queries without a relevant document."""
    grades: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        grades.setdefault(query, {})[document] = int(grade)
    judged = {query: by_document for query, by_document in grades.items() if max(by_document.values()) > 0}
    documents = [
        Document(row["text"], title=row.get("title", ""), id=row["_id"]) for row in _rows(folder / "corpus.jsonl")
    ]
    queries = {row["_id"]: row["text"] for row in _rows(folder / "queries.jsonl") if row["_id"] in judged}
    return Collection(folder.name, documents, queries, dict(judged))


def whole(documents: Sequence[Document]) -> list[Chunk]:
    """One chunk for each document."""
    return [_chunk(document, 0, len(document.text)) for document in documents]


def split(documents: Sequence[Document], embedder: TokenizingEmbedder) -> list[Chunk]:
    """The chunks of a knowledge base; a document without text stays one chunk."""
    splitter, chunks = RecursiveSplitter(RecursiveOptions()), []
    for document in documents:
        reserve = len(embedder.token_starts(document.title))
        spans = splitter.spans(document, embedder.token_starts, reserve) or [(0, 0)]
        chunks += [_chunk(document, start, end) for start, end in spans]
    return chunks


class CachedQueries:
    """An embedder with precomputed query rows, so that the retrievers' times exclude the embedder."""

    def __init__(self, embedder: EmbeddingProvider, queries: Sequence[str], rows: Rows) -> None:
        self._embedder = embedder
        self._rows: dict[str, Row] = dict(zip(queries, rows, strict=True))
        self.dimension, self.fingerprint = embedder.dimension, embedder.fingerprint
        if isinstance(embedder, MonolingualEmbedder):
            self.language = embedder.language
        if isinstance(embedder, WeightedEmbedder):
            self.dense_weight = embedder.dense_weight

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """Embed texts with the wrapped embedder."""
        return self._embedder.embed_texts(texts)

    def embed_query(self, text: str) -> Row:
        """The precomputed row."""
        return self._rows[text]


def retrievers(dependencies: RetrieverDependencies) -> dict[str, Retriever]:
    """The retrievers to compare, each with its default options."""
    return {
        "lexical": LexicalRetriever(LexicalOptions(), dependencies),
        "dense": DenseRetriever(DenseOptions(), dependencies),
        "rrf": HybridRetriever(HybridOptions(fusion="rrf"), dependencies),
        "hybrid": HybridRetriever(HybridOptions(), dependencies),
        "sentences": _reranked(dependencies),
    }


def _reranked(dependencies: RetrieverDependencies) -> Retriever:
    options, rerank = HybridOptions(), RerankOptions()
    return RerankingRetriever(
        HybridRetriever(options, dependencies), SentenceReranker(rerank, MiniLM()), rerank, options
    )


def measure(collection: Collection, name: str, retriever: Retriever) -> Figures:
    """Run every judged query with a retriever."""
    started_at = time.perf_counter()
    rankings = {query: _ranking(retriever, text) for query, text in collection.queries.items()}
    seconds = time.perf_counter() - started_at
    pairs = [(ranking, collection.grades[query]) for query, ranking in rankings.items()]
    ndcg_, recall_, mrr = (float(np.mean([metric(*pair) for pair in pairs])) for metric in METRICS)
    return Figures(collection.name, name, ndcg_, recall_, mrr, len(pairs), 1000 * seconds / len(pairs))


def embedded(embedder: EmbeddingProvider, texts: Sequence[str], cache: Path | None, *, questions: bool = False) -> Rows:
    """Rows of texts, or of questions, from the cache folder if it has them."""
    kind = ["questions"] if questions and not isinstance(embedder, MiniLM) else []  # which has no prompts
    digest = hashlib.blake2b(content_id(embedder.fingerprint, *kind, *texts).encode(), digest_size=8).hexdigest()
    path = cache / f"{digest}.npy" if cache else None
    if path is not None and path.exists():
        return validate_rows(np.load(path), len(texts), embedder.dimension)
    rows = np.stack([embedder.embed_query(text) for text in texts]) if kind else embedder.embed_texts(texts)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, rows)
    return rows


def run(
    folder: Path, *, chunked: bool, cache: Path | None, half: int | None = None
) -> tuple[list[Figures], dict[str, float]]:
    """The metrics of one folder, and the seconds of its preparation."""
    collection, embedder = read_collection(folder), MiniLM()
    if half is not None:
        collection = replace(collection, queries=dict(list(collection.queries.items())[half::2]))
    chunks = split(collection.documents, embedder) if chunked else whole(collection.documents)
    started_at = time.perf_counter()
    rows = embedded(embedder, [f"{chunk.header}\n{chunk.text}" for chunk in chunks], cache)
    queries = list(collection.queries.values())
    query_rows = embedded(embedder, queries, cache)
    embedding_ended = time.perf_counter()
    passages = InMemoryChunkIndex(chunks, rows)
    seconds = {"embed": embedding_ended - started_at, "index": time.perf_counter() - embedding_ended}
    dependencies = RetrieverDependencies(passages, CachedQueries(embedder, queries, query_rows))
    figures = [measure(collection, name, retriever) for name, retriever in retrievers(dependencies).items()]
    return figures, seconds | {"chunks": float(len(chunks))}


def versions() -> dict[str, str]:
    """Versions that affect the results."""
    packages = {name: version(name) for name in ("numpy", "onnxruntime", "PyStemmer", "tokenizers")}
    own = {"terms": ANALYZER_VERSION, "embedder": MiniLM().fingerprint}
    return {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version, **packages, **own}


def main(arguments: Sequence[str]) -> None:
    """Print a table, or with `--json` one object."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--chunks", action="store_true", help="split documents as in a knowledge base")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here between runs")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--half", type=int, choices=(0, 1), help="use every other query, from this position on")
    options = parser.parse_args(arguments)
    runs = [run(folder, chunked=options.chunks, cache=options.cache, half=options.half) for folder in options.folders]
    if options.json:
        report = [{"figures": [asdict(row) for row in figures], "preparation": seconds} for figures, seconds in runs]
        print(json.dumps({"versions": versions(), "runs": report}))
        return
    print(
        f"{'collection':<16}{'retriever':<10}{'nDCG@10':>9}{'recall@10':>11}{'MRR@10':>8}{'queries':>9}{'ms/query':>10}"
    )
    for figures, seconds in runs:
        for row in figures:
            print(
                f"{row.collection:<16}{row.retriever:<10}{row.ndcg:>9.4f}{row.recall:>11.4f}{row.mrr:>8.4f}"
                f"{row.queries:>9}{row.ms_per_query:>10.2f}"
            )
        timing = f"embedded in {seconds['embed']:.1f} s, indexed in {seconds['index']:.1f} s"
        print(f"  {seconds['chunks']:.0f} passages, {timing}")
    print("  " + ", ".join(f"{name} {value}" for name, value in versions().items()))


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _chunk(document: Document, start: int, end: int) -> Chunk:
    text, lines = document.text, document.text.count("\n", 0, start) + 1
    identity, last = content_id(document.id, str(start)), lines + document.text.count("\n", start, end)
    return Chunk(identity, document.id, "", text[start:end], start, end, lines, last, title=document.title)


def _ranking(retriever: Retriever, question: str) -> list[str]:
    """Ids of documents, ranked by their best chunks."""
    hits = retriever.retrieve(question, CHUNKS_READ)
    return list(dict.fromkeys(hit.chunk.document_id for hit in hits))


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / float(np.log2(rank + 1)) for rank, gain in enumerate(gains, start=1))


if __name__ == "__main__":
    main(sys.argv[1:])
