"""Zip files that are read part by part and never unpacked: the one door for docx, pptx, xlsx and epub.

The names in the file are keys only: no part ever gets a path on disk.
"""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Sequence

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.options import ZipOptions

MB = 1024 * 1024
RATIO_CHECK_BYTES = 16 * MB
"""Files that unpack to less than this may be packed as tightly as they like."""

ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError),  # OSError is what bz2 says
    *(EOFError, NotImplementedError, ValueError, OverflowError, RuntimeError),
)
"""What `zipfile` raises for broken, encrypted or oddly packed parts of a file that is in memory."""

_SAVE_AGAIN_HINT = "open it in the program it came from and save it again"


class ZipArchive:
    """A checked zip file: `names` in the order of its directory, `read` for the bytes of one part."""

    def __init__(self, data: bytes, source: str, options: ZipOptions | None = None) -> None:
        """Raises LoadError for a damaged or encrypted file, LoadLimitExceeded for one that unpacks too far."""
        self.source = source
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            entries = self._zip.infolist()
        except ZIP_ERRORS as error:
            raise LoadError(source, "its zip structure is damaged or cut short", _SAVE_AGAIN_HINT) from error
        check_zip_limits(entries, len(data), source, options or ZipOptions())
        self._entries = {entry.filename: entry for entry in entries}

    @property
    def names(self) -> Sequence[str]:
        """The names of the parts."""
        return list(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def read(self, name: str, most: int = 1 << 62) -> bytes:
        """The first `most` bytes of a part. Raises LoadError when it is not there or is damaged."""
        entry = self._entries.get(name)
        if entry is None:
            raise LoadError(self.source, f"its part {name[:100]!r} is missing", _SAVE_AGAIN_HINT)
        try:
            with self._zip.open(entry) as part:
                return part.read(min(entry.file_size, most))
        except ZIP_ERRORS as error:
            raise LoadError(self.source, f"its part {name[:100]!r} is damaged", _SAVE_AGAIN_HINT) from error


def check_zip_limits(entries: Sequence[zipfile.ZipInfo], size: int, source: str, limits: ZipOptions) -> None:
    """Refuse bombs and locked files by what the directory says; `read` never goes beyond what it says."""
    if len(entries) > limits.max_entries:
        raise LoadLimitExceeded(
            source, f"has {len(entries)} parts, {limits.max_entries} are read at most", "raise max_entries"
        )
    if any(entry.flag_bits & 1 for entry in entries):
        raise LoadError(source, "password-protected", "save it without a password")
    expanded = sum(entry.file_size for entry in entries)
    if expanded > limits.max_expanded_mb * MB:
        reason = f"unpacks to {expanded // MB} MB, {limits.max_expanded_mb} MB are read at most"
        raise LoadLimitExceeded(source, reason, "raise max_expanded_mb if you trust it")
    if expanded > RATIO_CHECK_BYTES and expanded > limits.max_ratio * size:
        reason = f"unpacks to {expanded // max(1, size)} times its size, {limits.max_ratio} times are read at most"
        raise LoadLimitExceeded(source, reason, "raise max_ratio if you trust it")
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < end:
            raise LoadLimitExceeded(source, "its parts overlap (a zip bomb)", "do not trust this file")
        end = entry.header_offset + 30 + entry.compress_size  # 30: the least that a local header takes
