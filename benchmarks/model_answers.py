"""Measure answers of a language model over documents, beside the answers without one, on the same questions.

    python -m benchmarks.model_answers KB QUESTIONS.jsonl --model gguf:PATH [--count 60] [--seed 1]
    python -m benchmarks.model_answers KB QUESTIONS.jsonl --model extractive --conversations CONVERSATIONS.jsonl

A question has `question`, `answerable`, `source` (file names), and `answers`: groups of strings. An answer is right if
it is no refusal and contains a string of each group, in lower case and with white space collapsed. `cited right`: the
share of right answers that cite a file of `source`. `refused`: answerable questions that were refused. `searched`:
answers before which the documents were searched at least once. Calls and tokens are those of the model, per answer.

Conversations have `turns`, each a question; those after the first count as follow-ups.

With `--out`, each answer is written at once, and a second run asks only what is missing there. Questions are asked in
an order drawn by the seed, so that the first `--first N` of them are a sample, too.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ragkit
from ragkit import KnowledgeBase
from ragkit.answer.agent import RAGAgent
from ragkit.answer.base import Answer
from ragkit.answer.passages import TOOL_NAME

Row = Mapping[str, Any]


def read(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def draw(questions: Sequence[Row], count: int, seed: int, first: int = 0) -> list[Row]:
    """`count` questions in random order, of them the first `first`; 0: all."""
    generator = random.Random(seed)
    chosen = list(range(len(questions)))
    if 0 < count < len(questions):
        chosen = sorted(generator.sample(chosen, count))
    generator.shuffle(chosen)
    return [questions[index] for index in chosen[: first or None]]


def ask_missing(
    questions: Sequence[Row], answer: Callable[[Row], dict[str, Any]], out: Path | None
) -> list[dict[str, Any]]:
    """The answers in the order of the questions; those in `out` are taken from there, the others added to it."""
    known = {row["id"]: row for row in read(out)} if out and out.exists() else {}
    for question in questions:
        if question["id"] in known:
            continue
        row = known[question["id"]] = answer(question)
        print(f"{row['id']} {row.get('outcome', '')} {row['seconds']} s {row['text'][:90]!r}", flush=True)
        if out:
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return [known[question["id"]] for question in questions]


def is_right(answer: Row, question: Row) -> bool:
    """Whether an answer holds what was asked."""
    text = " ".join(answer["text"].lower().split())
    held = (any(" ".join(one.lower().split()) in text for one in group) for group in question["answers"])
    return not answer["refused"] and all(held)


def ask(agent: RAGAgent, question: Row) -> dict[str, Any]:
    """One answer, with what it took."""
    started = time.monotonic()
    answer = agent.ask(question["question"])
    return {**_to_row(answer), "id": question.get("id", ""), "seconds": round(time.monotonic() - started, 2)}


def _to_row(answer: Answer) -> dict[str, Any]:
    searches = answer.usage.by_tool.get(TOOL_NAME)
    return {
        "text": answer.text,
        "outcome": str(answer.outcome),
        "refused": answer.abstained,
        "cited": sorted({Path(citation.source.split("#")[0]).name for citation in answer.citations}),
        "cited_by_ragkit": sum(citation.by == "ragkit" for citation in answer.citations),
        "evidence": round(answer.evidence, 2),
        "supported": answer.supported,
        "searched": searches.calls if searches else int(bool(answer.citations)),
        "calls": answer.usage.by_model[answer.model].calls if answer.model in answer.usage.by_model else 0,
        "prompt_tokens": answer.usage.prompt_tokens,
        "completion_tokens": answer.usage.completion_tokens,
    }


def summarize(questions: Sequence[Row], answers: Sequence[Row]) -> dict[str, Any]:
    """The figures of all answers."""
    pairs = list(zip(questions, answers, strict=True))
    known = [(question, answer) for question, answer in pairs if question["answerable"]]
    right = [(question, answer) for question, answer in known if is_right(answer, question)]
    unknown = [answer for question, answer in pairs if not question["answerable"]]
    return {
        "answerable": len(known),
        "right": _share(len(right), len(known)),
        "cited right": _share(sum(bool({*a["cited"]} & {*q["source"]}) for q, a in right), len(right)),
        "refused": _share(sum(answer["refused"] for _, answer in known), len(known)),
        "unanswerable": len(unknown),
        "unanswerable answered": _share(sum(not answer["refused"] for answer in unknown), len(unknown)),
        "searched": _share(sum(answer["searched"] > 0 for answer in answers), len(answers)),
        "calls": _mean(answer["calls"] for answer in answers),
        "prompt tokens": _mean(answer["prompt_tokens"] for answer in answers),
        "completion tokens": _mean(answer["completion_tokens"] for answer in answers),
        "seconds, median": round(statistics.median([answer["seconds"] for answer in answers]), 1),
    }


def _share(count: int, total: int) -> float | None:
    return round(count / total, 3) if total else None


def _mean(values: Iterator[float]) -> float:
    return round(statistics.fmean(values), 2)


def main() -> None:
    """Ask, print the figures, and write the answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kb")
    parser.add_argument("questions", type=Path)
    parser.add_argument("--model", default="extractive")
    parser.add_argument("--count", type=int, default=60, help="questions drawn by seed; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="ask only so many of the questions drawn")
    parser.add_argument("--conversations", type=Path)
    parser.add_argument("--max-tokens", type=int, default=300)
    parser.add_argument("--top-k", type=int, help="passages of a search; default: that of the pipeline")
    parser.add_argument("--passages", choices=("auto", "whole", "extracts"), default="auto", help="what a search shows")
    parser.add_argument("--out", type=Path, help="one JSON object a line: the answers")
    options = parser.parse_args()
    print(f"ragkit {ragkit.__version__}, Python {platform.python_version()}, {options.model}, seed {options.seed}")
    with KnowledgeBase.open(options.kb) as kb:
        pipeline = kb.pipeline
    answering = replace(
        pipeline.answer, provider=options.model, max_tokens=options.max_tokens, passages=options.passages
    )
    with KnowledgeBase.open(options.kb, replace(pipeline, answer=answering)) as kb:
        questions = draw(read(options.questions), options.count, options.seed, options.first)
        rows = ask_missing(questions, lambda question: ask(kb.agent(top_k=options.top_k), question), options.out)
        print(json.dumps({"questions": summarize(questions, rows)}, indent=1))
        if options.conversations:
            ask_conversations(kb, options)


def ask_conversations(kb: KnowledgeBase, options: argparse.Namespace) -> None:
    """Ask the turns of all conversations, and print the figures."""
    turns, told = [], []
    for conversation in read(options.conversations):
        chat = kb.chat(top_k=options.top_k)
        for turn in conversation["turns"]:
            turns.append(turn)
            told.append(ask(chat, turn) | {"first": turn is conversation["turns"][0]})
    follow = [(turn, row) for turn, row in zip(turns, told, strict=True) if not row["first"]]
    figures = summarize([turn for turn, _ in follow], [row for _, row in follow])
    print(json.dumps({"conversations": summarize(turns, told), "follow-ups": figures}, indent=1))
    if options.out:
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in told)
        options.out.with_suffix(".turns.jsonl").write_text(lines, "utf-8")


if __name__ == "__main__":
    main()
