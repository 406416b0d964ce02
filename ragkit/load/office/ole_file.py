"""Streams of OLE files (Office before 2007, Outlook messages), with olefile."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from types import TracebackType

from ragkit.errors import LoadError, MissingExtra
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.records import JSON

try:
    import olefile
except ImportError as error:
    raise MissingExtra("the loaders 'doc', 'ppt' and 'msg'", extra="office") from error

SAVE_NEW_HINT = "open it in its program and save it in the newer format"
UTF_8 = 65_001
"""The code page of Windows."""
MAX_STREAM_BYTES = 256 * 1024 * 1024

PARSE_ERRORS = (OSError, struct.error, LookupError, ValueError, OverflowError, AttributeError)
"""Errors of olefile, and of the readers of its streams, for damaged files."""


class OleFile:
    """The streams of one file, a context manager. Errors of the file are LoadErrors, inside the block too."""

    def __init__(self, data: bytes, source: str) -> None:
        """Raises LoadError when the file is damaged."""
        self._source = source
        try:
            self._file = olefile.OleFileIO(io.BytesIO(data))
            self._file.loadminifat()
            has_loop = _list_has_loop(data) or any(map(_has_loop, (self._file.fat, self._file.minifat)))
        except PARSE_ERRORS as error:
            raise self._damaged() from error
        if has_loop:
            raise self._damaged()

    def __enter__(self) -> OleFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if isinstance(error, PARSE_ERRORS) and not isinstance(error, LoadError):
            raise self._damaged() from error

    def __contains__(self, name: str) -> bool:
        return bool(self._file.exists(name))

    def read(self, name: str) -> bytes:
        """The bytes of a stream; b'' when it is missing."""
        if name not in self or self._file.get_type(name) != olefile.STGTY_STREAM:
            return b""
        return bytes(self._file.openstream(name).read(MAX_STREAM_BYTES))

    def storages(self, prefix: str) -> list[str]:
        """The storages at the top whose name starts with `prefix`, in order."""
        names = (path[0] for path in self._file.listdir(streams=True, storages=True))
        return list(dict.fromkeys(name for name in names if name.startswith(prefix)))

    def read_properties(self) -> dict[str, JSON]:
        """Title, author, keywords and dates of the document; {} when they are damaged: the text is still readable."""
        try:
            found = self._file.get_metadata()
        except PARSE_ERRORS:
            return {}
        known: dict[str, JSON] = {}
        for name in ("title", "author", "keywords"):
            value = getattr(found, name) or b""
            text = _decode(value, found.codepage or 0) if isinstance(value, bytes) else str(value)
            known[name] = collapse_whitespace(replace_invalid_chars(text.partition("\0")[0]))[:1000]
        for key, date in (("created", found.create_time), ("modified", found.last_saved_time)):
            known[key] = date.isoformat() if date is not None else ""
        return known

    def _damaged(self) -> LoadError:
        return LoadError(self._source, "damaged or truncated Office file", SAVE_NEW_HINT)


def _decode(value: bytes, code_page: int) -> str:
    try:
        return value.decode("utf-8" if code_page % 65_536 == UTF_8 else f"cp{code_page}", "replace")
    except LookupError:
        return value.decode("cp1252", "replace")


def read_ole_properties(data: bytes, source: str) -> dict[str, JSON]:
    """The properties of an OLE file; {} for a file of another format. Raises LoadError for a damaged OLE file."""
    if not data.startswith(olefile.MAGIC):
        return {}
    with OleFile(data, source) as ole:
        return ole.read_properties()


def _has_loop(chains: Sequence[int]) -> bool:
    """Whether a chain of sectors comes back to itself, so that a reader follows it until its memory is exhausted.

    Args:
        chains: for each sector the number of the next; numbers from len(chains) on end a chain.
    """
    done = bytearray(len(chains))
    for start in range(len(chains)):
        path: list[int] = []
        sector = start
        while sector < len(chains) and not done[sector]:
            done[sector] = 1
            path.append(sector)
            sector = chains[sector]
        if sector < len(chains) and done[sector] == 1:
            return True
        for passed in path:
            done[passed] = 2
    return False


def _list_has_loop(data: bytes) -> bool:
    """Whether the list of the sectors that hold the chains comes back to itself ([MS-CFB] 2.5)."""
    size = 1 << min(struct.unpack_from("<H", data, 30)[0], 30)
    (sector,) = struct.unpack_from("<I", data, 68)
    for _ in range(len(data) // size + 1):
        end = (sector + 2) * size
        if end > len(data):
            return False
        (sector,) = struct.unpack_from("<I", data, end - 4)
    return True
