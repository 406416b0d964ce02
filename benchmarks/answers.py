"""Answers without a language model: do they hold the answer, cite the right place, and say so when there is none?

    python benchmarks/answers.py FOLDER [--json] [--every N] [--seed S] [--held-out] [--no-abstention]

FOLDER is in the shape of the BEIR benchmark with answers: `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl`
(`_id`, `text`, `answers`, `answerable`), `qrels.tsv`; or it holds files and questions as this project's `data/` does
(`sample/`, `questions.jsonl`). A paragraph of a collection becomes one Markdown file, an article one folder. All of
them are indexed into a knowledge base in a temporary folder, and every question is put to it.

Answers: an answer holds an answer of the collection when that stands in it as text, upper and lower case and white
space aside; it cites the right place when one of its citations is of a file that the question was written for. Both
are counted whether it was refused or not, and once more with refusals as misses.

Abstention: the knowledge base is left with some articles and asked about all. Every article is left out once, every
one is left alone once, and a few times half of them are taken at random.

`--held-out` fits the weights of the statements anew, without the article that is asked about, for each article; the
weights that are in the code were fitted on all of them.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from ragkit.answer.answer_selection import (
    FEATURE_WEIGHTS,
    MAX_PASSAGES,
    AnswerCandidates,
    build_candidates,
    select_diverse,
)
from ragkit.answer.base import Answer
from ragkit.answer.evidence import EVIDENCE_THRESHOLD, estimate_evidence
from ragkit.answer.extractive import MAX_SENTENCES
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.lexical.analyzer import ANALYZER_VERSION

HALVES = 6
"""How many times half of the articles are taken."""


@dataclass(frozen=True)
class Question:
    """A question, what answers it, and where that stands."""

    text: str
    answers: tuple[str, ...]
    """Empty when nothing answers it."""
    sources: frozenset[str]
    """Names of files below the folder of documents."""
    group: str
    """The article that it was written for; for files the kind of the question."""


@dataclass(frozen=True)
class Collection:
    """Files in a folder, and questions about them."""

    name: str
    documents: Path
    questions: list[Question]
    articles: tuple[str, ...] = ()
    """Folders below `documents` that can be left out; none when the files belong together."""


@dataclass(frozen=True)
class Answered:
    """What became of one answerable question."""

    group: str
    held: tuple[bool, ...]
    """Whether the first quote holds the answer, whether one of the first two does, and so on."""
    cited: bool
    refused: bool
    in_text: bool
    """The answer's text holds it: what somebody who reads no citations sees."""
    sentences: int
    milliseconds: float
    """Of processor time."""


@dataclass(frozen=True)
class Split:
    """A knowledge base of some articles, asked about all."""

    articles: int
    inside: list[float] = field(default_factory=list)
    """The evidence for each answerable question about an article that is there."""
    outside: list[float] = field(default_factory=list)
    """And about one that is not."""


def read(folder: Path, scratch: Path) -> Collection:
    """Read a collection; what has to be written goes to `scratch`."""
    return _read_files(folder) if (folder / "questions.jsonl").exists() else _read_beir(folder, scratch)


def _read_files(folder: Path) -> Collection:
    questions = [
        Question(row["question"], tuple(row["answers"]), frozenset(row["sources"]), row["kind"])
        for row in _rows(folder / "questions.jsonl")
    ]
    return Collection(folder.resolve().name, folder / "sample", questions)


def _read_beir(folder: Path, scratch: Path) -> Collection:
    places: dict[str, str] = {}
    for row in _rows(folder / "corpus.jsonl"):
        article = re.sub(r"\W+", "_", row["title"]) or "untitled"
        name = f"{article}/{len(places):05}.md"
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {row['title']}\n\n{row['text']}", "utf-8")
        places[row["_id"]] = name
    relevant: dict[str, set[str]] = {}
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0:
            relevant.setdefault(query, set()).add(places[document])
    questions = [
        _question(row, relevant[row["_id"]]) for row in _rows(folder / "queries.jsonl") if row["_id"] in relevant
    ]
    return Collection(folder.name, scratch, questions, tuple(sorted({name.split("/")[0] for name in places.values()})))


def _question(row: Mapping[str, object], sources: set[str]) -> Question:
    answers = row.get("answers") if row.get("answerable", True) else ()
    group = min(sources).split("/")[0]
    return Question(str(row["text"]), tuple(answers or ()), frozenset(sources), group)  # type: ignore[arg-type]


def _rows(path: Path) -> Iterator[dict]:  # type: ignore[type-arg]
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def ask(kb: KnowledgeBase, collection: Collection, questions: Sequence[Question]) -> list[Answered]:
    """Put every question to the knowledge base."""
    found = []
    kb.ask(questions[0].text, model="extractive")  # the model is loaded now
    for question in questions:
        began = time.process_time()
        answer = kb.ask(question.text, model="extractive")
        spent = 1000 * (time.process_time() - began)
        found.append(_judged(answer, question, collection.documents, spent))
    return found


def _judged(answer: Answer, question: Question, documents: Path, spent: float) -> Answered:
    quotes = [citation.quote for citation in answer.citations[:MAX_SENTENCES]]
    held = [any(_holds(quote, question.answers) for quote in quotes[: n + 1]) for n in range(MAX_SENTENCES)]
    sources = {Path(citation.source).relative_to(documents.resolve()).as_posix() for citation in answer.citations}
    return Answered(
        question.group,
        tuple(held),
        bool(sources & question.sources),
        answer.abstained,
        not answer.abstained and _holds(answer.text, question.answers),
        len(quotes),
        spent,
    )


def _holds(text: str, answers: Sequence[str]) -> bool:
    there = _plain(text)
    return any(_plain(answer) in there for answer in answers)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def abstention(collection: Collection, scratch: Path, questions: Sequence[Question], seed: int) -> list[Split]:
    """The evidence for every question, with some of the articles indexed."""
    found = []
    for number, articles in enumerate(_subsets(collection.articles, seed)):
        split = Split(len(articles))
        with indexed(scratch / f"split{number}", [collection.documents / name for name in articles]) as kb:
            for question in questions:
                likely = estimate_evidence(question.text, kb.search(question.text, MAX_PASSAGES), kb)
                (split.inside if question.group in articles else split.outside).append(likely)
        found.append(split)
    return found


def _subsets(articles: Sequence[str], seed: int) -> list[tuple[str, ...]]:
    left_out = [tuple(name for name in articles if name != out) for out in articles]
    alone = [(name,) for name in articles]
    chance = random.Random(seed)
    halves = [tuple(chance.sample(articles, len(articles) // 2)) for _ in range(HALVES)]
    return [*left_out, *alone, *halves]


@contextmanager
def indexed(path: Path, sources: Sequence[Path]) -> Iterator[KnowledgeBase]:
    """A knowledge base of these sources."""
    with KnowledgeBase.open(path, "default") as kb:
        kb.index(*sources)
        yield kb


@dataclass(frozen=True, eq=False)
class Judged:
    """The candidates of one question, and which of them are right."""

    group: str
    found: AnswerCandidates
    holds: NDArray[np.bool_]
    """They hold an answer."""
    gold: NDArray[np.bool_]
    """They are of a file that the question was written for."""


def judged_candidates(kb: KnowledgeBase, collection: Collection, questions: Sequence[Question]) -> list[Judged]:
    """Everything that an answer is chosen from, for each question."""
    root, judged = collection.documents.resolve(), []
    for question in questions:
        found = build_candidates(question.text, kb.search(question.text, MAX_PASSAGES), kb)
        holds = np.array([_holds(one.text, question.answers) for one in found.units], np.bool_)
        names = [Path(one.source).relative_to(root).as_posix() for one in found.units]
        judged.append(Judged(question.group, found, holds, np.array([n in question.sources for n in names], np.bool_)))
    return judged


def fit(judged: Sequence[Judged], *, steps: int = 400, rate: float = 0.05, decay: float = 2e-3) -> NDArray[np.float64]:
    """Weights under which right statements come first: the likelihood of a softmax over each question's statements.

    A statement is right when it holds an answer and is of the right file; those that only hold an answer are left out.
    Adam on standardised columns, with a penalty on large weights. Columns that never vary keep their weight.
    """
    rows = [
        (one.found.features[k], one.gold[k]) for one in judged if (one.holds & one.gold).any() for k in [_kept(one)]
    ]
    values = np.concatenate([value for value, _ in rows])
    right = np.concatenate([gold for _, gold in rows])
    starts = np.cumsum([0, *(len(gold) for _, gold in rows[:-1])])
    sizes = [len(gold) for _, gold in rows]
    spread = values.std(axis=0)
    varies = spread > 0
    columns = values[:, varies] / spread[varies]
    weights, mean, square = (np.zeros(columns.shape[1]) for _ in range(3))
    for step in range(1, steps + 1):
        scores = columns @ weights
        powers = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
        every = powers / np.repeat(np.add.reduceat(powers, starts), sizes)
        correct = powers * right / np.repeat(np.add.reduceat(powers * right, starts), sizes)
        slope = (every - correct) @ columns / len(rows) + decay * weights
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        weights -= rate * mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-9)
    fitted = np.array(list(FEATURE_WEIGHTS.values()), np.float64)
    fitted[varies] = weights / spread[varies]
    return fitted


def _kept(one: Judged) -> NDArray[np.bool_]:
    return ~one.holds | one.gold


def held_out(judged: Sequence[Judged]) -> dict[str, float]:
    """The shares of questions that are answered and cited right, each with weights fitted without its article."""
    outcomes = []
    for group in sorted({one.group for one in judged}):
        weights = fit([one for one in judged if one.group != group])
        for one in (one for one in judged if one.group == group):
            places = select_diverse(one.found, one.found.features @ weights, MAX_SENTENCES)
            outcomes.append((*(one.holds[places[: n + 1]].any() for n in range(MAX_SENTENCES)), one.gold[places].any()))
    means = np.mean(np.array(outcomes, np.float64), axis=0)
    return {
        **{f"held_{n}": float(means[n - 1]) for n in range(1, MAX_SENTENCES + 1)},
        "cited": float(means[MAX_SENTENCES]),
    }


def summary(answered: Sequence[Answered]) -> dict[str, float]:
    """Shares of the questions, and what one costs."""
    return {
        **{f"held_{n}": _share([one.held[n - 1] for one in answered]) for n in range(1, MAX_SENTENCES + 1)},
        "cited": _share([one.cited for one in answered]),
        "refused": _share([one.refused for one in answered]),
        "held_and_not_refused": _share([one.in_text for one in answered]),
        "quotes": float(np.mean([one.sentences for one in answered])),
        "cpu_ms": float(np.median([one.milliseconds for one in answered])),
        "questions": float(len(answered)),
    }


def abstention_summary(splits: Sequence[Split]) -> dict[str, dict[str, float]]:
    """By the number of articles indexed, and of all: shares refused, and how good the probability is."""
    by_size: dict[str, list[Split]] = {"all": list(splits)}
    for split in splits:
        by_size.setdefault(f"{split.articles} articles", []).append(split)
    return {name: _of_splits(some) for name, some in sorted(by_size.items())}


def _of_splits(splits: Sequence[Split]) -> dict[str, float]:
    inside = np.array([likely for split in splits for likely in split.inside])
    outside = np.array([likely for split in splits for likely in split.outside])
    errors = np.concatenate([(1 - inside) ** 2, outside**2])
    return {
        "abstained_outside": float((outside < EVIDENCE_THRESHOLD).mean()),
        "refused_inside": float((inside < EVIDENCE_THRESHOLD).mean()),
        "auroc": _auroc(inside, outside),
        "brier": float(errors.mean()),
        "asked": float(len(errors)),
    }


def _auroc(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """The chance that a random positive stands above a random negative."""
    below = np.searchsorted(np.sort(negative), positive, side="left")
    equal = np.searchsorted(np.sort(negative), positive, side="right") - below
    return float((below + equal / 2).sum() / (len(positive) * len(negative)))


def _share(values: Sequence[bool]) -> float:
    return float(np.mean(np.array(values, np.float64))) if values else float("nan")


def run(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """All figures of one folder."""
    began = time.perf_counter()
    with TemporaryDirectory(prefix="ragkit-answers-") as scratch:
        collection = read(folder, Path(scratch) / "documents")
        asked = [question for question in collection.questions if question.answers][:: options.every]
        unanswerable = [question for question in collection.questions if not question.answers][:: options.every]
        figures: dict[str, object] = {"collection": collection.name, "seed": options.seed, "every": options.every}
        with indexed(Path(scratch) / "kb", [collection.documents]) as kb:
            answered = ask(kb, collection, asked)
            likely = [estimate_evidence(one.text, kb.search(one.text, MAX_PASSAGES), kb) for one in unanswerable]
            figures["answers"] = summary(answered)
            figures["unanswerable_refused"] = _share([one < EVIDENCE_THRESHOLD for one in likely])
            figures["groups"] = {
                group: summary([one for one in answered if one.group == group])
                for group in sorted({one.group for one in answered})
            }
            if options.held_out:
                figures["held_out"] = held_out(judged_candidates(kb, collection, asked))
        if collection.articles and not options.no_abstention:
            splits = abstention(collection, Path(scratch), asked, options.seed)
            figures["abstention"] = abstention_summary(splits)
    return figures | {"seconds": time.perf_counter() - began, "versions": versions()}


def versions() -> dict[str, str]:
    """What the figures depend on."""
    packages = {name: version(name) for name in ("numpy", "onnxruntime", "PyStemmer", "tokenizers")}
    return {"python": platform.python_version(), **packages, "terms": ANALYZER_VERSION}


def show(figures: Mapping[str, object]) -> None:
    """Print a table for each part."""
    print(f"{figures['collection']}, seed {figures['seed']}, every {figures['every']}. question")
    parts = {"answers": figures["answers"], **_nested(figures.get("groups"))}
    if "held_out" in figures:
        parts["weights held out"] = figures["held_out"]
    parts |= {f"indexed: {name}": part for name, part in _nested(figures.get("abstention")).items()}
    for name, part in parts.items():
        line = "  ".join(f"{key} {value:.4g}" for key, value in _nested(part).items())
        print(f"  {name:<26}{line}")
    print(f"  unanswerable questions refused: {figures['unanswerable_refused']:.3f}; {figures['seconds']:.0f} s")
    print("  " + ", ".join(f"{name} {value}" for name, value in _nested(figures["versions"]).items()))


def _nested(part: object) -> dict[str, object]:
    return dict(part) if isinstance(part, Mapping) else {}


def main(arguments: Sequence[str]) -> None:
    """Print tables, or with `--json` one object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="ask every n-th question only")
    parser.add_argument("--seed", type=int, default=0, help="decides which halves of the articles are taken")
    parser.add_argument("--held-out", action="store_true", help="fit the weights anew without each article")
    parser.add_argument("--no-abstention", action="store_true", help="leave out the part with articles missing")
    options = parser.parse_args(arguments)
    figures = run(options.folder, options)
    if options.json:
        print(json.dumps(figures, default=asdict))
    else:
        show(figures)


if __name__ == "__main__":
    main(sys.argv[1:])
