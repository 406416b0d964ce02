"""A knowledge base in a database, as one process sees it: the copy it reads, and the copy it writes."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from ragkit.errors import (
    DatabaseFailed,
    InvalidOption,
    KnowledgeBaseDamaged,
    KnowledgeBaseWriteFailed,
    NotAKnowledgeBase,
)
from ragkit.index.access.rules import AccessSettings
from ragkit.index.access.stores import AccessTable
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.directory import CATALOG_FILE, NewKnowledgeBase, open_catalog, write_place
from ragkit.index.catalog.lock import WriterLock
from ragkit.index.catalog.postgres import PostgresCatalog
from ragkit.index.catalog.postgres_replicas import REPORT_SECONDS, DatabaseStatus, ReplicaReporter, read_database_status
from ragkit.index.catalog.postgres_tables import PostgresTables
from ragkit.index.catalog.postgres_vectors import DatabaseVectors, create_vector_index
from ragkit.index.catalog.schema import open_connection
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.external_store import ExternalStore
from ragkit.index.replica import Replica, Workspace, clone_directory, write_position
from ragkit.index.replica_changes import start_recording
from ragkit.index.verify import VerificationProblem, VerificationReport, verify
from ragkit.knowledge_base.database_writer import DatabaseWriter, Heartbeat, find_in_database
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.location import Location, WriteTarget
from ragkit.knowledge_base.sources.source_files import SourceFiles
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.load.files.walk import FolderOptions
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline
from ragkit.usage.ledger import LedgerTables, create_tables

CHECK_SECONDS = 1.0
"""A search asks the database for news if it did not for so long."""

_log = logging.getLogger("ragkit")


_LOCAL_STORE_NOTE = "the store {!r} is in files of this machine: the copy searches its own vectors"


class DatabaseLocation(Location):
    """A database that holds a knowledge base, and the copy of it that is read. Safe for several threads."""

    vectors: DatabaseVectors

    def __init__(self, url: DatabaseUrl) -> None:
        self.replica = Replica(url.cache_directory, str(url))
        super().__init__(self.replica.directory)
        self.access = AccessTable(url)
        self.url = url
        self.database = PostgresCatalog(url)
        self.workspace = Workspace(self.replica)
        self.vectors = DatabaseVectors(url)
        self._refresh_lock = threading.Lock()
        self._checked_at = float("-inf")
        self._follower: threading.Thread | None = None
        self._stop = threading.Event()

    def __str__(self) -> str:
        return str(self.url)

    def find_pipeline_file(self) -> None:
        """None: a database stands beside no file."""
        return

    def reopen(self) -> DatabaseLocation:
        """The same location with connections of its own."""
        return DatabaseLocation(self.url)

    def close(self) -> None:
        """Close the connections, and stop following."""
        self._stop.set()
        if self._follower is not None and self._follower is not threading.current_thread():
            self._follower.join()
        self._follower = None
        self._stop.clear()
        self.vectors.close()
        self.database.close()
        super().close()

    def refresh(self) -> bool:
        """Pull what was published; returns whether anything was new.

        If the database cannot be reached, the local copy is used as it is, and a warning is logged.

        Raises:
            DatabaseFailed: it cannot be reached, and there is no local copy.
        """
        with self._refresh_lock:
            self._checked_at = time.monotonic()
            try:
                state = self.database.state()
                if state is None or not state.version:
                    self.replica.drop()
                    return False
                self._choose_vectors()
                return not self.replica.matches(state) and self.replica.pull(self.database)
            except DatabaseFailed as error:
                if not self.exists():
                    raise
                _log.warning("%s; the local copy is used", error)
                return False

    def _choose_vectors(self) -> None:
        """Leave the vectors in the database if the copy would be larger than the address allows."""
        bound = self.url.max_copy_gb
        if not math.isinf(bound):
            self.replica.has_vectors = self.database.copy_bytes() <= bound * 1e9

    def prepare_reading(self) -> int:
        """Refresh if that was not done for a while, unless a thread follows the database; returns the copy's inode."""
        is_old = self._follower is None and time.monotonic() - self._checked_at >= CHECK_SECONDS
        if is_old or not self.exists():
            self.refresh()
        try:
            return (self.path / CATALOG_FILE).stat().st_ino
        except FileNotFoundError:
            return 0

    def check_store(self, components: PipelineComponents) -> None:
        """Raises InvalidOption if the vector store is one of this machine."""
        if components.has_local_store:
            allowed = "sqlite (the local copy), or a store on a server, for a knowledge base in a database"
            raise InvalidOption("store.name", components.pipeline.store.name, allowed)

    def require_vectors(self) -> None:
        """Raises InvalidOption if the copy leaves the vectors in the database."""
        with closing(open_catalog(self.path, verify_checksums=False)) as connection:
            if not Catalog(connection).has_vectors():
                value = f"{self.url.max_copy_gb:g}"
                raise InvalidOption("max_gb", value, "an address without it: this reads all vectors")

    def source_files(self, options: FolderOptions) -> SourceFiles:
        """The files that were indexed, which may be on other machines."""
        return SourceFiles(self.path, options, elsewhere=True)

    def state_in(self, directory: Path) -> DatabaseUrl:
        """The database."""
        return self.url

    def needs_embedding(self) -> bool:
        """Never: vectors are published with their chunks."""
        return False

    def _ledger_place(self) -> LedgerTables:
        return PostgresTables(self.url, "ledger", create_tables, serial=False)

    def status(self) -> DatabaseStatus | None:
        """Where the database is, who uses it, and how far the local copy is behind; None if it cannot be reached."""
        try:
            return read_database_status(self.database, self.replica.position()[1])
        except DatabaseFailed as error:
            _log.warning("%s", error)
            return None

    def follow(self, kind: str = "reader", poll_seconds: float = REPORT_SECONDS) -> None:
        """Pull every publication in a thread, until `close`. `kind`: what the status calls this process."""
        if self._follower is None:
            self._follower = threading.Thread(
                target=self._keep_following, args=(kind, poll_seconds), name="ragkit-follow", daemon=True
            )
            self._follower.start()

    def _keep_following(self, kind: str, poll_seconds: float) -> None:
        reporter = ReplicaReporter(self.database, kind)
        while not self._stop.is_set():
            try:
                reporter.report(self.replica.position()[1])
                for _ in self.database.publications(poll_seconds, self._stop):
                    self.refresh()
                    reporter.report(self.replica.position()[1])
            except DatabaseFailed as error:
                _log.warning("%s; the local copy is used", error)
                self._stop.wait(poll_seconds)
        with suppress(DatabaseFailed):
            reporter.leave()

    @contextmanager
    def open_target(
        self,
        components: PipelineComponents,
        release: Callable[[], None],
        *,
        create: bool = False,
        dry_run: bool = False,
    ) -> Iterator[WriteTarget]:
        """The writer's copy; for a dry run the readers' copy, with the vectors in the database known."""

        def adapt_trial(run: IndexOptions) -> IndexOptions:
            if not self.exists():
                return run
            find = find_in_database(self.database, components.embedder.fingerprint)
            return replace(run, find_known_vectors=find)

        if dry_run:
            self.refresh()
            yield WriteTarget(self.path, adapt_trial)
            return
        self.check_store(components)
        with self.write(components.new_knowledge_base if create else None) as writer:
            yield WriteTarget(writer.directory, lambda run: writer.options(run, components.embedder.fingerprint))

    @contextmanager
    def write(self, create: NewKnowledgeBase | None = None) -> Iterator[DatabaseWriter]:
        """Be the writer: what the block does to the writer's copy is published, also if it ends with an error.

        Args:
            create: the initial content if the database holds no knowledge base; None: it must.

        Raises:
            NotAKnowledgeBase: there is none.
            KnowledgeBaseLocked: another writer is at work, for longer than the address allows to wait.
        """
        state = self.database.create() if create is not None else self.database.state()
        if state is None or (create is None and not state.version):
            raise NotAKnowledgeBase(str(self.url), "is not a knowledge base", "build it with `ragkit index FOLDER`")
        self.database.create()  # upgrades the tables of an older program
        lease = self.database.acquire_lease()
        writer: DatabaseWriter | None = None
        try:
            with Heartbeat(self.url, lease):
                self._choose_vectors()
                self.workspace.prepare(self.database, create)
                writer = DatabaseWriter(self.database, self.workspace, lease)
                try:
                    yield writer
                    writer.close()
                except (KnowledgeBaseDamaged, KnowledgeBaseWriteFailed, DatabaseFailed):
                    raise
                except BaseException:
                    if writer.has_content():
                        writer.publish(last=True)
                    raise
                writer.publish(last=True)
                if not math.isinf(self.url.max_copy_gb):
                    create_vector_index(self.database)
        finally:
            if writer is not None:
                writer.close()
            with suppress(DatabaseFailed):
                self.database.release_lease(lease)
            self._checked_at = float("-inf")

    # copies

    def receive(self, source: Path, access: AccessSettings, *, overwrite: bool) -> tuple[str, ...]:
        """Publish everything that a directory holds, in one transaction."""
        with closing(open_catalog(source, verify_checksums=False)) as connection:
            catalog = Catalog(connection)
            pipeline = Pipeline.from_yaml(catalog.get_meta("pipeline") or "extends: default\n")
            fingerprint = catalog.get_meta("recipe") or "{}"
        state = self.database.create()
        documents = self.database.count_rows()[0]
        if documents and not overwrite:
            raise InvalidOption("--to-kb", str(self), f"an empty knowledge base: it holds {documents} documents")
        if access != AccessSettings():  # before anybody can read the documents
            self.access.update(lambda _: access)
        notes: tuple[str, ...] = ()
        new = NewKnowledgeBase(fingerprint, lambda connection: Bm25Index(connection).create_tables())
        with self.write(new) as writer:
            state = self.database.state() or state
            with WriterLock(source):
                clone_directory(source, writer.directory)
            write_place(writer.directory, str(self))
            if PipelineComponents(pipeline).has_local_store:
                notes = (_LOCAL_STORE_NOTE.format(pipeline.store.name),)
                pipeline = Pipeline.from_yaml(pipeline.to_yaml(), overrides=("store={name: sqlite}",))
            _prepare_clone(writer, pipeline, state.id, state.version)
            writer.publish(last=True, everything=True)
        return notes

    def verify(
        self, store: ExternalStore | None, repair: Callable[[VerificationReport], tuple[str, ...]] | None
    ) -> VerificationReport:
        """Verify the copy, and compare it with the database. Its repair is to fetch the copy again."""
        self.refresh()
        report = self._verify_once(store)
        if report.is_sound or repair is None or not self.database.state():
            return report
        self.replica.refetch(self.database)
        return replace(self._verify_once(store), repaired=("the local copy was fetched from the database again",))

    def _verify_once(self, store: ExternalStore | None) -> VerificationReport:
        report = verify(self.path, Bm25Index, store)
        if report.problems:
            return report
        with closing(open_catalog(self.path, verify_checksums=False)) as connection:
            query = (
                "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM chunks),"
                " (SELECT coalesce(sum(checksum), 0) FROM documents) + (SELECT coalesce(sum(checksum), 0) FROM chunks)"
            )
            here = connection.execute(query).fetchone()
        there = self.database.count_rows()
        if tuple(here) == there:
            return report
        message = f"the local copy has {here[0]} documents and {here[1]} chunks, the database {there[0]} and {there[1]}"
        problem = VerificationProblem("catalog", f"{message}, or their checksums differ")
        return replace(report, problems=(problem,))


def _prepare_clone(writer: DatabaseWriter, pipeline: Pipeline, identity: str, version: int) -> None:
    with closing(open_connection(writer.directory / CATALOG_FILE)) as connection:
        catalog = Catalog(connection)
        with catalog.transaction():
            catalog.set_settings({"pipeline": pipeline.to_yaml()})
            write_position(catalog, identity, version)
            connection.execute("DROP TABLE IF EXISTS changed")
            start_recording(connection)
