"""bandit over the package: every finding is at a line with a reason for the exception."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.security.source import ROOT

PLAIN = re.compile(r"# noqa: (?:[A-Z]+\d+, )*(S608|S603)")
"""Exceptions without a reason: SQL is built from own names and placeholders; only the own interpreter is started."""

EVERYWHERE: Mapping[str, str] = {
    "B311": "random numbers here are never secrets; ids come from `secrets`",
    "B404": "to import subprocess does nothing; each call is looked at by itself",
    "B403": "as above, for pickle",
    "B405": "as above, for ElementTree, which only writes here",
    "B610": "Django only",
}
"""Findings that are accepted everywhere, with the reason, as in the ruff settings of pyproject.toml."""

EXCEPTION = re.compile(r"# noqa: (?:[A-Z]+\d+, )*(S\d+)(?:, [A-Z]+\d+)* - \S")
"""An exception with its reason. The S rules of ruff have the numbers of bandit."""


@pytest.mark.slow
def test_every_bandit_finding_is_explained_in_its_line() -> None:
    command = [sys.executable, "-m", "bandit", "-r", str(ROOT), "-q", "-f", "json"]
    result = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    assert result["errors"] == []
    assert result["metrics"]["_totals"]["loc"] > 10_000
    unexplained = [
        f"{Path(item['filename']).relative_to(ROOT)}:{item['line_number']}: {item['test_id']} {item['issue_text']}"
        for item in result["results"]
        if item["test_id"] not in EVERYWHERE and not explained(item)
    ]
    assert unexplained == []


def explained(finding: Mapping[str, object]) -> bool:
    """Whether a line of the statement has the exception for this rule, with a reason."""
    lines = Path(str(finding["filename"])).read_text("utf-8").splitlines()
    numbers = finding["line_range"]
    assert isinstance(numbers, list)
    result = [
        EXCEPTION.search(lines[number - 1]) or PLAIN.search(lines[number - 1])
        for number in range(min(numbers), max(numbers) + 1)
    ]
    return any(item and item[1] == f"S{str(finding['test_id'])[1:]}" for item in result)
