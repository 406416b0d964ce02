"""What Office formats share: parts of a zip file as XML, relations between parts, core properties.

Element names are compared without their namespace, because "strict" files have others.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from lxml import etree

from ragkit.errors import LoadError
from ragkit.load.loader_utils import collapse_whitespace
from ragkit.load.zip_archive import ZipArchive
from ragkit.records import JSON

CORE_PROPERTIES = {
    "title": "title",
    "creator": "author",
    "keywords": "keywords",
    "created": "created",
    "modified": "modified",
}
"""Elements of `docProps/core.xml` -> our names."""


def parse_xml(data: bytes, source: str, part: str) -> etree._Element:
    """The root of an XML part. Entities stay unresolved and nothing is fetched. Raises LoadError."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        reason = f"its part {part[:100]!r} is no valid XML ({collapse_whitespace(str(error))[:200]})"
        raise LoadError(source, reason, "open it in the program it came from and save it again") from error


def parse_part(archive: ZipArchive, name: str) -> etree._Element:
    """The root of a part of `archive`. Raises LoadError when it is missing or damaged."""
    return parse_xml(archive.read(name), archive.source, name)


def local_name(element: etree._Element) -> str:
    """The name of an element without its namespace; '' for an unresolved entity."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def find_child(element: etree._Element, *path: str) -> etree._Element | None:
    """The first child of that name, then its first child of the next name, and so on; None when there is none."""
    found: etree._Element | None = element
    for name in path:
        if found is None:
            return None
        found = next((each for each in found if local_name(each) == name), None)
    return found


def iter_elements(element: etree._Element, name: str) -> Iterator[etree._Element]:
    """Every element of that name below `element`, in document order."""
    return (each for each in element.iter() if local_name(each) == name)


def get_attribute(element: etree._Element | None, name: str) -> str:
    """The value of an attribute, whatever its namespace; '' when there is none."""
    if element is None:
        return ""
    return next((str(value) for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


def read_relationships(archive: ZipArchive, part: str) -> Mapping[str, tuple[str, str]]:
    """Id -> (last word of the type, name of the part that it leads to). What lies outside the file is left out."""
    folder, name = posixpath.split(part)
    where = posixpath.join(folder, "_rels", f"{name}.rels")
    if where not in archive:
        return {}
    found = {}
    for each in parse_part(archive, where):
        if local_name(each) != "Relationship" or each.get("TargetMode") == "External":
            continue
        target = unquote(each.get("Target", ""))
        path = target.lstrip("/") if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
        found[each.get("Id", "")] = (each.get("Type", "").rpartition("/")[2], path)
    return found


def find_related_part(archive: ZipArchive, part: str, kind: str) -> str:
    """The first part that `part` leads to under a relation of that kind; '' when there is none."""
    return next(
        (path for word, path in read_relationships(archive, part).values() if word == kind and path in archive), ""
    )


def find_main_part(archive: ZipArchive, usual: str) -> str:
    """The part that the file is about. Raises LoadError when neither a relation nor the usual name leads to it."""
    name = find_related_part(archive, "", "officeDocument") or usual
    if name not in archive:
        raise LoadError(archive.source, f"its part {usual!r} is missing", "open it in its program and save it again")
    return name


def read_core_properties(archive: ZipArchive) -> dict[str, JSON]:
    """Title, author, keywords and dates from the file's own properties; {} when it has none."""
    name = find_related_part(archive, "", "core-properties") or "docProps/core.xml"
    if name not in archive:
        return {}
    try:
        root = parse_part(archive, name)
    except LoadError:
        return {}  # the text is worth more than its properties
    return {
        CORE_PROPERTIES[local_name(each)]: collapse_whitespace(each.text or "")[:1000]
        for each in root
        if local_name(each) in CORE_PROPERTIES
    }
