"""Measure splitters by the spans that answer questions: recall and IoU of the retrieved characters.

    python -m benchmarks.splitters FOLDER

FOLDER holds `corpora/*.md` and `questions.csv` (question, references as JSON with start_index and end_index, corpus_id)
of brandonstarxel/chunking_evaluation. Each corpus is split and embedded; the chunks nearest to a question by cosine are
compared with its spans, in characters. Nothing is random; `--sample N --seed S` measures a sample of the questions.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ragkit
from ragkit.embed.minilm import MiniLM
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Chunk, Document

SPLITTERS = {
    "recursive, 200": "{name: recursive, chunk_size: 200, chunk_overlap: 0}",
    "recursive, 200, overlap 40": "{name: recursive, chunk_size: 200, chunk_overlap: 40}",
    "sentence, 200": "{name: sentence, chunk_size: 200, chunk_overlap: 0}",
    "semantic, 200, percentile 80": "{name: semantic, chunk_size: 200}",
    "semantic, 200, percentile 60": "{name: semantic, chunk_size: 200, percentile: 60}",
    "recursive, 100": "{name: recursive, chunk_size: 100, chunk_overlap: 0}",
    "semantic, 100, percentile 80": "{name: semantic, chunk_size: 100, min_tokens: 20}",
}
"""Row of the table -> section `split` of a pipeline."""


@dataclass(frozen=True)
class Question:
    """A question, its corpus, and the spans that answer it."""

    text: str
    corpus: str
    spans: Sequence[tuple[int, int]]


def read_questions(folder: Path) -> list[Question]:
    """The questions of `questions.csv`."""
    with (folder / "questions.csv").open(encoding="utf-8", newline="") as file:
        return [
            Question(
                row["question"],
                row["corpus_id"],
                [(int(span["start_index"]), int(span["end_index"])) for span in json.loads(row["references"])],
            )
            for row in csv.DictReader(file)
        ]


def score_question(length: int, question: Question, chunks: Sequence[Chunk]) -> tuple[float, float]:
    """Recall and IoU of the characters of the chunks."""
    expected, found = np.zeros(length, bool), np.zeros(length, bool)
    for start, end in question.spans:
        expected[start:end] = True
    for chunk in chunks:
        found[chunk.start : chunk.end] = True
    common = int((expected & found).sum())
    return common / max(1, int(expected.sum())), common / max(1, int((expected | found).sum()))


def measure(split: str, folder: Path, questions: Sequence[Question], top_k: int, embedder: MiniLM) -> dict[str, float]:
    """The means over all questions of one splitter, and what splitting took."""
    components = PipelineComponents(Pipeline.from_yaml(f"split: {split}\n"), embedder)
    scores: list[tuple[float, float]] = []
    seconds, count, characters = 0.0, 0, 0
    for name in sorted({question.corpus for question in questions}):
        with (folder / "corpora" / f"{name}.md").open(encoding="utf-8", newline="") as file:
            text = file.read()
        started = time.perf_counter()
        chunks = components.split_document(Document(text, source=f"{name}.txt"))
        seconds += time.perf_counter() - started
        count, characters = count + len(chunks), characters + sum(len(chunk.text) for chunk in chunks)
        rows = embedder.embed_texts([components.embedding_text(chunk) for chunk in chunks])
        for question in (question for question in questions if question.corpus == name):
            best = np.argsort(-(rows @ embedder.embed_query(question.text)), kind="stable")[:top_k]
            scores.append(score_question(len(text), question, [chunks[int(place)] for place in best]))
    recall, iou = np.mean(scores, axis=0).tolist()
    return {"recall": recall, "iou": iou, "chunks": count, "characters": characters / count, "split_s": seconds}


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--top-k", type=int, default=5)
    parser.add_argument("--sample", type=int, default=0, help="number of questions; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    questions = read_questions(options.folder)
    if options.sample:
        questions = random.Random(options.seed).sample(questions, options.sample)
    versions = f"ragkit {ragkit.__version__}, Python {platform.python_version()}, numpy {np.__version__}"
    print(f"{len(questions)} questions, top_k {options.top_k}, minilm, seed {options.seed}, {versions}\n")
    print("| splitter | recall | IoU | chunks | characters per chunk | seconds to split |")
    print("| --- | --- | --- | --- | --- | --- |")
    embedder = MiniLM()
    for name, split in SPLITTERS.items():
        got = measure(split, options.folder, questions, options.top_k, embedder)
        figures = f"{got['recall']:.3f} | {got['iou']:.3f} | {got['chunks']:.0f} | {got['characters']:.0f}"
        print(f"| {name} | {figures} | {got['split_s']:.1f} |", flush=True)


if __name__ == "__main__":
    main()
