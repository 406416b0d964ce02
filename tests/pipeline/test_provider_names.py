"""What a file can name as the provider is what can answer."""

from __future__ import annotations

from typing import cast

import pytest

from ragkit.answer.base import Searcher
from ragkit.errors import UnknownName
from ragkit.knowledge_base.answer_provider import resolve_answer_provider
from ragkit.pipeline.sections import SECTIONS


def test_the_providers_that_a_file_can_name_are_those_that_can_answer() -> None:
    with pytest.raises(UnknownName, match="unknown provider 'nobody'") as caught:
        resolve_answer_provider("nobody:x", cast("Searcher", None))  # refused before it searches
    assert sorted(caught.value.known) == next(one for one in SECTIONS if one.key == "answer").provider_names()
