"""The default pipeline against its own parts and the alternatives: rankings, answers, latency; with intervals.

    python benchmarks/retrieval_alternatives.py FOLDER [FOLDER ...] [--answers FOLDER] [--copies FOLDER]
        [--every N] [--cache DIR] [--seed S] [--json]

Each FOLDER is in the shape of the BEIR benchmark (see `beir.py`). Documents are split as a knowledge base splits them;
a document stands where its best chunk stands. Every alternative is `retrieve: {name: hybrid}` with one option more, or
one of its parts. Figures are those of `ragkit.evaluate.metrics`; behind each difference to the default stands the
interval that holds 95 % of the bootstrap samples of the paired difference, and a `*` where it leaves out 0.

Latency is processor time of a search with its question embedded, the same questions put to all in turn: the median of
the ratios to the default. `--copies` puts each document there twice, under another title, and judges the first ten
hits as they come. `--answers` makes one file of each article of a collection with answers, indexes them, and looks at
the answers that need no model: does one hold a gold answer, is a quote of it from the paragraph that the question was
written for, does every quote stand at its offsets. `--every N` asks every n-th question, everywhere.

What a model writes (`rewrite`) is not here: without a model there is nothing to measure.
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
from ragkit.evaluate.intervals import BootstrapEstimate, bootstrap_mean, paired_p_value
from ragkit.evaluate.metrics import RANKING_METRICS, contains_answer
from ragkit.evaluate.run import strip_citation_marks
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
    FeedbackOptions,
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
"""Questions that are timed: searches, and answers, which take longer."""
SMALL = RecursiveOptions(chunk_size=80, chunk_overlap=16)
"""What is searched where the parent is handed on."""
Values = Mapping[str, list[float]]
"""Figure -> its value for each question."""


@dataclass(frozen=True)
class Alternative:
    """One way to search."""

    options: SearchOptions
    small: bool = False
    """Over small chunks."""


@dataclass(frozen=True)
class Measured:
    """What one alternative reached on one collection."""

    name: str
    values: Values
    latency: float
    """Times that of the default."""


ALTERNATIVES: Mapping[str, Alternative] = {
    DEFAULT: Alternative(HybridOptions()),
    "lexical alone": Alternative(LexicalOptions()),
    "dense alone": Alternative(DenseOptions()),
    "fusion: rrf": Alternative(HybridOptions(fusion="rrf")),
    "lexical, feedback (RM3)": Alternative(LexicalOptions(feedback=FeedbackOptions())),
    "dense, feedback (Rocchio)": Alternative(DenseOptions(feedback=FeedbackOptions())),
    "feedback, weight 0.1": Alternative(HybridOptions(feedback=FeedbackOptions(weight=0.1))),
    "feedback, weight 0.2": Alternative(HybridOptions(feedback=FeedbackOptions())),
    "feedback, weight 0.4": Alternative(HybridOptions(feedback=FeedbackOptions(weight=0.4))),
    "rerank: mmr": Alternative(HybridOptions(rerank=RerankOptions("mmr"))),
    "rerank: sentences": Alternative(HybridOptions(rerank=RerankOptions("sentences"))),
    "rerank: sentences of 8": Alternative(HybridOptions(rerank=RerankOptions("sentences", candidates=8))),
    "distinct": Alternative(HybridOptions(distinct=DistinctOptions())),
    "context: neighbours": Alternative(HybridOptions(context=ContextOptions())),
    "chunks of 80 tokens": Alternative(HybridOptions(), small=True),
    "chunks of 80, context: parent": Alternative(HybridOptions(context=ContextOptions("parent")), small=True),
}


def chunks_of(documents: Sequence[Document], embedder: MiniLM, options: RecursiveOptions) -> list[Chunk]:
    """The chunks that a knowledge base makes; a document without text stays one chunk."""
    splitter, chunks = RecursiveSplitter(options), []
    for document in documents:
        reserve = len(embedder.token_starts(document.title))
        spans = splitter.spans(document, embedder.token_starts, reserve) or [(0, 0)]
        chunks += [_chunk(document, start, end) for start, end in spans]
    return chunks


def passages_of(
    documents: Sequence[Document], embedder: MiniLM, options: RecursiveOptions, cache: Path | None
) -> InMemoryChunkIndex:
    """What is searched."""
    chunks = chunks_of(documents, embedder, options)
    rows = embedded(embedder, [f"{chunk.header}\n{chunk.text}" for chunk in chunks], cache)
    return InMemoryChunkIndex(chunks, rows, {document.id: document.text for document in documents})


def retriever_of(options: SearchOptions, parts: RetrieverDependencies, model: MiniLM) -> Retriever:
    """The retriever with its stages, as a pipeline puts them together."""

    def build(given: RetrieverDependencies) -> Retriever:
        if isinstance(options, LexicalOptions):
            return LexicalRetriever(options, given)
        return (
            DenseRetriever(options, given)
            if isinstance(options, DenseOptions)
            else HybridRetriever(options if isinstance(options, HybridOptions) else HybridOptions(), given)
        )

    def reranker(chosen: RerankOptions) -> Reranker:
        return (SentenceReranker if chosen.name == "sentences" else MmrReranker)(chosen, model)

    return build_staged_retriever(build, parts, options, StageFactory(reranker, QueryRewriter))


def read(folder: Path, every: int) -> Collection:
    """A collection with every n-th of its questions."""
    whole = read_collection(folder)
    return replace(whole, queries=dict(list(whole.queries.items())[::every]))


def measure(folder: Path, options: argparse.Namespace) -> tuple[Collection, list[Measured]]:
    """Every alternative on one collection."""
    collection, model, cache = read(folder, options.every), MiniLM(), options.cache
    pieces = {
        small: passages_of(collection.documents, model, SMALL if small else RecursiveOptions(), cache)
        for small in (False, True)
    }
    asked = list(collection.queries.values())
    known = CachedQueries(model, asked, embedded(model, asked, cache))

    def retrievers(embedder: EmbeddingProvider) -> dict[str, Retriever]:
        return {
            name: retriever_of(one.options, RetrieverDependencies(pieces[one.small], embedder), model)
            for name, one in ALTERNATIVES.items()
        }

    values = {name: _values(one, collection) for name, one in retrievers(known).items()}
    chance = np.random.default_rng(options.seed)
    some = [asked[at] for at in chance.choice(len(asked), min(TIMED, len(asked)), replace=False)]
    ratios = latencies({name: one.retrieve for name, one in retrievers(model).items()}, some)
    return collection, [Measured(name, values[name], ratios[name]) for name in ALTERNATIVES]


def _values(retriever: Retriever, collection: Collection) -> Values:
    """Figure -> its value for each judged question."""
    found: dict[str, list[float]] = {name: [] for name in FIGURES}
    for query, text in collection.queries.items():
        ranking = list(dict.fromkeys(hit.chunk.document_id for hit in retriever.retrieve(text, CHUNKS_READ)))
        for name in FIGURES:
            found[name].append(RANKING_METRICS[name](ranking, collection.grades[query], DEPTH))
    return found


def latencies(searches: Mapping[str, Callable[[str], object]], questions: Sequence[str]) -> dict[str, float]:
    """The median over the questions of each search's processor time over that of the default."""
    spent: dict[str, list[float]] = {name: [] for name in searches}
    for search in searches.values():
        search(questions[0])
    for question in questions:
        for name, search in searches.items():
            began = time.process_time()
            search(question)
            spent[name].append(time.process_time() - began)
    base = np.array(spent[DEFAULT])
    return {name: float(np.median(np.array(own) / base)) for name, own in spent.items()}


def copies(folder: Path, every: int, cache: Path | None) -> dict[str, Values]:
    """Each document there twice: the first ten hits of the default, and with duplicates left out."""
    collection, model = read(folder, every), MiniLM()
    again = [replace(one, id=f"{one.id} copy", title=f"Copy of {one.title}") for one in collection.documents]
    pieces = passages_of([*collection.documents, *again], model, RecursiveOptions(), cache)
    asked = list(collection.queries.values())
    parts = RetrieverDependencies(pieces, CachedQueries(model, asked, embedded(model, asked, cache)))
    found: dict[str, Values] = {}
    for name in (DEFAULT, "rerank: mmr", "distinct"):
        retriever = retriever_of(ALTERNATIVES[name].options, parts, model)
        values: dict[str, list[float]] = {figure_: [] for figure_ in FIGURES}
        for query, text in collection.queries.items():
            # a copy is as good as its original, once
            ids = [hit.chunk.document_id.removesuffix(" copy") for hit in retriever.retrieve(text, DEPTH)]
            ranking = [one if one not in ids[:at] else f"again {at}" for at, one in enumerate(ids)]
            for figure_ in FIGURES:
                values[figure_].append(RANKING_METRICS[figure_](ranking, collection.grades[query], DEPTH))
        found[name] = values
    return found


@dataclass(frozen=True)
class Article:
    """A file that was made of the paragraphs of an article, and where each of them stands in it."""

    path: Path
    places: Mapping[str, tuple[int, int]]


def articles(documents: Sequence[Document], folder: Path) -> dict[str, Article]:
    """Document id -> the article that it is a paragraph of."""
    by_title: dict[str, list[Document]] = {}
    for document in documents:
        by_title.setdefault(document.title, []).append(document)
    found: dict[str, Article] = {}
    for number, (title, paragraphs) in enumerate(by_title.items()):
        text, places = f"# {title}\n", dict[str, tuple[int, int]]()
        for one in paragraphs:
            text += "\n"
            words = " ".join(one.text.split())
            places[one.id] = (len(text), len(text) + len(words))
            text += words + "\n"
        path = folder / f"{number:03}.md"
        path.write_text(text, "utf-8")
        found |= dict.fromkeys(places, Article(path, places))
    return found


ANSWERED: Mapping[str, tuple[str, str]] = {
    DEFAULT: ("whole", "{name: hybrid}"),
    "context: neighbours": ("whole", "{name: hybrid, context: {name: neighbours}}"),
    "context: parent": ("whole", "{name: hybrid, context: {name: parent, chunks: 3}}"),
    "neighbours of the best 3": ("whole", "{name: hybrid, top_k: 3, context: {name: neighbours}}"),
    "the best 3": ("whole", "{name: hybrid, top_k: 3}"),
    "chunks of 80 tokens": ("small", "{name: hybrid}"),
    "chunks of 80, context: neighbours": ("small", "{name: hybrid, context: {name: neighbours}}"),
    "chunks of 80, context: parent": ("small", "{name: hybrid, context: {name: parent}}"),
    "rerank: sentences": ("whole", "{name: hybrid, rerank: {name: sentences}}"),
    "feedback": ("whole", "{name: hybrid, feedback: {}}"),
}
"""Name -> which index it asks, and its section `retrieve`."""


def answers(folder: Path, every: int) -> tuple[dict[str, Values], dict[str, float]]:
    """The answers of every alternative, and latencies."""
    collection = read_collection(folder)
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
    gold = {row["_id"]: row["answers"] for row in rows if row.get("answerable", True) and row.get("answers")}
    asked = [one for one in collection.queries if one in gold][::every]
    with TemporaryDirectory(prefix="ragkit-alternatives-") as scratch:
        files = Path(scratch) / "files"
        files.mkdir()
        places = articles(collection.documents, files)
        for kind, options in (("whole", RecursiveOptions()), ("small", SMALL)):
            with KnowledgeBase.open(Path(scratch) / kind, _pipeline("{name: hybrid}", options)) as kb:
                kb.index(files)
        bases = {
            name: KnowledgeBase.open(Path(scratch) / kind, _pipeline(retrieve, _size(kind)))
            for name, (kind, retrieve) in ANSWERED.items()
        }
        values: dict[str, dict[str, list[float]]] = {name: {} for name in bases}
        for query in asked:
            right = [id_ for id_, grade in collection.grades[query].items() if grade > 0]
            for name, kb in bases.items():
                answer = kb.ask(collection.queries[query], model="extractive")
                for figure_, value in judged(answer, gold[query], right, places).items():
                    values[name].setdefault(figure_, []).append(value)
        searches = {name: _asks(kb) for name, kb in bases.items()}
        ratios = latencies(
            searches, [collection.queries[query] for query in asked[:: max(1, len(asked) // TIMED_ANSWERS)]]
        )
        for kb in bases.values():
            kb.close()
    return dict(values), ratios


def judged(
    answer: Answer, gold: Sequence[str], right: Sequence[str], places: Mapping[str, Article]
) -> dict[str, float]:
    """What an answer is worth. One that was refused holds nothing and cites nothing."""
    spans = [(str(places[one].path), *places[one].places[one]) for one in right]
    within = [
        any(cited.source == path and start <= cited.start and cited.end <= end for path, start, end in spans)
        for cited in answer.citations
    ]
    text = "" if answer.abstained else strip_citation_marks(answer.text)
    return {
        "answer contained": contains_answer(text, gold),
        "cited right": float(any(within) and not answer.abstained),
        "quotes verified": float(all(cited.verified for cited in answer.citations)),
        "refused": float(answer.abstained),
    }


def _asks(kb: KnowledgeBase) -> Callable[[str], object]:
    return lambda question: kb.ask(question, model="extractive")


def _size(kind: str) -> RecursiveOptions:
    return SMALL if kind == "small" else RecursiveOptions()


def _pipeline(retrieve: str, size: RecursiveOptions) -> Pipeline:
    split = f"{{name: recursive, chunk_size: {size.chunk_size}, chunk_overlap: {size.chunk_overlap}}}"
    text = f"load: {{name: folder}}\nsplit: {split}\nembed: {{name: minilm}}\nstore: {{name: sqlite}}\n"
    return Pipeline.from_yaml(f"{text}retrieve: {retrieve}\nanswer: {{provider: extractive}}\nrun: {{name: local}}\n")


def table(values: Mapping[str, Values], ratios: Mapping[str, float], seed: int) -> list[str]:
    """A table in Markdown: the default with its intervals, the others with their paired differences to it."""
    names = list(values[DEFAULT])
    lines = [f"| retrieval | {' | '.join(names)} | latency |", f"| --- |{' --- |' * (len(names) + 1)}"]
    for name, own in values.items():
        cells = [_cell(own[one], None if name == DEFAULT else values[DEFAULT][one], seed) for one in names]
        ratio = f"{ratios[name]:.2f}" if name in ratios else ""
        lines.append(f"| {name} | {' | '.join(cells)} | {ratio} |")
    return lines


def _cell(own: Sequence[float], base: Sequence[float] | None, seed: int) -> str:
    mean = _figure(own, seed)
    if base is None:
        return f"{mean.mean:.4f} ({mean.low:.3f} to {mean.high:.3f})"
    change = _figure([one - other for one, other in zip(own, base, strict=True)], seed)
    mark = "*" if change.low > 0 or change.high < 0 else ""
    return f"{mean.mean:.4f}, {change.mean:+.4f}{mark} ({change.low:+.3f} to {change.high:+.3f})"


def _figure(values: Sequence[float], seed: int) -> BootstrapEstimate:
    found = bootstrap_mean(values, seed)
    assert found is not None
    return found


def _plain(values: Mapping[str, Values], ratios: Mapping[str, float], seed: int) -> dict[str, dict[str, float]]:
    """For `--json`: means, the p of the difference to the default, and latencies."""
    return {
        name: {
            **{one: float(np.mean(own[one])) for one in own},
            **{f"{one}_p": paired_p_value(values[DEFAULT][one], own[one], seed) for one in own if name != DEFAULT},
            **({"latency": ratios[name]} if name in ratios else {}),
        }
        for name, own in values.items()
    }


def main(arguments: Sequence[str]) -> None:
    """Print tables in Markdown, or with `--json` one object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--answers", type=Path, metavar="FOLDER", help="a collection with answers")
    parser.add_argument("--copies", type=Path, metavar="FOLDER", help="put each document there twice")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every n-th question only")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here between runs")
    parser.add_argument("--seed", type=int, default=0, help="of the samples and of the questions that are timed")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    options = parser.parse_args(arguments)
    found: dict[str, tuple[dict[str, Values], dict[str, float]]] = {}
    for folder in options.folders:
        collection, measured = measure(folder, options)
        title = f"{collection.name}: {len(collection.queries)} questions, {len(collection.documents)} documents, @10"
        found[title] = ({one.name: one.values for one in measured}, {one.name: one.latency for one in measured})
    if options.copies:
        found[f"{options.copies.name}, every document there twice: the first ten hits"] = (
            copies(options.copies, options.every, options.cache),
            {},
        )
    if options.answers:
        values, ratios = answers(options.answers, options.every)
        count = len(next(iter(values[DEFAULT].values())))
        found[f"{options.answers.name}: answers to {count} questions, without a model"] = (values, ratios)
    if options.json:
        plain = {title: _plain(*both, options.seed) for title, both in found.items()}
        print(json.dumps({"seed": options.seed, "versions": versions(), "results": plain}))
        return
    for title, (values, ratios) in found.items():
        print(f"\n{title}\n")
        print("\n".join(table(values, ratios, options.seed)))
    print(f"\nseed {options.seed}; " + ", ".join(f"{name} {value}" for name, value in versions().items()))


if __name__ == "__main__":
    main(sys.argv[1:])
