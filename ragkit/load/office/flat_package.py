"""Office files that are one XML file: those of Word 2003, and packages whose parts stand in one file ("flat OPC")."""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree

from ragkit.load.shared.ooxml import (
    CORE_PROPERTIES_PART,
    find_child,
    get_attribute,
    iter_elements,
    local_name,
    parse_xml,
)
from ragkit.load.shared.zip_archive import write_zip

_RENAMED = {
    **{"content": "sdtContent", "ilfo": "numId", "listPr": "numPr", "vmerge": "vMerge"},
    **{"ilst": "abstractNumId", "list": "num", "listDef": "abstractNum", "nfc": "numFmt"},
}
"""Elements of Word 2003 -> those of later versions that are the same."""
_ANNOTATIONS = {"Word.Comment": "comment", "Word.Deletion": "del", "Word.Insertion": "ins"}
_NUMBER_IDS = {"ilfo": "numId", "listDefId": "abstractNumId"}
_NUMBER_FORMATS = {"1": "upperRoman", "2": "lowerRoman", "3": "upperLetter", "4": "lowerLetter", "23": "bullet"}
_PARTS = {"comment": "comments", "endnote": "endnotes", "footnote": "footnotes", "ftr": "footer", "hdr": "header"}
"""Elements inside the text of Word 2003 -> the parts of later versions where they stand."""
_PROPERTIES = {
    "Author": "creator",
    "Created": "created",
    "Keywords": "keywords",
    "LastSaved": "modified",
    "Title": "title",
}


def to_package(data: bytes, source: str) -> bytes:
    """The zip file that has the parts of a file that is one XML file; `data` itself for any other. Raises LoadError."""
    if not is_markup(data):
        return data
    root = parse_xml(data, source, "the file")
    parts = _convert_word_2003(root) if local_name(root) == "wordDocument" else _flat_parts(root)
    return write_zip({name: etree.tostring(part) for name, part in parts.items()})


def is_markup(data: bytes) -> bool:
    """Whether a file begins with a tag: it is no zip file."""
    return data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


def old_properties(root: etree._Element) -> etree._Element:
    """The title, author, keywords and dates of an Office file of 2003, as core properties."""
    properties = etree.Element("coreProperties")
    for item in root.iterfind("{*}DocumentProperties/*"):
        if name := _PROPERTIES.get(local_name(item), ""):
            etree.SubElement(properties, name).text = item.text
    return properties


def _flat_parts(root: etree._Element) -> Mapping[str, etree._Element]:
    """The parts of a flat package that are XML; pictures are left out."""
    found = ((part, find_child(part, "xmlData")) for part in iter_elements(root, "part"))
    return {get_attribute(part, "name").lstrip("/"): data[0] for part, data in found if data is not None and len(data)}


def _convert_word_2003(root: etree._Element) -> Mapping[str, etree._Element]:
    for node in root.iter("*"):
        _rename(node)
    related = _take_out_parts(root)
    for kind, name in (("styles", "styles"), ("lists", "numbering")):
        if (part := find_child(root, kind)) is not None:
            related[name] = part
    relationships = etree.Element("Relationships")
    for kind in related:
        etree.SubElement(relationships, "Relationship", Id=kind, Type=kind, Target=f"{kind}.xml")
    return {
        "word/document.xml": root,
        "word/_rels/document.xml.rels": relationships,
        CORE_PROPERTIES_PART: old_properties(root),
        **{f"word/{kind}.xml": part for kind, part in related.items()},
    }


def _rename(node: etree._Element) -> None:
    name, space = local_name(node), etree.QName(node).namespace or ""
    if space.endswith("/auxHint"):  # sections and frames around paragraphs
        node.tag = "sdtContent"
    elif name == "annotation":
        node.tag = _ANNOTATIONS.get(get_attribute(node, "type"), "bookmark")
    elif name == "nfc":
        for key, value in node.attrib.items():
            node.set(key, _NUMBER_FORMATS.get(value, "decimal"))
    node.tag = _RENAMED.get(name, node.tag)
    for old, new in _NUMBER_IDS.items():
        if value := get_attribute(node, old):
            node.set(new, value)


def _take_out_parts(root: etree._Element) -> dict[str, etree._Element]:
    """The notes, comments and page headers of the text by name of their part, with references in their place."""
    parts: dict[str, etree._Element] = {}
    for node in [*root.iterfind("{*}body//*")]:
        kind, parent = local_name(node), node.getparent()
        if kind not in _PARTS or parent is None:
            continue
        part = parts.setdefault(_PARTS[kind], etree.Element(_PARTS[kind]))
        number = get_attribute(node, "id") or str(len(part) + 1)
        parent.replace(node, etree.Element(f"{kind}Reference", id=number))
        node.set("id", number)
        node.tag = "sdtContent" if kind in ("ftr", "hdr") else node.tag
        part.append(node)
    return parts
