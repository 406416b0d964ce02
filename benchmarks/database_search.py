"""Compare a knowledge base in PostgreSQL with a directory: python -m benchmarks.database_search DSN KB FOLDER [options]

    python -m benchmarks.database_search postgresql://localhost/test KB squad-dev/ [--questions 1000] [--rounds 3]
        [--seed 1] [--memory 2GB]

KB: a knowledge base in a directory; it stays as it is and is copied to a new schema of the database, which is dropped
at the end. FOLDER: a collection in the BEIR layout (see `beir.py`), whose questions are asked. Printed are

- how long copying takes, and the space in the database;
- how long a reader without a copy takes until its first search, and one whose copy is behind by a run that changes 1 %
  of the chunks until it has caught up;
- whether the hits, their order and their scores are those of the directory, and wall clock ms of
  `KnowledgeBase.search`, medians of the rounds, in turn;
- the same for a copy that leaves the vectors in the database (`max_gb=0`), before and after it has an HNSW index, which
  is built with `--memory` for `maintenance_work_mem`; with recall@10 of dense search against the directory, over all
  chunks and with a filter that keeps 1 % of the documents;
- the largest resident size of a process that searches.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from ragkit import Hit, KnowledgeBase
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.postgres import PostgresCatalog
from ragkit.index.catalog.postgres_vectors import create_vector_index

TOP_K = 10
CHUNKS_OF_A_FILE = 20
SEARCH = """
import json, resource, sys
from ragkit import KnowledgeBase
with KnowledgeBase.open(sys.argv[1]) as kb:
    for question in json.loads(sys.stdin.read()):
        kb.search(question, 10)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def seconds_of(action: Any) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def write_files(folder: Path, kb: KnowledgeBase, count: int, rng: random.Random, version: str) -> None:
    """Text files of so many chunks, made of sentences that the knowledge base has."""
    sentences: list[str] = []
    with kb.session() as session:
        texts = [document.text for document in session.texts()]
    for text in rng.sample(texts, min(200, len(texts))):
        sentences += [part for part in text.split(". ") if 40 < len(part) < 400]
    folder.mkdir(exist_ok=True)
    for number in range(max(1, count // CHUNKS_OF_A_FILE)):
        lines, size = [f"Notes {number}, {version}."], 0
        while size < CHUNKS_OF_A_FILE * 800:
            lines.append(rng.choice(sentences) + ".")
            size += len(lines[-1])
        (folder / f"notes-{number}.txt").write_text("\n".join(lines), "utf-8")


def search_all(
    kb: KnowledgeBase, questions: Sequence[str], where: Any = None, mode: Any = None
) -> tuple[list[list[Hit]], list[float]]:
    """The hits of each question, and milliseconds."""
    hits, times = [], []
    for question in questions:
        started = time.perf_counter()
        hits.append(kb.search(question, TOP_K, where, mode))
        times.append(1000 * (time.perf_counter() - started))
    return hits, times


def keys(hits: Sequence[Hit]) -> list[tuple[str, float]]:
    """What is compared: the chunk and its score."""
    return [(hit.chunk.id, round(hit.score, 5)) for hit in hits]


def recall(found: Sequence[Sequence[Hit]], expected: Sequence[Sequence[Hit]]) -> float:
    """The share of the expected chunks that were found."""
    total = sum(len(hits) for hits in expected)
    same = sum(len({h.chunk.id for h in a} & {h.chunk.id for h in b}) for a, b in zip(found, expected, strict=True))
    return same / max(1, total)


def compare(
    title: str, places: dict[str, str], questions: Sequence[str], rounds: int, where: Any = None, mode: Any = None
) -> None:
    """Ask all questions of each place in turn and print how they differ."""
    times: dict[str, list[float]] = {name: [] for name in places}
    results: dict[str, list[list[Hit]]] = {}
    kbs = {name: KnowledgeBase.open(place) for name, place in places.items()}
    for _ in range(rounds):
        for name, kb in kbs.items():
            search_all(kb, questions[:5], where, mode)
            results[name], samples = search_all(kb, questions, where, mode)
            times[name].append(statistics.median(samples))
    for kb in kbs.values():
        kb.close()
    (first, base), *others = times.items()
    for name, samples in others:
        same = sum(keys(a) == keys(b) for a, b in zip(results[name], results[first], strict=True))
        ratio = statistics.median(mine / own for mine, own in zip(samples, base, strict=True))
        print(
            f"{title}: {name} {statistics.median(samples):.1f} ms, {first} {statistics.median(base):.1f} ms, ratio"
            f" {ratio:.2f}; the same hits for {same:,} of {len(questions):,}; recall@{TOP_K}"
            f" {recall(results[name], results[first]):.4f}",
            flush=True,
        )


def memory_of_a_reader(place: str, questions: Sequence[str]) -> float:
    """MB of a process that searches."""
    command = [sys.executable, "-c", SEARCH, place]
    done = subprocess.run(command, input=json.dumps(questions), capture_output=True, text=True, check=True)
    return float(done.stdout)


def size(dsn: str, schema: str) -> dict[str, float]:
    """GB of the schema's tables with their indexes, and of the HNSW index."""
    query = (
        "SELECT sum(pg_total_relation_size(c.oid)) FILTER (WHERE relkind = 'r'),"
        " sum(pg_relation_size(c.oid)) FILTER (WHERE relname LIKE 'vectors_hnsw%%')"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s"
    )
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query, (schema,)).fetchone()
    return {"all": float(row[0] or 0) / 1e9, "index": float(row[1] or 0) / 1e9} if row else {}


def measure(dsn: str, directory: Path, questions: list[str], options: argparse.Namespace, work: Path) -> None:
    """Measure everything, and print it."""
    rng = random.Random(options.seed)
    schema = f"bench_{secrets.token_hex(4)}"
    join = "&" if "?" in dsn else "?"
    address = f"{dsn}{join}schema={schema}"
    server = f"{address}&max_gb=0&options=-c%20maintenance_work_mem%3D{options.memory}"
    os.environ["RAGKIT_CACHE"] = str(work / "cache")
    try:
        with KnowledgeBase.open(directory) as kb:
            status = kb.status()
            print(f"{status.chunks:,} chunks of {status.documents:,} documents", flush=True)
            taken = seconds_of(lambda: kb.copy_to(address))
            print(f"copied to the database in {taken:.0f} s: {size(dsn, schema)['all']:.2f} GB", flush=True)
            with kb.session() as session:
                names = [Path(source).name for source, _, _ in session.documents()]
            write_files(work / "notes", kb, status.chunks // 100, rng, "first version")
        for name, place in (("with all vectors", address), ("without vectors", server)):
            os.environ["RAGKIT_CACHE"] = str(work / name.replace(" ", "-"))
            started = time.perf_counter()
            with KnowledgeBase.open(place) as kb:
                kb.search(questions[0])
                taken = time.perf_counter() - started
            print(f"a new copy {name}, until the first search: {taken:.1f} s", flush=True)
        places = {"directory": str(directory), "copy": address}
        os.environ["RAGKIT_CACHE"] = str(work / "with-all-vectors")
        compare("copy, hybrid", places, questions, options.rounds)
        print(f"largest size of a reader of the directory: {memory_of_a_reader(str(directory), questions[:50]):.0f} MB")
        print(f"and of one of the copy: {memory_of_a_reader(address, questions[:50]):.0f} MB", flush=True)
        some = {"name": {"$in": rng.sample(names, max(1, len(names) // 100))}}
        os.environ["RAGKIT_CACHE"] = str(work / "without-vectors")
        places = {"directory": str(directory), "PostgreSQL": server}
        few = questions[: options.scans]
        compare("by a scan, dense", places, few, 1, None, "dense")
        with closing(PostgresCatalog(DatabaseUrl.parse(server))) as catalog:
            taken = seconds_of(lambda: create_vector_index(catalog))
        print(f"HNSW index built in {taken:.0f} s: {size(dsn, schema)['index']:.2f} GB", flush=True)
        compare("by HNSW, dense", places, questions, options.rounds, None, "dense")
        compare("by HNSW, dense, 1 % of the documents", places, questions, options.rounds, some, "dense")
        compare("by HNSW, hybrid", places, questions, options.rounds)
        compare("by HNSW, hybrid, 1 % of the documents", places, questions, options.rounds, some)
        print(f"largest size of a reader: {memory_of_a_reader(server, questions[:50]):.0f} MB", flush=True)
        catch_up(address, work, status.chunks, questions, rng)
    finally:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE'.encode())


def catch_up(address: str, work: Path, chunks: int, questions: Sequence[str], rng: random.Random) -> None:
    """A copy follows runs that add, and that change, 1 % of the chunks."""
    os.environ["RAGKIT_CACHE"] = str(work / "with-all-vectors")
    with KnowledgeBase.open(address) as reader:
        reader.search(questions[0])
        for change in ("added", "changed"):
            os.environ["RAGKIT_CACHE"] = str(work / "cache")
            with KnowledgeBase.open(address) as writer:
                if change == "changed":
                    write_files(work / "notes", writer, chunks // 100, rng, "second version")
                report = writer.index(work / "notes")
            taken = seconds_of(reader.location.refresh)
            search = seconds_of(lambda: reader.search(questions[0]))
            print(
                f"after {report.chunks['added']:,} chunks were added and {report.chunks['removed']:,} removed:"
                f" {taken:.2f} s to catch up, {search:.2f} s for the first search",
                flush=True,
            )


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dsn")
    parser.add_argument("kb", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--scans", type=int, default=20, help="questions that are answered by a scan of all vectors")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", default="2GB")
    options = parser.parse_args()
    lines = (options.folder / "queries.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line)["text"] for line in lines]
    random.Random(options.seed).shuffle(questions)
    with tempfile.TemporaryDirectory() as work:
        measure(options.dsn, options.kb, questions[: options.questions], options, Path(work))


if __name__ == "__main__":
    main()
