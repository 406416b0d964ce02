"""Compare the default pipeline with its parts and with alternatives: rankings, answers and latency, with intervals.

    python benchmarks/retrieval_alternatives.py FOLDER [FOLDER ...] [--answers FOLDER] [--copies FOLDER]
        [--every N] [--cache DIR] [--seed S] [--json]

Each FOLDER has the BEIR layout (see `beir.py`). Documents are split as in a knowledge base, and a document is ranked by
its best chunk. Every alternative is `retrieve: {name: hybrid}` with one more option, or one of its parts. The metrics
are those of `ragkit.evaluate.metrics`. Each difference to the default has the interval that contains 95 % of the
bootstrap samples of the paired difference, and a `*` if the interval excludes 0.

Latency is the processor time of a search including the question's embedding: the median of the ratios to the default,
with the same questions for all in turn. `--copies` adds each document twice, under another title, and judges the first
ten hits. `--answers` writes one file per article of a collection with answers, indexes the files and checks the
extractive answers: whether one contains a gold answer, whether it quotes the paragraph that the question was written
for, and whether every quote matches its offsets. `--every N` asks every n-th question, in all parts.

Query rewriting (`rewrite`) is not measured, because it needs a language model.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from beir import CHUNKS_READ, DEPTH, CachedQueries, Collection, _chunk, embedded, read_collection, versions

from ragkit.answer.base import Answer
from ragkit.embed.base import EmbeddingProvider
from ragkit.embed.minilm import MiniLM
from ragkit.evaluate.answer_matching import strip_citation_marks
from ragkit.evaluate.intervals import BootstrapEstimate, bootstrap_mean, paired_p_value
from ragkit.evaluate.metrics import RANKING_METRICS, contains_answer
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Chunk, Document
from ragkit.retrieve.base import Reranker, Retriever, RetrieverDependencies
from ragkit.retrieve.dense import DenseRetriever
from ragkit.retrieve.hybrid import HybridRetriever
from ragkit.retrieve.in_memory_index import InMemoryChunkIndex
from ragkit.retrieve.lexical import LexicalRetriever
from ragkit.retrieve.options import (
    ContextOptions,
    DenseOptions,
    DistinctOptions,
    HybridOptions,
    LexicalOptions,
    RerankOptions,
    SearchOptions,
)
from ragkit.retrieve.query_rewriting import QueryRewriter
from ragkit.retrieve.rerank import MmrReranker
from ragkit.retrieve.rerank_sentences import SentenceReranker
from ragkit.retrieve.stages import StageFactory, build_staged_retriever
from ragkit.split.options import RecursiveOptions
from ragkit.split.recursive import RecursiveSplitter

DEFAULT = "hybrid (default)"
FIGURES = ("ndcg", "recall", "mrr")
TIMED, TIMED_ANSWERS = 100, 30
"""Number of timed questions: searches, and answers, which take longer."""
SMALL = RecursiveOptions(chunk_size=80, chunk_overlap=16)
"""The chunks to search when the context is the parent."""
Values = Mapping[str, list[float]]
"""Metric -> its value for each question."""


@dataclass(frozen=True)
class Alternative:
    """One retrieval setting."""

    options: SearchOptions
    small: bool = False
    """Search small chunks."""


@dataclass(frozen=True)
class AlternativeResult:
    """The result of one alternative on one collection."""

    name: str
    values: Values
    latency: float
    """Ratio to the latency of the default."""


ALTERNATIVES: Mapping[str, Alternative] = {
    DEFAULT: Alternative(HybridOptions()),
    "lexical alone": Alternative(LexicalOptions()),
    "dense alone": Alternative(DenseOptions()),
    "fusion: rrf": Alternative(HybridOptions(fusion="rrf")),
    "rerank: mmr": Alternative(HybridOptions(rerank=RerankOptions("mmr"))),
    "rerank: sentences": Alternative(HybridOptions(rerank=RerankOptions("sentences"))),
    "rerank: sentences of 8": Alternative(HybridOptions(rerank=RerankOptions("sentences", candidates=8))),
    "distinct": Alternative(HybridOptions(distinct=DistinctOptions())),
    "context: neighbours": Alternative(HybridOptions(context=ContextOptions())),
    "chunks of 80 tokens": Alternative(HybridOptions(), small=True),
    "chunks of 80, context: parent": Alternative(HybridOptions(context=ContextOptions("parent")), small=True),
}


def split_documents(documents: Sequence[Document], embedder: MiniLM, options: RecursiveOptions) -> list[Chunk]:
    """The chunks that a knowledge base makes; a document without text stays one chunk."""
    splitter, chunks = RecursiveSplitter(options), []
    for document in documents:
        reserve = len(embedder.token_starts(document.title))
        spans = splitter.spans(document, embedder.token_starts, reserve) or [(0, 0)]
        chunks += [_chunk(document, start, end) for start, end in spans]
    return chunks


def build_index(
    documents: Sequence[Document], embedder: MiniLM, options: RecursiveOptions, cache: Path | None
) -> InMemoryChunkIndex:
    """Split, embed and index the documents."""
    chunks = split_documents(documents, embedder, options)
    rows = embedded(embedder, [f"{chunk.header}\n{chunk.text}" for chunk in chunks], cache)
    return InMemoryChunkIndex(chunks, rows, {document.id: document.text for document in documents})


def build_retriever(options: SearchOptions, dependencies: RetrieverDependencies, model: MiniLM) -> Retriever:
    """The retriever with its stages, as in a pipeline."""

    def build(dependencies: RetrieverDependencies) -> Retriever:
        if isinstance(options, LexicalOptions):
            return LexicalRetriever(options, dependencies)
        return (
            DenseRetriever(options, dependencies)
            if isinstance(options, DenseOptions)
            else HybridRetriever(options if isinstance(options, HybridOptions) else HybridOptions(), dependencies)
        )

    def reranker(options: RerankOptions) -> Reranker:
        return (SentenceReranker if options.name == "sentences" else MmrReranker)(options, model)

    return build_staged_retriever(build, dependencies, options, StageFactory(reranker, QueryRewriter))


def read(folder: Path, every: int) -> Collection:
    """Read a collection with every n-th of its questions."""
    collection = read_collection(folder)
    return replace(collection, queries=dict(list(collection.queries.items())[::every]))


def measure(folder: Path, options: argparse.Namespace) -> tuple[Collection, list[AlternativeResult]]:
    """Measure every alternative on one collection."""
    collection, model, cache = read(folder, options.every), MiniLM(), options.cache
    indexes = {
        small: build_index(collection.documents, model, SMALL if small else RecursiveOptions(), cache)
        for small in (False, True)
    }
    questions = list(collection.queries.values())
    cached = CachedQueries(model, questions, embedded(model, questions, cache))

    def retrievers(embedder: EmbeddingProvider) -> dict[str, Retriever]:
        return {
            name: build_retriever(
                alternative.options, RetrieverDependencies(indexes[alternative.small], embedder), model
            )
            for name, alternative in ALTERNATIVES.items()
        }

    values = {name: _values(retriever, collection) for name, retriever in retrievers(cached).items()}
    rng = np.random.default_rng(options.seed)
    timed = [questions[at] for at in rng.choice(len(questions), min(TIMED, len(questions)), replace=False)]
    ratios = latencies({name: retriever.retrieve for name, retriever in retrievers(model).items()}, timed)
    return collection, [AlternativeResult(name, values[name], ratios[name]) for name in ALTERNATIVES]


def _values(retriever: Retriever, collection: Collection) -> Values:
    """Metric -> its value for each judged question."""
    values: dict[str, list[float]] = {name: [] for name in FIGURES}
    for query, text in collection.queries.items():
        ranking = list(dict.fromkeys(hit.chunk.document_id for hit in retriever.retrieve(text, CHUNKS_READ)))
        for name in FIGURES:
            values[name].append(RANKING_METRICS[name](ranking, collection.grades[query], DEPTH))
    return values


def latencies(searches: Mapping[str, Callable[[str], object]], questions: Sequence[str]) -> dict[str, float]:
    """The median ratio of each search's processor time to that of the default."""
    times: dict[str, list[float]] = {name: [] for name in searches}
    for search in searches.values():
        search(questions[0])
    for question in questions:
        for name, search in searches.items():
            started_at = time.process_time()
            search(question)
            times[name].append(time.process_time() - started_at)
    base = np.array(times[DEFAULT])
    return {name: float(np.median(np.array(values) / base)) for name, values in times.items()}


def copies(folder: Path, every: int, cache: Path | None) -> dict[str, Values]:
    """Index each document twice and judge the first ten hits, with and without duplicate removal."""
    collection, model = read(folder, every), MiniLM()
    duplicates = [replace(doc, id=f"{doc.id} copy", title=f"Copy of {doc.title}") for doc in collection.documents]
    index = build_index([*collection.documents, *duplicates], model, RecursiveOptions(), cache)
    questions = list(collection.queries.values())
    dependencies = RetrieverDependencies(index, CachedQueries(model, questions, embedded(model, questions, cache)))
    results: dict[str, Values] = {}
    for name in (DEFAULT, "rerank: mmr", "distinct"):
        retriever = build_retriever(ALTERNATIVES[name].options, dependencies, model)
        values: dict[str, list[float]] = {metric: [] for metric in FIGURES}
        for query, text in collection.queries.items():
            # a copy counts as its original, but only once
            ids = [hit.chunk.document_id.removesuffix(" copy") for hit in retriever.retrieve(text, DEPTH)]
            ranking = [id_ if id_ not in ids[:at] else f"again {at}" for at, id_ in enumerate(ids)]
            for metric in FIGURES:
                values[metric].append(RANKING_METRICS[metric](ranking, collection.grades[query], DEPTH))
        results[name] = values
    return results


@dataclass(frozen=True)
class Article:
    """A file with the paragraphs of an article, and the span of each paragraph in it."""

    path: Path
    spans: Mapping[str, tuple[int, int]]


def articles(documents: Sequence[Document], folder: Path) -> dict[str, Article]:
    """Write one file per article; return document id -> the article that contains it."""
    by_title: dict[str, list[Document]] = {}
    for document in documents:
        by_title.setdefault(document.title, []).append(document)
    by_document: dict[str, Article] = {}
    for number, (title, paragraphs) in enumerate(by_title.items()):
        text, spans = f"# {title}\n", dict[str, tuple[int, int]]()
        for paragraph in paragraphs:
            text += "\n"
            words = " ".join(paragraph.text.split())
            spans[paragraph.id] = (len(text), len(text) + len(words))
            text += words + "\n"
        path = folder / f"{number:03}.md"
        path.write_text(text, "utf-8")
        by_document |= dict.fromkeys(spans, Article(path, spans))
    return by_document


ANSWER_SETTINGS: Mapping[str, tuple[str, str]] = {
    DEFAULT: ("whole", "{name: hybrid}"),
    "context: neighbours": ("whole", "{name: hybrid, context: {name: neighbours}}"),
    "context: parent": ("whole", "{name: hybrid, context: {name: parent, chunks: 3}}"),
    "neighbours of the best 3": ("whole", "{name: hybrid, top_k: 3, context: {name: neighbours}}"),
    "the best 3": ("whole", "{name: hybrid, top_k: 3}"),
    "chunks of 80 tokens": ("small", "{name: hybrid}"),
    "chunks of 80, context: neighbours": ("small", "{name: hybrid, context: {name: neighbours}}"),
    "chunks of 80, context: parent": ("small", "{name: hybrid, context: {name: parent}}"),
    "rerank: sentences": ("whole", "{name: hybrid, rerank: {name: sentences}}"),
}
"""Name -> (which index it searches, its section `retrieve`)."""


def answers(folder: Path, every: int) -> tuple[dict[str, Values], dict[str, float]]:
    """The answer metrics of every alternative, and latencies."""
    collection = read_collection(folder)
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
    gold = {row["_id"]: row["answers"] for row in rows if row.get("answerable", True) and row.get("answers")}
    queries = [query for query in collection.queries if query in gold][::every]
    with TemporaryDirectory(prefix="ragkit-alternatives-") as scratch:
        files = Path(scratch) / "files"
        files.mkdir()
        articles_by_id = articles(collection.documents, files)
        for kind, options in (("whole", RecursiveOptions()), ("small", SMALL)):
            with KnowledgeBase.open(Path(scratch) / kind, _pipeline("{name: hybrid}", options)) as kb:
                kb.index(files)
        bases = {
            name: KnowledgeBase.open(Path(scratch) / kind, _pipeline(retrieve, _size(kind)))
            for name, (kind, retrieve) in ANSWER_SETTINGS.items()
        }
        values: dict[str, dict[str, list[float]]] = {name: {} for name in bases}
        for query in queries:
            relevant = [id_ for id_, grade in collection.grades[query].items() if grade > 0]
            for name, kb in bases.items():
                answer = kb.ask(collection.queries[query], model="extractive")
                for metric, value in judge_answer(answer, gold[query], relevant, articles_by_id).items():
                    values[name].setdefault(metric, []).append(value)
        searches = {name: _ask_function(kb) for name, kb in bases.items()}
        ratios = latencies(
            searches, [collection.queries[query] for query in queries[:: max(1, len(queries) // TIMED_ANSWERS)]]
        )
        for kb in bases.values():
            kb.close()
    return dict(values), ratios


def judge_answer(
    answer: Answer, gold: Sequence[str], relevant: Sequence[str], articles_by_id: Mapping[str, Article]
) -> dict[str, float]:
    """The metrics of one answer. A refusal contains no answer and no citation."""
    relevant_spans = [(str(articles_by_id[id_].path), *articles_by_id[id_].spans[id_]) for id_ in relevant]
    is_relevant = [
        any(cited.source == path and start <= cited.start and cited.end <= end for path, start, end in relevant_spans)
        for cited in answer.citations
    ]
    text = "" if answer.abstained else strip_citation_marks(answer.text)
    return {
        "answer contained": contains_answer(text, gold),
        "cited right": float(any(is_relevant) and not answer.abstained),
        "quotes verified": float(all(cited.verified for cited in answer.citations)),
        "refused": float(answer.abstained),
    }


def _ask_function(kb: KnowledgeBase) -> Callable[[str], object]:
    return lambda question: kb.ask(question, model="extractive")


def _size(kind: str) -> RecursiveOptions:
    return SMALL if kind == "small" else RecursiveOptions()


def _pipeline(retrieve: str, size: RecursiveOptions) -> Pipeline:
    split = f"{{name: recursive, chunk_size: {size.chunk_size}, chunk_overlap: {size.chunk_overlap}}}"
    text = f"load: {{name: folder}}\nsplit: {split}\nembed: {{name: minilm}}\nstore: {{name: sqlite}}\n"
    return Pipeline.from_yaml(f"{text}retrieve: {retrieve}\nanswer: {{provider: extractive}}\nrun: {{name: local}}\n")


def table(values: Mapping[str, Values], ratios: Mapping[str, float], seed: int) -> list[str]:
    """A Markdown table: the default with its intervals, the others with their paired differences to it."""
    names = list(values[DEFAULT])
    lines = [f"| retrieval | {' | '.join(names)} | latency |", f"| --- |{' --- |' * (len(names) + 1)}"]
    for name, own in values.items():
        cells = [_cell(own[metric], None if name == DEFAULT else values[DEFAULT][metric], seed) for metric in names]
        ratio = f"{ratios[name]:.2f}" if name in ratios else ""
        lines.append(f"| {name} | {' | '.join(cells)} | {ratio} |")
    return lines


def _cell(own: Sequence[float], base: Sequence[float] | None, seed: int) -> str:
    mean = _estimate(own, seed)
    if base is None:
        return f"{mean.mean:.4f} ({mean.low:.3f} to {mean.high:.3f})"
    change = _estimate([value - base_value for value, base_value in zip(own, base, strict=True)], seed)
    mark = "*" if change.low > 0 or change.high < 0 else ""
    return f"{mean.mean:.4f}, {change.mean:+.4f}{mark} ({change.low:+.3f} to {change.high:+.3f})"


def _estimate(values: Sequence[float], seed: int) -> BootstrapEstimate:
    estimate = bootstrap_mean(values, seed)
    assert estimate is not None
    return estimate


def _plain(values: Mapping[str, Values], ratios: Mapping[str, float], seed: int) -> dict[str, dict[str, float]]:
    """For `--json`: means, the p-value of the difference to the default, and latencies."""
    return {
        name: {
            **{metric: float(np.mean(own[metric])) for metric in own},
            **{
                f"{metric}_p": paired_p_value(values[DEFAULT][metric], own[metric], seed)
                for metric in own
                if name != DEFAULT
            },
            **({"latency": ratios[name]} if name in ratios else {}),
        }
        for name, own in values.items()
    }


def main(arguments: Sequence[str]) -> None:
    """Print tables in Markdown, or with `--json` one object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--answers", type=Path, metavar="FOLDER", help="a collection with answers")
    parser.add_argument("--copies", type=Path, metavar="FOLDER", help="index each document of this collection twice")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="use only every n-th question")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here between runs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap and of the timed questions")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    options = parser.parse_args(arguments)
    results: dict[str, tuple[dict[str, Values], dict[str, float]]] = {}
    for folder in options.folders:
        collection, measured = measure(folder, options)
        title = f"{collection.name}: {len(collection.queries)} questions, {len(collection.documents)} documents, @10"
        results[title] = ({row.name: row.values for row in measured}, {row.name: row.latency for row in measured})
    if options.copies:
        results[f"{options.copies.name}, every document indexed twice: the first ten hits"] = (
            copies(options.copies, options.every, options.cache),
            {},
        )
    if options.answers:
        values, ratios = answers(options.answers, options.every)
        count = len(next(iter(values[DEFAULT].values())))
        results[f"{options.answers.name}: answers to {count} questions, without a model"] = (values, ratios)
    if options.json:
        plain = {title: _plain(*result, options.seed) for title, result in results.items()}
        print(json.dumps({"seed": options.seed, "versions": versions(), "results": plain}))
        return
    for title, (values, ratios) in results.items():
        print(f"\n{title}\n")
        print("\n".join(table(values, ratios, options.seed)))
    print(f"\nseed {options.seed}; " + ", ".join(f"{name} {value}" for name, value in versions().items()))


if __name__ == "__main__":
    main(sys.argv[1:])
