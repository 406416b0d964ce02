"""Measure searches over many chunks, beside other versions: python -m benchmarks.search_latency FOLDER... [options]

    python -m benchmarks.search_latency FOLDER [FOLDER ...] [--chunks 55000] [--trees . OTHER-CHECKOUT ...]
        [--questions 200] [--rounds 3] [--pipeline fast] [--work DIR] [--seed 1]

Each FOLDER has the BEIR layout (see `beir.py`). Documents are made of its sentences, drawn at random, so that words are
as frequent as in the collection; a file is named after two titles and a year. Each tree indexes them into a knowledge
base of its own (kept in `--work`), and then asks the same questions of the collections, in turn, in a process of its
own in each round. Milliseconds are CPU time of `KnowledgeBase.search`, with the embedding of the question, after five
other questions; memory is the largest resident size of a process that only searches.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CHUNKS_OF_A_FILE = 20
CHARS_OF_A_CHUNK = 800
"""About 200 tokens, the size of a chunk of the pipelines."""

INDEX = """
import json, resource, sys, time
from ragkit import KnowledgeBase, Pipeline
wall, cpu = time.perf_counter(), time.process_time()
with KnowledgeBase.open(sys.argv[1], Pipeline.load(sys.argv[3])) as kb:
    kb.index(sys.argv[2])
own, workers = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
cpu = sum(usage.ru_utime + usage.ru_stime for usage in (own, workers))
print(json.dumps({"index_s": time.perf_counter() - wall, "index_cpu_s": cpu, "index_mb": own.ru_maxrss / 1024}))
"""

SEARCH = """
import json, resource, sys, time
from ragkit import KnowledgeBase
questions = json.load(sys.stdin)
with KnowledgeBase.open(sys.argv[1]) as kb:
    started = time.process_time()
    kb.search(questions[0], 10)
    first = time.process_time() - started
    for question in questions[:5]:
        kb.search(question, 10)
    cpu, wall = [], []
    for question in questions[5:]:
        at, cpu_at = time.perf_counter(), time.process_time()
        kb.search(question, 10)
        cpu.append(time.process_time() - cpu_at)
        wall.append(time.perf_counter() - at)
    status = kb.status()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"cpu": cpu, "wall": wall, "first": first, "mb": peak, "chunks": status.chunks}))
"""


def write_documents(folders: list[Path], target: Path, chunks: int, seed: int) -> None:
    """Fill a folder with documents of about 20 chunks."""
    rng = random.Random(seed)
    rows = [
        json.loads(line) for folder in folders for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()
    ]
    sentences = [part for row in rows for part in re.split(r"(?<=[.?!])\s+", row["text"]) if part.strip()]
    titles = [row["title"] for row in rows if row.get("title")] or ["Untitled"]
    for number in range(-(-chunks // CHUNKS_OF_A_FILE)):
        words = re.findall(r"\w+", f"{rng.choice(titles)} {rng.choice(titles)}")[:8]
        path = target / f"{number // 500:04}" / f"{'-'.join(words)}-{rng.randint(1990, 2026)}-{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join(_paragraph(rng, sentences) for _ in range(CHUNKS_OF_A_FILE)), "utf-8")


def _paragraph(rng: random.Random, sentences: list[str]) -> str:
    parts: list[str] = []
    while sum(map(len, parts)) < CHARS_OF_A_CHUNK - 100:
        parts.append(rng.choice(sentences))
    return " ".join(parts)


def run(tree: Path, code: str, arguments: list[str], questions: list[str] | None = None) -> dict[str, Any]:
    """Run code with the package of a tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree.resolve())}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        command, cwd=tree, env=environment, input=json.dumps(questions), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{tree} failed:\n{done.stderr[-3000:]}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def read_questions(folders: list[Path], number: int, seed: int) -> list[str]:
    """Questions of all folders, mixed."""
    rows = [line for folder in folders for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
    return [json.loads(line)["text"] for line in random.Random(seed).sample(rows, min(number + 5, len(rows)))]


def size_mb(folder: Path) -> float:
    """The size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def measure(trees: list[Path], options: argparse.Namespace, work: Path) -> list[dict[str, Any]]:
    """A row for each tree."""
    documents = work / f"documents-{options.chunks}"
    if not documents.exists():
        write_documents(options.folders, documents, options.chunks, options.seed)
    indexed: dict[Path, dict[str, Any]] = {}
    for number, tree in enumerate(trees):
        kb, record = work / f"kb-{options.chunks}-{number}", work / f"kb-{options.chunks}-{number}.json"
        if not record.exists():
            record.write_text(json.dumps(run(tree, INDEX, [str(kb), str(documents), options.pipeline])))
        indexed[tree] = {**json.loads(record.read_text()), "size_mb": size_mb(kb), "kb": str(kb)}
    questions = read_questions(options.folders, options.questions, options.seed)
    runs: dict[Path, list[dict[str, Any]]] = {tree: [] for tree in trees}
    for _ in range(options.rounds):
        for tree in trees:
            runs[tree].append(run(tree, SEARCH, [indexed[tree]["kb"]], questions))
    return [{"tree": tree.name or ".", **indexed[tree], **_summary(runs[tree])} for tree in trees]


def _summary(rounds: list[dict[str, Any]]) -> dict[str, float]:
    summary: dict[str, float] = {"chunks": rounds[0]["chunks"]}
    for key in ("cpu", "wall"):
        for name, rank in (("p50", 0.5), ("p99", 0.99)):
            values = [1000 * sorted(one[key])[int(rank * (len(one[key]) - 1))] for one in rounds]
            summary[f"{name}_{key}_ms"] = statistics.median(values)
    summary["first_cpu_ms"] = 1000 * statistics.median(one["first"] for one in rounds)
    summary["search_mb"] = statistics.median(one["mb"] for one in rounds)
    return summary


COLUMNS = {
    "chunks": "chunks",
    "p50_cpu_ms": "p50, CPU ms",
    "p99_cpu_ms": "p99, CPU ms",
    "p50_wall_ms": "p50, ms",
    "first_cpu_ms": "first search, CPU ms",
    "search_mb": "memory of a search, MB",
    "index_cpu_s": "index, CPU s",
    "index_mb": "memory of the index run, MB",
    "size_mb": "on disk, MB",
}


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table with a row for each figure."""
    lines = [f"| | {' | '.join(row['tree'] for row in rows)} |", "| --- |" + " --- |" * len(rows)]
    for key, name in COLUMNS.items():
        lines.append(f"| {name} | " + " | ".join(f"{row[key]:,.{0 if row[key] >= 100 else 1}f}" for row in rows) + " |")
    return "\n".join(lines)


def main() -> None:
    """Index and search with each tree, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--chunks", type=int, default=55_000)
    parser.add_argument("--trees", nargs="+", type=Path, default=[Path()])
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pipeline", default="fast")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        print(table(measure([tree.resolve() for tree in options.trees], options, work.resolve())))


if __name__ == "__main__":
    main()
