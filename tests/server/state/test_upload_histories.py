"""Whatever clients do at the same time, and whenever servers are killed: no acknowledged upload is lost, no deleted
document is found.

`RAGKIT_TEST_HISTORIES=2000 pytest tests/server/state/test_upload_histories.py` runs more of them.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests.server.conftest import HASHING
from tests.server.state.forked_server import ServerFactory
from tests.server.state.histories import History

COUNT = int(os.environ.get("RAGKIT_TEST_HISTORIES", "6"))
SEED = int(os.environ.get("RAGKIT_TEST_SEED", "1"))
STEPS = 10


@pytest.fixture(scope="module")
def factory() -> Iterator[ServerFactory]:
    """Starts servers."""
    with ServerFactory() as made:
        yield made


@pytest.mark.timeout(0)
def test_files_documents_and_hits_are_those_of_the_reference(
    factory: ServerFactory, base: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    done = kills = 0
    for parsers, count in ((True, max(1, COUNT // 20)), (False, COUNT - max(1, COUNT // 20))):
        place = Path(shutil.copytree(base, tmp_path / f"kb{parsers}"))
        with History(factory, str(place), [place], random.Random(SEED + parsers), parsers) as history:
            for _ in range(count):
                history.run(STEPS)
                done += 1
                sys.stderr.write(f"{done} histories, {kills + history.kills} kills\n")
        kills += history.kills
    record_property("figures", f"{COUNT} histories in a directory, {kills} kills: 0 differences")


@pytest.mark.timeout(0)
def test_two_servers_on_one_database_are_those_of_the_reference(
    factory: ServerFactory, database_url: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    count = max(1, COUNT // 20)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "garden.txt").write_text("The hedge is cut in August.\n")
    with KnowledgeBase.open(database_url, Pipeline.from_yaml(HASHING)) as kb:
        kb.index(tmp_path / "docs")
    folders = [tmp_path / "first", tmp_path / "second"]
    with History(factory, database_url, folders, random.Random(SEED), parsers=False) as history:
        for number in range(count):
            history.run(STEPS)
            sys.stderr.write(f"{number + 1} histories, {history.kills} kills\n")
    kills = history.kills
    record_property("figures", f"{count} histories of two servers on a database, {kills} kills: 0 differences")
