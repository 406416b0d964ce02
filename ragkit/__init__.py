"""Cited answers over a folder of documents: no key, no model download, no server.

The public names are listed in `__init__.pyi`. Each is imported when it is first used, so `import ragkit` stays cheap.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from pathlib import Path

__version__ = "0.3.0"

_MOVED = {
    "ragkit.agent.result": "RunContext",
    "ragkit.agent.tools.base": "ToolCache ToolResult",
    "ragkit.answer.answer_events": "AnswerEvent AnswerToolFinished AnswerToolStarted",
    "ragkit.compat": "AgentTeam ConversationManager CostTracker Groqqy MemoryManager Planner ToolExecutor ToolWrapper",
    "ragkit.errors": (
        "AuthenticationFailed BudgetTooSmall ConnectionFailed ContextTooLong DimensionMismatch "
        "GuardrailBlocked HandoffFailed InvalidFilter InvalidRequest InvalidVector KnowledgeBaseDamaged "
        "KnowledgeBaseLocked KnowledgeBaseWriteFailed LoadLimitExceeded ModelNotFound NotAKnowledgeBase "
        "PipelineError PriceUnknown RequestTimeout RunCancelled SettingsMismatch StoreError ToolCallLoop "
        "ToolsNotSupported UnknownModel UnknownName UnsupportedFormat WorkerError"
    ),
    "ragkit.index.report": "IndexReport",
    "ragkit.load.base": "Loader",
    "ragkit.models": "Anthropic Cohere DeepSeek Gemini Groq Mistral ModelInfo OpenAI Voyage XAI",
    "ragkit.records": "Citation",
    "ragkit.retrieve.base": "Reranker Retriever",
    "ragkit.split.base": "Splitter",
    "ragkit.split.text_splitters": "SemanticTextSplitter",
    "ragkit.store.base": "Store",
}
"""Module -> names that `from ragkit import ...` gave before; for this version it still does, with a warning."""


@cache
def _modules() -> dict[str, str]:
    """Public name -> its module, from the lines `from MODULE import NAME as NAME` of the stub."""
    lines = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
    words = [line.split() for line in lines if line.startswith("from ")]
    return {name: module for _, module, _, _, _, name in words}


class _StandIn(type):
    """The type of names whose extra is not installed: `hasattr`, `help` and `import *` find them, use raises."""

    reason: ImportError

    def __new__(cls, name: str, bases: tuple[_StandIn, ...], namespace: dict[str, object]) -> _StandIn:
        """Raises MissingExtra: somebody derives a class."""
        raise bases[0].reason.with_traceback(None)

    def __call__(cls, *args: object, **options: object) -> object:
        raise cls.reason.with_traceback(None)


def _create_stand_in(name: str, reason: ImportError) -> type:
    stand_in = type.__new__(_StandIn, name, (), {"__doc__": str(reason), "__module__": "ragkit"})
    stand_in.reason = reason
    return stand_in


def __getattr__(name: str) -> object:
    if name == "__all__":
        return __dir__()
    if name not in _modules():
        return _find_moved(name)
    try:
        return getattr(import_module(_modules()[name]), name)
    except ImportError as error:
        from ragkit.errors import MissingExtra  # noqa: PLC0415 - `import ragkit` stays cheap

        if isinstance(error, MissingExtra):
            return _create_stand_in(name, error)
        raise


def _find_moved(name: str) -> object:
    """A name that has moved to another module. Raises AttributeError for any other name."""
    for module, names in _MOVED.items():
        if name in names.split():
            moved = f"from {module} import {name}"
            warnings.warn(f"ragkit.{name} has moved: use `{moved}`", DeprecationWarning, stacklevel=3)
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'ragkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_modules(), "__version__"])
