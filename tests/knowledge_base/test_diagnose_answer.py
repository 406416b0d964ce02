"""The words in which `ragkit explain` names the features of an answer."""

from __future__ import annotations

from ragkit.answer.extractive.selection import FEATURE_WEIGHTS
from ragkit.knowledge_base.diagnosis.diagnose_answer import FEATURE_MEANINGS


def test_every_feature_of_a_span_is_named_in_plain_words() -> None:
    assert set(FEATURE_WEIGHTS) == set(FEATURE_MEANINGS)
    assert len(set(FEATURE_MEANINGS.values())) >= len(FEATURE_MEANINGS) - 1  # `number` and `digits` may be alike
