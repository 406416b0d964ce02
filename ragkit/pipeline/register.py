"""`register`: components of a program, by name in the pipeline files of that program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragkit.argument_types import check_types
from ragkit.embed import EMBEDDERS
from ragkit.embed.base import EmbeddingProvider
from ragkit.errors import UnknownName
from ragkit.load import LOADERS
from ragkit.load.base import Loader
from ragkit.load.sources import SOURCES
from ragkit.load.sources.base import Source
from ragkit.registry import Registry
from ragkit.retrieve import RERANKERS, RETRIEVERS
from ragkit.retrieve.base import Reranker, Retriever
from ragkit.split import SPLITTERS
from ragkit.split.base import Splitter
from ragkit.store import STORES
from ragkit.store.base import Store

KINDS: Mapping[str, tuple[Registry[Any], type]] = {
    "embedder": (EMBEDDERS, EmbeddingProvider),
    "loader": (LOADERS, Loader),
    "reranker": (RERANKERS, Reranker),
    "retriever": (RETRIEVERS, Retriever),
    "source": (SOURCES, Source),
    "splitter": (SPLITTERS, Splitter),
    "store": (STORES, Store),
}


@check_types()
def register(kind: str, name: str, component: type[Any]) -> None:
    """Register a class under a name, for the pipeline files and the stores of this process.

    The constructor takes the same arguments as that of a plugin: a dataclass of options, or none. A second call with
    the same name replaces the class. Files that need it are read and split in this process, not in workers.

    Args:
        kind: `embedder`, `loader`, `reranker`, `retriever`, `source`, `splitter` or `store`.
        name: the name; not that of a built-in component.
        component: the class.

    Raises:
        UnknownName: there is no such kind.
        InvalidOption: the name is built in, or the class lacks methods, which the message names.
    """
    if kind not in KINDS:
        raise UnknownName("kind of component", kind, sorted(KINDS))
    registry, protocol = KINDS[kind]
    registry.register(name, component, protocol)
