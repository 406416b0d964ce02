"""bandit over the package: every finding stands at a line that says why it is right there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.security.source import ROOT

PLAIN = re.compile(r"# noqa: (?:[A-Z]+\d+, )*(S608|S603)")
"""Bare exceptions: only names of ours and question marks go into SQL; what is started is our own interpreter."""

EVERYWHERE: Mapping[str, str] = {
    "B311": "random numbers here are never secrets; ids come from `secrets`",
    "B404": "to import subprocess does nothing; each call is looked at by itself",
    "B403": "as above, for pickle",
    "B405": "as above, for ElementTree, which only writes here",
    "B610": "Django only",
}
"""Findings that are right wherever they are met, with the reason; pyproject.toml says the same to ruff."""

EXCEPTION = re.compile(r"# noqa: (?:[A-Z]+\d+, )*(S\d+)(?:, [A-Z]+\d+)* - \S")
"""An exception with its reason. ruff's rules of the letter S are bandit's, number for number."""


def test_every_bandit_finding_is_explained_in_its_line() -> None:
    command = [sys.executable, "-m", "bandit", "-r", str(ROOT), "-q", "-f", "json"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    assert found["errors"] == []
    assert found["metrics"]["_totals"]["loc"] > 10_000
    unexplained = [
        f"{Path(one['filename']).relative_to(ROOT)}:{one['line_number']}: {one['test_id']} {one['issue_text']}"
        for one in found["results"]
        if one["test_id"] not in EVERYWHERE and not explained(one)
    ]
    assert unexplained == []


def explained(finding: Mapping[str, object]) -> bool:
    """Whether a line of the statement holds the exception for this rule, with a reason."""
    lines = Path(str(finding["filename"])).read_text("utf-8").splitlines()
    numbers = finding["line_range"]
    assert isinstance(numbers, list)
    said = [
        EXCEPTION.search(lines[number - 1]) or PLAIN.search(lines[number - 1])
        for number in range(min(numbers), max(numbers) + 1)
    ]
    return any(one and one[1] == f"S{str(finding['test_id'])[1:]}" for one in said)
