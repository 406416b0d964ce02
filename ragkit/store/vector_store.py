"""`VectorStore`: opens stores by name, and is the base class of custom stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields
from typing import ClassVar, Self, cast

from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption, StoreError, did_you_mean
from ragkit.records import Document, SearchResult
from ragkit.store import STORES
from ragkit.store.base import Filter, Rows, Store, placeholder


@check_types()
class VectorStore(ABC):
    """A vector store. `VectorStore.create("sqlite", path="index")` opens a store by its name.

    A custom store inherits this class and follows the contract of `ragkit.store.base.Store`. With `add_documents`,
    `search`, `delete` and `clear` it can be passed as an object, for instance to `RAGAgent.from_documents`. A
    knowledge base also calls `count` and `scan`, to check the store against its catalog: a store that is registered
    under a name (entry point group `ragkit.stores`) implements these six methods. The conformance suite,
    `ragkit.testing.stores`, calls all six and tests what a class declares in `persistent` and `shared`.
    """

    persistent: ClassVar[bool] = False
    """Whether added documents survive closing the store and killing the process."""
    shared: ClassVar[bool] = False
    """Whether several processes may open it, one of them writing; the others see what it commits."""

    @staticmethod
    def create(name: str, **options: object) -> Store:
        """Open the store of that name, with its options as keyword arguments.

        Raises:
            UnknownName: no store has this name.
            MissingExtra: its optional dependency is not installed.
            InvalidOption: an option is unknown, missing or has an invalid value.
            StoreError: the registered class lacks methods, or the store cannot be opened.
        """
        make = cast("Callable[..., Store]", STORES.find(name))
        kind = STORES.options_class(name)
        if kind is None:  # a plugin without a dataclass of options: they are keyword arguments
            return make(**options)
        known = {field.name: field for field in fields(kind)}
        for option, value in options.items():
            if option not in known:
                rule = f"an option of the store {name!r}{did_you_mean(option, known)}, one of: {', '.join(known)}"
                raise InvalidOption(option, value, rule)
        for option, field in known.items():
            if option not in options and field.default is MISSING and field.default_factory is MISSING:
                raise InvalidOption(option, None, f"set: the store {name!r} requires it")
        return make(kind(**options))

    @abstractmethod
    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """Add documents with one unit vector each; returns their ids in order. An existing id is replaced."""

    @abstractmethod
    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """The nearest documents that match the filter, best first, ties ordered by id."""

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents; returns the number of deleted documents."""

    @abstractmethod
    def clear(self) -> None:
        """Delete all documents."""

    @placeholder
    def count(self) -> int:
        """The number of documents. Raises StoreError if the class does not implement it."""
        raise StoreError(f"{type(self).__name__} does not implement `count`: a knowledge base needs it")

    @placeholder
    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """Every (id, document, vector), ordered by id. Raises StoreError if the class does not implement it."""
        raise StoreError(f"{type(self).__name__} does not implement `scan`: a knowledge base needs it")

    def close(self) -> None:  # noqa: B027  # optional for subclasses
        """Close files and connections; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
