"""YAML, TOML and XML files as records."""

from __future__ import annotations

import pytest

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.data.structured import DataLoader
from ragkit.load.options import DataOptions, RecordOptions
from ragkit.load.router import LoaderRoute, Router

YAML = b"""
shop: Harbour
pumps:
  - {name: Alpha, price: 120, tags: [small, quiet], maker: {town: Bonn}, since: 2024-05-01}
  - {name: Beta, price: 99.5, sold: true}
notes: [{text: one}]
"""
TOML = b"""
[[pumps]]
name = "Alpha"
price = 120
tags = ["small", "quiet"]
maker.town = "Bonn"
since = 2024-05-01
[[pumps]]
name = "Beta"
price = 99.5
sold = true
"""
XML = b"""<?xml version="1.0"?>
<shop xmlns="urn:x"><pumps>
<pump name="Alpha"><price>120</price><tags>small</tags><tags>quiet</tags><maker><town>Bonn</town></maker>
<since>2024-05-01</since></pump>
<pump name="Beta"><price>99.5</price><sold>true</sold></pump>
</pumps></shop>"""


@pytest.mark.parametrize(("name", "data"), [("a.yaml", YAML), ("a.toml", TOML), ("a.xml", XML)])
def test_each_object_of_the_longest_list_is_a_document_with_typed_fields(name: str, data: bytes) -> None:
    first, second = DataLoader().load(data, f"/x/{name}").parts
    known = {key: first.metadata[key] for key in ("name", "price", "tags", "maker.town", "since")}
    assert known == {
        "name": "Alpha",
        "price": 120,
        "tags": ["small", "quiet"],
        "maker.town": "Bonn",
        "since": "2024-05-01",
    }
    assert (second.metadata["price"], second.metadata["sold"]) == (99.5, True)
    assert "name: Beta" in second.text
    assert second.source == f"/x/{name}/2"


def test_the_place_of_the_records_can_be_named() -> None:
    options = DataOptions(at="notes", records=RecordOptions(text=("text",)))
    assert [part.text for part in DataLoader(options).load(YAML, "a.yaml").parts] == ["one"]
    with pytest.raises(LoadError, match=r"holds no list of objects at 'x' \(lists: pumps, notes\)"):
        DataLoader(DataOptions(at="x")).load(YAML, "a.yaml")


def test_a_route_by_suffix_reads_configuration_files_as_records() -> None:
    router = Router([LoaderRoute("data", DataOptions(), (".yaml",))])
    assert router.load(YAML, "/x/a.yaml")[0] == "data"
    assert router.load(TOML, "/x/a.toml")[0] == "code"


def test_documents_of_one_yaml_file_are_records() -> None:
    assert [part.metadata["a"] for part in DataLoader().load(b"a: 1\n---\na: 2\n", "a.yml").parts] == [1, 2]


BOMB = "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("name", "data", "error", "reason"),
    [
        ("a.yaml", b"a: [", LoadError, r"invalid YAML \("),
        ("a.yaml", f"a: &a [x]\n{BOMB}".encode(), LoadLimitExceeded, "contains too many values"),
        ("a.yaml", b"a: &a [*a]", LoadLimitExceeded, "nested deeper than 50 levels"),
        ("a.yaml", b"[" * 5_000, LoadError, r"invalid YAML \("),
        ("a.toml", b"a = ", LoadError, r"invalid TOML \("),
        ("a.toml", b"a = " + b"[" * 5_000, LoadError, r"invalid TOML \("),
        ("a.xml", b"<a><b></a>", LoadError, "is not valid XML"),
        ("a.xml", b"<a>" * 100 + b"</a>" * 100, LoadLimitExceeded, "nested deeper than 50 levels"),
    ],
)
def test_damaged_and_hostile_files_are_errors(name: str, data: bytes, error: type[LoadError], reason: str) -> None:
    with pytest.raises(error, match=reason):
        DataLoader().load(data, name)


def test_external_entities_of_xml_are_not_read() -> None:
    data = b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a><b><c>1</c>&e;</b><b><c>2</c></b></a>'
    assert [part.metadata["c"] for part in DataLoader().load(data, "a.xml").parts] == [1, 2]
