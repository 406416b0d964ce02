"""Every public constructor and call refuses arguments of a wrong type with one typed error that names the argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import ragkit
import ragkit.compat
from ragkit import (
    Agent,
    AgentConfig,
    AgentRunner,
    Bot,
    ConversationMemory,
    Document,
    DocumentLoader,
    FallbackProvider,
    Guardrails,
    InMemoryCache,
    KnowledgeBase,
    Limits,
    LocalProvider,
    Message,
    RAGAgent,
    RagkitError,
    RAGTool,
    RecursiveTextSplitter,
    ScriptedProvider,
    TextSplitter,
    Tool,
    ToolCall,
    ToolCallParser,
    ToolPolicy,
    ToolRegistry,
    VectorStore,
    tool,
)
from ragkit.agent.providers.base import METHODS
from ragkit.argument_types import check_types
from ragkit.embed.hashing import HashingEmbedder
from ragkit.embed.options import HashingOptions
from ragkit.errors import InvalidOption, InvalidType

MADE_BY_RAGKIT = {
    *("AgentResult", "AgentTrace", "AgentUsage", "UsageStats", "CacheStats", "RunContext", "ModelInfo", "IndexReport"),
    *("Answer", "AnswerCitation", "AnswerCompleted", "AnswerEvent", "AnswerTextDelta", "AnswerTextReset"),
    *("AnswerToolFinished", "AnswerToolStarted", "Chunk", "Citation", "Hit", "SearchResult"),
    *("RunEnded", "TextChunk", "ToolEnded", "ToolStarted", "AgentObserver"),
}
"""Records that programs receive and do not make, and the methods that receive them."""
OF_THE_LOOP = {"call_validated", "create_meter", "create_system_message", "view", *METHODS}
"""Methods that the agent loop calls, and whose arguments it has made."""
NEVER_RAISES = {"ToolExecutor.execute"}
UNCHECKED = {"object", "JSON", "<class 'inspect._empty'>"}
"""Annotations that allow anything."""
REQUIRED = {"role": "user", "content": "text", "name": "name"}
"""What a call needs before the argument in question is looked at."""


class Wrong:
    """Of no type that anything takes."""


class Call:
    """A public constructor, function or method, with what to call."""

    def __init__(self, name: str, target: Callable[..., object]) -> None:
        self.name, self.target = name, target

    @property
    def parameters(self) -> list[inspect.Parameter]:
        found = inspect.signature(self.target).parameters.values()
        return [p for p in found if p.kind is not p.VAR_KEYWORD and str(p.annotation) not in UNCHECKED]


PUBLIC_NAMES = [*dir(ragkit), *(name for name in dir(ragkit.compat) if name[0].isupper())]


def public_calls(name: str) -> list[Call]:
    """The calls of a public name that take arguments and may refuse them."""
    target = getattr(ragkit if name in dir(ragkit) else ragkit.compat, name)
    return [call for call in _calls(name, target) if call.parameters and call.name not in NEVER_RAISES]


def _calls(name: str, target: Any) -> Iterator[Call]:
    if inspect.isfunction(target):
        yield Call(name, target)
    is_made = name in MADE_BY_RAGKIT or not isinstance(target, type) or issubclass(target, BaseException | Enum)
    if is_made or getattr(target, "_is_protocol", False):
        return
    if inspect.signature(target).parameters:
        yield Call(name, target)
    own = [vars(base) for base in target.__mro__ if base.__module__.startswith("ragkit")]
    for method in {key: None for members in own for key in members if key[0] != "_"}:
        raw = inspect.getattr_static(target, method)
        if method in OF_THE_LOOP or not inspect.isfunction(getattr(raw, "__func__", raw)):
            continue
        if isinstance(raw, staticmethod | classmethod):
            yield Call(f"{name}.{method}", getattr(target, method))
        elif not inspect.isabstract(target):
            # arguments are checked before the body, so that an object without state will do
            yield Call(f"{name}.{method}", getattr(object.__new__(target), method))


def invoke(call: Call, parameter: inspect.Parameter, value: object) -> None:
    keyword = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    names = [other.name for other in call.parameters]
    known = {name: REQUIRED[name] for name in names if name in REQUIRED and name != parameter.name}
    before: list[object] = [{}] * names.index(parameter.name) if parameter.kind is parameter.POSITIONAL_ONLY else []
    result: Any = call.target(**known, **{parameter.name: value}) if keyword else call.target(*before, value)
    if inspect.iscoroutine(result):
        try:
            result.send(None)
        finally:
            result.close()


def test_the_public_calls_and_their_arguments_are_many() -> None:
    calls = [call for name in PUBLIC_NAMES for call in public_calls(name)]
    assert len(calls) > 200
    assert sum(len(call.parameters) for call in calls) > 600


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_an_argument_of_a_wrong_type_is_named(name: str) -> None:
    for call in public_calls(name):
        for parameter in call.parameters:
            with pytest.raises(InvalidType, match=r" must be .*\(got Wrong: ") as caught:
                invoke(call, parameter, Wrong())
            assert (call.name, caught.value.option) == (call.name, parameter.name)


# --- what is given in practice ---

VALUES: list[object] = [
    *(None, 5, -1, 0, 2.5, float("nan"), True, "text", "", b"x", [], [5], ["a"], [None], (), {}, {"x": 5}, {5: "x"}),
    *(object(), lambda: 0, Wrong, int, Path("x"), Message.user("hi"), ToolCall("f"), Document("text"), AgentConfig()),
    *(LocalProvider(), Limits(), ConversationMemory(), ToolRegistry(), iter([]), set()),
]


@tool("Add")
def add(a: int, b: int = 1) -> int:
    return a + b


def agent() -> Agent:
    return Agent(ScriptedProvider(["hello"]), [add])


def documents() -> tuple[list[Document], HashingEmbedder]:
    return [Document("The hedge is cut in August.", {"source": "garden"})], HashingEmbedder(HashingOptions(16))


def store() -> Any:
    found, embedder = documents()
    filled = VectorStore.create("memory")
    filled.add_documents(found, embedder.embed_texts([item.text for item in found]))
    return filled


REAL: Mapping[str, tuple[Callable[[], Callable[..., object]], dict[str, object]]] = {
    "Agent": (lambda: Agent, {"provider": LocalProvider(), "tools": [], "config": AgentConfig(), "instructions": "x"}),
    "Agent.run": (lambda: agent().run, {"given": "hi", "context": {}, "memory": None, "cancel": None}),
    "Agent.batch": (lambda: agent().batch, {"inputs": ["hi"], "max_concurrency": 1}),
    "Agent.as_tool": (lambda: agent().as_tool, {"name": "x", "description": "y"}),
    "AgentConfig": (lambda: AgentConfig, dict.fromkeys(field.name for field in fields(AgentConfig))),
    "AgentRunner": (lambda: AgentRunner, {"agents": [agent()]}),
    "AgentRunner.run": (lambda: AgentRunner([agent()]).run, {"given": "hi", "context": None}),
    "Bot": (lambda: Bot, {"model": "", "tools": [], "system_instruction": "x", "max_iterations": 2}),
    "ConversationMemory": (lambda: ConversationMemory, {"max_messages": 3, "max_tokens": 9, "messages": []}),
    "ConversationMemory.add": (lambda: ConversationMemory().add, {"message": Message.user("x")}),
    "ConversationMemory.from_json": (lambda: ConversationMemory.from_json, {"text": "{}"}),
    "Document": (lambda: Document, {"text": "x", "metadata": {}, "source": "x", "id": "x"}),
    "DocumentLoader.from_text": (lambda: DocumentLoader.from_text, {"text": "x", "metadata": {}}),
    "DocumentLoader.from_file": (lambda: DocumentLoader.from_file, {"path": "x.txt", "metadata": {}}),
    "DocumentLoader.from_directory": (lambda: DocumentLoader.from_directory, {"path": "docs", "glob": "*"}),
    "FallbackProvider": (lambda: FallbackProvider, {"providers": [LocalProvider()]}),
    "Guardrails": (lambda: Guardrails, {"input": [], "output": []}),
    "InMemoryCache": (lambda: InMemoryCache, {"max_size": 3, "default_ttl": 3}),
    "KnowledgeBase.open": (lambda: KnowledgeBase.open, {"path": "kb", "pipeline": None, "embedder": None}),
    "Limits": (lambda: Limits, {"max_cost_usd": 1, "max_tokens": 3, "max_seconds": 3, "warn_cost_usd": 1}),
    "Message": (lambda: Message, {"role": "user", "content": "x", "tool_calls": (), "images": (), "name": "x"}),
    "Message.from_dict": (lambda: Message.from_dict, {"data": {"role": "user"}}),
    "RAGAgent.from_documents": (
        lambda: RAGAgent.from_documents,
        {"documents": documents()[0], "provider": ScriptedProvider([]), "store": None},
    ),
    "RAGTool": (lambda: RAGTool, {"documents": store(), "embedder": documents()[1]}),
    "RecursiveTextSplitter": (
        lambda: RecursiveTextSplitter,
        {"chunk_size": 9, "chunk_overlap": 1, "separators": ["x"], "unit": "characters"},
    ),
    "ScriptedProvider": (lambda: ScriptedProvider, {"script": ["x"]}),
    "TextSplitter.split_text": (lambda: TextSplitter(5, 1).split_text, {"text": "x y z"}),
    "TextSplitter.split_documents": (lambda: TextSplitter(5, 1).split_documents, {"documents": [Document("x y")]}),
    "Tool": (lambda: Tool, {"name": "x", "description": "x", "function": lambda: 0, "parameters": {"type": "object"}}),
    "Tool.bind": (lambda: add.bind, {"b": 1}),
    "ToolCall": (lambda: ToolCall, {"name": "x", "arguments": {}, "id": "x"}),
    "ToolCallParser.parse": (lambda: ToolCallParser().parse, {"text": "x"}),
    "ToolPolicy": (lambda: ToolPolicy, {"allow": [], "review": [], "deny": []}),
    "ToolRegistry": (lambda: ToolRegistry, {"tools": []}),
    "ToolRegistry.get": (lambda: ToolRegistry([add]).get, {"name": "add"}),
    "ToolRegistry.register": (lambda: ToolRegistry().register, {"tool": add}),
    "VectorStore.create": (lambda: VectorStore.create, {"name": "memory"}),
}
"""Calls with valid arguments, each of which is then replaced."""


@pytest.mark.parametrize("name", REAL)
def test_no_value_of_an_argument_gives_a_raw_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    create, valid = REAL[name]
    valid = {key: value for key, value in valid.items() if value is not None}
    for argument in REAL[name][1]:
        for value in VALUES:
            target = create()
            try:
                target(**{**valid, argument: value})
            except RagkitError as error:
                assert str(error)


@pytest.mark.parametrize("value", [None, "text", 5, {"x": 1}, [Message.user("hi")]])
@pytest.mark.parametrize("provider", [LocalProvider(), ScriptedProvider(["x"]), FallbackProvider([LocalProvider()])])
def test_a_provider_refuses_what_is_no_request(provider: Any, value: object) -> None:
    with pytest.raises(InvalidType, match="request must be a ModelRequest, or model, system_prompt and messages"):
        provider.complete(value)


def test_the_error_is_one_of_the_kinds_that_programs_catch() -> None:
    assert issubclass(InvalidType, InvalidOption | TypeError | ValueError)
    for kind in (RagkitError, InvalidOption, TypeError, ValueError):
        with pytest.raises(kind, match=r"config must be an AgentConfig \(got dict: {'model': 'x'}\)"):
            Agent(LocalProvider(), config={"model": "x"})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_tokens must be >= 1"):
        AgentConfig(max_tokens=-5)
    with pytest.raises(ValueError, match="unknown tool 'ad'"):
        ToolRegistry([add]).get("ad")


def test_an_item_of_a_sequence_is_checked_and_said() -> None:
    with pytest.raises(InvalidType, match=r"given must be .*, a sequence \(each item a Message\) or"):
        agent().run([{"role": "user", "content": "hi"}])  # type: ignore[list-item]
    with pytest.raises(InvalidType, match=r"a ToolRegistry, a sequence \(each item a Tool or a function\) or None"):
        Agent(LocalProvider(), lambda: 0)  # type: ignore[arg-type]


class Record:
    """With annotations of all sorts."""

    @check_types()
    def take(self, number: float, *rest: int, names: list[str] | None = None, flag: bool = False) -> str:
        """Takes them."""
        return f"{number} {rest} {names} {flag}"


def test_what_looks_like_the_type_is_allowed() -> None:
    import numpy as np

    record = Record()
    assert record.take(np.float32(0.5), np.int64(3), flag=True) == "0.5 (np.int64(3),) None True"  # type: ignore[arg-type]
    assert record.take(1, names=("a",)) == "1 () ('a',) False"  # type: ignore[arg-type]
    for wrong in ({"number": True}, {"names": "abc"}, {"names": [1]}, {"flag": 0}):
        with pytest.raises(InvalidType, match=f"{next(iter(wrong))} must be"):
            record.take(**{"number": 1, **wrong})  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match="rest must be an int"):
        record.take(1, 2, 2.5)  # type: ignore[arg-type]
