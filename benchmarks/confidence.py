"""Fit and check the confidence of answers without a model: how often is an answer right that is said to be likely?

    python benchmarks/confidence.py FOLDER... [--kb DIR] [--questions N] [--seed S] [--json]

A FOLDER has a layout of `benchmarks/answers.py`, or is `financebench-dev` (`pdfs/`, `questions.jsonl`) or `chunk-spans`
(`corpora/`, `questions.csv`). Of each, at most N questions are asked, an eighth of them without an answer where the
collection has such. Another part, a tenth each, has no answer by construction: questions of other collections, and
questions whose documents are taken out of the passages. With `--kb`, the knowledge bases are kept there.

An answer is right if it has the wanted strings. Where a collection has none: if it quotes three fifths of the wanted
spans (chunk-spans), if it has the first number of the wanted answer (financebench-dev), or if it begins with a quote of
the right paragraph (XQuAD, which makes it right a little too often).

Each collection is left out once: its answers get the confidence of a fit to the others. The printed weights are fitted
to all, see `ragkit/answer/confidence.py`.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from answers import Collection, Question, _is_right, _rows, read
from numpy.typing import NDArray

from ragkit.answer.base import Searcher
from ragkit.answer.confidence import LEXICAL_WEIGHTS, LIKELY, MIN_ANSWER, MIN_PASSAGES, WEIGHTS
from ragkit.answer.extractive.answer import to_query
from ragkit.answer.extractive.answer_confidence import answer_features, limit_by_names
from ragkit.answer.extractive.composition import MAX_CHARS, AnswerPassage, compose_answer
from ragkit.answer.extractive.question_kind import split_question
from ragkit.answer.extractive.selection import rank_answer_units, with_beginnings
from ragkit.answer.passages import within_budget
from ragkit.knowledge_base.knowledge_base import KnowledgeBase

TOP_K = 8
BUDGET = 4000
"""Tokens of the passages, as in an answer."""
UNANSWERABLE_SHARE = 8
MADE_SHARE = 10
"""One in so many questions is asked of another collection; as many have no document that answers."""
MIN_SPAN_SHARE = 0.6
SET_BY_HAND = ("missing_price",)
"""Features whose weights are not fitted: few questions ask for a price, and none is right without one."""
PENALTY = 0.01
"""Of the squared weights, in the units of the standardized features."""
BINS = 10


@dataclass(frozen=True)
class Case:
    """A question, and how its answer is judged."""

    question: str
    judge: Callable[[Sequence[AnswerPassage]], bool]
    answerable: bool = True
    sources: frozenset[str] = frozenset()
    """Names of the files that answer."""
    left_out: bool = False
    """Whether these files are taken out of the passages."""


@dataclass(frozen=True)
class Judged:
    """The answer to a case."""

    collection: str
    case: Case
    features: dict[str, float]
    right: bool
    limit: float = 1.0
    """The highest confidence that the names of the question allow."""


def read_cases(folder: Path, scratch: Path) -> tuple[Path, list[Case]]:
    """The documents of a collection and its questions."""
    if (folder / "pdfs").exists():
        return folder / "pdfs", [_finance_case(row) for row in _rows(folder / "questions.jsonl")]
    if (folder / "questions.csv").exists():
        with (folder / "questions.csv").open(encoding="utf-8") as lines:
            return folder / "corpora", [_span_case(row) for row in csv.DictReader(lines)]
    if (folder / "queries.jsonl").exists() and not any("answers" in row for row in _rows(folder / "queries.jsonl")):
        collection = read(folder, scratch)
        return collection.documents, [_paragraph_case(question) for question in collection.questions]
    rows = [*_rows(folder / "questions.jsonl")] if (folder / "questions.jsonl").exists() else []
    if rows and "kind" not in rows[0]:
        questions = [
            Question(r["question"], tuple(map(tuple, r["answers"])), frozenset(r["source"]), "fact") for r in rows
        ]
        collection = Collection(folder.name, folder / "docs", questions)
    else:
        collection = read(folder, scratch)
    return collection.documents, [_text_case(question) for question in collection.questions]


def _text_case(question: Question) -> Case:
    def judge(quoted: Sequence[AnswerPassage]) -> bool:
        return _is_right("\n".join(passage.text for passage in quoted), question.answers)

    names = frozenset(Path(source).name for source in question.sources)
    return Case(question.text, judge, bool(question.answers), names)


def _paragraph_case(question: Question) -> Case:
    names = frozenset(Path(source).name for source in question.sources)
    return Case(
        question.text,
        lambda quoted: bool(quoted) and Path(quoted[0].source).name in names,
        answerable=True,
        sources=names,
    )


def _finance_case(row: dict[str, str]) -> Case:
    numbers = [number for number in re.findall(r"\d[\d.,]*\d", row["answer"]) if not re.fullmatch(r"20\d\d", number)]

    def judge(quoted: Sequence[AnswerPassage]) -> bool:
        return bool(numbers) and any(numbers[0].removesuffix(".00") in passage.text for passage in quoted)

    return Case(row["question"], judge, answerable=True, sources=frozenset([row["document"]]))


def _span_case(row: dict[str, str]) -> Case:
    name = f"{row['corpus_id']}.md"
    spans = [(span["start_index"], span["end_index"]) for span in json.loads(row["references"])]

    def judge(quoted: Sequence[AnswerPassage]) -> bool:
        wanted = {i for start, end in spans for i in range(start, end)}
        held = {i for p in quoted if Path(p.source).name == name for i in range(p.start, p.end)}
        return len(wanted & held) >= MIN_SPAN_SHARE * len(wanted)

    return Case(row["question"], judge, answerable=True, sources=frozenset([name]))


def sample(cases: Sequence[Case], others: Sequence[Case], count: int, rng: random.Random) -> list[Case]:
    """At most `count` cases, and those made of them and of cases of other collections."""
    answerable = [case for case in cases if case.answerable]
    unanswerable = [case for case in cases if not case.answerable]
    chosen = rng.sample(answerable, min(count, len(answerable)))
    chosen += rng.sample(unanswerable, min(count // UNANSWERABLE_SHARE, len(unanswerable)))
    made = max(3, len(chosen) // MADE_SHARE)
    several = {name for case in answerable for name in case.sources}
    removable = [case for case in chosen if case.sources and len(several) > TOP_K]
    never: Callable[[Sequence[AnswerPassage]], bool] = lambda _: False  # noqa: E731
    chosen += [replace(c, judge=never, answerable=False) for c in rng.sample(others, min(made, len(others)))]
    removed = rng.sample(removable, min(made, len(removable)))
    return [*chosen, *(replace(case, judge=never, answerable=False, left_out=True) for case in removed)]


def ask(name: str, cases: Sequence[Case], searcher: Searcher) -> Iterator[Judged]:
    """Answer the cases, whatever their confidence."""
    for case in cases:
        quoted, rows = [], []
        parts = split_question(to_query(case.question, "", searcher))
        for part in parts:
            hits = searcher.search(part, 3 * TOP_K if case.left_out else TOP_K)
            if case.left_out:
                hits = [hit for hit in hits if Path(hit.chunk.source).name not in case.sources][:TOP_K]
            hits = with_beginnings(part, within_budget(hits, BUDGET), searcher)
            ranked, units = rank_answer_units(part, hits, searcher)
            passages = compose_answer(part, ranked, units, MAX_CHARS // len(parts))
            if passages:
                rows.append(answer_features(part, hits, ranked, passages, searcher))
                quoted += passages
        if rows:
            features = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
            limit = float(np.mean([limit_by_names(part, searcher) for part in parts]))
            yield Judged(name, case, features, case.judge(quoted), limit)


def fit(judged: Sequence[Judged], current: Mapping[str, float], steps: int = 30) -> dict[str, float]:
    """Weights of a logistic regression by Newton's method; the offset first. Some stay as they are in `current`."""
    names = [name for name in current if name != "offset" and name not in SET_BY_HAND]
    kept = {name: current[name] for name in SET_BY_HAND}
    base = np.array([sum(weight * item.features[name] for name, weight in kept.items()) for item in judged])
    values = np.array([[item.features[name] for name in names] for item in judged])
    mean, deviation = values.mean(0), values.std(0) + 1e-9
    rows = np.column_stack([np.ones(len(values)), (values - mean) / deviation])
    right = np.array([item.right for item in judged], np.float64)
    penalty = PENALTY * np.diag([0.0, *np.ones(len(names))])
    weights = np.zeros(len(names) + 1)
    for _ in range(steps):
        likely = 1 / (1 + np.exp(-rows @ weights - base))
        gradient = rows.T @ (likely - right) / len(rows) + penalty @ weights
        hessian = (rows * (likely * (1 - likely))[:, None]).T @ rows / len(rows) + penalty
        weights -= np.linalg.solve(hessian, gradient)
    scaled = weights[1:] / deviation
    return {"offset": float(weights[0] - scaled @ mean), **dict(zip(names, scaled.tolist(), strict=True)), **kept}


def predict(judged: Sequence[Judged], weights: dict[str, float]) -> NDArray[np.float64]:
    """The confidence of each answer."""
    sums = [sum(w * item.features.get(name, 1.0) for name, w in weights.items()) for item in judged]
    limits = np.array([item.limit for item in judged])
    return np.asarray(np.minimum(1 / (1 + np.exp(-np.array(sums))), limits), np.float64)


def left_out(judged: Sequence[Judged], current: Mapping[str, float]) -> NDArray[np.float64]:
    """The confidence of each answer by a fit to the other collections."""
    confidences = np.zeros(len(judged))
    for collection in {item.collection for item in judged}:
        weights = fit([item for item in judged if item.collection != collection], current)
        at = [i for i, item in enumerate(judged) if item.collection == collection]
        confidences[at] = predict([judged[i] for i in at], weights)
    return confidences


def calibration_error(confidences: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """The mean difference of confidence and share of right answers over bins of equal width, weighted by size."""
    bins = np.minimum((confidences * BINS).astype(int), BINS - 1)
    sizes = [(bins == b) for b in range(BINS) if (bins == b).any()]
    return float(sum(m.mean() * abs(confidences[m].mean() - right[m].mean()) for m in sizes))


def summarize(judged: Sequence[Judged], confidences: NDArray[np.float64]) -> dict[str, float]:
    """The figures of one collection, or of all."""
    right = np.array([item.right for item in judged], np.float64)
    answerable = np.array([item.case.answerable for item in judged])
    answered, likely = confidences >= MIN_ANSWER, confidences >= LIKELY
    return {
        "questions": float(len(judged)),
        "right": float(right.sum() / max(1, answerable.sum())),
        "mean_confidence": float(confidences.mean()),
        "right_of_all": float(right.mean()),
        "calibration_error": calibration_error(confidences, right),
        "refused": float((~answered[answerable]).mean()),
        "right_refused": float((right[~answered] > 0).sum()),
        "not_in_documents": float((confidences[answerable] < MIN_PASSAGES).mean()),
        "unanswerable_answered": float(answered[~answerable].mean()) if (~answerable).any() else float("nan"),
        "likely": float(likely.mean()),
        "right_of_likely": float(right[likely].mean()) if likely.any() else float("nan"),
    }


def curve(judged: Sequence[Judged], confidences: NDArray[np.float64]) -> list[dict[str, float]]:
    """The share of questions answered at each level, and the share of those answers that is right."""
    right = np.array([item.right for item in judged], np.float64)
    levels = [0.0, *np.arange(0.1, 0.95, 0.1), MIN_ANSWER]
    rows = []
    for level in sorted(levels):
        answered = confidences >= level
        rows.append({"level": float(level), "answered": float(answered.mean()), "right": float(right[answered].mean())})
    return rows


def run(options: argparse.Namespace) -> dict[str, object]:
    """All figures."""
    rng = random.Random(options.seed)
    judged: list[Judged] = []
    with TemporaryDirectory(prefix="ragkit-confidence-") as scratch:
        found = {folder.name: read_cases(folder, Path(scratch) / folder.name) for folder in options.folders}
        for name, (documents, cases) in found.items():
            others = [c for other, (_, rows) in found.items() if other != name for c in rows[:: len(rows) // 30 + 1]]
            place = (options.kb or Path(scratch) / "kb") / name
            is_new = not place.exists()
            with KnowledgeBase.open(place, "default") as kb:
                if is_new:
                    kb.index(documents)
                with kb.session() as session:
                    judged += ask(name, sample(cases, others, options.questions, rng), session)
    confidences = left_out(judged, WEIGHTS)
    per_collection = {}
    for name in found:
        at = [i for i, item in enumerate(judged) if item.collection == name]
        per_collection[name] = summarize([judged[i] for i in at], confidences[at])
    return {
        "seed": options.seed,
        "collections": {**per_collection, "all": summarize(judged, confidences)},
        "lexical": summarize(judged, left_out(judged, LEXICAL_WEIGHTS)),
        "curve": curve(judged, confidences),
        "weights": fit(judged, WEIGHTS),
        "lexical_weights": fit(judged, LEXICAL_WEIGHTS),
    }


def show(figures: Mapping[str, Any]) -> None:
    """Print the tables."""
    for name, row in {**figures["collections"], "all, lexical": figures["lexical"]}.items():
        print(f"{name:18}" + "  ".join(f"{key} {value:.3g}" for key, value in row.items()))
    for row in figures["curve"]:
        print("  ".join(f"{key} {value:.2f}" for key, value in row.items()))
    for key in ("weights", "lexical_weights"):
        print(key, {name: round(value, 2) for name, value in figures[key].items()})


def main(arguments: Sequence[str]) -> None:
    """Print tables, or with `--json` one object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--kb", type=Path, help="keep the knowledge bases here")
    parser.add_argument("--questions", type=int, default=150, metavar="N", help="of each collection, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    options = parser.parse_args(arguments)
    figures = run(options)
    print(json.dumps(figures)) if options.json else show(figures)


if __name__ == "__main__":
    main(sys.argv[1:])
