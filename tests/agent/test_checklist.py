"""The checklist in the documentation names tests and files that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "explanation" / "agent-checklist.md").read_text("utf-8")


def test_every_test_that_the_checklist_names_exists() -> None:
    named = re.findall(r"`([\w/]+/test_\w+\.py)::(test_\w+)`", TEXT)
    known = {
        (path.relative_to(ROOT / "tests").as_posix(), node.name)
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert [test for test in named if test not in known] == []
    assert len(named) > 100


def test_every_file_that_the_checklist_names_exists() -> None:
    named = {name for line in TEXT.splitlines() for name in re.findall(r"(?:agent|usage)/[\w/]+\.py(?!::)", line)}
    files = {name for name in named if "test_" not in name}
    assert sorted(name for name in files if not (ROOT / "ragkit" / name).exists()) == []


def test_nothing_on_the_checklist_is_left_open() -> None:
    assert [line for line in TEXT.splitlines() if line.startswith("- [ ]")] == []


def test_every_test_that_the_table_of_faults_names_exists() -> None:
    table = (ROOT / "docs" / "how-to" / "agents" / "failures.md").read_text("utf-8")
    source = (ROOT / "tests" / "agent" / "loop" / "test_faults.py").read_text("utf-8")
    named = re.findall(r"`(test_\w+)` \|$", table, re.MULTILINE)
    assert len(named) == 14
    assert [name for name in named if f"def {name}(" not in source] == []
