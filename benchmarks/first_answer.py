"""Measure the CPU time of a first answer and of a warm server: python -m benchmarks.first_answer FOLDER... [options]

    python -m benchmarks.first_answer FOLDER [FOLDER ...] [--chunks 50000] [--against OTHER-CHECKOUT] [--rounds 5]
        [--questions 100] [--work DIR] [--kb DIR] [--seed 1] [--json]

Each FOLDER has the BEIR layout (see `beir.py`). The knowledge base holds its texts, one file each, and documents whose
sentences are drawn from them at random until there are about `--chunks` chunks. The vector of a chunk is the mean of
the vectors of its sentences, so that no sentence is embedded twice: indexing takes a fifth of the time, and questions
are embedded and searched as always. `--kb` measures an existing knowledge base.

No language model answers: answers are quotes. Milliseconds are CPU time, user and system, of all threads:

- `first answer`: the whole process `ragkit -q ask QUESTION`, from its start to its end; modules are compiled before.
  With `-q`, files are not compared with the index.
- `answer` and `search`: the process `ragkit serve` per request, after ten other questions.
- `parts`: inside one process that asks the same questions, what of an answer the embedder takes.

With `--against`, both versions run on the same knowledge base in turn: the processes of each round, the requests of
each question. A ratio is the median of the ratios of the pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from importlib.metadata import version
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from benchmarks.search_latency import read_questions, write_documents
from ragkit.embed.base import normalize_rows
from ragkit.embed.minilm import MiniLM
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline

WARM_UP = 10
"""Questions before the clock starts."""
_SENTENCE_GAP = re.compile(r"(?<=[.?!])\s+")
_ADDRESS = re.compile(rb"http://127\.0\.0\.1:(\d+)")

PARTS = """
import json, statistics, sys, time
from ragkit import KnowledgeBase
from ragkit.embed.minilm import MiniLM
spent, embed = [0.0], MiniLM._embed
def timed(self, texts):
    started = time.process_time()
    try:
        return embed(self, texts)
    finally:
        spent[0] += time.process_time() - started
MiniLM._embed = timed
questions = json.load(sys.stdin)
answers, embedder = [], []
with KnowledgeBase.open(sys.argv[1]) as kb:
    for number, question in enumerate(questions):
        spent[0], started = 0.0, time.process_time()
        kb.ask(question, model="extractive")
        if number >= 3:
            answers.append(time.process_time() - started)
            embedder.append(spent[0])
print(json.dumps({"KnowledgeBase.ask": answers, "of it the embedder": embedder}))
"""


class SentenceMeans(MiniLM):
    """The shipped embedder, with the mean of the vectors of its sentences as the vector of a text."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, NDArray[np.float32]] = {}

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), 384)."""
        parts = [[part for part in _SENTENCE_GAP.split(text) if part.strip()] or [text] for text in texts]
        new = [part for part in dict.fromkeys(part for row in parts for part in row) if part not in self._known]
        self._known.update(zip(new, super().embed_texts(new), strict=True))
        return normalize_rows(np.array([np.mean([self._known[part] for part in row], axis=0) for row in parts]))


def build(folders: Sequence[Path], work: Path, chunks: int, seed: int) -> Path:
    """A knowledge base of the texts of the folders and of drawn documents; built once."""
    kb, documents = work / f"kb-{chunks}", work / f"documents-{chunks}"
    if kb.exists():
        return kb
    count = 0
    for folder in folders:
        for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines():
            row, count = json.loads(line), count + 1
            path = documents / folder.name / (re.sub(r"\W+", "_", row["title"])[:60] or "untitled") / f"{count:05}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# {row['title']}\n\n{row['text']}", "utf-8")
    write_documents(list(folders), documents / "drawn", max(0, chunks - 2 * count), seed)
    pipeline = Pipeline.default()
    with KnowledgeBase(kb, pipeline, PipelineComponents(pipeline, SentenceMeans())) as base:
        base.index(documents)
    return kb


@dataclass
class Tree:
    """One version, with what was measured of it: kind of figure -> milliseconds, in order."""

    folder: Path
    cache: Path
    """Of its compiled modules."""
    figures: dict[str, list[float]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Of its processes."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, "PYTHONPATH": str(self.folder), "PYTHONPYCACHEPREFIX": str(self.cache)}

    def record(self, kind: str, milliseconds: float) -> None:
        """Add a measurement."""
        self.figures.setdefault(kind, []).append(milliseconds)

    def run(self, arguments: Sequence[str], text: str = "") -> tuple[str, float]:
        """The output of a Python process and its CPU time in milliseconds."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder, env=self.environment, input=text, capture_output=True, text=True, check=False,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise SystemExit(f"{self.folder} failed:\n{done.stderr[-3000:]}")
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return done.stdout, 1000 * spent


class Server:
    """A running `ragkit serve`, without a model."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=300)
        self._clock = (~process.pid << 3) | 2
        """The CPU clock of the process, as Linux numbers it: exact, and with threads that have ended."""

    def request(self, path: str, body: Mapping[str, object]) -> float:
        """Send a request; the CPU time of the server until it has answered, in milliseconds."""
        started = time.clock_gettime(self._clock)
        self._connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        reply = self._connection.getresponse()
        answer = reply.read()
        spent = time.clock_gettime(self._clock) - started
        if reply.status != 200:
            raise SystemExit(f"{path}: {reply.status} {answer[:300]!r}")
        return 1000 * spent

    def ask(self, question: str) -> float:
        """CPU milliseconds of an answer."""
        return self.request("/v1/chat/completions", {"messages": [{"role": "user", "content": question}]})

    def search(self, question: str) -> float:
        """CPU milliseconds of a search."""
        return self.request("/v1/search", {"query": question, "top_k": 10})


@contextmanager
def serving(tree: Tree, kb: Path) -> Iterator[Server]:
    """Serve a knowledge base with a version."""
    command = [sys.executable, "-m", "ragkit", "serve", "--kb", str(kb), "--port", "0", "--model", "extractive"]
    with (
        tempfile.TemporaryFile() as output,  # not a pipe, which the lines of the requests would fill
        subprocess.Popen(
            command, cwd=tree.folder, env=tree.environment, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield Server(process, _wait_for_port(process, output))
        finally:
            process.terminate()


def _wait_for_port(process: subprocess.Popen[bytes], output: IO[bytes]) -> int:
    while process.poll() is None:
        if match := _ADDRESS.search(os.pread(output.fileno(), 1 << 16, 0)):  # leaves the position to the server
            return int(match[1])
        time.sleep(0.05)
    raise SystemExit("the server did not start")


def measure(trees: Sequence[Tree], kb: Path, questions: Sequence[str], rounds: int) -> None:
    """Fill the figures of all trees, in turn."""
    first, warm = questions[:WARM_UP], questions[WARM_UP:]
    ask = ["-m", "ragkit", "--kb", str(kb), "-q", "ask", "--model", "extractive"]
    for tree in trees:
        tree.run([*ask, first[0]])  # compiles the modules
    for number in range(rounds):
        for tree in trees:
            tree.record("first answer", tree.run([*ask, warm[number % len(warm)]])[1])
    with ExitStack() as stack:
        servers = [(tree, stack.enter_context(serving(tree, kb))) for tree in trees]
        for question in first:
            for _, server in servers:
                server.ask(question)
                server.search(question)
        for question in warm:
            for tree, server in servers:
                tree.record("answer", server.ask(question))
            for tree, server in servers:
                tree.record("search", server.search(question))
    for tree in trees:
        output, _ = tree.run(["-c", PARTS, str(kb)], json.dumps(questions[: WARM_UP + 20]))
        for name, values in json.loads(output.splitlines()[-1]).items():
            tree.figures[name] = [1000 * value for value in values]


def summary(trees: Sequence[Tree]) -> dict[str, dict[str, float]]:
    """By kind: median and 95th percentile of each tree, and the median ratio of the pairs (other / this)."""
    rows: dict[str, dict[str, float]] = {}
    for kind, own in trees[0].figures.items():
        row = rows[kind] = {"p50": statistics.median(own), "p95": _percentile(own, 0.95), "n": len(own)}
        if len(trees) > 1:
            other = trees[1].figures[kind]
            row["p50 against"], row["p95 against"] = statistics.median(other), _percentile(other, 0.95)
            row["ratio"] = statistics.median(b / a for a, b in zip(own, other, strict=True))
    return rows


def _percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """A Markdown table with a row for each kind."""
    names = list(next(iter(rows.values())))
    lines = [f"| CPU ms | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
    for kind, row in rows.items():
        cells = (f"{row[name]:.2f}" if name == "ratio" else f"{row[name]:,.1f}".removesuffix(".0") for name in names)
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def versions() -> dict[str, str]:
    """Versions that affect the figures."""
    return {"python": platform.python_version(), **{name: version(name) for name in ("numpy", "onnxruntime")}}


def main() -> None:
    """Build, measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--chunks", type=int, default=50_000)
    parser.add_argument("--against", type=Path, metavar="PATH", help="a checkout of another version")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--kb", type=Path, help="an existing knowledge base")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="all measurements instead of a table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.work or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        kb = options.kb or build(options.folders, work, options.chunks, options.seed)
        folders = [Path(), *([options.against] if options.against else [])]
        trees = [Tree(folder.resolve(), work / f"compiled-{number}") for number, folder in enumerate(folders)]
        questions = read_questions(options.folders, options.questions + WARM_UP - 5, options.seed)
        random.Random(options.seed).shuffle(questions)
        measure(trees, kb.resolve(), questions, options.rounds)
    rows = summary(trees)
    about = {"kb": kb.name, "seed": options.seed, **versions()}
    if options.json:
        print(json.dumps({**about, "summary": rows, "trees": {str(t.folder): t.figures for t in trees}}))
    else:
        print(table(rows), ", ".join(f"{name} {value}" for name, value in about.items()), sep="\n\n")


if __name__ == "__main__":
    main()
