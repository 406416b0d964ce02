"""Check whether generated questions rank pipelines as human questions do.

    python benchmarks/auto_agreement.py FOLDER [FOLDER ...] [--questions N] [--seeds S] [--cache DIR] [--json]

Each FOLDER has the BEIR layout. Five retrieval pipelines are ranked by nDCG@10 over its questions, and again over N
questions that `ragkit eval --auto` generates from the same documents, for each of S seeds. Kendall's tau-b measures
how well the two orders agree (1: the same order, 0: no relation, -1: reversed).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from beir import CachedQueries, Collection, embedded, measure, read_collection, versions, whole

from ragkit.embed.minilm import MiniLM
from ragkit.evaluate.rule_questions import generate_questions
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Document
from ragkit.retrieve.base import Retriever, RetrieverDependencies
from ragkit.retrieve.dense import DenseRetriever
from ragkit.retrieve.hybrid import HybridRetriever
from ragkit.retrieve.in_memory_index import InMemoryChunkIndex
from ragkit.retrieve.lexical import LexicalRetriever
from ragkit.retrieve.options import DenseOptions, HybridOptions, LexicalOptions


def pipelines(parts: RetrieverDependencies) -> dict[str, Retriever]:
    """The five pipelines to rank."""
    return {
        "lexical": LexicalRetriever(LexicalOptions(), parts),
        "dense": DenseRetriever(DenseOptions(), parts),
        "rrf": HybridRetriever(HybridOptions(fusion="rrf"), parts),
        "hybrid": HybridRetriever(HybridOptions(), parts),
        "hybrid, dense 0.9": HybridRetriever(HybridOptions(dense_weight=0.9), parts),
    }


def kendall_tau(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Kendall's tau-b of two orders of the same names.

    Source: Kendall, Biometrika 33(3), 1945, doi:10.1093/biomet/33.3.239.
    """
    pairs = [
        (np.sign(round(first[a] - first[b], 9)), np.sign(round(second[a] - second[b], 9)))
        for a, b in combinations(first, 2)
    ]
    concordance = sum(float(left * right) for left, right in pairs)
    untied = [sum(bool(pair[side]) for pair in pairs) for side in (0, 1)]
    return concordance / float(np.sqrt(untied[0] * untied[1])) if all(untied) else 0.0


def generated_collection(collection: Collection, count: int, seed: int) -> Collection:
    """The same documents with questions generated from them."""
    documents = [
        Document(f"{document.title}\n\n{document.text}", source=document.id, title=document.title, id=document.id)
        for document in collection.documents
    ]
    generated = generate_questions(documents, extract_terms, count, seed)
    questions = [question for question in generated if question.answerable]
    return Collection(
        collection.name,
        collection.documents,
        {question.id: question.text for question in questions},
        {question.id: dict(question.sources) for question in questions},
    )


def figures(
    collection: Collection, passages: InMemoryChunkIndex, embedder: MiniLM, cache: Path | None
) -> dict[str, float]:
    """The nDCG@10 of each pipeline."""
    queries = list(collection.queries.values())
    cached = CachedQueries(embedder, queries, embedded(embedder, queries, cache))
    return {
        name: measure(collection, name, retriever).ndcg
        for name, retriever in pipelines(RetrieverDependencies(passages, cached)).items()
    }


def run(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """Compare the rankings for one folder."""
    collection, embedder = read_collection(folder), MiniLM()
    chunks = whole(collection.documents)
    rows = embedded(embedder, [f"{chunk.header}\n{chunk.text}" for chunk in chunks], options.cache)
    passages = InMemoryChunkIndex(chunks, rows)
    human = figures(collection, passages, embedder, options.cache)
    by_seed = []
    for seed in range(options.seeds):
        questions = generated_collection(collection, options.questions, seed)
        ndcg = figures(questions, passages, embedder, options.cache)
        by_seed.append({"questions": len(questions.queries), "ndcg": ndcg, "tau": kendall_tau(human, ndcg)})
    return {"collection": collection.name, "human": human, "automatic": by_seed}


def main(arguments: Sequence[str]) -> None:
    """Print a table, or with `--json` one object."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here between runs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    runs = [run(folder, options) for folder in options.folders]
    if options.json:
        print(json.dumps({"versions": versions(), "runs": runs}))
        return
    for row in runs:
        human, automatic = row["human"], row["automatic"]
        assert isinstance(human, dict)
        assert isinstance(automatic, list)
        print(f"{row['collection']:<20}{'human':>9}{'auto':>9}   (auto: mean over {len(automatic)} seeds)")
        for name, value in sorted(human.items(), key=lambda item: -item[1]):
            print(f"  {name:<18}{value:>9.4f}{np.mean([entry['ndcg'][name] for entry in automatic]):>9.4f}")
        taus = [entry["tau"] for entry in automatic]
        mean = {name: float(np.mean([entry["ndcg"][name] for entry in automatic])) for name in human}
        print(f"  tau by seed {', '.join(f'{tau:.2f}' for tau in taus)}; of the means {kendall_tau(human, mean):.2f}")
    print("  " + ", ".join(f"{name} {value}" for name, value in versions().items()))


if __name__ == "__main__":
    main(sys.argv[1:])
