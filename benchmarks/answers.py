"""Measure answers without a language model: correct text, correct citations, and abstention.

    python benchmarks/answers.py FOLDER [--json] [--every N] [--seed S] [--held-out] [--no-abstention]

FOLDER has the BEIR layout with answers: `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`,
`answers`, `answerable`), `qrels.tsv`; or it has files and questions like this project's `data/` (`sample/`,
`questions.jsonl`). Each paragraph of a collection becomes one Markdown file, each article one folder. The files are
indexed into a knowledge base in a temporary folder, and every question is asked.

Answers: an answer is correct if it contains a gold answer as text, regardless of case and white space; its citation is
correct if one of its citations is of a file that the question was written for. Both are counted regardless of refusal,
and once more with refusals as misses.

Abstention: the knowledge base contains some of the articles, and the questions are about all of them. Each article is
left out once, each one is indexed alone once, and random halves are indexed a few times.

`--held-out` fits the statement weights again for each article, without that article; the weights in the code were
fitted on all articles.
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
"""Number of random halves of the articles."""


@dataclass(frozen=True)
class Question:
    """A question, its gold answers and their files."""

    text: str
    answers: tuple[str, ...]
    """Empty if the question is unanswerable."""
    sources: frozenset[str]
    """Names of files below the folder of documents."""
    group: str
    """The article that it was written for; in a folder of files, the kind of the question."""


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

    group: str
    held: tuple[bool, ...]
    """Whether the first quote contains the answer, whether one of the first two does, and so on."""
    cited: bool
    refused: bool
    in_text: bool
    """Whether the answer's text, without citations, contains the gold answer."""
    sentences: int
    milliseconds: float
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
    questions = [
        Question(row["question"], tuple(row["answers"]), frozenset(row["sources"]), row["kind"])
        for row in _rows(folder / "questions.jsonl")
    ]
    return Collection(folder.resolve().name, folder / "sample", questions)


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


def _question(row: Mapping[str, object], sources: set[str]) -> Question:
    answers = row.get("answers") if row.get("answerable", True) else ()
    group = min(sources).split("/")[0]
    return Question(str(row["text"]), tuple(answers or ()), frozenset(sources), group)  # type: ignore[arg-type]


def _rows(path: Path) -> Iterator[dict]:  # type: ignore[type-arg]
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
    quotes = [citation.quote for citation in answer.citations[:MAX_SENTENCES]]
    contained = [any(_contains(quote, question.answers) for quote in quotes[: n + 1]) for n in range(MAX_SENTENCES)]
    sources = {Path(citation.source).relative_to(documents.resolve()).as_posix() for citation in answer.citations}
    return AnswerResult(
        question.group,
        tuple(contained),
        bool(sources & question.sources),
        answer.abstained,
        not answer.abstained and _contains(answer.text, question.answers),
        len(quotes),
        spent,
    )


def _contains(text: str, answers: Sequence[str]) -> bool:
    plain_text = _plain(text)
    return any(_plain(answer) in plain_text for answer in answers)


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
                (split.inside if question.group in articles else split.outside).append(evidence)
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
    """The candidates of one question, with the correct ones marked."""

    group: str
    candidates: AnswerCandidates
    holds: NDArray[np.bool_]
    """Whether each candidate contains a gold answer."""
    gold: NDArray[np.bool_]
    """Whether each candidate is from a file that the question was written for."""


def judged_candidates(
    kb: KnowledgeBase, collection: Collection, questions: Sequence[Question]
) -> list[JudgedCandidates]:
    """The answer candidates of each question."""
    root, judged = collection.documents.resolve(), []
    for question in questions:
        candidates = build_candidates(question.text, kb.search(question.text, MAX_PASSAGES), kb)
        holds = np.array([_contains(unit.text, question.answers) for unit in candidates.units], np.bool_)
        names = [Path(unit.source).relative_to(root).as_posix() for unit in candidates.units]
        gold = np.array([name in question.sources for name in names], np.bool_)
        judged.append(JudgedCandidates(question.group, candidates, holds, gold))
    return judged


def fit(
    judged: Sequence[JudgedCandidates], *, steps: int = 400, rate: float = 0.05, decay: float = 2e-3
) -> NDArray[np.float64]:
    """Fit weights that rank correct statements first: maximum likelihood of a softmax over each question's statements.

    A statement is correct if it contains an answer and is from a gold file; statements that only contain an answer are
    ignored. Adam on standardised columns, with a penalty on large weights. Constant columns keep their weight.
    """
    rows = [
        (item.candidates.features[k], item.gold[k])
        for item in judged
        if (item.holds & item.gold).any()
        for k in [_kept(item)]
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
        exponentials = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
        expected = exponentials / np.repeat(np.add.reduceat(exponentials, starts), sizes)
        correct = exponentials * right / np.repeat(np.add.reduceat(exponentials * right, starts), sizes)
        gradient = (expected - correct) @ columns / len(rows) + decay * weights
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        weights -= rate * mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-9)
    fitted = np.array(list(FEATURE_WEIGHTS.values()), np.float64)
    fitted[varies] = weights / spread[varies]
    return fitted


def _kept(item: JudgedCandidates) -> NDArray[np.bool_]:
    return ~item.holds | item.gold


def held_out(judged: Sequence[JudgedCandidates]) -> dict[str, float]:
    """The shares of correct answers and citations, with weights fitted without the question's article."""
    outcomes = []
    for group in sorted({item.group for item in judged}):
        weights = fit([item for item in judged if item.group != group])
        for item in (candidate for candidate in judged if candidate.group == group):
            file_names = select_diverse(item.candidates, item.candidates.features @ weights, MAX_SENTENCES)
            outcomes.append(
                (*(item.holds[file_names[: n + 1]].any() for n in range(MAX_SENTENCES)), item.gold[file_names].any())
            )
    means = np.mean(np.array(outcomes, np.float64), axis=0)
    return {
        **{f"held_{n}": float(means[n - 1]) for n in range(1, MAX_SENTENCES + 1)},
        "cited": float(means[MAX_SENTENCES]),
    }


def summary(answered: Sequence[AnswerResult]) -> dict[str, float]:
    """Shares of the questions, and the median CPU time."""
    return {
        **{f"held_{n}": _share([result.held[n - 1] for result in answered]) for n in range(1, MAX_SENTENCES + 1)},
        "cited": _share([result.cited for result in answered]),
        "refused": _share([result.refused for result in answered]),
        "held_and_not_refused": _share([result.in_text for result in answered]),
        "quotes": float(np.mean([result.sentences for result in answered])),
        "cpu_ms": float(np.median([result.milliseconds for result in answered])),
        "questions": float(len(answered)),
    }


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
            figures["groups"] = {
                group: summary([result for result in answered if result.group == group])
                for group in sorted({result.group for result in answered})
            }
            if options.held_out:
                figures["held_out"] = held_out(judged_candidates(kb, collection, answerable))
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
    parser.add_argument("--every", type=int, default=1, metavar="N", help="ask only every n-th question")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random halves of the articles")
    parser.add_argument("--held-out", action="store_true", help="fit the weights again without each article")
    parser.add_argument("--no-abstention", action="store_true", help="skip the abstention part")
    options = parser.parse_args(arguments)
    figures = run(options.folder, options)
    if options.json:
        print(json.dumps(figures, default=asdict))
    else:
        show(figures)


if __name__ == "__main__":
    main(sys.argv[1:])
