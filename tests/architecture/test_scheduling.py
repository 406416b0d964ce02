"""How tests are shared out among processes, and which of them run on a day."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.scheduling import ALL, BROWSER, LONG, TENTH, THIRDS, group, is_of_another_day, selected

ROOT = Path(__file__).parents[2]


def test_a_group_is_a_file_or_a_page_or_the_tests_of_the_web_page() -> None:
    blocks = "tests/docs/test_blocks.py::test_a_block_works_as_shown[docs/how-to/ci.md:{}:console]"
    assert group(blocks.format(5)) == group(blocks.format(30)) != group("tests/docs/test_blocks.py::test_other[x:1]")
    assert group("tests/load/test_a.py::test_b[x::y]") == "tests/load/test_a.py"
    assert group("tests/server/browser/test_a.py::test_b") == group("tests/server/browser/test_c.py::test_d")


def test_each_rotating_case_runs_on_one_of_ten_days() -> None:
    cases = [f"tests/a.py::test_b[{case}]" for case in range(200)]
    days = [selected(cases, str(day)) for day in range(TENTH)]
    assert sorted(case for day in days for case in day) == sorted(cases)
    assert selected(cases, ALL) == set(cases)


def test_a_case_of_each_rotating_test_runs_every_day() -> None:
    cases = ["tests/a.py::test_b[x]", "tests/a.py::test_b[y]", "tests/a.py::test_b[z]", "tests/a.py::test_c[x]"]
    days = [selected(cases, str(day)) for day in range(TENTH)]
    assert all(len(day) == 2 and cases[3] in day for day in days)
    assert set().union(*days) == set(cases)


def test_the_blocks_of_a_page_rotate_together() -> None:
    block = "tests/docs/test_blocks.py::test_a_block_works_as_shown[docs/{}.md:{}:console]"
    cases = [block.format(page, line) for page in "abcdefghijk" for line in (5, 30)]
    assert [len(selected(cases, str(day))) for day in range(TENTH)] == [4, *[2] * 9]


def test_only_tests_with_many_cases_rotate() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    marked = [match for text in texts for match in re.findall(r"(?m)^@pytest.mark.rotating\n(.*)", text)]
    assert marked
    assert all(line.startswith("@pytest.mark.parametrize(") for line in marked)


@pytest.mark.parametrize("path", [file for part in THIRDS for file in part])
def test_a_long_file_runs_on_one_of_three_days(path: str) -> None:
    assert (ROOT / path).exists()
    assert [is_of_another_day(f"{path}::test_x[1]", day) for day in "012"].count(False) == 1
    assert not is_of_another_day(f"{path}::test_x[1]", ALL)


def test_every_file_of_the_web_page_runs_on_one_of_three_days() -> None:
    files = {f"{BROWSER}/{path.name}" for path in (ROOT / BROWSER).glob("test_*.py")}
    assert files == {file for part in THIRDS for file in part if file.startswith(BROWSER)}


@pytest.mark.parametrize("path", LONG)
def test_the_groups_that_begin_first_exist(path: str) -> None:
    assert (ROOT / path).exists()
