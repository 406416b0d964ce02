"""Where a knowledge base is. Nothing else asks whether that is a directory or a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from ragkit.errors import InvalidOption, NotAKnowledgeBase
from ragkit.index.access.stores import AccessFile, AccessStore
from ragkit.index.catalog.directory import knowledge_base_exists, open_catalog, place_name
from ragkit.index.catalog.sqlite import Catalog
from ragkit.knowledge_base.sources.source_files import SourceFiles
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.pipeline.discovery import find_project_file

if TYPE_CHECKING:
    from ragkit.index.access.rules import AccessSettings
    from ragkit.index.catalog.database_url import DatabaseUrl
    from ragkit.index.catalog.postgres_replicas import DatabaseStatus
    from ragkit.index.external_store import ExternalStore
    from ragkit.index.reader import RemoteVectors
    from ragkit.index.verify import VerificationReport
    from ragkit.knowledge_base.index_options import IndexOptions
    from ragkit.load.files.walk import FolderOptions
    from ragkit.pipeline.assemble import PipelineComponents
    from ragkit.usage.ledger import Ledger, LedgerTables
    from ragkit.usage.meter import Meter


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """What a writer changes."""

    directory: Path
    adapt: Callable[[IndexOptions], IndexOptions] = lambda run: run
    """The options of an index run there."""


class Location:
    """A directory that holds a knowledge base, or will hold one. Safe for several threads.

    `DatabaseLocation` is the other kind: a database, of which a directory holds a copy.
    """

    vectors: RemoteVectors | None = None
    """Where the vectors are that the directory lacks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        """The directory that is read."""
        self.access: AccessStore = AccessFile(path)
        """The users of the knowledge base, and the rules of who may read what."""
        self._lock = Lock()
        self._ledger: Ledger | None = None

    def __str__(self) -> str:
        """The directory, or the address of the database without the password."""
        return place_name(self.path)

    def close(self) -> None:
        """Close what is open, and stop following."""
        self.access.close()
        if self._ledger is not None:
            self._ledger.close()

    def reopen(self) -> Location:
        """The same location with connections of its own, as another process has."""
        return Location(self.path)

    # existence

    def exists(self) -> bool:
        """Whether something was indexed here, as far as this machine knows."""
        return knowledge_base_exists(self.path)

    def find_pipeline_file(self) -> Path | None:
        """The `ragkit.yaml` for a knowledge base that is created here: beside the directory, or above it."""
        return find_project_file(self.path.absolute().parent)

    def require_exists(self) -> None:
        """Raises NotAKnowledgeBase if nothing was indexed here."""
        if not self.exists():
            raise NotAKnowledgeBase(str(self), "is not a knowledge base", "build it with `ragkit index FOLDER`")

    def refresh(self) -> bool:
        """Update the copy of a database now; returns whether anything was new. In a directory there is nothing to do.

        Reads do so anyway, at most once a second.
        """
        return False

    def follow(self, kind: str = "reader") -> None:
        """Update the copy of a database in a thread when something is published, until `close`: for servers.

        `kind`: what the status of the database calls this process.
        """

    # reading

    def prepare_reading(self) -> int:
        """Update the copy of a database if that was not done for a while.

        Returns a number that changes when the files of the copy are replaced, so that they must be opened again.
        """
        return 0

    def check_store(self, components: PipelineComponents) -> None:
        """Raises InvalidOption if what the vector store of the pipeline holds cannot be searched from here."""

    def require_vectors(self) -> None:
        """Raises InvalidOption if the directory lacks vectors."""

    def status(self) -> DatabaseStatus | None:
        """The state of the database; None for a directory, or if it cannot be reached."""
        return None

    def source_files(self, options: FolderOptions) -> SourceFiles:
        """The files that were indexed, as this machine sees them."""
        return SourceFiles(self.path, options)

    def state_in(self, directory: Path) -> Path | DatabaseUrl:
        """Where a server keeps its state: in a directory of its own, or in the database."""
        return directory

    # writing

    @contextmanager
    def open_target(
        self,
        components: PipelineComponents,
        release: Callable[[], None],
        *,
        create: bool = False,
        dry_run: bool = False,
    ) -> Iterator[WriteTarget]:
        """What a writer changes in the block; for a database a copy, which is published at its end.

        Args:
            components: of the pipeline.
            release: closes the files that are read, if they are changed in place.
            create: begin a knowledge base if there is none.
            dry_run: nothing will be changed.
        """
        release()  # some stores allow one open handle only, and a damaged knowledge base is rebuilt in its place
        self.close()
        yield WriteTarget(self.path)

    def needs_embedding(self) -> bool:
        """Whether chunks may lack vectors, which `embed_remaining` computes."""
        if not self.exists():
            return False
        with closing(open_catalog(self.path, verify_checksums=False, copy_if_locked=True)) as connection:
            return Catalog(connection).static_embedder() is not None

    def verify(
        self, store: ExternalStore | None, repair: Callable[[VerificationReport], tuple[str, ...]] | None
    ) -> VerificationReport:
        """Read everything and report what is wrong; `repair` repairs it, and returns what it did."""
        from ragkit.index.verify import verify

        self.close()
        report = verify(self.path, Bm25Index, store)
        if report.is_sound or repair is None:
            return report
        repaired = repair(report)
        return replace(verify(self.path, Bm25Index, store), repaired=repaired)

    def receive(self, source: Path, access: AccessSettings, *, overwrite: bool) -> tuple[str, ...]:
        """Replace what is here by a copy of a knowledge base in a directory; returns notes.

        `access`: its users and rules; those that are here stay if they are empty.
        """
        import shutil

        from ragkit.index.access.rules import AccessSettings
        from ragkit.index.access.stores import copy_access
        from ragkit.index.catalog.lock import WriterLock
        from ragkit.index.replica import clone_directory, forget_database

        if self.path.exists() and not self.path.is_dir():
            raise NotAKnowledgeBase(str(self.path), "is a file", "name a directory")
        if self.exists() and not overwrite:
            raise InvalidOption("--to-kb", str(self.path), "a directory without a knowledge base, or --overwrite")
        if self.path.exists() and any(self.path.iterdir()) and not self.exists():
            raise NotAKnowledgeBase(str(self.path), "holds other files", "name a new directory")
        new = self.path.with_name(f"{self.path.name}.new")
        with WriterLock(source):
            clone_directory(source, new)
        copy_access(access if access != AccessSettings() else self.access.read(), new)
        if self.path.exists():
            with WriterLock(self.path):
                shutil.rmtree(self.path)
        new.rename(self.path)
        forget_database(self.path)
        return ()

    # money

    @property
    def ledger(self) -> Ledger:
        """The cost ledger: one row for each call that used tokens."""
        from ragkit.usage.ledger import Ledger

        with self._lock:
            if self._ledger is None:
                self._ledger = Ledger(self._ledger_place())
            return self._ledger

    def _ledger_place(self) -> Path | LedgerTables:
        from ragkit.usage.ledger import FILE_NAME

        return self.path / FILE_NAME

    def create_meter(self, command: str, pipeline: str) -> Meter:
        """A meter that records its calls in the ledger under a command and the name of a pipeline."""
        from ragkit.usage.meter import Meter

        return Meter(on_call=self.ledger.call_recorder(command, pipeline))

    def record_calls(self, command: str, pipeline: str) -> AbstractContextManager[object]:
        """Record the calls of a block in the ledger, unless an enclosing meter does that already."""
        from ragkit.usage.meter import current_meter, use_meter

        meter = current_meter()
        if meter is not None and meter.has_call_listener:
            return nullcontext()
        return use_meter(self.create_meter(command, pipeline))
