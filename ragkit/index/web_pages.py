"""Copies of web pages inside the knowledge base.

A page is fetched when an index run names its URL; from then on its copy is a file like any other: its content says
whether it changed, citations are checked against it, and no search waits for a network. The name of its source is
the URL, and the name of the copy is the URL written so that it can be read back.
"""

from __future__ import annotations

import mimetypes
import os
import re
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ragkit.errors import LoadError
from ragkit.index.catalog.checksums import write_file_durably
from ragkit.index.source_ids import source_id, source_path
from ragkit.load.fetch import FetchOptions, fetch_url
from ragkit.load.file_types import LOADER_BY_SUFFIX, file_suffix

WEB_FOLDER = "web"
"""The folder in a knowledge base."""
MAX_NAME_CHARS = 200
"""Characters of a file's name; the rest of a longer URL goes into further folders."""
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
"""Other schemes than http and https too: that they are not fetched is said by who fetches."""


def is_url(source: str | os.PathLike[str]) -> bool:
    """Whether a source is a page on the web."""
    return isinstance(source, str) and bool(_URL.match(source))


def normalize_url(url: str) -> str:
    """The URL under which a page is known: scheme and host in lower case, without the fragment."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise LoadError(url, "no http or https URL", "write it as https://host/path") from error
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path or "/", parts.query, ""))


class WebPageCopies:
    """The copies below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def copy_path(self, url: str) -> Path:
        """The copy of a page; where there is none, a path at which there is nothing."""
        place = self._base_path(url)
        found = sorted(place.parent.glob(f"{_escape_glob(place.name)}=*"))
        return found[0] if found else place

    def copy_url(self, path: Path) -> str | None:
        """The URL of a copy; None for any other file."""
        try:
            parts = path.relative_to(self.folder).parts
        except ValueError:
            return None
        return unquote("".join(part.removesuffix("+") for part in parts).partition("=")[0])

    def download(self, url: str, options: FetchOptions) -> Path:
        """Fetch a page. Its copy is written only when the page has changed. Raises LoadError; the old copy stays."""
        if os.environ.get("RAGKIT_OFFLINE") == "1":
            raise LoadError(url, "needs a network, and RAGKIT_OFFLINE is 1", "unset it")
        fetched = fetch_url(url, options)
        before = self.copy_path(url)
        path = self._base_path(url)
        path = path.with_name(f"{path.name}={_file_suffix(fetched.url, fetched.media_type)}")
        if before == path and before.read_bytes() == fetched.data:
            return path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file_durably(path, fetched.data)
        path.chmod(0o600)
        if before not in (path, self._base_path(url)):
            before.unlink()
        return path

    def delete(self, url: str) -> None:
        """Delete the copy of a page, if there is one."""
        path = self.copy_path(url)
        if path.is_file():
            path.unlink()

    def _base_path(self, url: str) -> Path:
        """The path of its copy without the suffix."""
        written = quote(url, safe="")
        parts = [written[start : start + MAX_NAME_CHARS] for start in range(0, len(written), MAX_NAME_CHARS)]
        return self.folder.joinpath(*(f"{part}+" for part in parts[:-1]), parts[-1])


def _file_suffix(url: str, media_type: str) -> str:
    """What the copy's name ends with: it helps to find the loader."""
    own = file_suffix(urlsplit(url).path)
    if own in LOADER_BY_SUFFIX:
        return own
    said = mimetypes.guess_extension(media_type) or ""
    return said if said in LOADER_BY_SUFFIX else ""


def _escape_glob(name: str) -> str:
    """A name in which `glob` finds no patterns."""
    return re.sub(r"([*?[])", r"[\1]", name)


class SourceResolver:
    """How the sources of one knowledge base are called, and where they lie: files by their paths, pages by URLs."""

    def __init__(self, web: Path) -> None:
        self.web_copies = WebPageCopies(web)

    def source_id(self, path: Path) -> str:
        """The name of the source that a path holds."""
        return self.web_copies.copy_url(path) or source_id(path)

    def resolve_path(self, name: str) -> Path:
        """Where a source lies: the file itself, or the copy of a page."""
        return self.web_copies.copy_path(name) if is_url(name) else source_path(name)

    def normalize(self, source: str | os.PathLike[str]) -> str:
        """The name of a source as a person wrote it."""
        return normalize_url(str(source)) if is_url(source) else source_id(Path(source).absolute())
