"""The folder of uploaded files, inside the directory of the knowledge base: a source like any other folder.

A file is received under another name, next to the folder, and moved into it when it is complete: an interrupted upload
leaves nothing in it. Bytes are reserved in the state database before they are received, so that uploads at the same
time, in any process, cannot exceed the quota.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial as bind
from pathlib import Path
from typing import NoReturn

from ragkit.errors import LoadError, UnsupportedFormat
from ragkit.knowledge_base.sources.source_files import UPLOADS_FOLDER
from ragkit.load.detect import detect_loader
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
_TABLE = (
    "CREATE TABLE IF NOT EXISTS uploads (id TEXT PRIMARY KEY, name TEXT NOT NULL, bytes INTEGER NOT NULL, worker TEXT)"
    " STRICT, WITHOUT ROWID"
)
"""`worker`: the process that receives the file; NULL: it is complete."""


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that was received."""

    name: str
    """Its path below the folder of uploads."""
    path: Path
    bytes: int
    replaced: bool
    """A file of the same name was there before."""


@dataclass(frozen=True, slots=True)
class UploadUsage:
    """What the folder of uploads holds, with what is being received."""

    files: int
    bytes: int


class UploadFolder:
    """The uploaded files of one knowledge base."""

    def __init__(self, directory: Path, state: StateDatabase, limits: ServerLimits, max_file_bytes: int) -> None:
        """`directory`: of the knowledge base; `max_file_bytes`: larger files would not be indexed."""
        self.folder = directory.resolve() / UPLOADS_FOLDER
        self._partial = directory.resolve() / PARTIAL_FOLDER
        self._state, self._limits, self._max_file_bytes = state, limits, max_file_bytes

    async def open(self) -> None:
        """Create the table, count the files that are there, and delete what interrupted uploads left."""
        await self._state.run(self._recover)

    def close(self) -> None:
        """Close the state of the uploads, if it is not that of the server."""
        self._state.close()

    async def usage(self) -> UploadUsage:
        """How many files and bytes there are."""
        return await self._state.run(_read_usage)

    async def receive(self, name: str, body: AsyncIterator[bytes], length: int | None) -> UploadedFile:
        """Receive a file. `length`: its bytes if they are known.

        Raises RequestRejected: too large, over the quota, of a type that cannot be indexed, or too slow.
        """
        upload = await self._reserve(name, length)
        partial = self._partial / upload
        try:
            async with asyncio.timeout(self._limits.upload_seconds):
                size = await self._write(partial, body, length)
            await run_in_thread(lambda: self._check_content(partial, name))
            return await self._state.run(lambda connection: self._publish(connection, upload, name, size))
        except TimeoutError:
            raise _rejected(408, "timed out while receiving the file", "timeout") from None
        except OSError as error:
            _raise_for_disk(error)
        finally:
            await run_in_thread(lambda: partial.unlink(missing_ok=True))
            await self._state.run(
                lambda connection: connection.execute(
                    "DELETE FROM uploads WHERE id = ? AND worker IS NOT NULL", (upload,)
                )
            )

    async def delete(self, names: Iterable[str] | None) -> None:
        """Delete files, None: all. A name without a file is ignored."""
        await self._state.run(lambda connection: self._delete(connection, names))

    def name_of(self, source: str) -> str | None:
        """The name of an uploaded file by its source; None if the source is no such file."""
        path = Path(source)
        if not path.is_relative_to(self.folder) or path == self.folder or not path.is_file():
            return None
        return path.relative_to(self.folder).as_posix()

    async def _reserve(self, name: str, length: int | None) -> str:
        if length is not None and length > self._max_file_bytes:
            raise self._too_large()
        wanted = self._max_file_bytes if length is None else length
        upload, limits = new_id("upl"), self._limits

        def reserve(connection: SqlConnection) -> None:
            self._forget_dead(connection)
            usage = _read_usage(connection)
            if usage.files >= limits.upload_files:
                raise _rejected(507, f"there are {usage.files:,} uploaded files: delete some first", "quota_exceeded")
            if usage.bytes + wanted > limits.upload_bytes:
                message = f"the uploaded files would exceed {limits.upload_bytes:,} bytes: delete some first"
                raise _rejected(507, message, "quota_exceeded")
            values = (upload, name, wanted, self._state.worker_id)
            connection.execute("INSERT INTO uploads (id, name, bytes, worker) VALUES (?,?,?,?)", values)

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
            if size > (self._max_file_bytes if length is None else length):
                raise self._too_large()
            pending += chunk
            if len(pending) >= WRITE_BYTES:
                await run_in_thread(bind(self._append, partial, bytes(pending)))
                pending.clear()
        await run_in_thread(bind(self._append, partial, bytes(pending)))
        if not size:
            raise _rejected(400, "the file is empty: send it as the body of the request", "empty")
        if length is not None and size < length:
            raise _rejected(400, f"the file is incomplete: {size:,} of {length:,} bytes", "incomplete")
        return size

    def _create(self, partial: Path) -> None:
        for folder in (self._partial, self.folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))

    def _append(self, partial: Path, data: bytes) -> None:
        if shutil.disk_usage(self._partial).free - len(data) < self._limits.free_disk_bytes:
            raise OSError(errno.ENOSPC, "the disk is almost full")
        with partial.open("ab") as file:
            file.write(data)

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

    def _publish(self, connection: SqlConnection, upload: str, name: str, size: int) -> UploadedFile:
        """Move a complete file to its place."""
        target = self.folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except (FileExistsError, NotADirectoryError):
            raise _rejected(409, f"a part of {name!r} is the name of a file", "name_taken") from None
        if target.is_dir():
            raise _rejected(409, f"{name!r} is the name of a folder", "name_taken")
        if not target.parent.resolve().is_relative_to(self.folder):
            raise _rejected(409, f"{name!r} leads out of the folder of uploads", "name_taken")
        replaced = target.exists()
        with (self._partial / upload).open("rb+") as file:
            os.fsync(file.fileno())
        (self._partial / upload).replace(target)
        connection.execute("DELETE FROM uploads WHERE name = ? AND worker IS NULL", (name,))
        connection.execute("UPDATE uploads SET bytes = ?, worker = NULL WHERE id = ?", (size, upload))
        return UploadedFile(name, target, size, replaced)

    def _delete(self, connection: SqlConnection, names: Iterable[str] | None) -> None:
        if names is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            connection.execute("DELETE FROM uploads WHERE worker IS NULL")
            return
        for name in names:
            path = self.folder / name
            path.unlink(missing_ok=True)
            connection.execute("DELETE FROM uploads WHERE name = ? AND worker IS NULL", (name,))
            for parent in path.parents:
                if parent == self.folder:
                    break
                with suppress(OSError):  # not empty
                    parent.rmdir()

    def _recover(self, connection: SqlConnection) -> None:
        connection.execute(_TABLE)
        self._forget_dead(connection)
        known = {row[0] for row in connection.execute("SELECT id FROM uploads WHERE worker IS NOT NULL")}
        for path in self._partial.glob("*"):
            if path.name not in known:
                path.unlink(missing_ok=True)
        connection.execute("DELETE FROM uploads WHERE worker IS NULL")
        for folder, _, files in os.walk(self.folder):
            for path in (Path(folder, file) for file in files):
                values = (new_id("upl"), path.relative_to(self.folder).as_posix(), path.lstat().st_size)
                connection.execute("INSERT INTO uploads (id, name, bytes) VALUES (?,?,?)", values)

    def _forget_dead(self, connection: SqlConnection) -> None:
        rows = connection.execute("SELECT DISTINCT worker FROM uploads WHERE worker IS NOT NULL").fetchall()
        for (worker,) in rows:
            if not self._state.is_alive(connection, worker):
                connection.execute("DELETE FROM uploads WHERE worker = ?", (worker,))

    def _too_large(self) -> RequestRejected:
        return _rejected(413, f"the file exceeds {self._max_file_bytes:,} bytes", "request_too_large")


def _read_usage(connection: SqlConnection) -> UploadUsage:
    return UploadUsage(*connection.execute("SELECT count(*), coalesce(sum(bytes), 0) FROM uploads").fetchone())


def _rejected(status: int, message: str, code: str) -> RequestRejected:
    return RequestRejected(ErrorResponse(status, message, code, param=None, headers=_CLOSE))


def _raise_for_disk(error: OSError) -> NoReturn:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise _rejected(507, "the disk of the server is full", "disk_full") from error
    raise error
