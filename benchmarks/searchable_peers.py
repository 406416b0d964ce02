"""Measure the way from an empty folder to the first answer, for ragkit and the systems of `peer_systems.py`.

    python -m benchmarks.searchable_peers FOLDER QUESTIONS.jsonl [--only NAME ...] [--others PYTHON] [--against DIR]

FOLDER holds text files; a line of QUESTIONS.jsonl has a `question` and the name of the file that answers it (`file`).
Each system runs in a process of its own, with the same MiniLM weights: `--others` names the interpreter that has the
packages of the others, `--against` a checkout of another version of ragkit. CPU seconds are those of all threads and
child processes, with the start of the process and the loading of the model.

Printed: CPU seconds until the folder can be searched, until the first question has its passages, wall clock seconds
until then, the highest memory, and for how many questions the first passage, or one of five, is of the right file.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
"""prctl(2): processes whose parent ended become children of this one, and so does their CPU time."""
ROOT = Path(__file__).resolve().parent.parent
ON_DEMAND, OTHER = "ragkit, vectors on demand", "the other version"
WAYS = {
    "ragkit": "ragkit",
    OTHER: "ragkit",
    "LangChain": "LangChain, Chroma",
    "LlamaIndex": "LlamaIndex, vectors",
    "txtai": "txtai, hybrid",
    "Haystack": "Haystack, BM25 and vectors",
}
"""System -> the way to search of its tutorial."""
Figures = dict[str, Any]


def index_on_demand(folder: Path, work: Path) -> Any:
    """`ragkit index --no-wait` and searches."""
    from ragkit.knowledge_base.index_options import IndexOptions
    from ragkit.knowledge_base.knowledge_base import KnowledgeBase

    kb = KnowledgeBase.open(work / "kb")
    kb.index(folder, options=IndexOptions(searchable_first=True, wait=False))
    return lambda question: [hit.source for hit in kb.search(question, 20)]


def run(name: str, folder: Path, questions: Sequence[dict[str, str]]) -> Figures:
    """Measure one system in this process."""
    from benchmarks.peer_systems import SYSTEMS

    started = time.perf_counter()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as work:
        if name == ON_DEMAND:
            search = index_on_demand(folder, Path(work))
        else:
            system = SYSTEMS["ragkit" if name == OTHER else name]
            search = system.ways[WAYS[name]](system.index(folder, Path(work)))
        searchable, ranks = _cpu_seconds(), []
        for number, row in enumerate(questions):
            found = [Path(source).name for source in search(row["question"])[:5]]
            ranks.append(found.index(row["file"]) + 1 if row["file"] in found else 0)
            if not number:
                first, wall = _cpu_seconds(), time.perf_counter() - started
        peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "searchable": searchable, "first answer": first, "wall": wall, "peak MB": peak / 1024,
        "first right": ranks.count(1), "in five": sum(map(bool, ranks)), "questions": len(ranks),
    }  # fmt: skip


def _cpu_seconds() -> float:
    """Of this process and its children that ended, with those of a worker that was stopped."""
    for _ in range(50):  # they end a moment after it
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.02)
            continue
        break
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main(arguments: Sequence[str]) -> None:
    """Print one line for each system."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--others", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--against", type=Path, metavar="DIR")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        rows = [json.loads(line) for line in options.questions.open()]
        sys.stdout.write("\n" + json.dumps(run(options.inside, options.folder, rows)))
        return
    for name in options.only or [ON_DEMAND, "ragkit", *([OTHER] if options.against else []), *list(WAYS)[2:]]:
        is_ragkit = name in (ON_DEMAND, "ragkit", OTHER)
        places = [f"{options.against if name == OTHER else ROOT}", f"{ROOT}"]
        path = os.pathsep.join([*places, *filter(None, [os.environ.get("PYTHONPATH", "")])])
        command = [sys.executable if is_ragkit else options.others, str(Path(__file__)), str(options.folder)]
        command += [str(options.questions), "--inside", name]
        environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
        result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        last = result.stdout.rpartition("\n")[2]
        print(f"{name:26}", last if result.returncode == 0 else f"ended with {result.returncode}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
