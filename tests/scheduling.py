"""How the tests are shared out among processes, and which of many equal cases run in `make test`."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

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
THIRDS = (
    (
        *(f"{BROWSER}/test_{name}.py" for name in ("bases", "hostile", "looks", "views")),
        *("tests/server/test_processes.py", "tests/server/state/test_uploads.py", "tests/torture/test_database.py"),
        *("tests/knowledge_base/test_shared.py", "tests/knowledge_base/test_damaged_settings.py"),
        *("tests/cost/test_contexts.py", "tests/cli/test_database.py", "tests/load/process/test_parse_pool.py"),
        *("tests/security/test_server_faults.py", "tests/index/catalog/test_compaction.py"),
        *("tests/server/state/test_database_failures.py", "tests/server/api/test_disconnects.py"),
        *("tests/cli/test_unread_files.py", "tests/server/api/test_schema.py"),
    ),
    (
        *(f"{BROWSER}/test_{name}.py" for name in ("axe", "bring_in", "keyboard", "languages", "settings")),
        *("tests/torture/test_torture.py", "tests/server/state/test_jobs.py", "tests/examples/test_examples.py"),
        *("tests/knowledge_base/test_copy_to_store.py", "tests/knowledge_base/test_workers.py"),
        *("tests/index/test_store_checksums.py", "tests/load/pages/test_ocr.py", "tests/fuzz/test_fuzz.py"),
        *("tests/server/state/test_broken_links.py", "tests/knowledge_base/test_interrupts.py"),
        *("tests/server/state/test_acknowledged_uploads.py", "tests/pipeline/run/test_ray.py"),
    ),
    (
        *(f"{BROWSER}/test_{name}.py" for name in ("chat", "conversation", "originals", "outcomes", "scope")),
        *("tests/cli/test_torture.py", "tests/server/state/test_replicas.py", "tests/server/test_starvation.py"),
        *("tests/knowledge_base/test_vectors_on_demand.py", "tests/knowledge_base/test_database_vectors.py"),
        "tests/index/test_killed_fills.py",
        *("tests/cost/test_budget.py", "tests/pipeline/run/test_local.py", "tests/security/test_access_variants.py"),
        *("tests/server/state/test_upload_histories.py", "tests/security/test_secrets.py"),
        *("tests/security/test_paths.py", "tests/bench/test_store_servers.py", "tests/cli/test_watch.py"),
        "tests/server/test_base_folder.py",
    ),
)
"""Files that take half of the time of all tests: a third of them by the day."""
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


def is_of_another_day(nodeid: str, rotation: str) -> bool:
    """Whether a test is in one of the THIRDS that do not run today."""
    file = nodeid.partition("::")[0]
    return rotation != ALL and any(file in part for n, part in enumerate(THIRDS) if n != int(rotation) % len(THIRDS))


def selected(nodeids: Sequence[str], rotation: str) -> set[str]:
    """The rotating cases that are run: of each test a tenth, at least one; of the documentation whole pages."""
    if rotation == ALL:
        return set(nodeids)
    units: dict[str, dict[str, None]] = {}
    for nodeid in nodeids:
        units.setdefault(nodeid.partition("[")[0], {})[_unit(nodeid)] = None
    periods = {test: min(TENTH, len(cases)) for test, cases in units.items()}
    numbers = {(test, unit): n for test, cases in units.items() for n, unit in enumerate(cases)}

    def is_of_the_day(nodeid: str) -> bool:
        test = nodeid.partition("[")[0]
        return (numbers[test, _unit(nodeid)] - int(rotation)) % periods[test] == 0

    return {nodeid for nodeid in nodeids if is_of_the_day(nodeid)}


def _unit(nodeid: str) -> str:
    """A case, or the page of the documentation whose blocks build on each other."""
    page = group(nodeid)
    return page if "::" in page else nodeid


def sampled(cases: int, fewer: int | None = None) -> int:
    """The number of random cases of a test marked `sampled`: a tenth, or `fewer`, in a run of all tests."""
    return cases if os.environ.get(_ROTATION, ALL) == ALL else fewer or cases // TENTH


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --rotation, the tenth of the rotating cases."""
    parser.addoption(
        "--rotation",
        choices=[ALL, *map(str, range(TENTH))],
        help="the day of `rotating` cases and THIRDS; default: today in a run of all tests, `all` if files are named",
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
    """Leave out the files and the rotating cases of other days; put long groups first."""
    rotation = os.environ[_ROTATION]
    rotating = [item.nodeid for item in items if item.get_closest_marker("rotating")]
    left_out = set(rotating) - selected(rotating, rotation)
    left_out |= {item.nodeid for item in items if is_of_another_day(item.nodeid, rotation)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]
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
