"""The folder of uploaded files, inside the directory of the knowledge base: a source like any other folder.

A file is received under another name, next to the folder, and moved into it when it is complete: an interrupted upload
leaves nothing in it. Bytes are reserved in the state database before they are received, so that uploads at the same
time, in any process, cannot exceed the quota. Each upload has a number of its own: what was asked to be deleted is an
upload, never what has its name later.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial as bind
from itertools import product
from pathlib import Path
from typing import NoReturn

from ragkit.errors import LoadError, UnsupportedFormat
from ragkit.index.sources.ids import is_within
from ragkit.knowledge_base.sources.source_files import UPLOADS_FOLDER
from ragkit.load.detect import detect_loader
from ragkit.load.files.file_io import hash_content
from ragkit.load.files.secret_files import has_private_key
from ragkit.server.concurrency import run_in_thread
from ragkit.server.http_errors import ErrorResponse, RequestRejected, invalid_request
from ragkit.server.settings import ServerLimits
from ragkit.server.state.database import StateDatabase, new_id
from ragkit.sql import SqlConnection

PARTIAL_FOLDER = "uploads.partial"
"""Folder of the files that are being received, next to that of the complete ones."""
WRITE_BYTES = 1_000_000
"""Bytes that are written at once."""
_CLOSE = {"connection": "close"}
"""The rest of the body is not read."""
_TABLES = (
    "CREATE TABLE IF NOT EXISTS uploaded_files (id TEXT PRIMARY KEY, place TEXT NOT NULL, name TEXT NOT NULL,"
    " bytes INTEGER NOT NULL, number INTEGER NOT NULL, worker TEXT) STRICT, WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS upload_numbers (last INTEGER NOT NULL) STRICT",
)
"""`place`: the machine and folder, where servers share the database; `worker`: the process that receives the file,
NULL: it is complete; `last`: the number of the latest upload, so that none is used twice."""


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that was received."""

    name: str
    """Its path below the folder of uploads."""
    bytes: int
    replaced: bool
    """A file of the same name was there before."""


@dataclass(frozen=True, slots=True)
class StoredUpload:
    """A complete file in the folder of a server."""

    place: str
    """The machine and folder of that server; empty: there is only one."""
    name: str
    number: int
    """Higher for each later upload, also of the same name."""


@dataclass(frozen=True, slots=True)
class UploadUsage:
    """What the folder of uploads holds, with what is being received."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SeenDocument:
    """A document as it was when someone asked to remove it. What has its source later is another one."""

    source: str
    id: str
    """Its id; empty for a file without a document."""
    content_hash: str = ""
    """That of its file."""
    name: str = ""
    """The name of its uploaded file; empty: its file is no upload, and stays."""
    number: int = 0
    """That of the upload which was there."""


class UploadFolder:
    """The uploaded files of one knowledge base."""

    def __init__(
        self, directory: Path, state: StateDatabase, limits: ServerLimits, max_file_bytes: int, host: str = ""
    ) -> None:
        """`directory`: of the knowledge base; `max_file_bytes`: larger files would not be indexed.

        `host`: the name of this machine, where servers of others share the database.
        """
        self.folder = directory.resolve() / UPLOADS_FOLDER
        self.place = f"{host}:{self.folder}" if host else ""
        """This machine and folder, as jobs name them."""
        self._partial = directory.resolve() / PARTIAL_FOLDER
        self._state, self._limits, self.max_file_bytes = state, limits, max_file_bytes

    async def open(self) -> None:
        """Create the tables, compare them with the files, and delete what interrupted uploads left."""
        await self._state.run(self._recover)

    async def usage(self, is_counted: Callable[[str], bool] = lambda name: True) -> UploadUsage:
        """How many files and bytes there are, of the names that are counted."""
        rows = await self._state.run(self._read_names)
        sizes = [size for name, size in rows if is_counted(name)]
        return UploadUsage(len(sizes), sum(sizes))

    async def receive(
        self, name: str, body: AsyncIterator[bytes], length: int | None, replaces: StoredUpload | None = None
    ) -> UploadedFile:
        """Receive a file. `length`: its bytes if they are known.

        `replaces`: an upload of another name, whose place the file takes if it is still there at the end.

        Raises RequestRejected: too large, over the quota, of a type that cannot be indexed, or too slow.
        """
        upload = await self._reserve(name, length)
        partial = self._partial / upload
        try:
            async with asyncio.timeout(self._limits.upload_seconds):
                size = await self._write(partial, body, length)
            await run_in_thread(lambda: self._check_content(partial, name))
            return await self._state.run(self._publisher(upload, name, size, replaces))
        except TimeoutError:
            raise _rejected(408, "timed out while receiving the file", "timeout") from None
        except OSError as error:
            _raise_for_disk(error)
        finally:
            await run_in_thread(lambda: partial.unlink(missing_ok=True))
            await self._state.run(
                lambda connection: connection.execute(
                    "DELETE FROM uploaded_files WHERE id = ? AND worker IS NOT NULL", (upload,)
                )
            )

    async def find(self, sources: Iterable[str]) -> dict[str, StoredUpload]:
        """The uploads at sources, here or in the folder of another server; others are left out."""

        def find(connection: SqlConnection) -> dict[str, StoredUpload]:
            found: dict[str, StoredUpload] = {}
            for source, (place, folder) in product(sources, self._places(connection)):
                if source not in found and is_within(source, folder) and source != folder:
                    name = source[len(folder) + 1 :]
                    number = self._number(connection, place, name)
                    if number is not None:
                        found[source] = StoredUpload(place, name, number)
            return found

        return await self._state.run(find)

    async def find_folder(self, source: str) -> StoredUpload | None:
        """The latest upload in a folder of uploads, without its name; None for any other source."""

        def find(connection: SqlConnection) -> StoredUpload | None:
            place = next((place for place, folder in self._places(connection) if folder == source), None)
            if place is None:
                return None
            query = "SELECT coalesce(max(number), 0) FROM uploaded_files WHERE place = ? AND worker IS NULL"
            return StoredUpload(place, "", connection.execute(query, (place,)).fetchone()[0])

        return await self._state.run(find)

    async def delete(self, documents: Iterable[SeenDocument]) -> set[str]:
        """Delete the files of documents, as far as they are the ones that were seen.

        Returns the sources where a later upload has the same content: their documents are those of that upload.
        """
        return await self._state.run(lambda connection: self._delete_seen(connection, documents))

    async def delete_until(self, number: int) -> None:
        """Delete all files but those of uploads after the one with a number."""

        def delete(connection: SqlConnection) -> None:
            query = "SELECT name FROM uploaded_files WHERE place = ? AND worker IS NULL AND number <= ?"
            for (name,) in connection.execute(query, (self.place, number)).fetchall():
                self._unlink(connection, name)

        await self._state.run(delete)

    def files(self) -> Iterator[Path]:
        """The complete files."""
        for folder, _, files in os.walk(self.folder):
            yield from (Path(folder, file) for file in files)

    async def _reserve(self, name: str, length: int | None) -> str:
        if length is not None and length > self.max_file_bytes:
            raise self._too_large()
        if await run_in_thread(self._free_bytes) < (length or 0):
            _raise_for_disk(OSError(errno.ENOSPC, "the disk is almost full"))
        wanted = self.max_file_bytes if length is None else length
        upload, limits = new_id("upl"), self._limits

        def reserve(connection: SqlConnection) -> None:
            self._forget_dead(connection)
            query = "SELECT count(*), coalesce(sum(bytes), 0) FROM uploaded_files WHERE place = ?"
            files, used = connection.execute(query, (self.place,)).fetchone()
            if files >= limits.upload_files:
                message = f"there are {limits.upload_files:,} uploaded files, which is the limit: delete some first"
                raise _rejected(507, message, "quota_exceeded")
            if used + wanted > limits.upload_bytes:
                message = f"the uploaded files would exceed {limits.upload_bytes:,} bytes: delete some first"
                raise _rejected(507, message, "quota_exceeded")
            values = (upload, self.place, name, wanted, self._state.worker_id)
            connection.execute("INSERT INTO uploaded_files VALUES (?,?,?,?,0,?)", values)

        await self._state.run(reserve)
        return upload

    async def _write(self, partial: Path, body: AsyncIterator[bytes], length: int | None) -> int:
        """Write the body to a file; returns the number of bytes."""
        size, pending = 0, bytearray()
        await run_in_thread(lambda: self._create(partial))
        iterator = aiter(body)
        while True:
            try:
                async with asyncio.timeout(self._limits.body_seconds):
                    chunk = await anext(iterator)
            except StopAsyncIteration:
                break
            size += len(chunk)
            if size > (self.max_file_bytes if length is None else length):
                raise self._too_large()
            pending += chunk
            if len(pending) >= WRITE_BYTES:
                await run_in_thread(bind(self._append, partial, bytes(pending)))
                pending.clear()
        await run_in_thread(bind(self._append, partial, bytes(pending), last=True))
        if not size:
            raise _rejected(400, "the file is empty: send it as the body of the request", "empty")
        if length is not None and size < length:
            raise _rejected(400, f"the file is incomplete: {size:,} of {length:,} bytes", "incomplete")
        return size

    def _create(self, partial: Path) -> None:
        for folder in (self._partial, self.folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))

    def _append(self, partial: Path, data: bytes, *, last: bool = False) -> None:
        if self._free_bytes() < len(data):
            raise OSError(errno.ENOSPC, "the disk is almost full")
        with partial.open("ab") as file:
            file.write(data)
            if last:  # it is acknowledged when it has its place
                file.flush()
                os.fsync(file.fileno())

    def _check_content(self, partial: Path, name: str) -> None:
        """Raises RequestRejected if no loader can read the content: it decides, not the name."""
        data = partial.read_bytes()
        if has_private_key(data[:4096]):
            raise invalid_request("the file is a private key", "name", "secret_file")
        try:
            detect_loader(data, name)
        except UnsupportedFormat as error:
            message = f"{error.reason}: {error.hint}" if error.hint else error.reason
            raise _rejected(415, message, "unsupported_type") from error
        except LoadError:
            return  # damaged or encrypted: the job says so, with its hint

    def _free_bytes(self) -> int:
        """Bytes of the disk that uploads may take."""
        folder = next(path for path in self.folder.parents if path.exists())
        return shutil.disk_usage(folder).free - self._limits.free_disk_bytes

    def _publisher(
        self, upload: str, name: str, size: int, replaces: StoredUpload | None
    ) -> Callable[[SqlConnection], UploadedFile]:
        """Moves a complete file to its place, once: a transaction may run again when its connection was lost."""
        partial, moved = self._partial / upload, list[UploadedFile]()

        def publish(connection: SqlConnection) -> UploadedFile:
            if not moved:
                chosen = name
                if replaces and self._number(connection, self.place, replaces.name) == replaces.number:
                    chosen = replaces.name
                target = self._prepare_target(chosen)
                replaced = target.exists()
                partial.replace(target)
                moved.append(UploadedFile(chosen, size, replaced))
            complete = (self.place, moved[0].name)
            connection.execute("DELETE FROM uploaded_files WHERE place = ? AND name = ? AND worker IS NULL", complete)
            values = (moved[0].name, size, _next_number(connection), upload)
            update = "UPDATE uploaded_files SET name = ?, bytes = ?, number = ?, worker = NULL WHERE id = ?"
            connection.execute(update, values)
            return moved[0]

        return publish

    def _prepare_target(self, name: str) -> Path:
        """The path of a file, whose folder exists. Raises RequestRejected if it cannot be one."""
        target = self.folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except (FileExistsError, NotADirectoryError):
            raise _rejected(409, f"a part of {name!r} is the name of a file", "name_taken") from None
        if target.is_dir():
            raise _rejected(409, f"{name!r} is the name of a folder", "name_taken")
        if not target.parent.resolve().is_relative_to(self.folder):
            raise _rejected(409, f"{name!r} leads out of the folder of uploads", "name_taken")
        return target

    def _delete_seen(self, connection: SqlConnection, documents: Iterable[SeenDocument]) -> set[str]:
        kept = set[str]()
        for document in documents:
            number = self._number(connection, self.place, document.name) if document.name else None
            if number is None or hash_content((self.folder / document.name).read_bytes()) != document.content_hash:
                continue
            if number == document.number:
                self._unlink(connection, document.name)
            else:
                kept.add(document.source)
        return kept

    def _unlink(self, connection: SqlConnection, name: str) -> None:
        path = self.folder / name
        path.unlink(missing_ok=True)
        values = (self.place, name)
        connection.execute("DELETE FROM uploaded_files WHERE place = ? AND name = ? AND worker IS NULL", values)
        for parent in path.parents:
            if parent == self.folder:
                break
            with suppress(OSError):  # not empty
                parent.rmdir()

    def _places(self, connection: SqlConnection) -> list[tuple[str, str]]:
        """The folders of uploads that share the database, this one first: place, and path."""
        others = connection.execute("SELECT DISTINCT place FROM uploaded_files").fetchall()
        places = dict.fromkeys((self.place, *sorted(place for (place,) in others)))
        return [(place, place.partition(":")[2] if place else str(self.folder)) for place in places]

    def _number(self, connection: SqlConnection, place: str, name: str) -> int | None:
        """The number of an upload; None if there is no file. A file that was put here by hand gets one."""
        query = "SELECT number FROM uploaded_files WHERE place = ? AND name = ? AND worker IS NULL"
        row = connection.execute(query, (place, name)).fetchone()
        if place == self.place:
            path = self.folder / name
            if not path.is_file():
                return None
            return int(row[0]) if row else self._adopt(connection, path)
        return int(row[0]) if row else None

    def _adopt(self, connection: SqlConnection, path: Path) -> int:
        """Record a file that was not uploaded; returns its number."""
        number = _next_number(connection)
        values = (new_id("upl"), self.place, path.relative_to(self.folder).as_posix(), path.lstat().st_size, number)
        connection.execute("INSERT INTO uploaded_files VALUES (?,?,?,?,?,NULL)", values)
        return number

    def _read_names(self, connection: SqlConnection) -> list[tuple[str, int]]:
        """The files, with those that are being received: name, and bytes."""
        query = "SELECT name, bytes FROM uploaded_files WHERE place = ?"
        return [(str(name), int(size)) for name, size in connection.execute(query, (self.place,)).fetchall()]

    def _recover(self, connection: SqlConnection) -> None:
        for table in _TABLES:
            connection.execute(table)
        connection.execute("INSERT INTO upload_numbers SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM upload_numbers)")
        self._forget_dead(connection)
        receiving = {row[0] for row in connection.execute("SELECT id FROM uploaded_files WHERE worker IS NOT NULL")}
        for path in self._partial.glob("*"):
            if path.name not in receiving:
                path.unlink(missing_ok=True)
        query = "SELECT name FROM uploaded_files WHERE place = ? AND worker IS NULL"
        known = {str(name) for (name,) in connection.execute(query, (self.place,)).fetchall()}
        paths = {path.relative_to(self.folder).as_posix(): path for path in self.files()}
        for name in known - paths.keys():
            values = (self.place, name)
            connection.execute("DELETE FROM uploaded_files WHERE place = ? AND name = ? AND worker IS NULL", values)
        for name in sorted(paths.keys() - known):
            self._adopt(connection, paths[name])

    def _forget_dead(self, connection: SqlConnection) -> None:
        rows = connection.execute("SELECT DISTINCT worker FROM uploaded_files WHERE worker IS NOT NULL").fetchall()
        for (worker,) in rows:
            if not self._state.is_alive(connection, worker):
                connection.execute("DELETE FROM uploaded_files WHERE worker = ?", (worker,))

    def _too_large(self) -> RequestRejected:
        return _rejected(413, f"the file exceeds {self.max_file_bytes:,} bytes", "request_too_large")


def _next_number(connection: SqlConnection) -> int:
    connection.execute("UPDATE upload_numbers SET last = last + 1")
    return int(connection.execute("SELECT last FROM upload_numbers").fetchone()[0])


def _rejected(status: int, message: str, code: str) -> RequestRejected:
    return RequestRejected(ErrorResponse(status, message, code, param=None, headers=_CLOSE))


def _raise_for_disk(error: OSError) -> NoReturn:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise _rejected(507, "the disk of the server is full", "disk_full") from error
    raise error
