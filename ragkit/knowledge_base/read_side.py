"""The read side of a knowledge base: its open files, and as whom they are read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

from ragkit.errors import NotAKnowledgeBase
from ragkit.index.access.rules import Grants
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.reader import CatalogReader, CatalogSnapshot
from ragkit.knowledge_base.location import Location
from ragkit.knowledge_base.restricted_readers import RestrictedReaders
from ragkit.knowledge_base.sources.source_files import SourceFiles
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.lru_cache import LruCache
from ragkit.pipeline.assemble import PipelineComponents

MAX_CONTENTS = 32
"""Descriptions of the contents that are kept, one for each filter."""


@dataclass(frozen=True, slots=True)
class ReadingPrincipal:
    """As whom a knowledge base is read."""

    grants: Callable[[], Grants | None]
    """What the user is, asked at each read; None: one that may read everything."""
    is_restricted: bool = True
    """Whether it is a user; false for a program that opened the knowledge base, which may change it too."""


OPENER = ReadingPrincipal(lambda: None, is_restricted=False)


class ReadSide:
    """What the sessions of a knowledge base share. Safe for several threads."""

    def __init__(self, location: Location, components: PipelineComponents) -> None:
        self.location = location
        self.components = components
        self.contents: LruCache[str, str] = LruCache(MAX_CONTENTS)
        """Descriptions of the contents by generation and filter, of everything."""
        self._lock = Lock()
        self._unrestricted: CatalogReader | None = None
        self._copy = 0
        self._restricted = RestrictedReaders(location.access)
        self._weights_checked = False

    @cached_property
    def source_files(self) -> SourceFiles:
        """The files that were indexed."""
        return self.location.source_files(self.components.folder_options)

    def reader(self, principal: ReadingPrincipal) -> CatalogReader:
        """The open reader of what a principal may read. Threads share it.

        Raises:
            NotAKnowledgeBase: nothing was indexed.
            KnowledgeBaseDamaged: a file is missing, truncated or altered.
        """
        grants = principal.grants()
        unrestricted = self._open()
        return unrestricted if grants is None else self._restricted.get(unrestricted, grants)

    def _open(self) -> CatalogReader:
        copy = self.location.prepare_reading()
        with self._lock:
            if self._unrestricted is None or self._copy != copy:  # snapshots of a replaced copy end by themselves
                self.location.require_exists()
                self.location.check_store(self.components)
                path, store = self.location.path, self.components.external_store(self.location.path)
                self._unrestricted = CatalogReader(path, Bm25Index, store, remote_vectors=self.location.vectors)
                self._copy = copy
            return self._unrestricted

    def close(self) -> None:
        """Close all files; the next read opens them again."""
        self._restricted.close()
        with self._lock:
            unrestricted, self._unrestricted = self._unrestricted, None
            if unrestricted is not None:
                unrestricted.close()

    def check(self, snapshot: CatalogSnapshot) -> None:
        """Check that there are chunks, and once that their vectors come from the weights of the embedder in use.

        Raises:
            NotAKnowledgeBase: there are none.
            SettingsMismatch: the vectors are of another model.
        """
        from ragkit.embed.base import ProbingEmbedder
        from ragkit.index.build_fingerprint import check_embedder_weights

        if not len(snapshot.arrays.chunk_keys) and not snapshot.is_restricted:
            raise NotAKnowledgeBase(str(self.location), "holds no documents", "fill it with `ragkit index FOLDER`")
        embedder = self.components.embedder
        if not self._weights_checked and isinstance(embedder, ProbingEmbedder):
            row = Catalog(snapshot.connection).embedder(embedder.fingerprint)
            if row is not None and row.probe is not None:
                check_embedder_weights(str(self.location), row.probe, embedder.probe())
        self._weights_checked = True

    def record_calls(self, command: str) -> AbstractContextManager[object]:
        """Record the calls of a block in the ledger, unless an enclosing meter does that already."""
        return self.location.record_calls(command, self.components.pipeline.name)
