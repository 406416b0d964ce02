"""The source `fsspec`: files of any file system that fsspec knows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import quote

import fsspec

from ragkit.errors import LoadError
from ragkit.load.sources.base import DocumentGone, SourceContext, SourceFile, SourceItem, require_network
from ragkit.load.sources.options import FsspecOptions
from ragkit.masking import mask_passwords

_FINGERPRINT_FIELDS = ("ETag", "etag", "md5Hash", "content_md5", "checksum", "sha256", "uid", "mtime", "LastModified",
                       "last_modified", "updated", "modified", "created")  # fmt: skip
"""What file systems tell of a version, the most exact first."""


class FsspecSource:
    """The files below one folder."""

    def __init__(self, options: FsspecOptions) -> None:
        self._url = options.url.rstrip("/")
        self._storage_options: dict[str, Any] = dict(options.options)
        self._files: Any = None

    @property
    def location(self) -> str:
        """The URL."""
        return self._url

    def list(self, context: SourceContext) -> Iterator[SourceItem]:
        """Every file; see `Source.list`."""
        files, root = self._open()
        try:
            files.invalidate_cache()
            found = files.find(root, detail=True)
        except Exception as error:
            raise self._error(self.location, error) from error
        for name, info in sorted(found.items()):
            if info.get("type", "file") != "file" or name.endswith("/"):
                continue
            path = name[len(root) :].strip("/") or name.rpartition("/")[2]
            size = info.get("size")
            version = next((info[field] for field in _FINGERPRINT_FIELDS if info.get(field) is not None), None)
            text = version.isoformat() if isinstance(version, datetime) else str(version)
            fingerprint = f"{text}-{size}" if version is not None else ""
            yield SourceItem(f"{self._url}/{quote(path)}", fingerprint, size, path=path)

    def fetch(self, item: SourceItem, context: SourceContext) -> SourceFile:
        """The bytes of a file; see `Source.fetch`."""
        files, root = self._open()
        try:
            return SourceFile(files.cat_file(f"{root}/{item.path}"))
        except FileNotFoundError as error:
            raise DocumentGone(item.key, "was deleted", "run again") from error
        except Exception as error:
            raise self._error(item.key, error) from error

    def _open(self) -> tuple[Any, str]:
        """The file system, and the folder in it."""
        if not self._url.startswith(("file://", "memory://")):
            require_network(self.location)
        try:
            if self._files is None:
                protocol = self._url.partition("://")[0]
                options = {"use_listings_cache": False, "skip_instance_cache": True, **self._storage_options}
                self._files = fsspec.filesystem(protocol, **options)
            return self._files, str(self._files._strip_protocol(self._url)).rstrip("/")
        except (ImportError, ValueError) as error:
            raise self._error(self.location, error) from error

    @staticmethod
    def _error(source: str, error: Exception) -> LoadError:
        reason = mask_passwords(" ".join(str(error).split()))[:200] or type(error).__name__
        return LoadError(source, f"cannot be read ({reason})", "check the address, the network and the credentials")
