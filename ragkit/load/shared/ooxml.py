"""Helpers for Office Open XML: parts, relationships, core properties.

Element names are compared without namespaces, which differ between "transitional" and "strict" files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from urllib.parse import unquote

from lxml import etree

from ragkit.errors import LoadError
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.load.shared.zip_archive import SAVE_AGAIN_HINT, ZipArchive
from ragkit.records import JSON

CORE_PROPERTIES = {name: name for name in ("title", "keywords", "created", "modified")} | {"creator": "author"}
"""Elements of `docProps/core.xml` -> keys of the document's metadata."""


CORE_PROPERTIES_PART = "docProps/core.xml"


def parse_xml(data: bytes, source: str, part: str) -> etree._Element:
    """The root of an XML part. Entities are not resolved and nothing is fetched. Raises LoadError."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        reason = f"part {part[:100]!r} is not valid XML ({collapse_whitespace(str(error))[:200]})"
        raise LoadError(source, reason, SAVE_AGAIN_HINT) from error


def parse_part(archive: ZipArchive, name: str) -> etree._Element:
    """The root of a part of `archive`. Raises LoadError when it is missing or damaged."""
    return parse_xml(archive.read(name), archive.source, name)


def local_name(element: etree._Element) -> str:
    """The name of an element without its namespace; '' for an unresolved entity."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def find_child(element: etree._Element, *path: str) -> etree._Element | None:
    """The first descendant along a path of names, in any namespace; None when there is none."""
    return element.find("/".join("{*}" + name for name in path))


def iter_elements(element: etree._Element, name: str) -> Iterator[etree._Element]:
    """Every element of that name below `element`, in any namespace, in document order."""
    elements: Iterator[etree._Element] = element.iter("{*}" + name)
    return elements


def is_fallback(element: etree._Element) -> bool:
    """Whether an element repeats another one for programs that do not support it."""
    return next(element.iterancestors("{*}Fallback"), None) is not None


def get_attribute(element: etree._Element | None, name: str) -> str:
    """The value of an attribute, in any namespace; '' when there is none."""
    if element is None:
        return ""
    return next((str(value) for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


def get_integer(element: etree._Element | None, name: str, default: int = 0) -> int:
    """The value of an attribute that is a number of at most 8 digits; `default` for any other."""
    text = get_attribute(element, name)
    return int(text) if text.isdecimal() and len(text) < 9 else default


def child_text(element: etree._Element, *path: str) -> str:
    """The text of the first descendant along a path of names, on one line; '' when there is none."""
    return collapse_whitespace(replace_invalid_chars(element.findtext("/".join("{*}" + name for name in path), "")))


def is_on(element: etree._Element | None) -> bool:
    """Whether a property such as `<w:vanish/>` is there, and not turned off by its value."""
    return element is not None and get_attribute(element, "val").lower() not in ("0", "false", "off", "none")


def read_relationships(archive: ZipArchive, part: str) -> Mapping[str, tuple[str, str]]:
    """Relationship id -> (last component of its type, name of the target part). External targets are skipped."""
    folder, name = posixpath.split(part)
    rels_part = posixpath.join(folder, "_rels", f"{name}.rels")
    if rels_part not in archive:
        return {}
    node = {}
    for child in parse_part(archive, rels_part):
        if local_name(child) != "Relationship" or child.get("TargetMode") == "External":
            continue
        target = unquote(child.get("Target", ""))
        path = target.lstrip("/") if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
        node[child.get("Id", "")] = (child.get("Type", "").rpartition("/")[2], path)
    return node


def find_related_part(archive: ZipArchive, part: str, kind: str) -> str:
    """The first target of a relationship of that kind; '' when there is none."""
    targets = read_relationships(archive, part).values()
    return next((path for word, path in targets if word == kind and path in archive), "")


def find_main_part(archive: ZipArchive, usual: str) -> str:
    """The name of the main part, by relationship or by its usual name. Raises LoadError."""
    name = find_related_part(archive, "", "officeDocument") or usual
    if name not in archive:
        raise LoadError(archive.source, f"part {usual!r} is missing", SAVE_AGAIN_HINT)
    return name


def read_people(archive: ZipArchive, part: str, kinds: Collection[str], attribute: str) -> dict[str, str]:
    """Id -> name of the authors of comments, of the parts related to `part`; their names are in `attribute`."""
    return {
        get_attribute(person, "id"): collapse_whitespace(get_attribute(person, attribute))
        for kind, name in read_relationships(archive, part).values()
        if kind in kinds and name in archive
        for person in parse_part(archive, name)
    }


def read_core_properties(archive: ZipArchive) -> dict[str, JSON]:
    """Title, author, keywords and dates from the core properties; {} when they are missing or damaged."""
    name = find_related_part(archive, "", "core-properties") or CORE_PROPERTIES_PART
    return read_properties(archive, name, CORE_PROPERTIES)


def read_properties(archive: ZipArchive, part: str, keys: Mapping[str, str]) -> dict[str, JSON]:
    """The texts of the elements of a part that `keys` names, by their keys; {} when it is missing or damaged."""
    known: dict[str, JSON] = {}
    if part in archive:
        with suppress(LoadError):  # the text is still readable
            for element in parse_part(archive, part).iter(*("{*}" + name for name in keys)):
                if text := collapse_whitespace("".join(element.itertext()))[:1000]:
                    known.setdefault(keys[local_name(element)], text)
    return known
