"""No file is read because a client names it or a link replaces an indexed file.

Names from clients of the server are tested in `tests/server` (`test_documents.py`, `test_mcp.py`, `test_page.py`),
files read by tools in `tests/agent/tools/test_builtin.py`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragkit.agent.messages import ToolCall
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.answer.agent import RAGAgent
from ragkit.errors import LoadError
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.load.files.walk import FolderOptions, FoundFile, SkippedPath, walk_files
from ragkit.pipeline.settings import Pipeline
from ragkit.server.mcp.tools import McpTools
from tests import reads
from tests.cli.conftest import HASHING, Ragkit, ragkit, workplace  # noqa: F401 - fixtures
from tests.server.parts import serving

SECRET = "swordfish-4711"
GUIDE = "# Hedges\n\nThe hedge is cut in August.\n"
QUESTION = "When is the hedge cut?"


@pytest.fixture
def house(workplace: Path) -> Path:  # noqa: F811
    """Two indexed documents in `docs`; a secret beside the folder, and one in a folder of the same shape."""
    (workplace / "ragkit.yaml").write_text(HASHING)
    for name, text in (("docs/in/guide.md", GUIDE), ("docs/note.md", "A note on roses.\n")):
        (workplace / name).parent.mkdir(exist_ok=True, parents=True)
        (workplace / name).write_text(text)
    (workplace / "secret.txt").write_text(f"The hedge of {SECRET} is cut.\n")
    shutil.copytree(workplace / "docs", workplace / "twin")
    for path in (workplace / "twin").rglob("*.md"):
        path.write_text(f"The hedge of {SECRET} is cut.\n")
    with KnowledgeBase.open(workplace / ".ragkit", Pipeline.from_yaml(HASHING)) as kb:
        kb.index(workplace / "docs")
    return workplace


OUTSIDE = [
    "secret.txt",
    "{place}/secret.txt",
    "docs/../secret.txt",
    "docs/in/guide.md/../../../secret.txt",
    "../../../../../../../../etc/passwd",
    "/etc/passwd",
    "//etc//passwd",
    "/proc/self/environ",
    "/proc/self/fd/0",
    "/dev/zero",
    "file:///etc/passwd",
    "file://{place}/secret.txt",
    "http://[",
    "docs/..%2fsecret.txt",
    "%2e%2e/secret.txt",
    "docs/%2e%2e/secret.txt",
    "docs\\..\\secret.txt",
    "..\\secret.txt",
    "docs/..\u2215secret.txt",
    "docs/\uff0e\uff0e/secret.txt",
    "docs/in/guide.md\0../secret.txt",
    "SECRET.TXT",
    "DOCS/IN/GUIDE.MD",
    "docs/link",
    "docs/loop",
    "docs",
    ".",
    "",
    "~/.ssh/id_rsa",
    ".ragkit/index.sqlite",
    "ragkit.yaml",
    "x" * 5_000,
    "a/" * 3_000,
    "\udcff",
    "' OR 1=1 --",
    "docs/%.md",
]


@pytest.mark.rotating
@pytest.mark.parametrize("name", OUTSIDE, ids=lambda name: ascii(name)[:40])
def test_show_finds_indexed_documents_and_no_file(house: Path, ragkit: Ragkit, name: str) -> None:  # noqa: F811
    (house / "docs/link").symlink_to(house / "secret.txt")
    (house / "docs/loop").symlink_to("loop")
    result = ragkit("show", name.format(place=house), code=1)
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert SECRET not in result.err


def test_show_finds_a_file_whose_name_is_not_valid_text(house: Path, ragkit: Ragkit) -> None:  # noqa: F811
    Path(os.fsdecode(b"docs/caf\xe9.txt")).write_text("roses\n")
    ragkit("index", "docs")
    for name in (os.fsdecode(b"docs/caf\xe9.txt"), "docs/caf\\xe9.txt"):
        assert ragkit("show", name).out == "roses\n\n"


def by_a_link(house: Path) -> None:
    (house / "docs/in/guide.md").unlink()
    (house / "docs/in/guide.md").symlink_to(house / "secret.txt")


def by_a_link_to_its_folder(house: Path) -> None:
    shutil.rmtree(house / "docs/in")
    (house / "docs/in").symlink_to(house / "twin/in")


def by_a_link_to_the_source(house: Path) -> None:
    (house / "docs").rename(house / "old")
    (house / "docs").symlink_to(house / "twin")


def by_a_pipe(house: Path) -> None:
    (house / "docs/in/guide.md").unlink()
    os.mkfifo(house / "docs/in/guide.md")


def by_a_link_to_a_device(house: Path) -> None:
    (house / "docs/in/guide.md").unlink()
    (house / "docs/in/guide.md").symlink_to("/dev/zero")


SWAPS = [by_a_link, by_a_link_to_its_folder, by_a_link_to_the_source, by_a_pipe, by_a_link_to_a_device]
Swap = Callable[[Path], None]


@pytest.mark.parametrize("replaced", SWAPS)
def test_a_replaced_file_is_never_shown(house: Path, ragkit: Ragkit, replaced: Swap) -> None:  # noqa: F811
    replaced(house)
    assert ragkit("show", "docs/in/guide.md").out == GUIDE + "\n"
    messages = [ragkit(*verb) for verb in (("list", "--chunks"), ("search", "hedge"), ("search", SECRET), ("status",))]
    answer = ragkit("ask", QUESTION, "--json")
    assert SECRET not in str([*messages, answer]).replace(f"'question': '{SECRET}'", "")
    [cited] = [item for item in answer.json["citations"] if item["source"] == "docs/in/guide.md"]
    assert (cited["verified"], cited["stale"]) == (True, True)
    assert cited["quote"] in GUIDE


@pytest.mark.parametrize("replaced", SWAPS)
def test_the_next_run_does_not_index_the_target_of_a_link(house: Path, ragkit: Ragkit, replaced: Swap) -> None:  # noqa: F811
    replaced(house)
    ragkit("index", "docs", code=None)
    assert SECRET not in ragkit("list", "--chunks", "--json").out


def test_a_source_that_became_a_link_is_rejected_in_one_line(house: Path, ragkit: Ragkit) -> None:  # noqa: F811
    by_a_link_to_the_source(house)
    result = ragkit("index", "docs", code=1)
    assert result.err.count("\n") == 1
    assert f"{house}/docs: is now a link to {house}/twin" in result.err
    assert "ragkit remove" in result.err
    ragkit("remove", "docs")
    assert ragkit("index", "docs", "--json").json["files"]["added"] == 2


def test_a_damaged_knowledge_base_is_not_rebuilt_from_the_target_of_a_link(house: Path, ragkit: Ragkit) -> None:  # noqa: F811
    by_a_link_to_the_source(house)
    with (house / ".ragkit/index.sqlite").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)
    result = ragkit("verify", "--repair", code=1)
    assert "is now a link to" in result.err
    ragkit("index", "--rebuild", "docs", code=1)
    (house / "docs").unlink()
    (house / "old").rename(house / "docs")
    ragkit("verify", "--repair")
    assert SECRET not in ragkit("list", "--chunks", "--json").out


def test_an_indexed_file_that_became_a_link_is_not_followed(house: Path) -> None:
    with KnowledgeBase.open(house / ".own", Pipeline.from_yaml(HASHING)) as kb:
        kb.index(house / "docs/in/guide.md")
        by_a_link(house)
        for run in (IndexOptions(), IndexOptions(dry_run=True), IndexOptions(rebuild=True)):
            with pytest.raises(LoadError, match="is now a link to"):
                kb.index(*kb.status().sources, options=run)  # like the tool `index` of an MCP server
        assert [chunk.text for chunk in reads.chunks(kb)] == [GUIDE.strip()]


def test_a_folder_that_becomes_a_link_before_its_files_are_read_is_not_followed(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swapping(source: Path, options: FolderOptions | None = None) -> Iterator[FoundFile | SkippedPath]:
        for item in walk_files(source, options):
            if item.path.name == "guide.md":
                by_a_link_to_its_folder(house)
            yield item

    (house / "docs/in/guide.md").write_text("changed\n")
    monkeypatch.setattr("ragkit.knowledge_base.sources.source_files.walk_files", swapping)
    with KnowledgeBase.open(house / ".ragkit") as kb:
        report = kb.index(house / "docs")
        assert [(Path(element.source).name, element.error) for element in report.failures] == [
            ("guide.md", "changed since the folder was scanned; what was indexed is kept")
        ]
        assert SECRET not in str([*reads.chunks(kb)])


@pytest.mark.parametrize("replaced", SWAPS)
def test_a_server_returns_the_indexed_text(house: Path, replaced: Swap) -> None:
    replaced(house)
    with serving(house / ".ragkit") as (served, client):
        rows = client.get("/documents").json()["documents"]
        [guide] = [row["id"] for row in rows if row["source"].endswith("guide.md")]
        result = client.get(f"/documents/{guide}").json()
        tool = McpTools(served.kb).get_document(guide)
        resource = McpTools(served.kb).read_resource(f"ragkit://document/{guide}")
        sought = client.post("/v1/search", json={"query": SECRET}).json()
    assert (result["text"], result["stale"], resource) == (GUIDE, True, GUIDE)
    assert isinstance(tool.data, dict)
    assert (tool.data["text"], tool.data["stale"]) == (GUIDE, True)
    assert SECRET not in json.dumps(sought["hits"])


CITES = [
    "../../etc/passwd",
    "/etc/passwd",
    "../secret.txt",
    "secret.txt",
    "file:///etc/passwd",
    "%2e%2e/secret.txt",
    "docs\\..\\secret.txt",
    "docs/in/guide.md\0/../../secret.txt",
    "1\0",
    "0",
    "-1",
    "99",
    "1e0",
    "x" * 10_000,
]


@pytest.mark.parametrize("cited", CITES, ids=lambda name: ascii(name)[:30])
def test_a_model_can_cite_passages_only_by_number(house: Path, cited: str) -> None:
    """A citation is always a retrieved passage; no name written by the model is opened or linked."""
    result = f"The hedge is cut in August [1]. See [{cited}], [secret]({cited}), ![s]({cited}) and 【{cited}】."
    with KnowledgeBase.open(house / ".ragkit") as kb:
        base = kb.agent()
        search = ToolCall("search_knowledge_base", {"query": "hedge", "top_k": 1})
        answer = RAGAgent(kb, ScriptedProvider([search, result]), base.config).ask(QUESTION)
    assert [Path(item.source).relative_to(house).as_posix() for item in answer.citations] == ["docs/in/guide.md"]
    assert all(item.quote in GUIDE for item in answer.citations)
    assert SECRET not in str(answer)
    assert "root:" not in answer.text
