"""The sections of a pipeline file, and the registries of their components."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ragkit.agent.providers import PROVIDERS
from ragkit.embed import EMBEDDERS
from ragkit.embed.base import EmbeddingProvider
from ragkit.errors import MissingExtra, UnknownName
from ragkit.index.build_runner import BuildRunner
from ragkit.load import LOADERS
from ragkit.load.base import Loader
from ragkit.load.sources import SOURCES
from ragkit.load.sources.base import Source
from ragkit.pipeline.components import AnswerOptions
from ragkit.pipeline.runners import RUNNERS
from ragkit.pipeline.serialize import DEFERRED_OPTIONS
from ragkit.registry import ComponentSpec
from ragkit.retrieve import RETRIEVERS
from ragkit.retrieve.base import Retriever
from ragkit.split import SPLITTERS
from ragkit.split.base import Splitter
from ragkit.store import STORES
from ragkit.store.base import Store

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

BUILT_IN_PROVIDERS = frozenset({"auto", "extractive"})
"""Providers of `answer` that are not registered."""
ADDRESS_OPTIONS = frozenset({"url", "uri", "host", "dsn"})
"""Options that set the address of a store server; a store with one of them has no directory."""
FOLDER_LOADER = "folder"
"""The loader that selects files and leaves their parsing to the other loaders."""


class ComponentRegistry(Protocol):
    """The methods of a registry that a section uses."""

    @property
    def kind(self) -> str:
        """The kind of component, for messages."""

    @property
    def specs(self) -> Mapping[str, ComponentSpec]:
        """The built-in components."""

    def __contains__(self, name: object) -> bool:
        """Whether a name is registered."""

    def names(self) -> list[str]:
        """All registered names, plugins included."""

    def find(self, name: str) -> type[object]:
        """The class of a component. Raises UnknownName or MissingExtra."""

    def options_class(self, name: str) -> type[DataclassInstance] | None:
        """The dataclass of its options, or None. Raises UnknownName."""

    def extra(self, name: str) -> str:
        """The optional dependency group that it needs, or ''. Raises UnknownName."""

    def missing_members(self, name: str, component: object, protocol: type) -> str:
        """The message about members of a protocol that a component lacks, or ''."""


@dataclass(frozen=True)
class Section:
    """A section of a pipeline file: `sources`, one of the six stages, or `run`."""

    key: str
    """The key in the file."""
    attribute: str
    """The attribute of Pipeline."""
    registry: ComponentRegistry | None
    """The components of the section; None for `answer`, which has options only."""
    protocol: type | None = None
    """The protocol of its components."""
    allows_list: bool = False
    """Whether it can hold a list of components."""
    provider_registry: ComponentRegistry | None = None
    """For `answer`: the providers other than `auto` and `extractive`."""
    deferred_options: frozenset[str] = frozenset()
    """Options that the knowledge base sets if the file does not; they are '' until then."""
    address_options: frozenset[str] = frozenset()
    """Options that set an address; with one of them nothing is filled in."""
    is_optional: bool = False
    """Whether a file may lack the section: then it has no components."""

    @property
    def routes_files(self) -> bool:
        """Whether the entries of a list are each for some of the files, by `only`."""
        return self.allows_list and not self.is_optional

    def provider_names(self) -> list[str]:
        """Valid providers of `answer`: `auto`, `extractive` (no model), and the registered ones."""
        registered = self.provider_registry.names() if self.provider_registry is not None else ()
        return sorted({*BUILT_IN_PROVIDERS, *registered})

    def options_class(self, name: str) -> type[DataclassInstance] | None:
        """The dataclass of a component's options, or None. Raises like `Registry.options_class`."""
        return AnswerOptions if self.registry is None else self.registry.options_class(name)

    def component_error(self, name: str) -> str:
        """Why a component cannot be imported or lacks methods of its protocol, or ''."""
        if self.registry is None:
            return ""
        error = describe_import_error(self.registry, name, self.options_class, self.registry.find)
        if error or self.protocol is None:
            return error
        return self.registry.missing_members(name, self.registry.find(name), self.protocol)


SECTIONS: Sequence[Section] = (
    Section("sources", "sources", SOURCES, Source, allows_list=True, is_optional=True),
    Section("load", "loaders", LOADERS, Loader, allows_list=True),
    Section("split", "splitters", SPLITTERS, Splitter, allows_list=True),
    Section("embed", "embedder", EMBEDDERS, EmbeddingProvider),
    Section("store", "store", STORES, Store, deferred_options=DEFERRED_OPTIONS, address_options=ADDRESS_OPTIONS),
    Section("retrieve", "retriever", RETRIEVERS, Retriever),
    Section("answer", "answer", None, provider_registry=PROVIDERS),
    Section("run", "runner", RUNNERS, BuildRunner),
)
"""The sources, the stages in the order of the data path, then `run`."""


def section_keys(sections: Iterable[Section] = SECTIONS) -> list[str]:
    """`sources`, `load`, `split`, `embed`, `store`, `retrieve`, `answer`, `run`."""
    return [section.key for section in sections]


def describe_import_error(registry: ComponentRegistry, name: str, *loads: Callable[[str], object]) -> str:
    """Why a component cannot be imported (a missing extra, a broken plugin), or ''. `loads` are the imports to try."""
    try:
        for load in loads:
            load(name)
    except (MissingExtra, UnknownName) as error:
        return str(error)
    except (ImportError, AttributeError) as error:
        return f"cannot import the {registry.kind} {name!r}: {error}"
    return ""
