"""JSON and JSON Lines: one line per value, one block per record."""

from __future__ import annotations

import pytest

from ragkit.errors import LoadLimitExceeded
from ragkit.load.data.json import JsonlLoader, JsonLoader
from ragkit.load.options import JsonOptions
from ragkit.load.router import Router
from ragkit.records import Document


def load(text: str, options: JsonOptions | None = None) -> Document:
    return JsonLoader(options).load(text.encode("utf-8", "surrogatepass"), "/x/a.json")


def lines(text: str) -> Document:
    return JsonlLoader().load(text.encode(), "/x/a.jsonl")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": {"b": [1, 2]}, "c": "x"}', "a.b: 1, 2\nc: x"),
        ('[{"a": 1}, {"a": 2, "b": {"c": null}}]', "a: 1\n\na: 2\nb.c: null"),
        ('{"items": [{"a": 1}, {"a": 2}]}', "items[0].a: 1\n\nitems[1].a: 2"),
        ('{"a": [[1, 2], [3]]}', "a[0]: 1, 2\na[1]: 3"),
        ('{"a": true, "b": 1.50, "c": -0, "d": 1e999, "e": NaN}', "a: true\nb: 1.50\nc: -0\nd: 1e999\ne: NaN"),
        ('{"a": 1, "a": 2}', "a: 2"),
        ('{"a": "one\\ntwo"}', "a: one\ntwo"),
        ('{"a": "\\ud800x\\u0000"}', "a: \ufffdx\ufffd"),
        ('{"": {"a b": 1}}', "a b: 1"),
        ('"only words"', "only words"),
        ("{}", ""),
        ("[]", ""),
        ('{"a": []}', ""),
        ("", ""),
    ],
)
def test_values_are_written_with_their_path(text: str, expected: str) -> None:
    assert load(text).text == expected


def test_a_number_of_a_million_digits_stays_as_written() -> None:
    assert load('{"a": ' + "9" * 1_000_000 + "}").text == "a: " + "9" * 1_000_000


@pytest.mark.parametrize("text", ['{"a": 1, // note\n}', '{"a": 1', "{'a': 1}", "\ufffd"])
def test_invalid_json_is_kept_as_text(text: str) -> None:
    document = load(text)
    assert document.text == text
    assert str(document.metadata["note"]).startswith("not valid JSON: ")


def test_several_values_in_a_row_are_records() -> None:
    document = load('{"a": 1}\n{"a": 2}\n')
    assert (document.text, document.metadata["records"]) == ("a: 1\n\na: 2", 2)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000])
def test_extreme_nesting_exceeds_a_limit(text: str) -> None:
    with pytest.raises(LoadLimitExceeded, match="nested too deeply"):
        load(text)


def test_nesting_above_max_depth_exceeds_a_limit() -> None:
    assert load("[" * 100 + "1" + "]" * 100).text.endswith(": 1")
    with pytest.raises(LoadLimitExceeded, match="nested deeper than 200 levels: raise max_depth"):
        load("[" * 300 + "1" + "]" * 300)


def test_more_values_than_max_values_exceed_a_limit() -> None:
    with pytest.raises(LoadLimitExceeded, match="contains more than 3 values"):
        load('{"a": 1, "b": [2, 3], "c": 4}', JsonOptions(max_values=3))


def test_records_of_json_lines_are_blocks() -> None:
    document = lines('{"a": 1, "b": "x"}\n\n{"a": 2}\r\n')
    assert (document.text, document.metadata["records"]) == ("a: 1\nb: x\n\na: 2", 2)


def test_a_truncated_last_line_is_kept_and_counted() -> None:
    document = lines('{"a": 1}\n{"a": "cut')
    assert document.text == 'a: 1\n\n{"a": "cut'
    assert document.metadata["invalid_lines"] == 1


def test_the_limits_apply_to_all_lines_together() -> None:
    with pytest.raises(LoadLimitExceeded, match="contains more than 2 values"):
        JsonlLoader(JsonOptions(max_values=2)).load(b"1\n2\n3\n", "")


@pytest.mark.parametrize("name", ["a.geojson", "a.json", "a.webmanifest", "A.GeoJSON"])
def test_json_under_other_names_has_the_paths_of_its_keys(name: str) -> None:
    text = '{"type": "FeatureCollection", "features": [{"properties": {"place": "13 km from Northfield"}}]}'
    _, document = Router().load(text.encode(), f"/x/{name}")
    assert "features[0].properties.place: 13 km from Northfield" in document.text.split("\n")


@pytest.mark.parametrize("gap", ["\n", "", "\n\n  "])
def test_values_over_several_lines_are_records(gap: str) -> None:
    text = gap.join(['{\n  "id": 1,\n  "k": {"a": 2}\n}', '{\n  "id": 2\n}'])
    document = JsonLoader().load(text.encode(), "/x/a.json")
    assert document.text == "id: 1\nk.a: 2\n\nid: 2"
    assert document.metadata["records"] == 2


def test_values_with_anything_else_are_kept_as_text() -> None:
    text = '{\n  "id": 1\n}\nand\n{\n  "id": 2\n}'
    assert JsonLoader().load(text.encode(), "/x/a.json").text == text
