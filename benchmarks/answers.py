"""Measure answers without a language model: right answers, first sentences, words, citations and abstention, by kind.

    python benchmarks/answers.py FOLDER [--json] [--every N] [--seed S] [--held-out] [--no-abstention]

FOLDER has one of three layouts:

- BEIR with answers: `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`, `answers`, `answerable`),
  `qrels.tsv`. Each paragraph becomes one Markdown file, each article one folder.
- this project's `data/`: `sample/`, and `questions.jsonl` with the wanted strings, of which one must be in the answer.
- the gate's: `docs/`, and `questions.jsonl` with groups of strings, of which one of each must be in the answer.

The files are indexed into a knowledge base in a temporary folder, and every question is asked. An answer is right if it
contains the wanted strings, regardless of case and white space; its first sentence (or its first list) is right if it
does so alone. A refusal is not right. A citation is right if it is of a file that the question was written for.

Abstention: the knowledge base contains some of the articles, and the questions are about all of them. Each article is
left out once, each one is indexed alone once, and random halves are indexed a few times.

`--held-out` fits the weights of the features again, cross-validated over documents: a question is answered with weights
that were fitted without all questions on its document, and evidence refuses none.
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragkit.answer.base import Answer
from ragkit.answer.extractive.composition import compose_answer
from ragkit.answer.extractive.evidence import EVIDENCE_THRESHOLD, estimate_evidence
from ragkit.answer.extractive.selection import (
    FEATURE_WEIGHTS,
    MAX_PASSAGES,
    AnswerCandidates,
    ScoredAnswerUnit,
    build_candidates,
    with_beginnings,
)
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.lexical.analyzer import ANALYZER_VERSION

HALVES = 6
"""Number of random halves of the articles."""
FOLDS = 5
"""Parts of the documents; the weights are fitted without one of them at a time."""
SET_BY_HAND = ("open", "noise", "fragment")
"""Features whose weights are not fitted."""
_ITEM = re.compile(r"\s*([-*•]|\d+[.)])\s")
_SENTENCE_END = re.compile(r"[.!?][\"')’”]*(?=\s+[\"'(‘“]?[A-Z0-9])|(?=\s\[\d+\])")


@dataclass(frozen=True)
class Question:
    """A question, its gold answers and their files."""

    text: str
    answers: tuple[tuple[str, ...], ...]
    """Groups of strings, of which one of each must be in the answer; empty if the question is unanswerable."""
    sources: frozenset[str]
    """Names of files below the folder of documents."""
    kind: str
    """The kind of the question, or the article that it was written for."""

    @property
    def document(self) -> str:
        """What is left out with the question: its article, or its first file."""
        return self.kind if not self.sources or "/" in min(self.sources) else min(self.sources)


@dataclass(frozen=True)
class Collection:
    """Files in a folder and questions about them."""

    name: str
    documents: Path
    questions: list[Question]
    articles: tuple[str, ...] = ()
    """Folders below `documents` that can be left out; empty if the files belong together."""


@dataclass(frozen=True)
class AnswerResult:
    """The result of one answerable question."""

    kind: str
    right: bool
    first: bool
    """Whether the first sentence, or the first list, is right by itself."""
    cited: bool
    refused: bool
    words: int
    milliseconds: float = 0.0
    """Processor time."""


@dataclass(frozen=True)
class Split:
    """The evidence scores of a knowledge base with some of the articles."""

    articles: int
    inside: list[float] = field(default_factory=list)
    """The evidence for each answerable question about an indexed article."""
    outside: list[float] = field(default_factory=list)
    """The evidence for each answerable question about an article that is left out."""


def read(folder: Path, scratch: Path) -> Collection:
    """Read a collection; files that must be written go to `scratch`."""
    return _read_files(folder) if (folder / "questions.jsonl").exists() else _read_beir(folder, scratch)


def _read_files(folder: Path) -> Collection:
    documents = folder / ("sample" if (folder / "sample").exists() else "docs")
    return Collection(
        folder.resolve().name, documents, [_file_question(row) for row in _rows(folder / "questions.jsonl")]
    )


def _file_question(row: Mapping[str, Any]) -> Question:
    grouped = all(isinstance(group, list) for group in row["answers"])
    groups = row["answers"] if grouped else [row["answers"]]
    sources = row["source"] if "source" in row else row["sources"]
    return Question(row["question"], tuple(map(tuple, groups)), frozenset(sources), row["kind"])


def _read_beir(folder: Path, scratch: Path) -> Collection:
    file_names: dict[str, str] = {}
    for row in _rows(folder / "corpus.jsonl"):
        article = re.sub(r"\W+", "_", row["title"]) or "untitled"
        name = f"{article}/{len(file_names):05}.md"
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {row['title']}\n\n{row['text']}", "utf-8")
        file_names[row["_id"]] = name
    relevant: dict[str, set[str]] = {}
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0:
            relevant.setdefault(query, set()).add(file_names[document])
    questions = [
        _question(row, relevant[row["_id"]]) for row in _rows(folder / "queries.jsonl") if row["_id"] in relevant
    ]
    return Collection(
        folder.name, scratch, questions, tuple(sorted({name.split("/")[0] for name in file_names.values()}))
    )


def _question(row: Mapping[str, Any], sources: set[str]) -> Question:
    answers = row.get("answers") if row.get("answerable", True) else ()
    return Question(row["text"], (tuple(answers),) if answers else (), frozenset(sources), min(sources).split("/")[0])


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def ask(kb: KnowledgeBase, collection: Collection, questions: Sequence[Question]) -> list[AnswerResult]:
    """Ask the knowledge base every question."""
    answered = []
    kb.ask(questions[0].text, model="extractive")  # load the embedding model before the clock starts
    for question in questions:
        started_at = time.process_time()
        answer = kb.ask(question.text, model="extractive")
        spent = 1000 * (time.process_time() - started_at)
        answered.append(_judge(answer, question, collection.documents, spent))
    return answered


def _judge(answer: Answer, question: Question, documents: Path, spent: float) -> AnswerResult:
    sources = {Path(citation.source).relative_to(documents.resolve()).as_posix() for citation in answer.citations}
    return _judge_text("" if answer.abstained else answer.text, question, sources, spent)


def _judge_text(text: str, question: Question, sources: set[str], spent: float = 0.0) -> AnswerResult:
    """Judge the text of an answer; '' is a refusal."""
    return AnswerResult(
        question.kind,
        _is_right(text, question.answers),
        _is_right(_first_statement(text), question.answers),
        bool(text and sources & question.sources),
        not text,
        len(re.sub(r"\[\d+\]", " ", text).split()),
        spent,
    )


def _is_right(text: str, groups: Sequence[Sequence[str]]) -> bool:
    return _right_share(text, groups) == 1


def _right_share(text: str, groups: Sequence[Sequence[str]]) -> float:
    """The share of the groups of which a string is in the text; 0 without groups."""
    plain = _plain(text)
    return sum(any(_plain(string) in plain for string in group) for group in groups) / max(1, len(groups))


def _first_statement(text: str) -> str:
    """The first sentence, or the first list with the line that leads to it."""
    rows = [row for row in text.splitlines() if row.strip()] or [""]
    start = 0 if _ITEM.match(rows[0]) else 1
    end = next((i for i in range(start, len(rows)) if not _ITEM.match(rows[i])), len(rows))
    if end > start and (start == 0 or rows[0].rstrip().endswith(":")):
        return "\n".join(rows[:end])
    mark = _SENTENCE_END.search(rows[0])
    return rows[0][: mark.start() + 1] if mark else rows[0]


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def abstention(collection: Collection, scratch: Path, questions: Sequence[Question], seed: int) -> list[Split]:
    """The evidence for every question, with different subsets of the articles indexed."""
    splits = []
    for number, articles in enumerate(_subsets(collection.articles, seed)):
        split = Split(len(articles))
        with indexed(scratch / f"split{number}", [collection.documents / name for name in articles]) as kb:
            for question in questions:
                evidence = estimate_evidence(question.text, kb.search(question.text, MAX_PASSAGES), kb)
                (split.inside if question.kind in articles else split.outside).append(evidence)
        splits.append(split)
    return splits


def _subsets(articles: Sequence[str], seed: int) -> list[tuple[str, ...]]:
    left_out = [tuple(name for name in articles if name != out) for out in articles]
    alone = [(name,) for name in articles]
    rng = random.Random(seed)
    halves = [tuple(rng.sample(articles, len(articles) // 2)) for _ in range(HALVES)]
    return [*left_out, *alone, *halves]


@contextmanager
def indexed(path: Path, sources: Sequence[Path]) -> Iterator[KnowledgeBase]:
    """A knowledge base with these sources."""
    with KnowledgeBase.open(path, "default") as kb:
        kb.index(*sources)
        yield kb


@dataclass(frozen=True, eq=False)
class JudgedCandidates:
    """The candidates of one question, with the right ones marked."""

    question: Question
    candidates: AnswerCandidates
    shares: NDArray[np.float64]
    """The share of the wanted groups in each candidate: (n,)."""


def judged_candidates(kb: KnowledgeBase, questions: Sequence[Question]) -> list[JudgedCandidates]:
    """The answer candidates of each question."""
    judged = []
    for question in questions:
        hits = with_beginnings(question.text, kb.search(question.text), kb)
        candidates = build_candidates(question.text, hits, kb)
        shares = [_right_share(candidates.units[i].text, question.answers) for i in candidates.kept.tolist()]
        judged.append(JudgedCandidates(question, candidates, np.array(shares, np.float64)))
    return judged


def fit(
    judged: Sequence[JudgedCandidates], *, steps: int = 400, rate: float = 0.3, decay: float = 0.01
) -> NDArray[np.float64]:
    """Fit weights that rank right units first: maximum likelihood of a softmax over the units of each question.

    Units with all wanted groups are right; if there is none, those with some of them. Adam, with a penalty on large
    weights; the weights that are set by hand stay.
    """
    rows = [item for item in judged if item.shares.max(initial=0) > 0]
    values = np.concatenate([item.candidates.features for item in rows])
    right = np.concatenate([item.shares >= (1 if item.shares.max() == 1 else 1e-9) for item in rows])
    sizes = [len(item.shares) for item in rows]
    starts = np.cumsum([0, *sizes[:-1]])
    free = np.array([name not in SET_BY_HAND for name in FEATURE_WEIGHTS])
    start = np.where(free, 0.0, np.array(list(FEATURE_WEIGHTS.values())))
    weights, mean, square = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(1, steps + 1):
        scores = values @ weights
        exponentials = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
        expected = exponentials / np.repeat(np.add.reduceat(exponentials, starts), sizes)
        correct = exponentials * right / np.repeat(np.add.reduceat(exponentials * right, starts), sizes)
        gradient = free * ((expected - correct) @ values / len(rows) + decay * (weights - start))
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        smooth = np.sqrt(square / (1 - 0.99**step)) + 1e-8
        weights -= rate * 0.98 ** (step / 4) * mean / (1 - 0.9**step) / smooth
    return np.asarray(weights, np.float64)


def held_out(judged: Sequence[JudgedCandidates], documents: Path, seed: int) -> list[AnswerResult]:
    """The answers composed with weights that were fitted without the question's document."""
    names = sorted({item.question.document for item in judged})
    random.Random(seed).shuffle(names)
    results = []
    for fold in range(FOLDS):
        left_out = set(names[fold::FOLDS])
        weights = fit([item for item in judged if item.question.document not in left_out])
        results += [_compose(item, weights, documents) for item in judged if item.question.document in left_out]
    return results


def _compose(item: JudgedCandidates, weights: NDArray[np.float64], documents: Path) -> AnswerResult:
    scores = item.candidates.features @ weights
    units = [item.candidates.units[i] for i in item.candidates.kept.tolist()]
    order = np.argsort(-scores, kind="stable").tolist()
    ranked = [ScoredAnswerUnit(**vars(units[i]), score=float(scores[i])) for i in order]
    passages = compose_answer(item.question.text, ranked, item.candidates.units)
    text = "\n".join(f"{passage.text} [{n}]" for n, passage in enumerate(passages, start=1))
    sources = {Path(passage.source).relative_to(documents.resolve()).as_posix() for passage in passages}
    return _judge_text(text, item.question, sources)


def summary(answered: Sequence[AnswerResult]) -> dict[str, float]:
    """Shares of the questions, mean words, and the median CPU time."""
    return {
        "right": _share([result.right for result in answered]),
        "first": _share([result.first for result in answered]),
        "cited": _share([result.cited for result in answered]),
        "refused": _share([result.refused for result in answered]),
        "words": float(np.mean([result.words for result in answered])),
        "cpu_ms": float(np.median([result.milliseconds for result in answered])),
        "questions": float(len(answered)),
    }


def by_kind(answered: Sequence[AnswerResult]) -> dict[str, dict[str, float]]:
    """A summary of each kind of questions."""
    kinds = sorted({result.kind for result in answered})
    return {kind: summary([result for result in answered if result.kind == kind]) for kind in kinds}


def abstention_summary(splits: Sequence[Split]) -> dict[str, dict[str, float]]:
    """Refusal rates and the quality of the probability, by number of indexed articles and in total."""
    by_size: dict[str, list[Split]] = {"all": list(splits)}
    for split in splits:
        by_size.setdefault(f"{split.articles} articles", []).append(split)
    return {name: _of_splits(group) for name, group in sorted(by_size.items())}


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
    """The probability that a random positive scores higher than a random negative."""
    below = np.searchsorted(np.sort(negative), positive, side="left")
    equal = np.searchsorted(np.sort(negative), positive, side="right") - below
    return float((below + equal / 2).sum() / (len(positive) * len(negative)))


def _share(values: Sequence[bool]) -> float:
    return float(np.mean(np.array(values, np.float64))) if values else float("nan")


def run(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """All metrics of one folder."""
    started_at = time.perf_counter()
    with TemporaryDirectory(prefix="ragkit-answers-") as scratch:
        collection = read(folder, Path(scratch) / "documents")
        answerable = [question for question in collection.questions if question.answers][:: options.every]
        unanswerable = [question for question in collection.questions if not question.answers][:: options.every]
        figures: dict[str, object] = {"collection": collection.name, "seed": options.seed, "every": options.every}
        with indexed(Path(scratch) / "kb", [collection.documents]) as kb:
            answered = ask(kb, collection, answerable)
            evidence = [estimate_evidence(q.text, kb.search(q.text, MAX_PASSAGES), kb) for q in unanswerable]
            figures["answers"] = summary(answered)
            figures["unanswerable_refused"] = _share([value < EVIDENCE_THRESHOLD for value in evidence])
            figures["kinds"] = by_kind(answered)
            if options.held_out:
                composed = held_out(judged_candidates(kb, answerable), collection.documents, options.seed)
                figures["held_out"] = {"all": summary(composed), **by_kind(composed)}
        if collection.articles and not options.no_abstention:
            splits = abstention(collection, Path(scratch), answerable, options.seed)
            figures["abstention"] = abstention_summary(splits)
    return figures | {"seconds": time.perf_counter() - started_at, "versions": versions()}


def versions() -> dict[str, str]:
    """Versions that affect the results."""
    packages = {name: version(name) for name in ("numpy", "onnxruntime", "PyStemmer", "tokenizers")}
    return {"python": platform.python_version(), **packages, "terms": ANALYZER_VERSION}


def show(figures: Mapping[str, object]) -> None:
    """Print a table for each part."""
    print(f"{figures['collection']}, seed {figures['seed']}, every {figures['every']}th question")
    parts = {"answers": figures["answers"], **_nested(figures.get("kinds"))}
    parts |= {f"held out: {name}": part for name, part in _nested(figures.get("held_out")).items()}
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
    parser.add_argument("--every", type=int, default=1, metavar="N", help="ask only every n-th question")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random halves of the articles")
    parser.add_argument(
        "--held-out", action="store_true", help="fit the weights again, without the documents of each part"
    )
    parser.add_argument("--no-abstention", action="store_true", help="skip the abstention part")
    options = parser.parse_args(arguments)
    figures = run(options.folder, options)
    if options.json:
        print(json.dumps(figures, default=asdict))
    else:
        show(figures)


if __name__ == "__main__":
    main(sys.argv[1:])
