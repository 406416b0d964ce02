"""EPUB books: chapters in reading order."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from urllib.parse import unquote

from lxml import etree

from ragkit.errors import LoadError
from ragkit.load.html import read_page
from ragkit.load.loader_utils import build_metadata, collapse_whitespace
from ragkit.load.ooxml import find_child, iter_elements, local_name, parse_part
from ragkit.load.options import LOADER_VERSIONS, EpubOptions
from ragkit.load.zip_archive import ZipArchive
from ragkit.records import JSON, Document, Heading

CONTAINER_PATH = "META-INF/container.xml"
ENCRYPTION_PATH = "META-INF/encryption.xml"
PAGE_MEDIA_TYPES = ("application/xhtml+xml", "text/html")
METADATA_KEYS = {
    "title": "title",
    "creator": "author",
    "language": "lang",
    "publisher": "publisher",
    "identifier": "identifier",
}
"""Elements of a book's metadata -> our names."""


class EpubLoader:
    """Each part of the spine through the HTML reader; a part without a heading gets its own title as one."""

    version = LOADER_VERSIONS["epub"]

    def __init__(self, options: EpubOptions | None = None) -> None:
        self.options = options or EpubOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The book in `data`. Raises LoadError for a locked or damaged one, LoadLimitExceeded for a zip bomb."""
        archive = ZipArchive(data, source, self.options)
        package_name = _find_package(archive)
        package = parse_part(archive, package_name)
        known = _read_metadata(package)
        locked = _encrypted_parts(archive)
        texts: list[str] = []
        headings: list[Heading] = []
        length = 0
        for name in _spine_parts(package, posixpath.dirname(package_name)):
            if name in locked:
                raise LoadError(source, "protected against copying (DRM)", "only its own reader can open it")
            if name not in archive:
                continue
            page = read_page(archive.read(name), source)
            if not page.text:
                continue
            found = page.headings or ((Heading(0, 1, page.title),) if page.title else ())
            headings += [Heading(length + each.start, each.level, each.text) for each in found]
            texts.append(page.text)
            length += len(page.text) + 2
        return Document(
            text="\n\n".join(texts),
            metadata=build_metadata("epub", source, {**known, "title": None}),
            source=source,
            title=str(known.get("title", "")),
            headings=tuple(headings),
            format="epub",
        )


def _find_package(archive: ZipArchive) -> str:
    """The part that lists the book. Raises LoadError."""
    for each in iter_elements(parse_part(archive, CONTAINER_PATH), "rootfile"):
        name = unquote(each.get("full-path", ""))
        if name in archive:
            return name
    raise LoadError(archive.source, "its list of chapters is missing", "convert it again, for example with Calibre")


def _read_metadata(package: etree._Element) -> dict[str, JSON]:
    known: dict[str, JSON] = {}
    about = find_child(package, "metadata")
    for each in about if about is not None else ():
        words = collapse_whitespace("".join(each.itertext()))[:1000]
        if local_name(each) in METADATA_KEYS and words:
            known.setdefault(METADATA_KEYS[local_name(each)], words)
    return known


def _spine_parts(package: etree._Element, folder: str) -> Iterator[str]:
    """The parts of the book's text, in reading order."""
    manifest, spine = find_child(package, "manifest"), find_child(package, "spine")
    if manifest is None or spine is None:
        return
    listed = {
        item.get("id", ""): posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        for item in manifest
        if item.get("media-type") in PAGE_MEDIA_TYPES and "nav" not in (item.get("properties") or "").split()
    }
    for entry in spine:
        name = listed.get(entry.get("idref", ""))
        if name and entry.get("linear") != "no":
            yield name


def _encrypted_parts(archive: ZipArchive) -> frozenset[str]:
    """Parts that are encrypted; fonts often are, and do no harm."""
    if ENCRYPTION_PATH not in archive:
        return frozenset()
    references = iter_elements(parse_part(archive, ENCRYPTION_PATH), "CipherReference")
    return frozenset(unquote(each.get("URI", "")) for each in references)
