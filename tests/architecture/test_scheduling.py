"""How tests are shared out among processes, and which of them run on a day."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.scheduling import ALL, LONG, TENTH, group, is_selected

ROOT = Path(__file__).parents[2]


def test_a_group_is_a_file_or_a_page_or_the_tests_of_the_web_page() -> None:
    blocks = "tests/docs/test_blocks.py::test_a_block_works_as_shown[docs/how-to/ci.md:{}:console]"
    assert group(blocks.format(5)) == group(blocks.format(30)) != group("tests/docs/test_blocks.py::test_other[x:1]")
    assert group("tests/load/test_a.py::test_b[x::y]") == "tests/load/test_a.py"
    assert group("tests/server/browser/test_a.py::test_b") == group("tests/server/browser/test_c.py::test_d")


def test_each_rotating_case_runs_on_one_of_ten_days() -> None:
    for case in range(200):
        nodeid = f"tests/a.py::test_b[{case}]"
        assert sum(is_selected(nodeid, str(day)) for day in range(TENTH)) == 1
        assert is_selected(nodeid, ALL)


def test_only_tests_with_many_cases_rotate() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    marked = [match for text in texts for match in re.findall(r"(?m)^@pytest.mark.rotating\n(.*)", text)]
    assert marked
    assert all(line.startswith("@pytest.mark.parametrize(") for line in marked)


@pytest.mark.parametrize("path", LONG)
def test_the_groups_that_begin_first_exist(path: str) -> None:
    assert (ROOT / path).exists()
