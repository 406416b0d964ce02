"""A document whose field `access` is damaged is for owners only, in every format, and reported."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.load.document_loader import DocumentLoader
from ragkit.load.shared.access_field import settle_access
from ragkit.pipeline.settings import Pipeline
from ragkit.records import JSON, Document
from tests import reads
from tests.load.sample_files import workbook, zipped
from tests.security.access_variants import TABLES, examine

HASHING = Pipeline.from_yaml("embed: {name: hashing, dimension: 16}\nload: [{name: folder}, {name: archive}]\n")


@pytest.mark.parametrize("place", ["directory", pytest.param("database", marks=pytest.mark.slow)])
def test_no_way_to_damage_the_field_opens_a_document(
    tmp_path: Path, place: str, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    address = tmp_path / "kb" if place == "directory" else request.getfixturevalue("database_url")
    outcomes = examine(folder, address)
    assert len(outcomes) > 350
    assert [(o.variant.name, o.variant.damage) for o in outcomes if o.alice] == []
    assert [(o.variant.name, o.variant.damage, o) for o in outcomes if not o.is_right] == []


def test_a_table_with_the_column_is_closed_if_its_rows_are_no_documents(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    rows = [outcome for outcome in examine(folder, tmp_path / "kb", records=False)
            if f".{outcome.variant.kind}" in {*TABLES, ".csv"} - {".db", ".yaml", ".toml"}]  # fmt: skip
    named = [outcome for outcome in rows if outcome.variant.damage not in ("empty", "null", "an empty list")]
    assert len(named) > 40
    assert [(o.variant.name, o.variant.damage) for o in named if o.alice or o.bob or not o.owner] == []


def test_a_file_is_reported_until_it_is_mended_and_keeps_being_indexed(tmp_path: Path) -> None:
    file = tmp_path / "docs" / "plan.md"
    file.parent.mkdir()
    file.write_text("---\naccess: @board\n---\nThe secret okapi.\n")
    with KnowledgeBase.open(tmp_path / "kb", HASHING) as kb:
        first, second = kb.index(file.parent), kb.index(file.parent)
        for report in (first, second):
            [failure] = report.failures
            assert failure.source == str(file) and failure.error.startswith("line 2: `access` cannot be read")
            assert report.files["failed"] == 0
        assert (first.files["added"], second.files["unchanged"]) == (1, 1)
        assert [row.source for row in reads.failures(kb)] == [str(file)]
        assert len(kb.status().failures) == 1 and kb.status().failed == 0
        assert kb.search("okapi") and not kb.as_user("alice").search("okapi")
        assert reads.failures(kb.as_user("alice")) == [] and kb.as_user("alice").status().failures == ()
        file.write_text("---\naccess: [alice]\n---\nThe secret okapi.\n")
        assert kb.index(file.parent).failures == ()
        assert reads.failures(kb) == [] and kb.as_user("alice").search("okapi")


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nWords after a rule.\n\n---\n\nMore words.\n",
        "---\n\nWords without an end.\n",
        "---\nWords at once. Note: they are no front matter.\n---\n",
        "---\nNote: the house.\n\nIt is a long text: with colons,\nand lines\nof words.\n\n---\n",
        "---\n# A slide\nwords\n---\n# Another\n",
        "---\n- one\n- two\n---\n",
        "# Museum\n\nAccess: by bus 7.\n\n---\n",
        "---\ntitle: P\n----\nwords\n",
        "\n---\ntitle: P\n---\nwords\n",
        "---\n---\nwords\n",
    ],
)
def test_markdown_without_front_matter_or_the_field_stays_open_and_as_it_was(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.md").write_text(text)
    [document] = DocumentLoader.from_file(tmp_path / "a.md")
    assert document.text == text
    assert not {"access", "access_problem"} & document.metadata.keys()


@pytest.mark.parametrize("head", ["title: P", "extra: {access: public}"])
def test_front_matter_without_the_field_closes_nothing(tmp_path: Path, head: str) -> None:
    (tmp_path / "a.md").write_text(f"---\n{head}\n---\nAccess: by the gate.\n")
    [document] = DocumentLoader.from_file(tmp_path / "a.md")
    assert document.text.strip() == "Access: by the gate."
    assert not {"access", "access_problem"} & document.metadata.keys()


@pytest.mark.parametrize(
    "head", ['{"access": ["bob"], "title": "P"}', '{\n  "access": ["bob"],\n}', '{"Access": "bob", "access": "al"}']
)
def test_a_json_head_holds_or_closes(tmp_path: Path, head: str) -> None:
    (tmp_path / "a.md").write_text(f"{head}\n\nThe okapi.\n")
    [document] = DocumentLoader.from_file(tmp_path / "a.md")
    assert document.metadata["access"] == (["bob"] if head.endswith('"P"}') else [])
    assert ("access_problem" in document.metadata) == (document.metadata["access"] == [])


def test_the_field_is_no_text_and_offsets_stay_those_of_the_file(tmp_path: Path) -> None:
    written = "---\ntitle: P\naccess:\n  - bob\n  - group:board\ndate: 2026\n---\n# Plan\n\nThe okapi.\n"
    (tmp_path / "a.md").write_text(written)
    [document] = DocumentLoader.from_file(tmp_path / "a.md")
    assert len(document.text) == len(written) and document.text.count("\n") == written.count("\n")
    assert "bob" not in document.text and document.metadata["date"] == 2026
    assert [heading.start for heading in document.headings] == [written.index("# Plan")]
    (tmp_path / "b.md").write_text("---\naccess: bob\n---\n# Plan\n")
    assert DocumentLoader.from_file(tmp_path / "b.md")[0].text.strip() == "# Plan"
    (tmp_path / "c.md").write_text("---\naccess: [bob]\n----\n# Plan\n")  # YAML for others, an underlined heading here
    assert [heading.text for heading in DocumentLoader.from_file(tmp_path / "c.md")[0].headings] == ["Plan"]


@pytest.mark.parametrize(
    ("own", "above", "expected"),
    [
        (None, ["bob"], ["bob"]),
        (["carl"], ["bob"], []),
        (["bob", "group:hr"], "bob, carl", ["user:bob"]),
        ("everyone", ["bob"], ["user:bob"]),
        ("bob", "everyone", ["user:bob"]),
        ("everyone", "everyone", ["everyone"]),
        (7, "everyone", []),
        (["bob"], [], []),
    ],
)
def test_a_part_is_read_by_those_whom_it_and_its_file_allow(own: JSON, above: JSON, expected: list[str]) -> None:
    metadata: Mapping[str, JSON] = {} if own is None else {"Access": own}
    inner = Document("words", {}, "a.zip/b/c", parts=())
    part = Document("words", metadata, "a.zip/b", parts=(inner,))
    settled = settle_access(Document("", {"access": above}, "a.zip", parts=(part,)))
    assert settled.parts[0].metadata["access"] == expected
    assert settled.parts[0].parts[0].metadata["access"] == expected


def test_a_table_in_an_archive_keeps_the_permissions_of_its_rows(tmp_path: Path) -> None:
    sheet = workbook({"Staff": [["name", "access"], ["okapi", "bob"], ["heron", ""], ["newt", "everyone"]]})
    (tmp_path / "box.zip").write_bytes(zipped({"in/staff.xlsx": sheet, "in/a.md": "---\naccess: bob\n---\nThe vole."}))
    records = (
        "embed: {name: hashing, dimension: 16}\nload: [{name: folder}, {name: archive}, {name: xlsx, records: {}}]"
    )
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(records)) as kb:
        report = kb.index(tmp_path / "box.zip")
        assert [failure.error for failure in report.failures] == [
            "Staff!A3:B3: `access` is empty: only owners may read it"
        ]
        texts = {name: " ".join(chunk.text for chunk in reads.chunks(kb.as_user(name))) for name in ("alice", "bob")}
    assert "newt" in texts["alice"] and not any(word in texts["alice"] for word in ("okapi", "heron", "vole"))
    assert all(word in texts["bob"] for word in ("newt", "okapi", "vole")) and "heron" not in texts["bob"]


@pytest.mark.parametrize(("empty", "open_to_all", "reported"), [("", False, True), ("closed", False, False),
                                                               ("open", True, False)])  # fmt: skip
def test_an_option_says_what_an_empty_cell_means(tmp_path: Path, empty: str, open_to_all: bool, reported: bool) -> None:
    (tmp_path / "a.csv").write_text("name,salary,access\nokapi,5,\nnewt,7,bob\n")
    options = f"records: {{empty_access: '{empty}', metadata: [salary]}}"
    yaml = f"embed: {{name: hashing, dimension: 16}}\nload: [{{name: folder}}, {{name: csv, {options}}}]"
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(yaml)) as kb:
        assert bool(kb.index(tmp_path / "a.csv").failures) == reported
        sums = {name: kb.as_user(name).aggregate("salary") for name in ("alice", "bob")}
        found = {name: [hit.text for hit in kb.as_user(name).search("okapi newt")] for name in sums}
    assert any("okapi" in text for text in found["alice"]) == open_to_all
    assert not any("newt" in text for text in found["alice"]) and any("newt" in text for text in found["bob"])
    assert sums["alice"].sum == (5 if open_to_all else 0)


def test_a_query_keeps_the_column_whatever_the_options_name(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "staff.db")) as connection:
        connection.execute("CREATE TABLE staff (id INTEGER, note TEXT, access TEXT)")
        rows = [(1, "okapi", "bob"), (2, "heron", None), (3, "newt", "everyone")]
        connection.executemany("INSERT INTO staff VALUES (?, ?, ?)", rows)
        connection.commit()
    options = "label: staff, query: SELECT * FROM staff, key: id, text: [note]"
    source = f"{{name: sql, database: {tmp_path / 'staff.db'}, {options}}}"
    with KnowledgeBase.open(
        tmp_path / "kb", Pipeline.from_yaml(f"embed: {{name: hashing, dimension: 16}}\nsources: {source}\n")
    ) as kb:
        report = kb.index()
        assert [failure.error for failure in report.failures] == ["`access` is empty: only owners may read it"]
        found = {name: {hit.text for hit in kb.as_user(name).search("okapi heron newt")} for name in ("alice", "bob")}
        assert len(kb.search("okapi heron newt")) == 3
    assert found == {"alice": {"newt"}, "bob": {"newt", "okapi"}}


def test_front_matter_is_heard_whatever_loader_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\ntitle: a: b\naccess: [bob]\n---\nThe okapi.\n")
    for loader in ("markdown, front_matter: false", "text, only: [.md]", "code, only: [.md]", "html, only: [.md]"):
        yaml = f"embed: {{name: hashing, dimension: 16}}\nload: [{{name: folder}}, {{name: {loader}}}]\n"
        with KnowledgeBase.open(tmp_path / loader[:4], Pipeline.from_yaml(yaml)) as kb:
            kb.index(tmp_path / "a.md")
            assert [len(kb.as_user(name).search("okapi")) for name in ("alice", "bob")] == [0, 1], loader
