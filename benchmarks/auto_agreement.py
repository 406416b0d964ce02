"""Do questions made by rule rank pipelines as people's questions do?

    python benchmarks/auto_agreement.py FOLDER [FOLDER ...] [--questions N] [--seeds S] [--cache DIR] [--json]

Each FOLDER is in the shape of the BEIR benchmark. Five ways of retrieval are ranked by nDCG@10 over its questions, and
again over N questions that `ragkit eval --auto` would make of the same documents, for each of S seeds; Kendall's tau-b
says how well the two orders agree (1: the same order, 0: no relation, -1: reversed).
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
    """The five that are ranked."""
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
    agree = sum(float(one * other) for one, other in pairs)
    untied = [sum(bool(pair[side]) for pair in pairs) for side in (0, 1)]
    return agree / float(np.sqrt(untied[0] * untied[1])) if all(untied) else 0.0


def made(collection: Collection, count: int, seed: int) -> Collection:
    """The same documents, with questions made of them."""
    documents = [
        Document(f"{one.title}\n\n{one.text}", source=one.id, title=one.title, id=one.id)
        for one in collection.documents
    ]
    asked = [one for one in generate_questions(documents, extract_terms, count, seed) if one.answerable]
    return Collection(
        collection.name,
        collection.documents,
        {one.id: one.text for one in asked},
        {one.id: dict(one.sources) for one in asked},
    )


def figures(
    collection: Collection, passages: InMemoryChunkIndex, embedder: MiniLM, cache: Path | None
) -> dict[str, float]:
    """nDCG@10 of each pipeline."""
    queries = list(collection.queries.values())
    known = CachedQueries(embedder, queries, embedded(embedder, queries, cache))
    return {
        name: measure(collection, name, one).ndcg
        for name, one in pipelines(RetrieverDependencies(passages, known)).items()
    }


def run(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """The figures of one folder."""
    collection, embedder = read_collection(folder), MiniLM()
    chunks = whole(collection.documents)
    rows = embedded(embedder, [f"{chunk.header}\n{chunk.text}" for chunk in chunks], options.cache)
    passages = InMemoryChunkIndex(chunks, rows)
    human = figures(collection, passages, embedder, options.cache)
    by_seed = []
    for seed in range(options.seeds):
        questions = made(collection, options.questions, seed)
        found = figures(questions, passages, embedder, options.cache)
        by_seed.append({"questions": len(questions.queries), "ndcg": found, "tau": kendall_tau(human, found)})
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
    for one in runs:
        human, automatic_ = one["human"], one["automatic"]
        assert isinstance(human, dict)
        assert isinstance(automatic_, list)
        print(f"{one['collection']:<20}{'people':>9}{'made':>9}   (made: mean over {len(automatic_)} seeds)")
        for name, value in sorted(human.items(), key=lambda item: -item[1]):
            print(f"  {name:<18}{value:>9.4f}{np.mean([row['ndcg'][name] for row in automatic_]):>9.4f}")
        taus = [row["tau"] for row in automatic_]
        mean = {name: float(np.mean([row["ndcg"][name] for row in automatic_])) for name in human}
        print(f"  tau by seed {', '.join(f'{tau:.2f}' for tau in taus)}; of the means {kendall_tau(human, mean):.2f}")
    print("  " + ", ".join(f"{name} {value}" for name, value in versions().items()))


if __name__ == "__main__":
    main(sys.argv[1:])
