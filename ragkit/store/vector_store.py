"""`VectorStore`: the class that users name, and that a store of one's own may inherit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields
from types import TracebackType
from typing import ClassVar, Self, cast

from ragkit.errors import InvalidOption, StoreError, did_you_mean
from ragkit.records import Document, SearchResult
from ragkit.store import STORES
from ragkit.store.base import Filter, Rows, Store


class VectorStore(ABC):
    """A vector store. `VectorStore.create("sqlite", path="index")` opens one by its name.

    Whoever writes one inherits this class and keeps what `ragkit.store.base.Store` promises. Four methods are a
    must; a store that also has `count` and `scan` can be copied and verified. What a class says of itself in
    `persistent` and `shared` is held against it by the conformance suite, `ragkit.testing.stores`.
    """

    persistent: ClassVar[bool] = False
    """What was added is there again when the store is opened anew, even if the process was killed."""
    shared: ClassVar[bool] = False
    """Several processes may have it open, one of them writing; the others see what it has committed."""

    @staticmethod
    def create(name: str, **options: object) -> Store:
        """The store of that name, with its options by name.

        Raises:
            UnknownName: no store is called so.
            MissingExtra: its optional dependency is not installed.
            InvalidOption: it has no option of that name, or does not take the value.
        """
        make = cast("Callable[..., Store]", STORES.find(name))
        kind = STORES.options_class(name)
        if kind is None:  # an installed plugin without a dataclass of options: it takes them by name
            return make(**options)
        known = {field.name: field for field in fields(kind)}
        for option, value in options.items():
            if option not in known:
                hint = did_you_mean(option, known)
                raise InvalidOption(option, value, f"an option of the store {name!r}{hint}: one of {', '.join(known)}")
        for option, field in known.items():
            if option not in options and field.default is MISSING and field.default_factory is MISSING:
                raise InvalidOption(option, None, f"a value for it, which the store {name!r} cannot do without,")
        return make(kind(**options))

    @abstractmethod
    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """Put documents in, one unit row each; returns their ids in order. An id that exists is replaced."""

    @abstractmethod
    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """The nearest documents among those that the filter lets through, best first, ties by id."""

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents; returns how many of the ids were there."""

    @abstractmethod
    def clear(self) -> None:
        """Remove every document."""

    def count(self) -> int:
        """How many documents are here. Raises StoreError where the store cannot tell."""
        raise StoreError(f"{type(self).__name__} cannot count its documents: give it a method `count`")

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """Every (id, document, row), in the order of the ids. Raises StoreError where the store cannot list them."""
        raise StoreError(f"{type(self).__name__} cannot list its documents: give it a method `scan`")

    def close(self) -> None:  # noqa: B027  # most stores hold nothing open
        """Let go of files and connections; closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
