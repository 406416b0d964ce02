"""`docs/how-to/pipelines.md` and `docs/explanation/retrieval.md` agree with the code."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from ragkit.pipeline import discovery
from ragkit.pipeline.read import ReadOptions, read_text
from ragkit.pipeline.sections import section_keys
from ragkit.retrieve.options import ContextOptions, DistinctOptions, RerankOptions, RewriteOptions, SearchOptions
from tests.pipeline import golden

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "how-to" / "pipelines.md").read_text(encoding="utf-8")
RETRIEVAL = (DOCS / "explanation" / "retrieval.md").read_text(encoding="utf-8")
FILES = re.findall(r"```yaml\n(.*?)```", PAGE + RETRIEVAL, re.DOTALL)
STAGES = {"rewrite": RewriteOptions, "rerank": RerankOptions, "distinct": DistinctOptions, "context": ContextOptions}


@pytest.mark.parametrize("number", range(len(FILES)))
def test_every_file_on_the_page_can_be_read(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-provider-is-created-and-not-asked")
    assert read_text(FILES[number], "page", ReadOptions({}, thorough=True)).components


def test_the_table_lists_every_retrieval_stage_in_order() -> None:
    lines = dict(re.findall(r"^\| `([a-z]+)` \|.*\| (.*) \|$", RETRIEVAL, re.MULTILINE))
    stages = [field.name for field in fields(SearchOptions) if field.name != "top_k"]
    assert [name for name in lines if name != "name"] == stages == list(STAGES)
    for stage, options in STAGES.items():
        assert re.findall(r"`([a-z_]+)`", lines[stage]) == [
            field.name for field in fields(options) if field.name != "name"
        ]


def test_the_table_lists_every_section() -> None:
    assert re.findall(r"^\| `([a-z]+)` \|", PAGE, re.MULTILINE) == section_keys()


def test_the_number_of_tested_mistakes_is_current() -> None:
    assert f"one file for each of {len(golden.names())} kinds of mistakes" in PAGE
    assert discovery.pipeline_path("default") is not None
