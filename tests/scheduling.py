"""How the tests are shared out among processes, and which of many equal cases run in `make test`."""

from __future__ import annotations

import gc
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer

BROWSER = "tests/server/browser"
"""One group: one process starts Chromium, and waits for it while others work."""
LONG = (
    BROWSER,
    "tests/torture/test_torture.py",
    "tests/torture/test_database.py",
    "tests/server/test_processes.py",
    "tests/server/test_starvation.py",
    "tests/server/state",
    "tests/knowledge_base",
    "tests/answer/test_gate.py",
    "tests/pipeline/run/test_ray.py",
    "tests/hostile",
    "tests/load/test_hostile_files.py",
)
"""Files and folders that take long: they are begun first, so that no process works on alone at the end."""
TENTH, ALL = 10, "all"
_ROTATION = "RAGKIT_TEST_ROTATION"


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Groups of tests that one process runs: a file, a page of the documentation, or the tests of the web page."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def group(nodeid: str) -> str:
    """The group of a test."""
    file, _, name = nodeid.partition("::")
    if file.startswith(f"{BROWSER}/"):
        return BROWSER
    if page := re.match(r"test_a_block_works_as_shown\[([^:]+):", name):
        return f"{file}::{page[1]}"
    return file


def is_selected(nodeid: str, rotation: str) -> bool:
    """Whether a rotating case is run. Each is in one of ten groups, which do not depend on the other cases."""
    return rotation == ALL or crc32(nodeid.encode()) % TENTH == int(rotation)


def sampled(cases: int, fewer: int | None = None) -> int:
    """The number of random cases of a test marked `sampled`: a tenth, or `fewer`, in a run of all tests."""
    return cases if os.environ.get(_ROTATION, ALL) == ALL else fewer or cases // TENTH


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --rotation, the tenth of the rotating cases."""
    parser.addoption(
        "--rotation",
        choices=[ALL, *map(str, range(TENTH))],
        help="tenth of the cases marked `rotating`; default: today's in a run of all tests, `all` if files are named",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the tenth once: the processes of one run must collect the same tests, also at midnight."""
    if config.getoption("markexpr") != "live":  # a client reads 140 certificates when it is created: 20 ms
        os.environ.setdefault("SSL_CERT_FILE", str(Path(__file__).with_name("no_authority.pem")))
    if "PYTEST_XDIST_WORKER" not in os.environ:
        is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
        today = str(datetime.now(UTC).toordinal() % TENTH) if is_whole else ALL
        os.environ[_ROTATION] = config.getoption("--rotation") or today


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the rotating cases of other days; put long groups first."""
    rotation = os.environ[_ROTATION]
    left_out = [
        item for item in items if item.get_closest_marker("rotating") and not is_selected(item.nodeid, rotation)
    ]
    config.hook.pytest_deselected(items=left_out)
    kept = set(items) - set(left_out)
    items[:] = [item for item in items if item in kept]
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: _rank(item.nodeid))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep the garbage collector away from the modules and tests, which stay to the end."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling:
    """Share out groups, in the order of the collection."""
    config.option.loadscopereorder = False  # the most tests first
    return GroupScheduling(config, log)


def _rank(nodeid: str) -> int:
    return next((number for number, prefix in enumerate(LONG) if nodeid.startswith(prefix)), len(LONG))
