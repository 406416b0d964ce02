"""What the rights of users cost: python -m benchmarks.access_overhead KB FOLDER [--questions 200] [--rounds 5]

The same questions are asked of a knowledge base as its owner, as a user who may read everything by rules, and as one
who may read some of the documents, in turn, in one process. KB: a knowledge base; it is copied. FOLDER: a collection
in the BEIR layout (see `beir.py`), whose questions are asked. Milliseconds are CPU time of `KnowledgeBase.search` with
the embedding of the question, medians; the ratio is the median over rounds.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from ragkit import KnowledgeBase
from ragkit.index.access.rules import AccessSettings

WARM_UP = 5


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kb", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    lines = (args.folder / "queries.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line)["text"] for line in lines][: args.questions + WARM_UP]
    with tempfile.TemporaryDirectory() as work:
        with KnowledgeBase.open(args.kb) as kb:
            kb.copy_to(Path(work) / "kb")
        with KnowledgeBase.open(Path(work) / "kb") as kb:
            print(measure(kb, questions, args.rounds))


def measure(kb: KnowledgeBase, questions: Sequence[str], rounds: int) -> str:
    """The table."""
    status = kb.status()
    kb.location.access.update(lambda _: rules_by_name(kb))
    readers = {
        "as the owner": kb,
        "as a user who reads everything": kb.as_user("a", ["one", "two"]),
        "as a user who reads some": kb.as_user("b", ["one"]),
    }
    documents = {name: reader.status().documents for name, reader in readers.items()}
    first: dict[str, float] = {}
    times: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(rounds):
        for name, reader in readers.items():
            started = time.process_time()
            reader.search(questions[0], 10)
            first.setdefault(name, time.process_time() - started)
            for question in questions[:WARM_UP]:
                reader.search(question, 10)
            samples = []
            for question in questions[WARM_UP:]:
                started = time.process_time()
                reader.search(question, 10)
                samples.append(1000 * (time.process_time() - started))
            times[name].append(statistics.median(samples))
    base = times["as the owner"]
    table = [
        f"{status.chunks:,} chunks of {status.documents:,} documents, {len(questions) - WARM_UP} questions, {rounds}"
        f" rounds, Python {platform.python_version()}, {platform.machine()}",
        "",
        "| search | documents | CPU ms, p50 | ratio | first search, CPU ms |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, samples in times.items():
        ratio = statistics.median(mine / owner for mine, owner in zip(samples, base, strict=True))
        p50 = statistics.median(samples)
        table.append(f"| {name} | {documents[name]:,} | {p50:.1f} | {ratio:.2f} | {1000 * first[name]:.0f} |")
    return "\n".join(table)


def rules_by_name(kb: KnowledgeBase) -> AccessSettings:
    """Rules that leave some of the documents to the group `one`, and the rest to `two`, by their names."""
    settings = AccessSettings()
    with kb.session() as session:
        suffixes = sorted({Path(source).stem[-1:] for source, _, _ in session.documents()})
    for suffix in suffixes:
        group = "one" if int(sha256(suffix.encode()).hexdigest(), 16) % 2 else "two"
        settings = settings.with_rule(f"*{suffix}.*", [f"group:{group}"])
    return settings


if __name__ == "__main__":
    main()
