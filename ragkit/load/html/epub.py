"""EPUB books: chapters in reading order."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from urllib.parse import unquote

from lxml import etree

from ragkit.errors import LoadError
from ragkit.load.html.html import read_page
from ragkit.load.options import LOADER_VERSIONS, ZipOptions
from ragkit.load.shared.access_field import FIELD, access_metadata
from ragkit.load.shared.layout_blocks import TextLayout, join_layouts
from ragkit.load.shared.loader_utils import build_document
from ragkit.load.shared.ooxml import find_child, iter_elements, parse_part, read_properties
from ragkit.load.shared.zip_archive import ZipArchive
from ragkit.records import Document, Heading, Metadata

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
"""Metadata elements of a book -> keys of the document's metadata."""


class EpubLoader:
    """Reads each chapter of the spine as HTML; a chapter without headings gets its title as heading."""

    version = LOADER_VERSIONS["epub"]

    def __init__(self, options: ZipOptions | None = None) -> None:
        self.options = options or ZipOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The book in `data`. Raises LoadError when it is encrypted or damaged, LoadLimitExceeded for a zip bomb."""
        archive = ZipArchive(data, source, self.options)
        package_name = _find_package(archive)
        package = parse_part(archive, package_name)
        metadata = read_properties(archive, package_name, METADATA_KEYS)
        encrypted = _encrypted_parts(archive)
        chapters: list[TextLayout] = []
        access: list[Metadata] = []
        for name in _spine_parts(package, posixpath.dirname(package_name)):
            if name in encrypted:
                raise LoadError(source, "protected by DRM", "only its own reader can open it")
            if name not in archive:
                continue
            page = read_page(archive.read(name), source)
            layout = page.layout
            access += [page.access] if page.access else []
            headings = (Heading(0, 1, page.title),) if page.title and not layout.headings else layout.headings
            chapters.append(TextLayout(layout.text, headings))
        title = str(metadata.pop("title", ""))
        metadata |= access[0] if len(access) == 1 else access_metadata([chapter[FIELD] for chapter in access])
        return build_document("epub", source, join_layouts(chapters), metadata, title)


def _find_package(archive: ZipArchive) -> str:
    """The name of the package document. Raises LoadError."""
    for node in iter_elements(parse_part(archive, CONTAINER_PATH), "rootfile"):
        name = unquote(node.get("full-path", ""))
        if name in archive:
            return name
    raise LoadError(archive.source, "the list of chapters is missing", "convert it again, for example with Calibre")


def _spine_parts(package: etree._Element, folder: str) -> Iterator[str]:
    """The names of the chapters, in reading order."""
    manifest, spine = find_child(package, "manifest"), find_child(package, "spine")
    if manifest is None or spine is None:
        return
    pages = {
        item.get("id", ""): posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        for item in manifest
        if item.get("media-type") in PAGE_MEDIA_TYPES and "nav" not in (item.get("properties") or "").split()
    }
    for entry in spine:
        name = pages.get(entry.get("idref", ""))
        if name and entry.get("linear") != "no":
            yield name


def _encrypted_parts(archive: ZipArchive) -> frozenset[str]:
    """The names of the encrypted parts; often fonts, which are not read."""
    if ENCRYPTION_PATH not in archive:
        return frozenset()
    references = iter_elements(parse_part(archive, ENCRYPTION_PATH), "CipherReference")
    return frozenset(unquote(node.get("URI", "")) for node in references)
