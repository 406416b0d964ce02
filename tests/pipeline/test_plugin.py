"""A package that is installed beside ragkit adds names to pipeline files, by its entry points alone."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragkit.embed import EMBEDDERS
from ragkit.errors import PipelineError
from ragkit.pipeline.schema import json_schema
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document
from ragkit.split import SPLITTERS
from ragkit.split.base import character_starts

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


def test_the_options_of_a_plugin_are_checked_like_those_of_ours() -> None:
    assert problems_of("extends: default\nsplit: {name: paragraphs, blank_line: 2, keep: short, blank_lines: 0}\n") == [
        "pipeline:2:27: the splitter 'paragraphs' has no option 'blank_line' (did you mean 'blank_lines'?);"
        " known: blank_lines, keep",
        "pipeline:2:48: keep is 'short': 'all' or 'long' is wanted",
        "pipeline:2:68: blank_lines is 0: 1 or more is wanted",
    ]
    assert problems_of("extends: default\nembed: {name: letters, dimension: 3}\n") == [
        "pipeline:2:24: the embedder 'letters' has no option 'dimension': it takes none"
    ]


def test_a_plugin_is_among_the_names_that_are_known_and_near() -> None:
    [problem] = problems_of("extends: default\nembed: {name: leters}\n")
    assert (
        "'leters' is not the name of an embedder (did you mean 'letters'?); known: absent, cohere, gemini, hashing,"
        " letters" in problem
    )


def test_a_plugin_cannot_take_over_a_name_of_ours() -> None:
    assert SPLITTERS.find("recursive").__module__ == "ragkit.split.recursive"
    assert Pipeline.from_yaml("extends: default\n") == Pipeline.default()


def test_an_entry_point_that_leads_to_nothing_is_a_problem_at_its_line_and_no_traceback() -> None:
    [absent] = problems_of("extends: default\nembed: {name: absent}\n")
    assert absent.startswith(
        "pipeline:2:15: the embedder 'absent' cannot be imported: module 'ragkit_paragraphs' has no"
    )
    [unmade] = problems_of("extends: default\nembed: {name: unmade}\n")
    assert unmade.startswith("pipeline:2:15: the embedder 'unmade' cannot be imported: No module named")


def test_the_schema_holds_plugins_when_asked_only() -> None:
    definitions = json_schema(plugins=True)["$defs"]
    assert isinstance(definitions, dict)
    paragraphs = definitions["split.paragraphs"]
    assert isinstance(paragraphs, dict)
    assert paragraphs["description"] == "What ends a paragraph."
    assert "embed.letters" in definitions
    assert "split.paragraphs" not in str(json_schema())
