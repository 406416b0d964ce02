"""A package that is installed beside ragkit adds names to pipeline files, by its entry points alone."""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragkit.embed import EMBEDDERS
from ragkit.errors import InvalidOption, PipelineError
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.schema import json_schema
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document
from ragkit.split import SPLITTERS
from ragkit.split.base import character_starts
from ragkit.store.vector_store import VectorStore

SAMPLE = Path(__file__).parent.parent / "plugin_sample"
PACKAGE = "ragkit_paragraphs"


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The sample package as an installer leaves it: its files, and a dist-info with its entry points."""
    project = tomllib.loads((SAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shutil.copytree(SAMPLE / PACKAGE, tmp_path / PACKAGE)
    info = tmp_path / f"{PACKAGE}-{project['version']}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {place}" for name, place in points.items())])
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n\n".join(groups) + "\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]  # for the processes that read files
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    yield
    for module in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[module]


TEXT = "extends: default\nsplit: {name: paragraphs, blank_lines: 2}\nembed: {name: letters}\n"


def problems_of(text: str) -> list[str]:
    with pytest.raises(PipelineError, match="pipeline:") as caught:
        Pipeline.from_yaml(text)
    return [problem.partition("\n")[0] for problem in caught.value.problems]


def test_a_file_chooses_the_parts_of_a_plugin_by_name_with_their_options() -> None:
    pipeline = Pipeline.from_yaml(TEXT)
    pipeline.validate()
    choice = pipeline.splitters[0]
    assert (choice.name, type(choice.options).__name__) == ("paragraphs", "ParagraphOptions")
    assert (getattr(choice.options, "blank_lines", None), getattr(choice.options, "keep", None)) == (2, "all")
    assert pipeline.embedder.options is None
    assert Pipeline.from_yaml(pipeline.to_yaml()) == pipeline


def test_the_parts_of_a_plugin_do_their_work() -> None:
    pipeline = Pipeline.from_yaml(TEXT)
    splitter = SPLITTERS.find("paragraphs")(pipeline.splitters[0].options)  # type: ignore[call-arg]  # the protocol has no constructor
    text = "one\n\nstill one\n\n\ntwo"
    assert [text[slice(*span)] for span in splitter.spans(Document(text), character_starts)] == [
        "one\n\nstill one",
        "two",
    ]
    row = EMBEDDERS.find("letters")().embed_query("Aa b")
    assert np.allclose(row[:4] * 6**0.5, [1, 2, 1, 0])


ALL_SIX = """\
load:
  - {name: folder}
  - {name: wiki, only: [.wiki], bold: "*"}
split: {name: paragraphs}
embed: {name: letters}
store: {name: json-file}
retrieve: {name: by-title, top_k: 2}
answer: {provider: parrot}
"""


def test_parts_of_all_six_kinds_from_a_plugin_make_a_knowledge_base(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "b.wiki").write_text("= Zebras =\nZebras *zigzag*.\n")
    (docs / "a.wiki").write_text("= Aardvarks =\nA zebra zigzags past an aardvark.\n")
    pipeline = Pipeline.from_yaml(ALL_SIX)
    pipeline.validate()
    assert Pipeline.from_yaml(pipeline.to_yaml()) == pipeline
    with KnowledgeBase.open(tmp_path / "kb", pipeline) as kb:
        assert kb.index(docs).files["added"] == 2
        hits = kb.search("zebras zigzag")
        assert [(hit.rank, hit.chunk.title) for hit in hits] == [(1, "Aardvarks"), (2, "Zebras")]
        assert hits[1].chunk.text == "= Zebras =\nZebras zigzag.\n"
        assert kb.verify().problems == ()
        assert "zebra" in kb.ask("Where is the zebra?").text
    assert (tmp_path / "kb" / "store-json-file").read_text().count("zigzag") == 2


def test_a_knowledge_base_is_copied_to_the_store_of_a_plugin(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "zoo.txt").write_text("Zebras zigzag.\n")
    hashing = "embed: {name: hashing, dimension: 64}\n"
    KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(hashing)).index(tmp_path / "docs")
    report = KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(hashing + "store: {name: json-file}\n")).copy()
    assert (report.store, report.copied, report.problems, report.recall) == ("json-file", 1, (), 1.0)


def test_the_store_of_a_plugin_is_made_by_its_name_with_its_options(tmp_path: Path) -> None:
    store = VectorStore.create("json-file", path=str(tmp_path / "store.json"))
    store.add_documents([Document("a", id="a")], np.array([[1, 0]], np.float32))
    assert [one.document.id for one in store.search(np.array([1, 0], np.float32))] == ["a"]
    with pytest.raises(InvalidOption, match="an option of the store 'json-file' \\(did you mean 'path'\\?\\)"):
        VectorStore.create("json-file", pth="x")


def test_the_options_of_a_plugin_are_checked_like_those_of_ours() -> None:
    assert problems_of("extends: default\nsplit: {name: paragraphs, blank_line: 2, keep: short, blank_lines: 0}\n") == [
        "pipeline:2:27: unknown option 'blank_line' of the splitter 'paragraphs' (did you mean 'blank_lines'?);"
        " available: blank_lines, keep",
        "pipeline:2:48: keep must be 'all' or 'long' (got 'short')",
        "pipeline:2:68: blank_lines must be >= 1 (got 0)",
    ]
    assert problems_of("extends: default\nembed: {name: letters, dimension: 3}\n") == [
        "pipeline:2:24: unknown option 'dimension' of the embedder 'letters': it has no options"
    ]


def test_a_plugin_is_among_the_names_that_are_known_and_near() -> None:
    [problem] = problems_of("extends: default\nembed: {name: leters}\n")
    assert "unknown embedder 'leters' (did you mean 'letters'?); available: absent, " in problem
    assert ", letters, " in problem


def test_a_plugin_cannot_take_over_a_name_of_ours() -> None:
    assert SPLITTERS.find("recursive").__module__ == "ragkit.split.recursive"
    assert Pipeline.from_yaml("extends: default\n") == Pipeline.default()


def test_an_entry_point_that_leads_to_nothing_is_a_problem_at_its_line_and_no_traceback() -> None:
    [absent] = problems_of("extends: default\nembed: {name: absent}\n")
    assert absent.startswith("pipeline:2:15: cannot import the embedder 'absent': module 'ragkit_paragraphs' has no")
    [unmade] = problems_of("extends: default\nembed: {name: unmade}\n")
    assert unmade.startswith("pipeline:2:15: cannot import the embedder 'unmade': No module named")


def test_the_schema_holds_plugins_when_asked_only() -> None:
    definitions = json_schema(plugins=True)["$defs"]
    assert isinstance(definitions, dict)
    paragraphs = definitions["split.paragraphs"]
    assert isinstance(paragraphs, dict)
    assert paragraphs["description"] == "What ends a paragraph."
    assert "embed.letters" in definitions
    assert "split.paragraphs" not in str(json_schema())


def test_a_plugin_splitter_works_with_the_tokens_of_the_default_embedder(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "zoo.txt").write_text("Zebras zigzag.\n\nAardvarks amble.\n")
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("split: {name: paragraphs}\n")) as kb:
        assert kb.index(docs).chunks["added"] == 2
        assert kb.search("zigzag")[0].chunk.text == "Zebras zigzag."


def test_a_plugin_that_lacks_a_member_of_its_protocol_is_rejected_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline.from_yaml("split: {name: paragraphs}\n")
    splitter = SPLITTERS.find("paragraphs")
    monkeypatch.delattr(splitter, "max_chunk_tokens")
    lacks = r"the splitter 'paragraphs' \(package ragkit-paragraphs\) lacks the "
    required = r" \(required by ragkit\.split\.base\.Splitter\)"
    with pytest.raises(PipelineError, match=f"^{lacks}attribute max_chunk_tokens{required}$"):
        PipelineComponents(pipeline).split_document(Document("text", source="a.txt"))
    monkeypatch.delattr(splitter, "spans")
    with pytest.raises(PipelineError, match=f"^pipeline:1:15: {lacks}method spans{required}\n"):
        pipeline.validate()
    with pytest.raises(PipelineError, match=f"^{lacks}method spans{required}$"):
        PipelineComponents(pipeline).split_document(Document("text", source="a.txt"))
