"""Measure splitters by the spans that answer questions: recall and IoU of the retrieved characters.

    python -m benchmarks.splitters FOLDER

FOLDER holds `corpora/*.md` and `questions.csv` (question, references as JSON with start_index and end_index, corpus_id)
of brandonstarxel/chunking_evaluation. Each corpus is split and embedded; the chunks nearest to a question by cosine are
compared with its spans, in characters. Nothing is random; `--sample N --seed S` measures a sample of the questions.

`--context provider:model` adds contextual chunks: a model writes where each chunk stands. The sentences are kept in
`--kb DIR`, so that a second run asks for nothing; `--max-cost USD` limits what they cost.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import ragkit
from ragkit.embed.minilm import MiniLM
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
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
CONTEXTUAL = "{{name: recursive, chunk_size: 200, chunk_overlap: 0, context: {{model: {model}}}}}"
"""The section of contextual chunks."""


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


def read_corpora(folder: Path, questions: Sequence[Question]) -> dict[str, str]:
    """Name -> text of the corpora of the questions."""
    texts: dict[str, str] = {}
    for name in sorted({question.corpus for question in questions}):
        with (folder / "corpora" / f"{name}.md").open(encoding="utf-8", newline="") as file:
            texts[name] = file.read()
    return texts


def split_corpora(components: PipelineComponents, corpora: Mapping[str, str]) -> dict[str, list[Chunk]]:
    """Name -> the chunks of a corpus."""
    return {name: components.split_document(Document(text, source=f"{name}.txt")) for name, text in corpora.items()}


def write_contexts(
    pipeline: Pipeline, corpora: Mapping[str, str], kb: Path, max_cost_usd: float | None
) -> tuple[dict[str, list[Chunk]], str]:
    """Name -> the chunks of a corpus with contexts, written in the knowledge base `kb` or known there; and the cost."""
    with TemporaryDirectory() as folder, KnowledgeBase.open(kb, pipeline) as base:
        for name, text in corpora.items():
            (Path(folder) / f"{name}.txt").write_bytes(text.encode())
        report = base.index(folder, options=IndexOptions(max_cost_usd=max_cost_usd))
        chunks: dict[str, list[Chunk]] = {name: [] for name in corpora}
        with base.session() as session:
            written = list(session.chunks())
        for chunk in written:
            name = Path(chunk.source).stem
            if name in chunks and corpora[name][chunk.start : chunk.end] == chunk.text:
                chunks[name].append(chunk)
    return chunks, f"{report.contexts} contexts written, {report.usage.get('llm_cost_usd')} USD"


def measure(
    components: PipelineComponents,
    chunks: Mapping[str, Sequence[Chunk]],
    corpora: Mapping[str, str],
    questions: Sequence[Question],
    top_k: int,
) -> str:
    """Recall, IoU, number and length of the chunks, as cells of the table."""
    embedder, scores = components.embedder, list[tuple[float, float]]()
    for name, text in corpora.items():
        rows = embedder.embed_texts(components.embedding_texts(chunks[name]))
        for question in (question for question in questions if question.corpus == name):
            best = np.argsort(-(rows @ embedder.embed_query(question.text)), kind="stable")[:top_k]
            scores.append(score_question(len(text), question, [chunks[name][int(place)] for place in best]))
    recall, iou = np.mean(scores, axis=0).tolist()
    lengths = [len(chunk.text) for part in chunks.values() for chunk in part]
    return f"{recall:.3f} | {iou:.3f} | {len(lengths)} | {np.mean(lengths):.0f}"


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--top-k", type=int, default=5)
    parser.add_argument("--sample", type=int, default=0, help="number of questions; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--context", metavar="PROVIDER:MODEL", help="also measure contextual chunks of this model")
    parser.add_argument("--kb", type=Path, help="knowledge base that keeps the contexts; default: a temporary one")
    parser.add_argument("--max-cost", type=float, metavar="USD", help="limit of what the contexts cost")
    options = parser.parse_args()
    questions = read_questions(options.folder)
    if options.sample:
        questions = random.Random(options.seed).sample(questions, options.sample)
    versions = f"ragkit {ragkit.__version__}, Python {platform.python_version()}, numpy {np.__version__}"
    print(f"{len(questions)} questions, top_k {options.top_k}, minilm, seed {options.seed}, {versions}\n")
    print("| splitter | recall | IoU | chunks | characters per chunk | seconds to split |")
    print("| --- | --- | --- | --- | --- | --- |")
    embedder, corpora = MiniLM(), read_corpora(options.folder, questions)
    for name, split in SPLITTERS.items():
        components = PipelineComponents(Pipeline.from_yaml(f"split: {split}\n"), embedder)
        started = time.perf_counter()
        chunks = split_corpora(components, corpora)
        seconds = time.perf_counter() - started
        print(
            f"| {name} | {measure(components, chunks, corpora, questions, options.top_k)} | {seconds:.1f} |", flush=True
        )
    if options.context:
        pipeline = Pipeline.from_yaml(f"split: {CONTEXTUAL.format(model=json.dumps(options.context))}\n")
        components = PipelineComponents(pipeline, embedder)
        with TemporaryDirectory() as temporary:
            started = time.perf_counter()
            place = options.kb or Path(temporary) / "kb"
            chunks, cost = write_contexts(pipeline, corpora, place, options.max_cost)
            seconds = time.perf_counter() - started
        figures = measure(components, chunks, corpora, questions, options.top_k)
        print(f"| recursive, 200, contexts of {options.context} | {figures} | {seconds:.1f} |\n\n{cost}")


if __name__ == "__main__":
    main()
