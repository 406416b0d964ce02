"""Where users and rules are stored: in `access.json` of a directory, or in the database of the knowledge base."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ragkit.errors import DatabaseFailed, KnowledgeBaseDamaged
from ragkit.index.access.rules import AccessSettings, from_json, to_json
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.directory import knowledge_base_exists, open_catalog
from ragkit.index.catalog.sqlite import ACCESS_KEY, Catalog
from ragkit.index.catalog.write_session import WriteSession
from ragkit.sql import SqlConnection

if TYPE_CHECKING:
    from ragkit.index.catalog.postgres_tables import PostgresTables

ACCESS_FILE = "access.json"
MAX_AGE_SECONDS = 0.1
"""How old the settings of a database may be when a program uses them that does not follow it."""
REFRESH_SECONDS = 0.3
"""How often a server that follows a database reads the settings."""
MAX_SILENCE_SECONDS = 120.0
"""How long users and rules hold while the database does not answer. Then nobody reads anything."""
MAX_STATEMENT_SECONDS = 5.0
"""How long a look at the settings may take."""
Change: TypeAlias = Callable[[AccessSettings], AccessSettings]


class AccessStore(Protocol):
    """The users and rules of a knowledge base. Safe for threads and processes."""

    def read(self) -> AccessSettings:
        """The settings now, empty if none were written. Raises KnowledgeBaseDamaged or DatabaseFailed."""

    def update(self, change: Change) -> AccessSettings:
        """Replace the settings by what `change` makes of them, one change at a time. Returns the new ones."""

    def follow(self) -> None:
        """Read the settings, and for a server keep them in memory, so that `read` waits for nothing."""

    @property
    def is_loaded(self) -> bool:
        """Whether `read` runs no SQL."""

    def close(self) -> None:
        """Close the connection, if there is one."""


@dataclass(slots=True)
class AccessFile:
    """The settings in a directory. Each look at them sees what the file holds now: a revocation holds at once."""

    directory: Path
    _stamp: tuple[int, int, int] | None = None
    _settings: AccessSettings = field(default_factory=AccessSettings)
    _is_optional: bool | None = None
    """Whether the catalog was seen to expect no file."""

    def read(self) -> AccessSettings:
        """The settings now. Raises KnowledgeBaseDamaged if the file is invalid, or was lost."""
        path = self.directory / ACCESS_FILE
        try:
            stat = path.stat()
        except FileNotFoundError:
            if self._stamp is not None or not self._may_lack_file():
                empty = to_json(AccessSettings())
                fix = f"restore it, or write {empty!r} there to begin anew: nobody reads anything now"
                raise KnowledgeBaseDamaged(str(path), "with the users and rules is missing", fix) from None
            return AccessSettings()
        stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if stamp != self._stamp:
            self._settings = from_json(path.read_text("utf-8", "replace"), str(path))
            self._stamp = stamp
        return self._settings

    def update(self, change: Change) -> AccessSettings:
        """Replace the file; only its owner may read it."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self.directory / f"{ACCESS_FILE}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            settings = change(self.read())
            if self._may_lack_file() and knowledge_base_exists(self.directory):
                _expect_file(self.directory)
                self._is_optional = False
            _write(self.directory, settings)
            return settings
        finally:
            os.close(lock)

    def follow(self) -> None:
        """See `AccessStore.follow`: the file is read when it changes."""
        self.read()

    @property
    def is_loaded(self) -> bool:
        """Whether the catalog is not asked if a file is expected."""
        return self._stamp is not None or self._is_optional is not None or not knowledge_base_exists(self.directory)

    def close(self) -> None:
        """Nothing is open."""

    def _may_lack_file(self) -> bool:
        if not self._is_optional and knowledge_base_exists(self.directory):
            self._is_optional = not _expects_file(self.directory)
        return self._is_optional is not False


class AccessTable:
    """The settings in a database, in one row. While it does not answer, the last ones hold for MAX_SILENCE_SECONDS."""

    def __init__(self, url: DatabaseUrl) -> None:
        self._url = url
        self._lock = Lock()
        self._tables: PostgresTables | None = None
        self._tried_at = self._read_at = float("-inf")
        self._settings: AccessSettings | None = None
        self._failure: DatabaseFailed | None = None
        self._follower: Thread | None = None
        self._stop = Event()

    def read(self) -> AccessSettings:
        """The settings, of a tenth of a second ago at most; of REFRESH_SECONDS ago after `follow`.

        Raises:
            DatabaseFailed: the database has not answered for too long.
            KnowledgeBaseDamaged: the row is invalid.
        """
        if self._follower is None:
            self._refresh()
        silence = time.monotonic() - self._read_at
        if self._settings is None or (silence > MAX_SILENCE_SECONDS and self._settings != AccessSettings()):
            hint = "start the database, or correct the address"
            raise self._failure or DatabaseFailed(str(self._url), "the users and rules were not read", hint)
        return self._settings

    def follow(self) -> None:
        """Read the settings in a thread from now on."""
        if self._follower is None:
            self._refresh()
            self._follower = Thread(target=self._keep_refreshing, name="ragkit-access", daemon=True)
            self._follower.start()

    @property
    def is_loaded(self) -> bool:
        """Whether the settings were read."""
        return self._settings is not None

    def update(self, change: Change) -> AccessSettings:
        """Replace the row in one transaction."""

        def replace(connection: SqlConnection) -> AccessSettings:
            connection.execute("LOCK TABLE access IN EXCLUSIVE MODE")
            settings = change(self._select(connection))
            connection.execute("DELETE FROM access")
            connection.execute("INSERT INTO access VALUES (?)", (to_json(settings),))
            return settings

        with self._lock:
            started = time.monotonic()
            self._settings = self._connect().run(replace)
            self._read_at = self._tried_at = started
            return self._settings

    def close(self) -> None:
        """Close the connection, and stop following."""
        self._stop.set()
        with self._lock:
            if self._tables is not None:
                self._tables.close()

    def _keep_refreshing(self) -> None:
        while not self._stop.wait(REFRESH_SECONDS):
            with suppress(KnowledgeBaseDamaged):  # then `read` fails after a while
                self._refresh()

    def _refresh(self) -> None:
        with self._lock:
            started = time.monotonic()
            if started - self._tried_at <= MAX_AGE_SECONDS or self._stop.is_set():
                return
            try:
                self._settings = self._connect().run(self._select)
                self._read_at = started
            except DatabaseFailed as error:
                self._failure = error
            self._tried_at = time.monotonic()

    def _connect(self) -> PostgresTables:
        if self._tables is None:
            from ragkit.index.catalog.postgres_tables import PostgresTables  # noqa: PLC0415 - needs psycopg

            self._tables = PostgresTables(
                self._url, "access", _create_table, serial=False, max_seconds=MAX_STATEMENT_SECONDS
            )
        return self._tables

    def _select(self, connection: SqlConnection) -> AccessSettings:
        row = connection.execute("SELECT settings FROM access").fetchone()
        return AccessSettings() if row is None else from_json(row[0], str(self._url))


def copy_access(settings: AccessSettings, directory: Path) -> None:
    """Give the settings to a copy of a knowledge base, in a directory that nobody else uses yet."""
    if settings != AccessSettings():
        _expect_file(directory)
    if _expects_file(directory):
        _write(directory, settings)


def _expects_file(directory: Path) -> bool:
    with closing(open_catalog(directory, verify_checksums=False)) as connection:
        return Catalog(connection).get_meta(ACCESS_KEY) is not None


def _expect_file(directory: Path) -> None:
    if knowledge_base_exists(directory):
        with WriteSession(directory) as session, session.catalog.transaction():
            session.catalog.set_settings({ACCESS_KEY: "1"})


def _write(directory: Path, settings: AccessSettings) -> None:
    path = directory / ACCESS_FILE
    draft = path.with_name(f"{ACCESS_FILE}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(to_json(settings))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _create_table(connection: SqlConnection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS access (settings text NOT NULL)")
