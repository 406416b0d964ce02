"""Measure the parts of retrieval, each on and off, on all kinds of sets, with paired intervals.

    python -m benchmarks.retrieval_sets DATA --work DIR [--sets NAME ...] [--settings NAME ...] [--every N]
        [--embedder minilm|multilingual] [--weights W ...]

DATA holds folders with the BEIR layout (see `beir.py`), and folders of files with `questions.jsonl`: of the kind of
FinanceBench (`pdfs/`; `document`, `pages`) and of questions with the strings of their answers (`docs/`; `answers`).
Documents are split as in a knowledge base and embedded once: vectors and knowledge bases are kept in DIR.

`document@1`: the first hit is of the right document. `recall@10`: the share of the right passages (BEIR) or pages
among the first ten hits. `all@10`: all of them. `answers@8`: those of the first eight hits that are of a right file
hold every part of the answer; `passage@8`: one of them holds the passage that the question was written for.
`--weights` compares other weights of the cosines with the default one.
A part is judged by its paired difference to the settings of the last release, with the interval of 95 % of the
bootstrap samples, and a `*` if it excludes 0. `--groups 0|1` uses every other group: a company, or every other
question.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.beir import CachedQueries, embedded, ndcg, read_collection, recall, split
from ragkit.embed import EMBEDDERS
from ragkit.embed.base import TokenizingEmbedder
from ragkit.evaluate.intervals import bootstrap_mean, paired_difference
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Hit
from ragkit.retrieve.base import ChunkIndex, RetrieverDependencies
from ragkit.retrieve.hybrid import HybridRetriever
from ragkit.retrieve.in_memory_index import InMemoryChunkIndex
from ragkit.retrieve.options import HybridOptions

OLD = HybridOptions(dense_weight=0.55, document_weight=0, hops=1)
SETTINGS: Mapping[str, HybridOptions] = {
    "before": OLD,
    "lexical": replace(OLD, dense_weight=0),
    "dense": replace(OLD, dense_weight=1),
    "documents": replace(OLD, document_weight=HybridOptions.document_weight),
    "weight by script": replace(OLD, dense_weight=None),
    "second hop": replace(OLD, hops=None),
    "second hop, always": HybridOptions(hops=2),
    "all but the second hop": HybridOptions(hops=1),
    "default": HybridOptions(),
}
"""Name -> options. Each part alone, then all of them."""


@dataclass(frozen=True)
class Question:
    """A question, with the group that is left out together and what is right."""

    text: str
    group: str
    right: Mapping[str, object]


@dataclass(frozen=True)
class QuestionSet:
    """An index with its questions."""

    name: str
    dependencies: RetrieverDependencies
    questions: list[Question]


Values = dict[str, list[float]]


def judge(question: Question, hits: Sequence[Hit]) -> dict[str, float]:
    """The metrics of the hits of one question."""
    right = question.right
    if "grades" in right:
        grades: Mapping[str, int] = right["grades"]  # type: ignore[assignment]
        ranking = list(dict.fromkeys(hit.chunk.document_id for hit in hits))
        found = recall(ranking, grades)
        return {"ndcg@10": ndcg(ranking, grades), "recall@10": found, "all@10": float(found == 1)}
    if "pages" in right:
        pages: list[int] = right["pages"]  # type: ignore[assignment]
        seen = {(Path(hit.source).name, hit.chunk.page) for hit in hits[:10]}
        found = float(np.mean([(right["document"], page) in seen for page in pages]))
        first = bool(hits) and Path(hits[0].source).name == right["document"]
        return {"document@1": float(first), "recall@10": found}
    text = " ".join(" ".join(hit.text for hit in hits[:8] if Path(hit.source).name in right["sources"]).lower().split())  # type: ignore[operator]
    groups: list[list[str]] = right["answers"]  # type: ignore[assignment]
    values = {"answers@8": float(all(any(" ".join(a.lower().split()) in text for a in group) for group in groups))}
    if passage := right.get("passage"):
        values["passage@8"] = float(" ".join(str(passage).lower().split()) in text)
    return values


def beir_set(folder: Path, work: Path, every: int, name: str) -> QuestionSet:
    """A collection, in memory."""
    collection, embedder = read_collection(folder), EMBEDDERS.find(name)()
    assert isinstance(embedder, TokenizingEmbedder)
    chunks = split(collection.documents, embedder)
    rows = embedded(embedder, [f"{chunk.header}\n{chunk.text}" for chunk in chunks], work / "vectors")
    texts = list(collection.queries.values())
    queries = CachedQueries(embedder, texts, embedded(embedder, texts, work / "vectors", questions=True))
    questions = [
        Question(text, str(number), {"grades": collection.grades[id_]})
        for number, (id_, text) in enumerate(collection.queries.items())
    ]
    return QuestionSet(
        folder.name, RetrieverDependencies(InMemoryChunkIndex(chunks, rows), queries), questions[::every]
    )


def file_questions(folder: Path) -> list[Question]:
    """The questions of a folder of files."""
    questions: list[Question] = []
    for number, line in enumerate((folder / "questions.jsonl").read_text("utf-8").splitlines()):
        row = json.loads(line)
        if "pages" in row:
            group = row["document"].split("_")[0]
            questions.append(Question(row["question"], group, {"document": row["document"], "pages": row["pages"]}))
        elif row.get("answerable", True):
            right = {"sources": row["source"], "answers": row["answers"], "passage": row.get("passage")}
            questions.append(Question(row["question"], str(number), right))
    return questions


def hits_of(questions: QuestionSet, options: HybridOptions) -> tuple[list[list[Hit]], list[float]]:
    """The hits of each question, and the CPU seconds of each search."""
    retriever = HybridRetriever(options, questions.dependencies)
    hits, seconds = [], []
    for question in questions.questions:
        started_at = time.process_time()
        hits.append(retriever.retrieve(question.text, 20))
        seconds.append(time.process_time() - started_at)
    return hits, seconds


def measure(questions: QuestionSet, settings: Mapping[str, HybridOptions]) -> dict[str, tuple[Values, float]]:
    """Setting -> metric -> the value of each question; and the median CPU time of a search in ms."""
    results: dict[str, tuple[Values, float]] = {}
    for name, options in settings.items():
        values: Values = {}
        found, seconds = hits_of(questions, options)
        for question, hits in zip(questions.questions, found, strict=True):
            for metric, value in judge(question, hits).items():
                values.setdefault(metric, []).append(value)
        results[name] = (values, 1000 * float(np.median(seconds)))
    return results


def table(name: str, results: Mapping[str, tuple[Values, float]], count: int) -> list[str]:
    """A Markdown table: the first setting with its intervals, the others with their paired differences to it."""
    base = next(iter(results.values()))[0]
    lines = [
        f"\n`{name}`, {count} questions:\n",
        f"| setting | {' | '.join(base)} | CPU ms |",
        "| --- |" + " --- |" * (len(base) + 1),
    ]
    for setting, (values, ms) in results.items():
        cells = []
        for metric, own in values.items():
            mean = bootstrap_mean(own)
            assert mean is not None
            if own is base[metric]:
                cells.append(f"{mean.mean:.3f} ({mean.low:.3f} to {mean.high:.3f})")
                continue
            change = paired_difference(base[metric], own)
            mark = "*" if change.low > 0 or change.high < 0 else ""
            cells.append(f"{mean.mean:.3f}, {change.mean:+.3f}{mark} ({change.low:+.3f} to {change.high:+.3f})")
        lines.append(f"| {setting} | {' | '.join(cells)} | {ms:.1f} |")
    return lines


def in_groups(questions: QuestionSet, half: int | None) -> QuestionSet:
    """Every other group; all of them if `half` is None."""
    if half is None:
        return questions
    names = sorted({question.group for question in questions.questions})
    chosen = set(names[half::2])
    return replace(questions, questions=[question for question in questions.questions if question.group in chosen])


def open_sets(data: Path, work: Path, names: Sequence[str], every: int, embedder_name: str):  # type: ignore[no-untyped-def]
    """Each set, while its index is open."""
    for folder in sorted(data.iterdir()):
        if names and folder.name not in names:
            continue
        if (folder / "qrels.tsv").exists():
            yield beir_set(folder, work, every, embedder_name)
        elif (folder / "questions.jsonl").exists():
            path = work / ("kb" if embedder_name == "minilm" else f"kb-{embedder_name}") / folder.name
            with KnowledgeBase.open(
                path, Pipeline.from_yaml(f"extends: default\nembed: {{name: {embedder_name}}}\n")
            ) as kb:
                kb.index(next(folder / name for name in ("pdfs", "docs") if (folder / name).exists()))
                questions = file_questions(folder)
                texts = [question.text for question in questions]
                embedder = EMBEDDERS.find(embedder_name)()
                rows = embedded(embedder, texts, work / "vectors", questions=True)
                queries = CachedQueries(embedder, texts, rows)
                with kb.session() as session, session.snapshot() as snapshot:
                    index: ChunkIndex = snapshot
                    yield QuestionSet(folder.name, RetrieverDependencies(index, queries), questions[::every])


def main(arguments: Sequence[str]) -> None:
    """Print a table for each set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="keep vectors and knowledge bases here")
    parser.add_argument("--sets", nargs="*", default=[], help="only these folders")
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="use only every n-th question")
    parser.add_argument("--groups", type=int, choices=(0, 1), help="use every other group, from this one on")
    parser.add_argument("--embedder", choices=("minilm", "multilingual"), default="minilm")
    parser.add_argument("--weights", type=float, nargs="*", default=[], metavar="W", help="weights of the cosines")
    options = parser.parse_args(arguments)
    settings = {name: SETTINGS[name] for name in options.settings}
    if options.weights:
        weights = {f"weight {weight}": HybridOptions(dense_weight=weight) for weight in options.weights}
        settings = {"default": SETTINGS["default"], **weights}
    for questions in open_sets(options.data, options.work, options.sets, options.every, options.embedder):
        chosen = in_groups(questions, options.groups)
        print("\n".join(table(chosen.name, measure(chosen, settings), len(chosen.questions))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
