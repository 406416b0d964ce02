"""The plugin of `examples/` adds components of every kind to pipeline files by its entry points."""

from __future__ import annotations

import ast
import importlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragkit.agent.providers import PROVIDERS
from ragkit.embed import EMBEDDERS
from ragkit.errors import InvalidOption, PipelineError
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.load import LOADERS
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.runners import RUNNERS
from ragkit.pipeline.schema import json_schema
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document
from ragkit.retrieve import RERANKERS, RETRIEVERS
from ragkit.split import SPLITTERS
from ragkit.split.base import character_starts
from ragkit.store import STORES
from ragkit.store.vector_store import VectorStore
from ragkit.testing.store_under_test import StoreUnderTest
from ragkit.testing.stores import checks_for

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"
PACKAGE = "ragkit_paragraphs"
BROKEN = {
    "ragkit.splitters": {"recursive": f"{PACKAGE}.components:ParagraphSplitter"},  # the name of a built-in splitter
    "ragkit.embedders": {"absent": f"{PACKAGE}:Absent", "unmade": f"{PACKAGE}.unmade:Embedder"},
}
"""Entry points of the tests, in addition to those of the example."""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package as `pip install examples/plugin` leaves it: its files, and a dist-info with its entry points."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shutil.copytree(PLUGIN / PACKAGE, tmp_path / PACKAGE)
    info = tmp_path / f"{PACKAGE}-{project['version']}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {target}" for name, target in (points | BROKEN.get(group, {})).items())])
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


def _options(name: str, **values: object) -> object:
    """The options of a component of the plugin."""
    return getattr(importlib.import_module(f"{PACKAGE}.components"), name)(**values)


def problems_of(text: str) -> list[str]:
    with pytest.raises(PipelineError, match="pipeline:") as caught:
        Pipeline.from_yaml(text)
    return [problem.partition("\n")[0] for problem in caught.value.problems]


def test_a_file_selects_the_components_of_a_plugin_by_name_with_options() -> None:
    pipeline = Pipeline.from_yaml(TEXT)
    pipeline.validate()
    choice = pipeline.splitters[0]
    assert (choice.name, type(choice.options).__name__) == ("paragraphs", "ParagraphOptions")
    assert (getattr(choice.options, "blank_lines", None), getattr(choice.options, "short", None)) == (2, "keep")
    assert pipeline.embedder.options is None
    assert Pipeline.from_yaml(pipeline.to_yaml()) == pipeline


def test_the_splitter_and_the_embedder_of_a_plugin_work() -> None:
    pipeline = Pipeline.from_yaml(TEXT)
    splitter = SPLITTERS.find("paragraphs")(pipeline.splitters[0].options)  # type: ignore[call-arg]  # the protocol has no constructor
    text = "one\n\nstill one\n\n\ntwo"
    assert [text[slice(*span)] for span in splitter.spans(Document(text), character_starts)] == [
        "one\n\nstill one",
        "two",
    ]
    row = EMBEDDERS.find("letters")().embed_query("Aa b")
    assert np.allclose(row[:4] * 6**0.5, [1, 2, 1, 0])


ALL_KINDS = """\
load:
  - {name: folder}
  - {name: wiki, only: [.wiki], bold: "*"}
split: {name: paragraphs}
embed: {name: letters}
store: {name: json-file}
retrieve: {name: by-title, top_k: 2}
run: {name: sequential}
answer: {provider: parrot}
"""


def test_components_of_every_kind_work_in_a_knowledge_base(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "b.wiki").write_text("= Zebras =\nZebras *zigzag*.\n")
    (docs / "a.wiki").write_text("= Aardvarks =\nA zebra zigzags past an aardvark.\n")
    pipeline = Pipeline.from_yaml(ALL_KINDS)
    pipeline.validate()
    assert Pipeline.from_yaml(pipeline.to_yaml()) == pipeline
    with KnowledgeBase.open(tmp_path / "kb", pipeline) as kb:
        assert kb.index(docs).files["added"] == 2
        hits = kb.search("zebras zigzag")
        assert [(hit.rank, hit.chunk.title) for hit in hits] == [(1, "Aardvarks"), (2, "Zebras")]
        assert hits[1].chunk.text == "= Zebras =\nZebras zigzag."
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


def test_the_store_of_a_plugin_is_created_by_name_with_options(tmp_path: Path) -> None:
    store = VectorStore.create("json-file", path=str(tmp_path / "store.json"))
    store.add_documents([Document("a", id="a")], np.array([[1, 0]], np.float32))
    assert [result.document.id for result in store.search(np.array([1, 0], np.float32))] == ["a"]
    with pytest.raises(InvalidOption, match="an option of the store 'json-file' \\(did you mean 'path'\\?\\)"):
        VectorStore.create("json-file", pth="x")


def test_the_store_passes_the_conformance_suite(tmp_path: Path) -> None:
    excluded = ("thread", "killed", "among_many")  # no lock, and too slow for thousands of documents
    checks = [
        check for check in checks_for(STORES.find("json-file")) if not any(word in check.__name__ for word in excluded)
    ]
    assert len(checks) > 15
    for check in checks:
        directory = tmp_path / check.__name__
        directory.mkdir()
        path = str(directory / "store.json")
        check(StoreUnderTest(lambda path=path: VectorStore.create("json-file", path=path), "json-file", directory, 5))  # type: ignore[misc]


def test_the_options_of_a_plugin_are_checked() -> None:
    assert problems_of("extends: default\nsplit: {name: paragraphs, blank_line: 2, short: drop, blank_lines: 0}\n") == [
        "pipeline:2:27: unknown option 'blank_line' of the splitter 'paragraphs' (did you mean 'blank_lines'?);"
        " available: blank_lines, short",
        "pipeline:2:49: short must be 'keep' or 'join' (got 'drop')",
        "pipeline:2:68: blank_lines must be >= 1 (got 0)",
    ]
    assert problems_of("extends: default\nembed: {name: letters, dimension: 3}\n") == [
        "pipeline:2:24: unknown option 'dimension' of the embedder 'letters': it has no options"
    ]


def test_plugins_are_among_the_suggested_and_available_names() -> None:
    [problem] = problems_of("extends: default\nembed: {name: leters}\n")
    assert "unknown embedder 'leters' (did you mean 'letters'?); available: absent, " in problem
    assert ", letters, " in problem


def test_a_plugin_cannot_override_a_built_in_component() -> None:
    assert SPLITTERS.find("recursive").__module__ == "ragkit.split.recursive"
    assert Pipeline.from_yaml("extends: default\n") == Pipeline.default()


def test_an_entry_point_that_cannot_be_imported_is_an_error_with_its_line() -> None:
    [absent] = problems_of("extends: default\nembed: {name: absent}\n")
    assert absent.startswith("pipeline:2:15: cannot import the embedder 'absent': module 'ragkit_paragraphs' has no")
    [unmade] = problems_of("extends: default\nembed: {name: unmade}\n")
    assert unmade.startswith("pipeline:2:15: cannot import the embedder 'unmade': No module named")


def test_the_schema_contains_plugins_only_on_request() -> None:
    definitions = json_schema(plugins=True)["$defs"]
    assert isinstance(definitions, dict)
    paragraphs = definitions["split.paragraphs"]
    assert isinstance(paragraphs, dict)
    assert paragraphs["description"] == "The limits of a paragraph."
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


def test_the_command_line_works_with_the_default_pipeline_and_a_plugin(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "zoo.txt").write_text("Zebras zigzag at noon.\n\nAardvarks amble at night.\n")
    (tmp_path / "ragkit.yaml").write_text(
        "split: {name: paragraphs}\nretrieve: {name: hybrid, rerank: {name: short-first}}\n"
    )

    def ragkit(*arguments: str) -> str:
        command = [sys.executable, "-m", "ragkit", *arguments]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    assert json.loads(ragkit("index", "docs", "--json"))["chunks"]["added"] == 2
    assert ragkit("ask", "When do aardvarks amble?").startswith("Aardvarks amble at night. [1]")


def test_a_reranker_of_a_plugin_orders_the_hits_of_a_retriever(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "long.txt").write_text("Zebras zigzag. " * 20)
    (docs / "short.txt").write_text("Zebras zigzag, aardvarks amble.")
    text = "embed: {name: letters}\nretrieve: {name: hybrid, rerank: {name: short-first, weight: 1.0}}\n"
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(text)) as kb:
        kb.index(docs)
        assert [Path(hit.chunk.source).stem for hit in kb.search("zebras zigzag")] == ["short", "long"]


def test_one_word_paragraphs_join_the_next_one() -> None:
    splitter = SPLITTERS.find("paragraphs")(_options("ParagraphOptions", short="join"))  # type: ignore[call-arg]
    text = "Zoo\n\n  Zebras zigzag. \n\nEnd\n\n"
    spans = splitter.spans(Document(text), character_starts)
    assert [text[slice(*span)] for span in spans] == ["Zoo\n\n  Zebras zigzag.", "End"]


def test_the_table_of_the_readme_has_every_component_with_its_number_of_lines() -> None:
    tree = ast.parse((PLUGIN / PACKAGE / "components.py").read_text(encoding="utf-8"))
    length = {
        node.name: node.end_lineno - node.lineno + 1
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.end_lineno
    }
    groups = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    rows = [
        f"| {group[7:-1]} | `{name}` | `{(class_name := target.partition(':')[2])}` | {length[class_name]} |"
        for group, points in groups.items()
        for name, target in points.items()
    ]
    readme = (PLUGIN / "README.md").read_text(encoding="utf-8")
    assert [line for line in readme.splitlines() if line.startswith("| ")][1:] == ["| --- | --- | --- | --- |", *rows]
    kinds = {
        registry.group
        for registry in (LOADERS, SPLITTERS, EMBEDDERS, STORES, RETRIEVERS, RERANKERS, PROVIDERS, RUNNERS)
    }
    assert {group.removeprefix("ragkit.") for group in groups} == kinds
