"""Local copies of web pages inside a knowledge base.

An index run downloads each URL. From then on its copy is a file like any other: its content tells whether it changed,
citations are verified against it, and no search needs a network. The source id is the URL; the file name of the copy
is the percent-encoded URL.
"""

from __future__ import annotations

import glob
import mimetypes
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ragkit.errors import LoadError
from ragkit.index.catalog.checksums import write_file_durably
from ragkit.load.file_types import LOADER_BY_SUFFIX, file_suffix

if TYPE_CHECKING:
    from ragkit.load.files.fetch import FetchOptions

WEB_FOLDER = "web"
"""Folder of the copies in a knowledge base."""
MAX_NAME_CHARS = 200
"""Maximum length of a file name; a longer URL is split into nested folders."""
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
"""Any scheme; `fetch_url` rejects all but http and https."""


def is_url(source: str | os.PathLike[str]) -> bool:
    """Whether a source is a URL."""
    return isinstance(source, str) and bool(_URL.match(source))


def normalize_url(url: str) -> str:
    """The canonical URL: scheme and host in lower case, no fragment. Without a host: unchanged. Raises LoadError."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise LoadError(url, "is not a valid http or https URL", "write it as https://host/path") from error
    if not parts.netloc:
        return url
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path or "/", parts.query, ""))


class WebPageCopies:
    """The copies in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def copy_path(self, url: str) -> Path:
        """The path of the copy of a page; a path that does not exist if there is no copy."""
        base = self._base_path(url)
        copies = sorted(base.parent.glob(f"{glob.escape(base.name)}=*"))
        return copies[0] if copies else base

    def copy_url(self, path: Path) -> str | None:
        """The URL of a copy; None for any other file."""
        try:
            parts = path.relative_to(self.folder).parts
        except ValueError:
            return None
        return unquote("".join(part.removesuffix("+") for part in parts).partition("=")[0])

    def download(self, url: str, options: FetchOptions) -> Path:
        """Fetch a page; write its copy only if the content changed. Raises LoadError, and keeps the old copy then."""
        if os.environ.get("RAGKIT_OFFLINE") == "1":
            raise LoadError(url, "cannot be downloaded while RAGKIT_OFFLINE is 1", "unset RAGKIT_OFFLINE")
        from ragkit.load.files.fetch import fetch_url  # noqa: PLC0415 - imports http.client, and only web pages need it

        fetched = fetch_url(url, options)
        previous = self.copy_path(url)
        path = self.path_with_suffix(url, copy_suffix(fetched.url, fetched.media_type))
        if previous == path and previous.read_bytes() == fetched.data:
            return path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file_durably(path, fetched.data)
        path.chmod(0o600)
        if previous not in (path, self._base_path(url)):
            previous.unlink()
        return path

    def delete(self, url: str) -> None:
        """Delete the copy of a page, if there is one."""
        path = self.copy_path(url)
        if path.is_file():
            path.unlink()

    def path_with_suffix(self, url: str, suffix: str) -> Path:
        """The path of a copy with this suffix, whether it exists or not."""
        path = self._base_path(url)
        return path.with_name(f"{path.name}={suffix}")

    def _base_path(self, url: str) -> Path:
        """The path of the copy, without suffix."""
        written = quote(url, safe="")
        parts = [written[start : start + MAX_NAME_CHARS] for start in range(0, len(written), MAX_NAME_CHARS)] or [""]
        return self.folder.joinpath(*(f"{part}+" for part in parts[:-1]), parts[-1])


def copy_suffix(url: str, media_type: str) -> str:
    """The suffix of the copy, which selects the loader; '' if there is no loader for it."""
    by_type = ".eml" if media_type == "message/rfc822" else mimetypes.guess_extension(media_type) or ""
    candidates = file_suffix(urlsplit(url).path), by_type
    return next((suffix for suffix in candidates if suffix in LOADER_BY_SUFFIX), "")
