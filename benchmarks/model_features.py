"""Every feature that asks a language model, once with a real one: whether it works, what it gains, what it takes.

    python -m benchmarks.model_features KB FOLDER QUESTIONS.jsonl --model gguf:PATH [--features judge,hyde] [--out FILE]

KB holds the documents of FOLDER; questions as in `model_answers.py`, whose `source` names files of FOLDER. Each feature
is one line of JSON: `works` (what it promises was done), what it gained where that can be measured, requests, tokens
and seconds. The samples are small: they show whether a feature works with this model, not how well.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ragkit
from benchmarks.model_answers import Row, draw, is_right, read
from ragkit import Agent, AgentConfig, Chunk, Guardrails, KnowledgeBase, SemanticCache, SummarizingMemory, tool
from ragkit.agent.guardrails import PIIGuardrail
from ragkit.agent.loop.coherence_check import CoherenceCheck
from ragkit.agent.messages import ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest, Provider
from ragkit.agent.providers.lookup import get_provider
from ragkit.embed.minilm import MiniLM
from ragkit.evaluate.judge import Judge
from ragkit.evaluate.model_questions import QuestionWriter
from ragkit.evaluate.questions import Question
from ragkit.evaluate.run import QuestionResult
from ragkit.evaluate.structured_model import StructuredModel
from ragkit.retrieve.options import RewriteMethod, RewriteOptions
from ragkit.retrieve.query_rewriting import QueryRewriter

Figures = dict[str, Any]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


class Counted(Provider):
    """A provider that counts the requests and tokens of another."""

    def __init__(self, inner: Provider, model: str) -> None:
        self.inner, self.name, self.default_model = inner, inner.name, model or inner.default_model
        self.native_tools, self.writes_calls = inner.native_tools, inner.writes_calls
        self.on_this_machine, self.context_window = inner.on_this_machine, inner.context_window
        self.requests = self.prompt_tokens = self.completion_tokens = 0

    def complete(self, request: ModelRequest) -> Completion:
        """Ask the other provider."""
        completion = self.inner.complete(request)
        self.requests += 1
        self.prompt_tokens += completion.usage.prompt_tokens
        self.completion_tokens += completion.usage.completion_tokens
        return completion


class Bench:
    """The model, the knowledge base and the questions that the features are tried with."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.model: str = options.model
        self.provider = Counted(get_provider(self.model), self.model.partition(":")[2])
        self.folder: Path = options.folder
        with KnowledgeBase.open(options.kb) as kb:
            self.pipeline = kb.pipeline
        self.path = options.kb
        known = [row for row in read(options.questions) if row["answerable"]]
        self.questions = draw(known, options.count, options.seed)

    def agent(self, tools: Sequence[Any] = (), **options: Any) -> Agent:
        """An agent with this model, which is asked greedily."""
        config = AgentConfig(temperature=0, max_tokens=160, max_iterations=5, **options.pop("config", {}))
        return Agent(self.provider, tools, config=config, **options)

    # Retrieval

    def rewrite(self, name: RewriteMethod) -> Figures:
        """Further wordings or hypothetical answers: in how many questions the first five passages hold the answer."""
        options = RewriteOptions(name, provider=self.model, number=3)
        rewriter = QueryRewriter(options, self.provider)
        texts = [rewriter.rewrite(row["question"]) for row in self.questions]
        retriever = self.pipeline.retriever
        chosen: Any = retriever.options
        retriever = replace(retriever, options=replace(chosen, rewrite=options))
        return {
            "works": all(texts),
            "found without": self._found(self.pipeline),
            "found with": self._found(replace(self.pipeline, retriever=retriever)),
            "of": len(self.questions),
            "example": [self.questions[0]["question"], *texts[0]],
        }

    def _found(self, pipeline: Any) -> int:
        with KnowledgeBase.open(self.path, pipeline) as kb:
            return sum(_holds(kb.search(row["question"], top_k=5), row) for row in self.questions)

    def contextual_chunks(self) -> Figures:
        """A sentence of context for each chunk of the two smallest files that answer a question."""
        sources = {name for row in self.questions for name in row["source"]}
        paths = [path for path in self.folder.rglob("*") if path.name in sources]
        paths = sorted(paths, key=lambda path: path.stat().st_size)[:2]
        asked = [row for row in self.questions if {*row["source"]} & {path.name for path in paths}]
        found, contexts, chunks = [], 0, 0
        with tempfile.TemporaryDirectory() as work:
            for path in paths:
                (Path(work) / "docs").mkdir(exist_ok=True)
                shutil.copy(path, Path(work) / "docs" / path.name)
            for context in (None, {"model": self.model, "max_tokens": 60}):
                split = {"name": "recursive", **({"context": context} if context else {})}
                pipeline = Path(work) / f"{bool(context)}.yaml"
                pipeline.write_text(json.dumps({"extends": "default", "split": split}), "utf-8")
                with KnowledgeBase.open(Path(work) / f"kb{bool(context)}", pipeline) as kb:
                    kb.index(Path(work) / "docs")
                    found.append(sum(_holds(kb.search(row["question"], top_k=1), row) for row in asked))
                    listed = _chunks(kb)
                    chunks, contexts = len(listed), sum(bool(chunk.context) for chunk in listed)
        gained = {"first without": found[0], "first with": found[1], "of": len(asked)}
        return {"works": contexts == chunks, "chunks": chunks, "with context": contexts, **gained}

    # Evaluation

    def question_writer(self) -> Figures:
        """Questions written from passages, of which those are kept whose quoted answer is in the passage."""
        writer = QuestionWriter(StructuredModel(self.provider))
        with KnowledgeBase.open(self.path) as kb:
            kept = writer.write(_chunks(kb), 6, seed=1)
        example = [kept[0].text, *kept[0].answers] if kept else []
        return {"works": bool(kept), "kept": len(kept), "passages": writer.passage_count, "example": example}

    def judge(self) -> Figures:
        """Relevance by the model beside right and wrong answers: the answer of a question, and that of the next."""
        judge, agreed, judged = Judge(StructuredModel(self.provider)), 0, 0
        with KnowledgeBase.open(self.path) as kb:
            answers = [kb.ask(row["question"]) for row in self.questions[:6]]
        for shift in (0, 1):
            for index, row in enumerate(self.questions[:6]):
                answer = answers[(index + shift) % len(answers)]
                passages = tuple(citation.quote for citation in answer.citations)
                asked = Question(row["id"], row["question"])
                result = judge.judge(QuestionResult(asked, (), {}, (), answer.text, contexts=passages))
                if "relevance" not in result.metrics:
                    continue
                right = not shift and is_right({"text": answer.text, "refused": answer.abstained}, row)
                judged += 1
                agreed += (result.metrics["relevance"] >= 0.5) == right
        return {"works": judged == 12, "judged": judged, "agrees with the labels": agreed}

    # Agents

    def structured_output(self) -> Figures:
        """An answer that matches a JSON Schema."""
        agent = self.agent(config={"response_format": PERSON})
        found = agent.run("Ilse Kramer is 41 years old and lives in Bergen. Who is this, and how old?").parsed
        return {"works": isinstance(found, dict) and found.get("age") == 41, "example": str(found)}

    def summaries(self) -> Figures:
        """A fact of the first turn, asked for after the turns were summarized."""
        memory = SummarizingMemory(self.provider, max_messages=6)
        agent = self.agent(memory=memory)
        for text in (
            "My name is Ilse and my boat is called Kestrel.",
            "Name one colour.",
            "Name one animal.",
            "Name one tree.",
        ):
            agent.run(text)
        answer = agent.run("What is my boat called?").content
        return {"works": "kestrel" in answer.lower(), "messages": len(memory.get_history()), "example": answer}

    def semantic_cache(self) -> Figures:
        """The same question in other words is answered from the cache, another question is not."""
        cache = SemanticCache(MiniLM(), threshold=0.8)
        agent = self.agent(config={"cache": cache})
        for text in ("What is the capital of France?", "Which city is the capital of France?", "Name one tree."):
            agent.run(text)
        return {"works": cache.stats.hits == 1, "hits": cache.stats.hits}

    def guardrails(self) -> Figures:
        """An address in the model's answer is masked."""
        agent = self.agent(config={"guardrails": Guardrails(output=[PIIGuardrail()])})
        answer = agent.run("Repeat exactly this text: write to ilse@example.org").content
        return {"works": "ilse@example.org" not in answer, "example": answer}

    def coherence(self) -> Figures:
        """A call that serves the request is allowed, one that does not is refused."""
        check, verdicts = CoherenceCheck(), []
        for call in (ToolCall("get_weather", {"city": "Oslo"}, "1"), ToolCall("delete_file", {"path": "/etc"}, "2")):
            request = check.build_request("What is the weather in Oslo?", [call])
            completion = self.provider.complete(replace(request, model=self.provider.default_model))
            verdicts.append(check.parse_verdict(completion, 1))
        refused = [bool(verdict.refused) for verdict in verdicts]
        return {"works": refused == [False, True], "refused": refused}

    def handoff(self) -> Figures:
        """A question about invoices reaches the agent that knows them."""
        billing = self.agent(name="Billing", description="Knows invoices and payments.", instructions="Be brief.")
        triage = self.agent(name="Triage", instructions="Hand over to the right agent.", handoffs=[billing])
        result = triage.run("My invoice 12 is wrong.")
        return {"works": result.agent_name == "Billing", "agent": result.agent_name, "example": result.content[:200]}

    def two_tools(self) -> Figures:
        """Two tools that one question needs."""
        called: list[str] = []

        @tool(description="Say what the weather in a city is now.")
        def get_weather(city: str) -> str:
            called.append(f"get_weather {city}")
            return f"{city}: 17 degrees, rain"

        @tool(description="Say what time it is in a city.")
        def get_time(city: str) -> str:
            called.append(f"get_time {city}")
            return f"{city}: 14:05"

        answer = self.agent([get_weather, get_time]).run("What are the time and the weather in Oslo?").content
        return {"works": "17" in answer and "14:05" in answer, "calls": called, "example": answer}

    def streaming(self) -> Figures:
        """`astream` over the documents: pieces before the end, which together are the text."""

        async def collect() -> tuple[int, str, str]:
            pieces, text = 0, ""
            with KnowledgeBase.open(self.path) as kb:
                async for event in kb.astream(self.questions[0]["question"], model=self.provider.inner):
                    if isinstance(event, ragkit.AnswerTextReset):
                        text = ""
                    elif isinstance(event, ragkit.AnswerTextDelta):
                        pieces, text = pieces + 1, text + event.text
                    elif isinstance(event, ragkit.AnswerCompleted):
                        return pieces, text, event.answer.text
            return pieces, text, ""

        pieces, text, answer = asyncio.run(collect())
        return {"works": pieces > 1 and text.strip() == answer.strip(), "pieces": pieces, "example": answer[:200]}


def _chunks(kb: KnowledgeBase) -> list[Chunk]:
    with kb.session() as session:
        return list(session.chunks())


def _holds(hits: Sequence[Any], row: Row) -> bool:
    text = " ".join(hit.chunk.text for hit in hits)
    return is_right({"text": text, "refused": False}, row)


FEATURES: dict[str, Callable[[Bench], Figures]] = {
    "multi_query": lambda bench: bench.rewrite("multi_query"),
    "hyde": lambda bench: bench.rewrite("hyde"),
    "contextual chunks": Bench.contextual_chunks,
    "generated questions": Bench.question_writer,
    "judge": Bench.judge,
    "structured output": Bench.structured_output,
    "summaries": Bench.summaries,
    "semantic cache": Bench.semantic_cache,
    "guardrails": Bench.guardrails,
    "coherence check": Bench.coherence,
    "handoff": Bench.handoff,
    "two tools": Bench.two_tools,
    "astream": Bench.streaming,
}


def measure(bench: Bench, name: str) -> Figures:
    """One feature, and what it took."""
    provider = bench.provider
    provider.requests = provider.prompt_tokens = provider.completion_tokens = 0
    started = time.monotonic()
    try:
        figures = FEATURES[name](bench)
    except Exception as error:  # noqa: BLE001 - a feature that fails is one of the results
        figures = {"works": False, "error": f"{type(error).__name__}: {error}"[:300]}
    took = {
        "requests": provider.requests,
        "prompt_tokens": provider.prompt_tokens,
        "completion_tokens": provider.completion_tokens,
        "seconds": round(time.monotonic() - started, 1),
    }
    return {"feature": name, **figures, **took}


def main() -> None:
    """Try the features, and print one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kb")
    parser.add_argument("folder", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--features", default=",".join(FEATURES))
    parser.add_argument("--count", type=int, default=12, help="questions drawn by seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="the lines are added to this file")
    options = parser.parse_args()
    print(f"ragkit {ragkit.__version__}, Python {platform.python_version()}, {options.model}, seed {options.seed}")
    bench = Bench(options)
    for name in options.features.split(","):
        line = json.dumps(measure(bench, name), ensure_ascii=False)
        print(line, flush=True)
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
