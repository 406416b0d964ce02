"""A knowledge base in a database, as one process sees it: the copy it reads, and the copy it writes."""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ragkit.embed.base import Row, Rows
from ragkit.errors import (
    DatabaseFailed,
    KnowledgeBaseDamaged,
    KnowledgeBaseLocked,
    KnowledgeBaseWriteFailed,
    NotAKnowledgeBase,
)
from ragkit.index.build_runner import BuildRunner
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.directory import CATALOG_FILE, NewKnowledgeBase, knowledge_base_exists
from ragkit.index.catalog.postgres import EmbedderState, Lease, PostgresCatalog
from ragkit.index.catalog.postgres_replicas import REPORT_SECONDS, DatabaseStatus, ReplicaReporter, read_database_status
from ragkit.index.catalog.postgres_vectors import DatabaseVectors, create_vector_index
from ragkit.index.catalog.schema import open_connection
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.embedding_worker import SharingRunner
from ragkit.index.replica import Replica, Workspace, write_position
from ragkit.index.replica_changes import RecordedChanges, forget_changes
from ragkit.index.report import GenerationPublished, IndexEvent
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.pipeline.assemble import PipelineComponents

CHECK_SECONDS = 1.0
"""A search asks the database for news if it did not for so long."""

_log = logging.getLogger("ragkit")


class SharedKnowledgeBase:
    """One knowledge base in a database. Safe for several threads."""

    def __init__(self, url: DatabaseUrl) -> None:
        self.url = url
        self.database = PostgresCatalog(url)
        self.replica = Replica(url.cache_directory, str(url))
        self.workspace = Workspace(self.replica)
        self.vectors = DatabaseVectors(url)
        self._refresh_lock = threading.Lock()
        self._checked_at = float("-inf")
        self._follower: threading.Thread | None = None
        self._stop = threading.Event()

    @property
    def directory(self) -> Path:
        """The local copy that is read."""
        return self.replica.directory

    def close(self) -> None:
        """Close the connections, and stop following."""
        self._stop.set()
        if self._follower is not None and self._follower is not threading.current_thread():
            self._follower.join()
        self._follower = None
        self._stop.clear()
        self.vectors.close()
        self.database.close()

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
                return not self.replica.is_as_wanted(state) and self.replica.pull(self.database)
            except DatabaseFailed as error:
                if not knowledge_base_exists(self.directory):
                    raise
                _log.warning("%s; the local copy is used", error)
                return False

    def _choose_vectors(self) -> None:
        """Leave the vectors in the database if the copy would be larger than the address allows."""
        bound = self.url.max_copy_gb
        if not math.isinf(bound):
            self.replica.has_vectors = self.database.copy_bytes() <= bound * 1e9

    def refresh_if_old(self) -> None:
        """Refresh if that was not done for a while, unless a thread follows the database."""
        if self._follower is None and time.monotonic() - self._checked_at >= CHECK_SECONDS:
            self.refresh()

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
    def write(self, create: NewKnowledgeBase | None = None) -> Iterator[Writer]:
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
        writer: Writer | None = None
        try:
            with _Heartbeat(self.url, lease):
                self._choose_vectors()
                self.workspace.prepare(self.database, create)
                writer = Writer(self.database, self.workspace, lease)
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


class Writer:
    """The writer's copy while the lease is held."""

    def __init__(self, database: PostgresCatalog, workspace: Workspace, lease: Lease) -> None:
        self.directory = workspace.directory
        self._database, self._workspace, self._lease = database, workspace, lease
        self._embedder: EmbedderState | None = None
        self._records: sqlite3.Connection | None = None
        self._last_saved = 0
        self._saved: set[bytes] = set()
        """Hashes of texts whose vectors workers have stored."""
        self._was_stopped = False

    def has_content(self) -> bool:
        """Whether a run began to write: one that fails before leaves no knowledge base behind."""
        if not knowledge_base_exists(self.directory):
            return False
        with closing(open_connection(self.directory / CATALOG_FILE)) as connection:
            return Catalog(connection).generation() > 0 or bool(Catalog(connection).embedders())

    def publish(self, *, last: bool = False, everything: bool = False) -> None:
        """Publish what changed in the copy, in one transaction. `last`: with web pages and added documents."""
        identity, version = self._workspace.position()
        with closing(open_connection(self.directory / CATALOG_FILE)) as connection:
            connection.execute("BEGIN")
            digests = self._database.digests() if last else None
            changes = RecordedChanges(self.directory, connection, version, digests, everything=everything)
            if changes.is_empty:
                return
            published = self._database.publish(changes, self._lease)
            connection.execute("ROLLBACK")
            catalog = Catalog(connection)
            with catalog.transaction():
                state = self._database.state() if everything else None
                write_position(catalog, state.id if state is not None else identity, published)
                forget_changes(connection, changes.last_number)
        if last:
            self._database.delete_unused_vectors()

    def options(self, run: IndexOptions, fingerprint: str) -> IndexOptions:
        """The options of a run that publishes while it runs, and keeps in the database what was paid for."""

        def handle(event: IndexEvent) -> None:
            if isinstance(event, GenerationPublished):
                self.publish()
            else:
                self._save_contexts()
            run.on_event(event)

        def create_runner(components: PipelineComponents, jobs: int) -> BuildRunner:
            inner = run.runner_factory(components, jobs)
            check = partial(self._database.check_lease, self._lease)
            return SharingRunner(inner, self._database.url, components.embedder, self._saved, check)

        return replace(
            run,
            on_event=run.on_event if run.dry_run else handle,
            runner_factory=run.runner_factory if run.dry_run else create_runner,
            find_known_vectors=find_in_database(self._database, fingerprint, run.find_known_vectors),
            save_vectors=lambda keys, rows: self._save_vectors(fingerprint, keys, rows),
        )

    def _save_vectors(self, fingerprint: str, keys: Sequence[bytes], rows: Rows) -> None:
        """Keep vectors in the database; then stop a run whose lease another writer took, which embeds the rest.

        It is stopped once: what was paid for until then is kept as well.
        """
        if self._saved.issuperset(keys):
            self._saved.difference_update(keys)
        else:
            if self._embedder is None:
                with closing(open_connection(self.directory / CATALOG_FILE)) as connection:
                    row = Catalog(connection).embedder(fingerprint)
                self._embedder = EmbedderState(fingerprint, rows.shape[1], row.probe if row is not None else None)
            self._database.save_vectors(self._embedder, keys, rows)
        if not self._was_stopped:
            try:
                self._database.check_lease(self._lease)
            except KnowledgeBaseLocked:
                self._was_stopped = True
                raise

    def _save_contexts(self) -> None:
        """Keep the sentences that models wrote since the last event."""
        if self._records is None:
            self._records = open_connection(self.directory / CATALOG_FILE)
        connection = self._records
        query = "SELECT number, key FROM changed WHERE number > ? AND kind = 'contexts'"
        new = connection.execute(query, (self._last_saved,)).fetchall()
        if new:
            self._last_saved = max(row[0] for row in new)
            requests = [bytes.fromhex(row[1]) for row in new]
            self._database.save_contexts(Catalog(connection).find_contexts(requests).items())

    def close(self) -> None:
        """Close the connection to the copy."""
        if self._records is not None:
            self._records.close()
            self._records = None


def find_in_database(
    database: PostgresCatalog, fingerprint: str, others: Callable[[Sequence[bytes]], Mapping[bytes, Row]] | None = None
) -> Callable[[Sequence[bytes]], Mapping[bytes, Row]]:
    """A function that finds vectors by the hashes of their texts, in the database and elsewhere."""

    def find(hashes: Sequence[bytes]) -> Mapping[bytes, Row]:
        found = database.find_vectors(fingerprint, hashes)
        rest = [key for key in hashes if key not in found]
        return {**found, **others(rest)} if others is not None and rest else found

    return find


HEARTBEAT_END_S = 10.0
"""How long the end of a run waits for the last report."""


class _Heartbeat:
    """Reports in a thread, over a connection of its own, that the writer is alive."""

    def __init__(self, url: DatabaseUrl, lease: Lease) -> None:
        self._database, self._lease = PostgresCatalog(url), lease
        self._interval = url.lease_seconds / 5
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="ragkit-lease", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join(HEARTBEAT_END_S)
        if not self._thread.is_alive():  # else it waits for the database, and ends with the process
            self._database.close()

    def _beat(self) -> None:
        while not self._stop.wait(self._interval):
            with suppress(DatabaseFailed):  # the next beat may get through; if none does, publishing is refused
                if not self._database.renew_lease(self._lease):
                    return
