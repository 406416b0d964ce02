"""The sections of a pipeline file and the parts that each of them can name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ragkit.agent.providers import PROVIDERS
from ragkit.embed import EMBEDDERS
from ragkit.errors import MissingExtra, UnknownName
from ragkit.load import LOADERS
from ragkit.pipeline.components import AnswerOptions
from ragkit.pipeline.runners import RUNNERS
from ragkit.registry import PartSpec
from ragkit.retrieve import RETRIEVERS
from ragkit.split import SPLITTERS
from ragkit.store import STORES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ADDRESS_OPTIONS = frozenset({"url", "uri", "host", "dsn"})
"""Options of stores that are servers: with one of them a store lies in no directory."""
FOLDER_LOADER = "folder"
"""The loader that says which files are read, and that leaves each of them to the others."""


class ComponentRegistry(Protocol):
    """What a section needs of a registry."""

    @property
    def kind(self) -> str:
        """One word for messages."""

    @property
    def specs(self) -> Mapping[str, PartSpec]:
        """The parts that no plugin brought."""

    def names(self) -> list[str]:
        """Every name that can be chosen."""

    def find(self, name: str) -> type[object]:
        """The class behind a name. Raises UnknownName or MissingExtra."""

    def options_class(self, name: str) -> type[DataclassInstance] | None:
        """The dataclass of its options, if it takes any. Raises UnknownName."""

    def extra(self, name: str) -> str:
        """The optional dependency group that it needs, or ''. Raises UnknownName."""


@dataclass(frozen=True)
class Section:
    """One of the sections: six stations, and how they are run."""

    key: str
    """As it stands in a file."""
    attribute: str
    """The attribute of a Pipeline that holds it."""
    registry: ComponentRegistry | None
    """The parts that can be chosen here; None for `answer`, which has options only."""
    allows_list: bool = False
    """May hold a list of parts, each for some of the files."""
    provider_registry: ComponentRegistry | None = None
    """Of `answer`: who can be named as the provider, beside `auto` and `extractive`."""
    deferred_options: frozenset[str] = frozenset()
    """Options that the knowledge base fills in when the file is silent; they stay '' until then."""
    address_options: frozenset[str] = frozenset()
    """Options that say a place elsewhere, so that nothing is filled in."""

    def provider_names(self) -> list[str]:
        """What `answer.provider` can begin with: `auto`, `extractive` (no model at all), and every provider."""
        return sorted(
            {"auto", "extractive", *(self.provider_registry.names() if self.provider_registry is not None else ())}
        )

    def options_class(self, name: str) -> type[DataclassInstance] | None:
        """The dataclass of a part's options, or None when it takes none. Raises as `Registry.options`."""
        return AnswerOptions if self.registry is None else self.registry.options_class(name)

    def is_plugin(self, name: str) -> bool:
        """Whether an installed plugin brought this name."""
        return self.registry is not None and name not in self.registry.specs


SECTIONS: Sequence[Section] = (
    Section("load", "loaders", LOADERS, allows_list=True),
    Section("split", "splitters", SPLITTERS, allows_list=True),
    Section("embed", "embedder", EMBEDDERS),
    Section("store", "store", STORES, deferred_options=frozenset({"path"}), address_options=ADDRESS_OPTIONS),
    Section("retrieve", "retriever", RETRIEVERS),
    Section("answer", "answer", None, provider_registry=PROVIDERS),
    Section("run", "runner", RUNNERS),
)
"""In the order of the data path, and how it is run."""


def section_keys(sections: Iterable[Section] = SECTIONS) -> list[str]:
    """`load`, `split`, `embed`, `store`, `retrieve`, `answer`, `run`."""
    return [section.key for section in sections]


def describe_import_error(names: ComponentRegistry, name: str, *loads: Callable[[str], object]) -> str:
    """What keeps a part from being had, in words: a missing extra, a broken plugin. '' when nothing does.

    Args:
        names: the registry of the part.
        name: its name.
        loads: what is tried, such as `names.find`.
    """
    try:
        for load in loads:
            load(name)
    except (MissingExtra, UnknownName) as error:
        return str(error)
    except (ImportError, AttributeError) as error:
        return f"the {names.kind} {name!r} cannot be imported: {error}"
    return ""
