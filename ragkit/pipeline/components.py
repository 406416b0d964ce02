"""The values of a pipeline: components with their options, answer options, and origins."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from ragkit.config.yaml_nodes import SET_OPTION, SourceLocation
from ragkit.errors import InvalidOption
from ragkit.usage.model_info import MIN_CONTEXT_WINDOW

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class ComponentConfig:
    """A component: its registered name, its options and, in a list, the files that it is for."""

    name: str
    """The name in its registry."""
    options: DataclassInstance | None = None
    """An instance of the component's options dataclass; None if it has no options."""
    only: tuple[str, ...] = ()
    """Suffixes (`.pdf`), for splitters also patterns of file names (`report-*.txt`); empty: every file of its kind."""

    def head(self) -> dict[str, object]:
        """`name` and, if set, `only`: the keys of the component other than its options."""
        return {"name": self.name, **({"only": self.only} if self.only else {})}

    def matches(self, source: str) -> bool:
        """Whether the component is for a file or URL of this name. Ignores case."""
        if not self.only:
            return True
        path = urlsplit(source).path if "://" in source else source
        name = PurePosixPath(path).name.lower()
        patterns = [f"*{entry.lower()}" if entry.startswith(".") else entry.lower() for entry in self.only]
        return any(fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(frozen=True)
class AccessOptions:
    """Who may read documents that do not say it."""

    default: str = ""
    """Who reads a document without a field `access` that no rule matches: `open`, everyone; `closed`, owners only;
    empty: as an earlier run has set it, at first everyone."""

    def __post_init__(self) -> None:
        if self.default not in ("", "open", "closed"):
            raise InvalidOption("default", self.default, "open or closed")


@dataclass(frozen=True)
class AnswerOptions:
    """How an answer is generated from the hits."""

    provider: str = "auto"
    """A provider, or `provider:model`; `auto`: the first provider with an API key, else `extractive` (no model)."""
    max_iterations: int = 6
    """Model calls per answer, >= 1."""
    max_cost_usd: float | None = 0.05
    """Cost limit of an answer in US dollars; null: no limit."""
    temperature: float | None = None
    """Randomness of the model, 0 to 2; not sent to models that accept none. null: 0.7 for requests to a server that
    name none, otherwise 0."""
    max_tokens: int = 2048
    """Tokens of one answer at most, >= 1."""
    passages: Literal["auto", "whole", "extracts"] = "auto"
    """What a search shows the model of its passages: `whole`, all of their text; `extracts`, the sentences and rows
    closest to the query, after which the model cannot search again; `auto`: extracts for models that run on this
    machine, which read slowly, else whole."""
    passages_budget: int = 4000
    """Tokens of the passages that one search shows the model at most, >= 1."""
    context_window: int | None = None
    """Tokens that the model takes, prompt and answer together; null: what is known of the model. A long conversation is
    shortened to fit."""
    instructions: str = ""
    """Wishes for the answers, such as form, tone or length; the rules on searching and citing stand above them."""
    search: Literal["first", "model"] = "first"
    """`first`: ragkit searches for the question, and the first request to the model has the passages; `model`: the
    model decides whether to search. No meaning without a model."""
    strict: bool = False
    """Whether an answer that the documents do not support is a failure; see `Answer.unsupported_reasons`."""
    tools: tuple[Literal["list_documents", "outline", "read_document", "find_text"], ...] = ()
    """Tools that a model has beside `search_knowledge_base`, to navigate documents: `[outline, read_document]`."""

    def __post_init__(self) -> None:
        if not self.provider.partition(":")[0]:
            raise InvalidOption("provider", self.provider, "'auto', a provider or provider:model")
        if self.search not in ("first", "model"):
            raise InvalidOption("search", self.search, "first or model")
        if self.passages not in ("auto", "whole", "extracts"):
            raise InvalidOption("passages", self.passages, "auto, whole or extracts")
        if self.max_iterations < 1:
            raise InvalidOption("max_iterations", self.max_iterations, ">= 1")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise InvalidOption("temperature", self.temperature, "between 0 and 2, or null")
        for name in ("max_tokens", "passages_budget"):
            if getattr(self, name) < 1:
                raise InvalidOption(name, getattr(self, name), ">= 1 (tokens)")
        if self.context_window is not None and self.context_window < MIN_CONTEXT_WINDOW:
            raise InvalidOption("context_window", self.context_window, f">= {MIN_CONTEXT_WINDOW} (tokens) or null")
        if self.max_cost_usd is not None and not self.max_cost_usd >= 0:
            raise InvalidOption("max_cost_usd", self.max_cost_usd, ">= 0 (US dollars) or null")


@dataclass(frozen=True)
class ValueOrigin:
    """Where the value of an option comes from."""

    location: SourceLocation
    """The location in a file or in a `--set`."""
    variables: tuple[str, ...] = ()
    """The environment variables in the value."""
    template: str = ""
    """The YAML text with its variables; empty without variables."""
    value: object = field(default=None, repr=False)  # may be a secret
    """The converted value."""

    @property
    def kind(self) -> Literal["file", "profile", "environment", "--set"]:
        """The kind of source. A variable takes precedence over the file or profile that names it."""
        if self.variables:
            return "environment"
        if self.location.source.name == SET_OPTION:
            return "--set"
        return "profile" if self.location.profile else "file"

    def __str__(self) -> str:
        """`file:line:column`, prefixed by the variables or the profile."""
        if self.variables:
            return f"environment {', '.join(self.variables)} ({self.location})"
        return f"profile {self.location.profile} ({self.location})" if self.location.profile else str(self.location)
