"""The writer of a knowledge base in a database: what it changes in its copy is published."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial

from ragkit.embed.base import Row, Rows
from ragkit.errors import DatabaseFailed, KnowledgeBaseLocked
from ragkit.index.build_runner import BuildRunner
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.directory import CATALOG_FILE, knowledge_base_exists
from ragkit.index.catalog.postgres import EmbedderState, Lease, PostgresCatalog
from ragkit.index.catalog.schema import open_connection
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.embedding_worker import SharingRunner
from ragkit.index.replica import Workspace, write_position
from ragkit.index.replica_changes import RecordedChanges, forget_changes
from ragkit.index.report import GenerationPublished, IndexEvent
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.pipeline.assemble import PipelineComponents


class DatabaseWriter:
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


class Heartbeat:
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
