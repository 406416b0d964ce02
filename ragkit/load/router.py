"""Select the loader of a file by routes: loader, options and suffixes."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from ragkit.distribution import install_command
from ragkit.errors import MissingExtra, RagkitError, UnsupportedFormat
from ragkit.load import LOADERS
from ragkit.load.base import AttachmentLoader, Loader
from ragkit.load.detect import detect_loader, is_archive
from ragkit.load.file_types import LOADER_BY_SUFFIX, file_suffix
from ragkit.load.files.generated_files import generated_reason
from ragkit.load.files.secret_files import has_private_key
from ragkit.load.options import LOADER_VERSIONS
from ragkit.load.shared.encoding import decode_bytes
from ragkit.load.shared.noise import leave_out_noise
from ragkit.load.shared.titles import give_title
from ragkit.load.text.front_matter import find_access
from ragkit.records import NO_METADATA, Document, Metadata

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


LOG = logging.getLogger("ragkit.load")

PARSER_ERRORS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, OSError, RecursionError)
"""Errors of a parser of an attachment, which must not stop the mail."""

PAGE_FORMATS = frozenset({"pdf", "image"})
"""Formats whose text is what was drawn on pages."""

MAX_DEPTH = 5
"""Files inside files inside files: attachments of attached mails, in an archive."""


@dataclass(frozen=True)
class LoaderRoute:
    """A loader that a pipeline configures."""

    name: str
    """The loader's name in `LOADERS`."""
    options: DataclassInstance | None = None
    """An instance of the loader's options; None: its defaults."""
    suffixes: tuple[str, ...] = ()
    """Suffixes of its files, such as `.pdf`; empty: the files that are detected as its format."""


class Router:
    """Selects and runs loaders; each is created on first use."""

    def __init__(self, routes: Sequence[LoaderRoute] = ()) -> None:
        """Raises UnknownName for an unknown loader."""
        for route in routes:
            LOADERS.extra(route.name)
        self._by_suffix = {suffix.lower(): route for route in routes for suffix in route.suffixes}
        self._by_name = {route.name: route for route in routes if not route.suffixes}
        self._loaders: dict[LoaderRoute, Loader] = {}

    def select_route(self, data: bytes, source: str) -> LoaderRoute:
        """The route of a file.

        A route by suffix applies when the content matches the suffix, or when its format is unknown.
        Raises UnsupportedFormat or LoadError like `detect_loader`, and UnsupportedFormat for a private key.
        """
        if has_private_key(data):
            raise UnsupportedFormat(source, "looks like a secret (private key)")
        suffix = file_suffix(source)
        suffix_route = self._by_suffix.get(suffix)
        if suffix_route is None and (reason := generated_reason(source)):
            raise UnsupportedFormat(source, reason, f"to read it, name `{suffix}` in `only` of a loader")
        try:
            name = detect_loader(data, source)
        except UnsupportedFormat:
            other = suffix_route or (self._by_name.get("archive") if is_archive(data) else None)
            if other is None:
                raise
            return other
        if suffix_route is not None and name == LOADER_BY_SUFFIX.get(suffix, "text"):
            return suffix_route
        return self._by_name.get(name, LoaderRoute(name))

    def load(self, data: bytes, source: str, name: str = "") -> tuple[str, Document]:
        """The name of the loader, and the Document.

        Args:
            data: the whole file.
            source: its path or URL.
            name: the loader; empty: selected by `select_route`.

        Raises:
            LoadError: the file cannot be parsed.
            MissingExtra: the loader needs a package that is not installed.
        """
        return self._load(data, source, name, 0)

    def _load(self, data: bytes, source: str, name: str, depth: int) -> tuple[str, Document]:
        route = self._by_name.get(name, LoaderRoute(name)) if name else self.select_route(data, source)
        if route not in self._loaders:
            try:
                loader_class = cast("Callable[..., Loader]", LOADERS.find(route.name))
            except MissingExtra as error:
                if route.name != "image":
                    raise
                # most images are no documents: a folder of them is no failure
                hint = f"to read its text, {install_command(error.extra)}"
                raise UnsupportedFormat(source, "binary file (image)", hint) from error
            self._loaders[route] = loader_class(route.options) if route.options is not None else loader_class()
        if route.name == "archive" and depth:
            raise UnsupportedFormat(source, "an archive inside another file", "unpack it and index the folder")
        loader = self._loaders[route]
        document = loader.load(data, source)
        if document.format not in PAGE_FORMATS:
            document = give_title(leave_out_noise(document))
        if route.name not in LOADER_VERSIONS or route.name == "unstructured":  # they know nothing of the field
            document = replace(document, metadata={**_front_matter_access(data), **document.metadata})
        if isinstance(loader, AttachmentLoader) and depth < MAX_DEPTH:
            parts = self._load_attachments(loader.attachments(data, source), document, depth + 1)
            document = replace(document, parts=(*document.parts, *parts))
        return route.name, document

    def _load_attachments(self, files: Iterable[tuple[str, bytes]], parent: Document, depth: int) -> Iterator[Document]:
        """The attachments that hold text; those that cannot be read are left out, their names stand in the parent."""
        used: Counter[str] = Counter()
        for name, data in files:
            safe = _safe_name(name, folders=parent.format == "archive")
            used[safe] += 1
            folder, slash, last = safe.rpartition("/")
            unique = safe if used[safe] == 1 else f"{folder}{slash}{used[safe]}-{last}"
            try:
                _, part = self._load(data, f"{parent.source}/{unique}", "", depth)
            except (RagkitError, *PARSER_ERRORS) as error:
                LOG.info("%s/%s: %s", parent.source, unique, error)
                continue
            if part.text.strip() or part.parts:
                yield replace(part, metadata={**part.metadata, "parent": parent.source})


def _front_matter_access(data: bytes) -> Metadata:
    """What the front matter of a text says about who may read it, for a loader that does not look for it."""
    is_fenced = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"---", b"+++"))
    return find_access(decode_bytes(data).text).metadata if is_fenced else NO_METADATA


def _safe_name(name: str, *, folders: bool) -> str:
    """The name of a file inside a file as the end of a source."""
    parts = [re.sub(r"[/\\\x00-\x1f]", "_", part).strip() for part in (name.split("/") if folders else [name])]
    return "/".join(part for part in parts if part not in {"", ".", ".."}) or "attachment"
