"""Compare searches that embed the candidates of each question with those of a knowledge base that embedded everything.

    python benchmarks/on_demand.py FOLDER [FOLDER ...] [--questions N] [--seed S] [--keep DIR] [--json]

Each FOLDER has the BEIR layout (see `beir.py`), or `questions.jsonl` beside documents in `docs/`, or `questions.csv`
beside documents in `corpora/`, or `questions.jsonl` with a document and its pages beside `pdfs/`. A document is ranked
by its best chunk (BEIR), a page by the first chunk that begins on it; elsewhere a chunk counts if it holds the passage,
one of the accepted answers, or a part of a referenced span. Figures are nDCG@10 over up to N questions drawn with the
seed S, for words alone, everything embedded, candidates embedded for each question alone (`first question`), and with
the vectors of the questions before (`in turn`). `chunks` is how many are embedded for a question.

`--keep DIR` keeps the knowledge bases, so that a second run embeds nothing.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from beir import Grades, ndcg, read_collection, versions

from ragkit.embed.base import Row, Rows
from ragkit.embed.minilm import MiniLM
from ragkit.index.kept_vectors import empty_kept_vectors
from ragkit.index.vector_reuse import ReusableVectors
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document, Hit

DEPTH = 20
"""Hits of a search: about what users ask for, since a search for more hits embeds more candidates."""


@dataclass(frozen=True)
class Question:
    """A question, and how its hits are judged."""

    text: str
    judge: Callable[[Sequence[Hit]], float]
    """Hits -> nDCG@10."""


class KnownVectors(MiniLM):
    """`minilm`, which takes the vectors of known texts from a knowledge base; counts the texts."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.count = 0
        self._known = ReusableVectors([directory], super().fingerprint)
        self._questions: dict[str, Row] = {}

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One vector per text."""
        self.count += len(texts)
        hashes = [text_hash(text) for text in texts]
        known = dict(self._known.find_vectors(hashes))
        missing = {key: text for key, text in zip(hashes, texts, strict=True) if key not in known}
        known |= zip(missing, super().embed_texts(list(missing.values())), strict=True) if missing else ()
        return np.stack([known[key] for key in hashes])

    def embed_query(self, text: str) -> Row:
        """The vector of a question."""
        if text not in self._questions:
            self._questions[text] = super().embed_texts([text])[0]
        return self._questions[text]


def text_hash(text: str) -> bytes:
    """As index runs compute it."""
    from hashlib import blake2b

    return blake2b(text.encode(), digest_size=16).digest()


def read_set(folder: Path) -> tuple[list[Document] | Path, list[Question]]:
    """The documents, or the folder that holds them, and the questions."""
    if (folder / "corpus.jsonl").exists():
        collection = read_collection(folder)
        questions = [
            Question(text, lambda hits, grades=collection.grades[key]: _judge_documents(hits, grades))
            for key, text in collection.queries.items()
        ]
        return [replace(document, source=document.id) for document in collection.documents], questions
    if (folder / "questions.csv").exists():
        return folder / "corpora", [
            Question(row["question"], lambda hits, row=row: _judge_spans(hits, row))
            for row in csv.DictReader((folder / "questions.csv").open())
        ]
    rows = [json.loads(line) for line in (folder / "questions.jsonl").open()]
    if (folder / "pdfs").exists():
        return folder / "pdfs", [
            Question(row["question"], lambda hits, row=row: _judge_pages(hits, row["document"], row["pages"]))
            for row in rows
        ]
    return folder / "docs", [
        Question(row["question"], lambda hits, row=row: _judge_texts(hits, row))
        for row in rows
        if row.get("answerable", True)
    ]


def _judge_documents(hits: Sequence[Hit], grades: Grades) -> float:
    return ndcg(list(dict.fromkeys(hit.source for hit in hits)), grades)


def _judge_spans(hits: Sequence[Hit], row: dict[str, str]) -> float:
    spans = [(span["start_index"], span["end_index"]) for span in json.loads(row["references"])]
    found: list[str] = []
    for place, hit in enumerate(hits):
        own = Path(hit.source).stem == row["corpus_id"]
        met = [i for i, (start, end) in enumerate(spans) if own and hit.chunk.start < end and start < hit.chunk.end]
        new = [f"{i}" for i in met if f"{i}" not in found]
        found.append(new[0] if new else f"hit {place}")
    return ndcg(found, {f"{i}": 1 for i in range(len(spans))})


def _judge_pages(hits: Sequence[Hit], document: str, pages: Sequence[int]) -> float:
    found = [f"{hit.chunk.page}" if hit.source.endswith(document) else f"{hit.source} {hit.chunk.page}" for hit in hits]
    return ndcg(list(dict.fromkeys(found)), {f"{page}": 1 for page in pages})


def _judge_texts(hits: Sequence[Hit], row: dict[str, object]) -> float:
    wanted = [row["passage"]] if "passage" in row else [one for group in row.get("answers", []) for one in group]
    names = row.get("source", [])
    for rank, hit in enumerate(hits[:10]):
        text = " ".join(hit.chunk.text.split()).lower()
        in_source = any(hit.source.endswith(name) for name in names) or not names
        if in_source and any(" ".join(str(one).split()).lower() in text for one in wanted):
            return float(1 / np.log2(rank + 2))
    return 0.0


def build(folder: Path, documents: list[Document] | Path, components: PipelineComponents, run: IndexOptions) -> None:
    """Index the documents of a set, unless the folder holds them already."""
    if (folder / "ragkit-kb.json").exists():
        return
    with KnowledgeBase(folder, components.pipeline, components) as kb:
        kb.index(documents, options=run) if isinstance(documents, Path) else kb.add(documents, run)


def measure(folder: Path, place: Path, count: int, seed: int) -> dict[str, float]:
    """The figures of one set."""
    documents, questions = read_set(folder)
    questions = random.Random(seed).sample(questions, min(count, len(questions)))
    pipeline = Pipeline.default()
    full, half = place / "full" / folder.name, place / "half" / folder.name
    build(full, documents, PipelineComponents(pipeline), IndexOptions())
    embedder = KnownVectors(full)
    components = PipelineComponents(pipeline, embedder)
    build(half, documents, components, IndexOptions(searchable_first=True, wait=False))
    empty_kept_vectors(half)
    figures: dict[str, float] = {"questions": len(questions)}

    def ask(name: str, kb: KnowledgeBase, mode: str | None = None, *, forget: bool = False) -> None:
        embedder.count, values = 0, []
        for question in questions:
            if forget:
                kb.close()
                empty_kept_vectors(kb.path)
            values.append(question.judge(kb.search(question.text, DEPTH, mode=mode)))
        figures[name] = float(np.mean(values))
        figures[f"{name}: chunks"] = embedder.count / len(questions)

    with KnowledgeBase(full, pipeline, components) as kb:
        ask("words", kb, "lexical")
        ask("everything embedded", kb)
    with KnowledgeBase(half, pipeline, components) as kb:
        ask("first question", kb, forget=True)
        kb.close()
        empty_kept_vectors(half)
        ask("in turn", kb)
    return figures


def main(arguments: Sequence[str]) -> None:
    """Print a table, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as scratch:
        rows = {}
        for folder in options.folders:
            rows[folder.name] = measure(folder, options.keep or Path(scratch), options.questions, options.seed)
            if not options.json:
                print(
                    f"{folder.name:14}", *(f"{key} {value:.3f}" for key, value in rows[folder.name].items()), flush=True
                )
    if options.json:
        print(json.dumps({"versions": versions(), "seed": options.seed, "sets": rows}, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
