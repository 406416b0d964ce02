"""What a pipeline is made of: one chosen part and its options, the settings of answers, and origins."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from ragkit.errors import InvalidOption
from ragkit.pipeline.yaml_nodes import SET_OPTION, SourceLocation

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class ComponentConfig:
    """One part: its registered name, its options and, in a list, the files it is for."""

    name: str
    """As its registry knows it."""
    options: DataclassInstance | None = None
    """An instance of the part's own options dataclass; None for a part without options."""
    only: tuple[str, ...] = ()
    """Suffixes (`.pdf`), of splitters also patterns of file names (`report-*.txt`); empty: every file of its kind."""

    def matches(self, source: str) -> bool:
        """Whether a file or URL of this name is for this part. Upper and lower case count as equal."""
        path = urlsplit(source).path if "://" in source else source
        name = PurePosixPath(path).name.lower()
        patterns = [f"*{entry.lower()}" if entry.startswith(".") else entry.lower() for entry in self.only]
        return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(frozen=True)
class AnswerOptions:
    """How an answer is made from the hits."""

    provider: str = "auto"
    """A provider, or `provider:model`; `auto` takes the first one whose key is set, else no model at all."""
    max_iterations: int = 6
    """Turns of the model in one answer, 1 or more."""
    max_cost_usd: float | None = 0.05
    """US dollars that one answer may cost; null sets no limit."""

    def __post_init__(self) -> None:
        if not self.provider.partition(":")[0]:
            raise InvalidOption("provider", self.provider, "auto, a provider or provider:model")
        if self.max_iterations < 1:
            raise InvalidOption("max_iterations", self.max_iterations, ">= 1")
        if self.max_cost_usd is not None and not self.max_cost_usd >= 0:
            raise InvalidOption("max_cost_usd", self.max_cost_usd, ">= 0 (US dollars) or null")


@dataclass(frozen=True)
class ValueOrigin:
    """Where the value of one setting came from."""

    location: SourceLocation
    """Its place in a file or in a `--set`."""
    variables: tuple[str, ...] = ()
    """The environment variables that are part of the value."""
    template: str = ""
    """What is written at the place, when variables are part of it: YAML."""
    value: object = field(default=None, repr=False)  # may be a secret
    """What came out."""

    @property
    def kind(self) -> Literal["file", "profile", "environment", "--set"]:
        """What set the value. A variable counts before the file or profile that names it."""
        if self.variables:
            return "environment"
        if self.location.source.name == SET_OPTION:
            return "--set"
        return "profile" if self.location.profile else "file"

    def __str__(self) -> str:
        """`file:line:column`, after the variables or the profile that it came through."""
        if self.variables:
            return f"environment {', '.join(self.variables)} ({self.location})"
        return f"profile {self.location.profile} ({self.location})" if self.location.profile else str(self.location)
