"""docs/error-messages.md holds the exact error messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.error_messages.__main__ import PAGE
from tests.error_messages.cases import GROUPS
from tests.error_messages.sandbox import Mistake, render_section

MISTAKES = [mistake for group in GROUPS.values() for mistake in group]


@pytest.mark.rotating
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.title)
def test_every_mistake_gives_the_message_in_the_docs(mistake: Mistake, tmp_path: Path) -> None:
    assert render_section(mistake, tmp_path) in PAGE.read_text()


def test_the_page_has_exactly_the_tested_mistakes() -> None:
    assert len(MISTAKES) >= 60
    assert re.findall(r"^### (.*)$", PAGE.read_text(), re.MULTILINE) == [mistake.title for mistake in MISTAKES]


def test_no_message_contains_a_traceback_or_a_key() -> None:
    output = re.sub(r"^\$ .*$", "", PAGE.read_text(), flags=re.MULTILINE)  # commands may contain the key
    assert "Traceback" not in output
    assert "test-key" not in output
