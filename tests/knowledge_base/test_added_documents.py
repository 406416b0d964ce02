"""Documents that a program adds to a knowledge base, and an embedder of its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ragkit.cli import cli
from ragkit.embed.hashing import HashingEmbedder
from ragkit.embed.options import HashingOptions
from ragkit.errors import InvalidOption, SettingsMismatch
from ragkit.index.catalog.directory import CATALOG_FILE
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document
from tests import reads

HASHING = "embed: {name: hashing, dimension: 64}\n"
HEDGE = "The hedge is cut in August."
BOILER = "The boiler is swept in May."


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(HASHING)) as opened:
        yield opened


def sources(kb: KnowledgeBase) -> list[str]:
    return [source for source, _, _ in reads.documents(kb)]


def test_an_added_document_is_found_cited_and_filtered_like_a_file(kb: KnowledgeBase) -> None:
    report = kb.add(Document(HEDGE, {"source": "note", "page": 3, "year": 2024}))
    assert (report.files["added"], report.embedded) == (1, 1)
    [hit] = kb.search("hedge", where="year >= 2024")
    assert (hit.text, hit.source, hit.chunk.page) == (HEDGE, "note", 3)
    [citation] = kb.ask("When is the hedge cut?").citations
    assert (citation.source, citation.page, citation.verified, citation.stale) == ("note", 3, True, False)


def test_a_document_without_a_source_is_named_by_its_id(kb: KnowledgeBase) -> None:
    kb.add([Document(HEDGE, id="hedge"), Document(BOILER, id="boiler")])
    assert sources(kb) == ["boiler", "hedge"]


def test_the_documents_of_a_source_replace_those_before(kb: KnowledgeBase) -> None:
    kb.add([Document(HEDGE, {"source": "a"}), Document(BOILER, {"source": "b"})])
    report = kb.add(Document("The hedge is cut in July.", {"source": "a"}))
    assert (report.files["updated"], report.files["unchanged"]) == (1, 1)
    assert [hit.text for hit in kb.search("hedge", top_k=1)] == ["The hedge is cut in July."]
    assert kb.add(Document("The hedge is cut in July.", {"source": "a"})).embedded == 0


def test_documents_of_one_source_are_its_parts_and_are_removed_and_replaced_together(kb: KnowledgeBase) -> None:
    kb.add([Document(HEDGE, {"source": "manual.pdf", "page": page}) for page in (3, 7)])
    assert sources(kb) == ["manual.pdf#page=3", "manual.pdf#page=7"]
    kb.add(Document(BOILER, {"source": "manual.pdf"}))
    assert sources(kb) == ["manual.pdf"]
    kb.add([Document(HEDGE, {"source": "manual.pdf"}), Document(BOILER, {"source": "manual.pdf"})])
    assert sources(kb) == ["manual.pdf#1", "manual.pdf#2"]
    assert kb.remove("manual.pdf") == 2
    assert kb.add([]).files["unchanged"] == 0


def test_no_index_run_removes_an_added_document(kb: KnowledgeBase, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "file.txt").write_text("The saw hangs on a nail.")
    names = ["note", str(folder / "gone.txt"), "https://example.org/page"]
    kb.add([Document(f"{HEDGE} {name}", {"source": name}) for name in names])
    for options in (IndexOptions(), IndexOptions(rebuild=True)):
        kb.index(folder, options=options)
        assert sources(kb) == sorted([*names, str(folder / "file.txt")])
    assert reads.freshness(kb).is_current
    kb.index("kb.add")
    assert len(sources(kb)) == 4


def test_an_added_document_precedes_the_file_of_its_name(kb: KnowledgeBase, tmp_path: Path) -> None:
    path = tmp_path / "docs" / "a.txt"
    path.parent.mkdir()
    path.write_text("The saw hangs on a nail.")
    kb.add(Document(HEDGE, source=str(path)))
    kb.index(path.parent)
    assert [hit.text for hit in kb.search("hedge saw")] == [HEDGE]


def test_a_damaged_index_is_rebuilt_with_the_added_documents(kb: KnowledgeBase, tmp_path: Path) -> None:
    kb.add(Document(HEDGE, {"source": "note"}))
    kb.close()
    (tmp_path / "kb" / CATALOG_FILE).write_bytes(b"broken")
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(HASHING)) as again:
        again.add(Document(BOILER, {"source": "other"}))
        assert sources(again) == ["note", "other"]


def test_a_moved_knowledge_base_keeps_its_added_documents(kb: KnowledgeBase, tmp_path: Path) -> None:
    kb.add(Document(HEDGE, {"source": "note"}))
    kb.close()
    shutil.move(tmp_path / "kb", tmp_path / "moved")
    with KnowledgeBase.open(tmp_path / "moved") as moved:
        moved.add(Document(BOILER, {"source": "other"}))
        assert sources(moved) == ["note", "other"]
        assert not reads.is_stale(moved, "note")


def test_added_documents_are_listed_and_removed_on_the_command_line(kb: KnowledgeBase, tmp_path: Path) -> None:
    kb.add([Document(HEDGE, {"source": "note"}), Document(BOILER, {"source": "other"})])
    kb.close()
    directory = str(tmp_path / "kb")
    listed = CliRunner().invoke(cli, ["list", "--chunks", "--json", "--kb", directory])
    assert [json.loads(line)["source"] for line in listed.stdout.splitlines()] == ["note", "other"]
    assert CliRunner().invoke(cli, ["remove", "note", "--kb", directory]).stdout == "1 document removed\n"
    assert sources(kb) == ["other"]
    kb.clear()
    kb.add([])
    assert reads.documents(kb) == []


@pytest.mark.parametrize("value", [float("nan"), object()])
def test_metadata_that_cannot_be_stored_is_refused(kb: KnowledgeBase, value: object) -> None:
    with pytest.raises(InvalidOption, match="the metadata of 'note' must be JSON values"):
        kb.add(Document(HEDGE, {"source": "note", "x": value}))  # type: ignore[dict-item]


# an embedder of the program


def test_an_embedder_of_the_program_embeds_and_a_knowledge_base_opens_with_no_other(tmp_path: Path) -> None:
    mine = HashingEmbedder(HashingOptions(dimension=96))
    with KnowledgeBase.open(tmp_path / "kb", embedder=mine) as kb:
        kb.add(Document(HEDGE, {"source": "note"}))
        with kb.session() as session, session.snapshot() as snapshot:
            assert snapshot.arrays.matrix.shape[1] == 96
    with KnowledgeBase.open(tmp_path / "kb", embedder=HashingEmbedder(HashingOptions(dimension=96))) as kb:
        assert kb.search("hedge")[0].text == HEDGE
    with pytest.raises(SettingsMismatch, match="index has hashing-1:96, pipeline has hashing-1:32"):
        KnowledgeBase.open(tmp_path / "kb", embedder=HashingEmbedder(HashingOptions(dimension=32)))
    with pytest.raises(SettingsMismatch, match=r"embed\.name: index has \(given by the program\)"):
        KnowledgeBase.open(tmp_path / "kb")


def test_an_embedder_that_lacks_a_method_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="embedder must be an EmbeddingProvider"):
        KnowledgeBase.open(tmp_path / "kb", embedder=object())  # type: ignore[arg-type]
