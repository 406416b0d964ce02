"""The provider names of a pipeline file are those of the answer providers."""

from __future__ import annotations

from typing import cast

import pytest

from ragkit.answer.base import Searcher
from ragkit.errors import UnknownName
from ragkit.knowledge_base.answer_provider import resolve_answer_provider
from ragkit.pipeline.sections import SECTIONS


def test_a_file_can_name_every_answer_provider_and_no_other() -> None:
    with pytest.raises(UnknownName, match="unknown provider 'nobody'") as caught:
        resolve_answer_provider("nobody:x", cast("Searcher", None))  # rejected before a search
    assert (
        sorted(caught.value.known) == next(section for section in SECTIONS if section.key == "answer").provider_names()
    )
