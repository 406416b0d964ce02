"""docs/mistakes.md holds what ragkit says, to the word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mistakes.__main__ import PAGE
from tests.mistakes.cases import GROUPS
from tests.mistakes.stage import Mistake, made

MISTAKES = [mistake for group in GROUPS.values() for mistake in group]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.title)
def test_a_mistake_is_met_with_the_words_of_the_page(mistake: Mistake, tmp_path: Path) -> None:
    assert made(mistake, tmp_path) in PAGE.read_text()


def test_the_page_holds_at_least_sixty_mistakes_and_none_that_is_not_run() -> None:
    assert len(MISTAKES) >= 60
    assert re.findall(r"^### (.*)$", PAGE.read_text(), re.MULTILINE) == [one.title for one in MISTAKES]


def test_no_answer_shows_a_traceback_or_a_key() -> None:
    said = re.sub(r"^\$ .*$", "", PAGE.read_text(), flags=re.MULTILINE)  # what was typed holds the key
    assert "Traceback" not in said
    assert "test-key" not in said
