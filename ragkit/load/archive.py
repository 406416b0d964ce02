"""Archives (ZIP, TAR): the names of the files as text, and each file as a document of its own.

Nothing is extracted to disk: names are parts of sources, never paths.
"""

from __future__ import annotations

import io
import lzma
import tarfile
import zlib
from collections.abc import Iterator

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.options import LOADER_VERSIONS, ZipOptions
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.load.shared.zip_archive import ZipArchive, check_expanded
from ragkit.records import Document

TAR_ERRORS = (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError, ValueError, OverflowError)
"""Errors of `tarfile` and of the decompressors for damaged files."""
_ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")
_OTHER_FOLDERS = ("__MACOSX",)
"""Folders that programs add to archives."""


class ArchiveLoader:
    """The files of an archive. Hidden ones, links, and archives in archives are left out."""

    version = LOADER_VERSIONS["archive"]

    def __init__(self, options: ZipOptions | None = None) -> None:
        self.options = options or ZipOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The names of the files in `data`. Raises LoadError, and LoadLimitExceeded for more than the options allow."""
        names = [collapse_whitespace(replace_invalid_chars(name)) for name, _ in self._files(data, source, read=False)]
        return build_document("archive", source, "\n".join(names), {"files": len(names)})

    def attachments(self, data: bytes, source: str) -> Iterator[tuple[str, bytes]]:
        """See `AttachmentLoader`: names with their folders."""
        return self._files(data, source, read=True)

    def _files(self, data: bytes, source: str, *, read: bool) -> Iterator[tuple[str, bytes]]:
        if data.startswith(_ZIP_STARTS):
            archive = ZipArchive(data, source, self.options)
            for name in archive.names:
                if not name.endswith("/") and not _is_hidden(name):
                    yield name, archive.read(name) if read else b""
        else:
            yield from self._tar_files(data, source, read=read)

    def _tar_files(self, data: bytes, source: str, *, read: bool) -> Iterator[tuple[str, bytes]]:
        entries = expanded = 0
        try:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                # `next` unpacks what it passes over: sizes are checked before
                while (entry := archive.next()) is not None:
                    entries, expanded = entries + 1, expanded + entry.size
                    if entries > self.options.max_entries:
                        reason = f"has more than {self.options.max_entries} entries"
                        raise LoadLimitExceeded(source, reason, "raise max_entries, or unpack it and index the folder")
                    check_expanded(expanded, len(data), source, self.options)
                    if entry.isreg() and not entry.issparse() and not _is_hidden(entry.name):
                        file = archive.extractfile(entry) if read else None
                        yield entry.name, file.read() if file is not None else b""
        except TAR_ERRORS as error:
            raise LoadError(source, "not a ZIP or TAR archive, or damaged", "pack it again") from error


def _is_hidden(name: str) -> bool:
    return any((part.startswith(".") and part not in {".", ".."}) or part in _OTHER_FOLDERS for part in name.split("/"))
