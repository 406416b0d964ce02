"""Read entries of zip files (docx, pptx, xlsx, epub) in memory, within limits.

Nothing is extracted to disk: entry names are keys, never paths.
"""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Mapping, Sequence

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.files.file_io import MB
from ragkit.load.options import ZipOptions

RATIO_CHECK_BYTES = 16 * MB
"""Below this unpacked size, the compression ratio is not limited."""

ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError),  # OSError is from bz2
    *(EOFError, NotImplementedError, ValueError, OverflowError, RuntimeError),
)
"""Errors of `zipfile` for damaged, encrypted or unsupported entries."""

SAVE_AGAIN_HINT = "open it in its program and save it again"


class ZipArchive:
    """A validated zip file in memory."""

    def __init__(self, data: bytes, source: str, options: ZipOptions | None = None) -> None:
        """Raises LoadError for a damaged or encrypted file, LoadLimitExceeded for a zip bomb."""
        self.source = source
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            entries = self._zip.infolist()
        except ZIP_ERRORS as error:
            raise LoadError(source, "damaged or truncated zip file", SAVE_AGAIN_HINT) from error
        check_zip_limits(entries, len(data), source, options or ZipOptions())
        self._entries = {entry.filename: entry for entry in entries}

    @property
    def names(self) -> Sequence[str]:
        """The names of the entries, in the order of the central directory."""
        return list(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def read(self, name: str, max_bytes: int = 1 << 62) -> bytes:
        """The first `max_bytes` bytes of an entry. Raises LoadError when it is missing or damaged."""
        entry = self._entries.get(name)
        if entry is None:
            raise LoadError(self.source, f"part {name[:100]!r} is missing", SAVE_AGAIN_HINT)
        try:
            with self._zip.open(entry) as part:
                return part.read(min(entry.file_size, max_bytes))
        except ZIP_ERRORS as error:
            raise LoadError(self.source, f"part {name[:100]!r} is damaged", SAVE_AGAIN_HINT) from error


def write_zip(parts: Mapping[str, bytes]) -> bytes:
    """A zip file with entries of these names, not compressed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return out.getvalue()


def check_expanded(expanded: int, size: int, source: str, limits: ZipOptions) -> None:
    """Raises LoadLimitExceeded for a file of `size` bytes that unpacks to too many."""
    if expanded > limits.max_expanded_mb * MB:
        reason = f"unpacks to {expanded // MB} MB, the limit is {limits.max_expanded_mb} MB"
        raise LoadLimitExceeded(source, reason, "raise max_expanded_mb if you trust the file")
    if expanded > RATIO_CHECK_BYTES and expanded > limits.max_ratio * size:
        reason = f"unpacks to {expanded // max(1, size)} times its size, the limit is {limits.max_ratio}"
        raise LoadLimitExceeded(source, reason, "raise max_ratio if you trust the file")


def check_zip_limits(entries: Sequence[zipfile.ZipInfo], size: int, source: str, limits: ZipOptions) -> None:
    """Reject zip bombs and encrypted files by the sizes in the central directory, which `read` never exceeds."""
    if len(entries) > limits.max_entries:
        reason = f"has {len(entries)} zip entries, the limit is {limits.max_entries}"
        raise LoadLimitExceeded(source, reason, "raise max_entries")
    if any(entry.flag_bits & 1 for entry in entries):
        raise LoadError(source, "password-protected", "save it without a password")
    check_expanded(sum(entry.file_size for entry in entries), size, source, limits)
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < end:
            raise LoadLimitExceeded(source, "overlapping zip entries (zip bomb)", "do not trust this file")
        end = entry.header_offset + 30 + entry.compress_size  # 30: minimum size of a local header
