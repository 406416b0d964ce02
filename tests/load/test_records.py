"""Rows as documents of their own, and attachments of mails."""

from __future__ import annotations

import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.load.base import Loader
from ragkit.load.data.csv import CsvLoader
from ragkit.load.data.json import JsonlLoader, JsonLoader
from ragkit.load.data.parquet import ParquetLoader
from ragkit.load.data.sqlite import SqliteLoader
from ragkit.load.data.structured import DataLoader
from ragkit.load.office.odf import OdsLoader
from ragkit.load.office.xls import XlsLoader
from ragkit.load.office.xlsx import XlsxLoader
from ragkit.load.options import (
    CsvOptions,
    DataOptions,
    EmlOptions,
    JsonOptions,
    OdsOptions,
    RecordOptions,
    RowOptions,
    SqliteTableOptions,
    XlsOptions,
    XlsxOptions,
)
from ragkit.load.router import LoaderRoute, Router
from ragkit.load.shared.table_records import typed_value
from ragkit.pipeline.settings import Pipeline
from ragkit.records import JSON, Document
from tests.load import odf_files, ole_files, sample_files, xlsb_files
from tests.load.record_files import ROWS, database, table_data
from tests.load.test_places import place_of

CHOSEN = RecordOptions(text=("name", "note"), title="name", metadata=("price", "day"))


def csv_data() -> bytes:
    rows = (",".join(str(value) for value in row.values()) for row in ROWS)
    return "\n".join(["name,note,price,day", *rows]).encode()


CELLS: list[list[str | float]] = [
    list(ROWS[0]),
    *([value for value in row.values() if isinstance(value, str | int | float)] for row in ROWS),
]


def open_sheet() -> bytes:
    """The rows as a sheet of LibreOffice."""

    def cell(value: str | float) -> str:
        if isinstance(value, str):
            return f'<table:table-cell office:value-type="string"><text:p>{value}</text:p></table:table-cell>'
        return f'<table:table-cell office:value-type="float" office:value="{value}"/>'

    rows = "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in CELLS)
    return odf_files.sheets({"Stock": rows})


LOADERS_WITH_RECORDS: dict[str, tuple[Loader, bytes, list[str]]] = {
    "csv": (CsvLoader(CsvOptions(records=CHOSEN)), csv_data(), ["line 2", "line 3"]),
    "json": (JsonLoader(JsonOptions(records=CHOSEN)), json.dumps(ROWS).encode(), ["record 1", "record 2"]),
    "jsonl": (
        JsonlLoader(JsonOptions(records=CHOSEN)),
        "\n\n".join(map(json.dumps, ROWS)).encode(),
        ["line 1", "line 3"],
    ),
    "xlsx": (
        XlsxLoader(XlsxOptions(records=CHOSEN)),
        sample_files.workbook({"Stock": CELLS}),
        ["Stock!A2:D2", "Stock!A3:D3"],
    ),
    "ods": (OdsLoader(OdsOptions(records=CHOSEN)), open_sheet(), ["Stock!A2:D2", "Stock!A3:D3"]),
    "xls": (XlsLoader(XlsOptions(records=CHOSEN)), ole_files.sheet_file(CELLS), ["Pumps!A2:D2", "Pumps!A3:D3"]),
    "xlsb": (XlsLoader(XlsOptions(records=CHOSEN)), xlsb_files.sheet_file(CELLS), ["Pumps!A2:D2", "Pumps!A3:D3"]),
    "parquet": (ParquetLoader(RowOptions(records=CHOSEN)), table_data(), ["row 1", "row 2"]),
    "sqlite": (SqliteLoader(SqliteTableOptions(records=CHOSEN)), database(), ["stock, row 1", "stock, row 2"]),
}


@pytest.mark.parametrize("name", sorted(LOADERS_WITH_RECORDS))
def test_each_row_is_a_document_with_typed_metadata(name: str) -> None:
    loader, data, places = LOADERS_WITH_RECORDS[name]
    document = loader.load(data, f"/x/a.{name}")
    assert (document.text, document.metadata["records"]) == ("", 2)
    assert [part.text for part in document.parts] == ["name: Pump\nnote: red", "name: Valve\nnote: blue"]
    assert [part.title for part in document.parts] == ["Pump", "Valve"]
    assert [part.metadata["price"] for part in document.parts] == [120, 9.5]
    assert [part.metadata["day"] for part in document.parts] == ["2024-05-01", "2024-06-01"]
    assert all("note" not in part.metadata for part in document.parts)
    assert [place_of(part, "note") for part in document.parts] == places
    assert len({part.source for part in document.parts} | {document.source}) == 3
    assert all(part.source.startswith(f"/x/a.{name}/") for part in document.parts)


def test_without_options_all_fields_are_text_and_metadata() -> None:
    document = CsvLoader(CsvOptions(records=RecordOptions())).load(csv_data(), "/x/a.csv")
    assert document.parts[0].text == "name: Pump\nnote: red\nprice: 120\nday: 2024-05-01"
    assert document.parts[0].metadata["name"] == "Pump"
    assert document.parts[0].metadata["record"] == 1


def test_an_unknown_column_is_an_error_that_names_the_known_ones() -> None:
    loader = CsvLoader(CsvOptions(records=RecordOptions(text=("nmae",))))
    with pytest.raises(LoadError, match=r"no record has a field 'nmae' \(fields: name, note, price, day\): correct"):
        loader.load(csv_data(), "/x/a.csv")


def test_fields_of_nested_objects_have_paths() -> None:
    data = b'[{"a": {"b": 7, "c": ["x", "y"]}, "d": [{"e": 1}], "f": null}, 8]'
    [part] = JsonLoader(JsonOptions(records=RecordOptions())).load(data, "/x/a.json").parts
    assert part.text == "a.b: 7\na.c: x, y\nd: e: 1"
    assert (part.metadata["a.b"], part.metadata["a.c"]) == (7, ["x", "y"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        ("007", "007"),
        ("1,5", "1,5"),
        ("+7", "+7"),
        ("TRUE", True),
        ("no", "no"),
        ("9" * 30, "9" * 30),
        ("nan", "nan"),
    ],
)
def test_numbers_and_booleans_have_their_types(text: str, value: JSON) -> None:
    assert typed_value(text) == value
    assert type(typed_value(text)) is type(value)


def test_tables_without_records_are_lines() -> None:
    lines = "name: Pump; note: red; price: 120; day: 2024-05-01"
    parquet = ParquetLoader().load(table_data(), "/x/a.parquet")
    assert parquet.text.split("\n")[0] == lines.replace("120", "120.0")
    out = io.BytesIO()
    pa.feather.write_feather(pa.Table.from_pylist(ROWS), out)
    assert ParquetLoader().load(out.getvalue(), "/x/a.feather").text == parquet.text
    stock = SqliteLoader().load(database(), "/x/a.db")
    assert stock.text.split("\n\n")[0] == "stock"
    assert place_of(stock, "Valve") == "stock, row 2"


def test_too_many_rows_exceed_a_limit_and_damaged_tables_are_errors() -> None:
    with pytest.raises(LoadLimitExceeded, match="raise max_rows"):
        SqliteLoader(SqliteTableOptions(max_rows=1)).load(database(), "/x/a.db")
    with pytest.raises(LoadLimitExceeded, match="has more than 1 rows: raise max_rows"):
        ParquetLoader(RowOptions(max_rows=1)).load(table_data(), "/x/a.parquet")
    with pytest.raises(LoadError, match="invalid table"):
        ParquetLoader().load(table_data()[:-20], "/x/a.parquet")
    with pytest.raises(LoadError, match="not a SQLite database"):
        SqliteLoader().load(b"words" * 500, "/x/a.db")


MAIL = b"""From: a@x.org
Subject: Report
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="b"

--b
Content-Type: text/plain

See the report.
--b
Content-Disposition: attachment; filename="../report.md"

# Pumps

The red pump leaks.
--b
Content-Disposition: attachment; filename="photo.png"
Content-Transfer-Encoding: base64

iVBORw0KGgo=
--b--
"""


def test_attachments_are_documents_with_the_mail_as_parent() -> None:
    name, document = Router().load(MAIL, "/x/a.eml")
    [part] = document.parts
    assert (name, part.source, part.title) == ("eml", "/x/a.eml/.._report.md", "Pumps")
    assert part.text.strip() == "# Pumps\n\nThe red pump leaks."
    assert (part.metadata["parent"], part.metadata["format"]) == ("/x/a.eml", "markdown")
    without = Router([LoaderRoute("eml", EmlOptions(attachments=False))]).load(MAIL, "/x/a.eml")[1]
    assert without.parts == ()


def test_attachments_of_an_outlook_message_are_read_too() -> None:
    data = ole_files.message_file({"1000": "see"}, [("a.eml", MAIL.ljust(5000))])
    [mail] = Router().load(data, "/x/a.msg")[1].parts
    assert mail.source == "/x/a.msg/a.eml"
    assert [part.source for part in mail.parts] == ["/x/a.msg/a.eml/.._report.md"]


def test_mails_inside_mails_end_at_a_depth() -> None:
    data = b"Subject: last\n\nlast words"
    for _ in range(20):
        head = b'Subject: x\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n'
        data = head + b'Content-Disposition: attachment; filename="a.eml"\n\n' + data + b"\n--b--\n"
        data = data.replace(b'"b"', b'"b"')
    document: Document = Router().load(data, "/x/a.eml")[1]
    depth = 0
    while document.parts:
        document, depth = document.parts[0], depth + 1
    assert depth <= 5


def test_numbers_that_are_not_finite_are_no_metadata() -> None:
    out = io.BytesIO()
    pa.parquet.write_table(pa.table({"name": ["a", "b"], "price": [float("nan"), float("inf")]}), out)
    document = ParquetLoader(RowOptions(records=RecordOptions())).load(out.getvalue(), "/x/a.parquet")
    assert [part.text for part in document.parts] == ["name: a", "name: b"]
    assert all("price" not in part.metadata for part in document.parts)
    assert ParquetLoader().load(out.getvalue(), "/x/a.parquet").text == "name: a\nname: b"


def test_an_empty_file_is_an_empty_database() -> None:
    assert SqliteLoader().load(b"", "/x/a.db").text == ""


def test_numbers_that_json_does_not_have_are_texts_or_missing() -> None:
    assert typed_value("1e999") == "1e999"
    assert typed_value("-1.0e999") == "-1.0e999"
    [row] = JsonlLoader(JsonOptions(records=RecordOptions())).load(b'{"a": 1e999, "b": 2}\n', "/x/a.jsonl").parts
    assert (row.metadata["a"], row.metadata["b"]) == ("1e999", 2)
    out = io.BytesIO()
    pa.parquet.write_table(pa.table({"a": [[1.5, float("nan"), float("inf")]], "b": [["x\0", "y"]]}), out)
    [row] = ParquetLoader(RowOptions(records=RecordOptions())).load(out.getvalue(), "/x/a.parquet").parts
    assert row.metadata["a"] == [1.5]
    assert "\0" not in json.dumps(row.metadata["b"])
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 9e999 AS a, 2 AS b")
        data = connection.serialize()
    [row] = SqliteLoader(SqliteTableOptions(records=RecordOptions())).load(data, "/x/a.sqlite").parts
    assert "a" not in row.metadata and row.metadata["b"] == 2


ORDER = {
    "id": "o7", "customer": {"town": "Northfield"}, "tags": ["new", "paid"],
    "lines": [
        {"part": "Filter", "price": 4.5, "sizes": [1, 2], "access": ["ann"]},
        {"part": "Seal", "maker": {"name": "Ann"}, "price": 2},
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", ["json", "json list", "jsonl", "yaml"])
def test_objects_in_lists_of_a_record_are_text(kind: str) -> None:
    loader: Loader
    text = json.dumps([ORDER] if kind in ("json list", "yaml") else ORDER)
    if kind == "yaml":
        loader = DataLoader(DataOptions())
    else:
        loader = JsonlLoader(JsonOptions(records=RecordOptions())) if kind == "jsonl" else json_loader()
    [record] = loader.load(text.encode(), f"/x/orders.{kind.split(maxsplit=1)[0]}").parts
    assert record.metadata["lines"] == ("part: Filter, price: 4.5, sizes: 1, 2; part: Seal, maker.name: Ann, price: 2")
    assert "lines: part: Filter, price: 4.5" in record.text
    assert record.metadata["customer.town"] == "Northfield"


def test_deep_lists_of_a_record_end_at_a_depth() -> None:
    deep: object = "bottom"
    for _ in range(300):
        deep = [{"a": deep}]
    [record] = json_loader().load(json.dumps({"name": "x", "deep": deep}).encode(), "/x/a.json").parts
    assert record.text == "name: x"


def json_loader(**options: object) -> JsonLoader:
    return JsonLoader(JsonOptions(records=RecordOptions(**options)))  # type: ignore[arg-type]


def test_a_file_of_one_object_may_lack_fields_that_other_files_have() -> None:
    loader = json_loader(text=("name", "note"), title="name", metadata=("price",))
    [record] = loader.load(b'{"name": "Pump", "price": 4}', "/x/a.json").parts
    assert (record.title, record.text, record.metadata["price"]) == ("Pump", "name: Pump", 4)
    with pytest.raises(LoadError, match="no record has a field 'name'"):
        loader.load(b'{"naem": "Pump"}', "/x/a.json")
    with pytest.raises(LoadError, match="no record has a field 'note'"):
        loader.load(b'[{"name": "Pump", "price": 4}]', "/x/a.json")


def test_a_folder_of_json_files_is_counted_and_filtered_as_records(tmp_path: Path) -> None:
    pipeline = Pipeline.from_yaml(
        "load: {name: json, records: {text: [name], title: name, metadata: [price, hall.floor]}}\n"
        "embed: {name: hashing, dimension: 16}\n"
    )
    folder = tmp_path / "pumps"
    folder.mkdir()
    for number in range(12):
        pump = {"name": f"Pump {number}", "price": 10 * number + 0.5, "hall": {"floor": number % 3}}
        (folder / f"p{number}.json").write_text(json.dumps(pump))
    with KnowledgeBase.open(tmp_path / "kb", pipeline) as kb:
        report = kb.index(folder)
        assert (report.files["added"], report.chunks["added"]) == (12, 12)
        dear = {"price": {"$gt": 75}}
        assert {hit.chunk.metadata["price"] for hit in kb.search("pump", top_k=12, where=dear)} == {
            80.5,
            90.5,
            100.5,
            110.5,
        }
        assert kb.aggregate("price", dear).documents == 4
        assert kb.aggregate("price", {"hall.floor": 1}).sum == 10.5 + 40.5 + 70.5 + 100.5
