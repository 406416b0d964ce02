"""The splitter `semantic`: breaks by meaning, within its limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ragkit.embed.minilm import MiniLM
from ragkit.errors import InvalidOption
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document
from ragkit.split.options import SemanticOptions
from ragkit.split.semantic import SemanticSplitter
from ragkit.split.text_splitters import SemanticTextSplitter
from ragkit.split.token_index import estimate_token_starts
from tests import reads

GARDEN = "Roses are pruned in March. The hedge is trimmed in August. Tulip bulbs are planted in autumn."
MONEY = "Revenue rose by nine percent. The dividend was raised to two euros. Net debt fell below one billion."


class ByTopic:
    """The vector of a sentence is that of its first letter: sentences of one letter are of one topic."""

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), 26), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[ord(text[0].lower()) - ord("a")] = 1
        return rows


def spans(text: str, options: SemanticOptions) -> list[str]:
    found = SemanticSplitter(options, ByTopic().embed_texts).spans(Document(text), estimate_token_starts)
    return [text[start:end] for start, end in found]


def test_a_text_is_split_where_its_topic_changes() -> None:
    splitter = SemanticTextSplitter(MiniLM(), chunk_size=1000, min_size=20, percentile=99)
    assert splitter.split_text(f"{GARDEN} {MONEY}") == [GARDEN, MONEY]


def test_sentences_go_on_until_a_chunk_has_its_minimum() -> None:
    options = SemanticOptions(100, min_tokens=8, percentile=50, window=1)
    text = "A one two. B one two. B three four. B five six. C one two. C three four."
    assert spans(text, options) == ["A one two. B one two. B three four. B five six.", "C one two. C three four."]


def test_what_is_longer_than_a_chunk_is_broken_at_its_greatest_distances_and_then_at_words() -> None:
    text = "A one. A two. B one. B two. " + "Word " * 30
    pieces = spans(text, SemanticOptions(8, min_tokens=0, percentile=100, window=1))
    assert pieces[:2] == ["A one. A two.", "B one. B two."]
    assert max(len(estimate_token_starts(piece)) for piece in pieces) <= 8
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_whole_sentences_are_repeated_within_the_overlap() -> None:
    text = "A one. A two. B one. B two."
    options = SemanticOptions(12, 3, min_tokens=0, percentile=100, window=1)
    assert spans(text, options) == ["A one. A two.", "A two. B one. B two."]


@pytest.mark.parametrize("text", ["", " \n", "One sentence only.", "No stop", "\ud800 x. y"])
def test_unusual_texts_are_kept_whole(text: str) -> None:
    splitter = SemanticTextSplitter(MiniLM(), chunk_size=1000, min_size=0)
    assert "".join("".join(splitter.split_text(text)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"min_tokens": -1}, "min_tokens must be an integer >= 0"),
        ({"percentile": 101.0}, "percentile must be between 0 and 100"),
        ({"window": 0}, "window must be an integer >= 1"),
    ],
)
def test_options_out_of_range_are_refused(values: dict[str, float], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        SemanticOptions(**values)  # type: ignore[arg-type]


def test_without_an_embedder_the_error_says_what_is_missing() -> None:
    with pytest.raises(InvalidOption, match="the splitter 'semantic' compares sentences by their vectors"):
        SemanticSplitter(SemanticOptions()).spans(Document("One. Two."), estimate_token_starts)


def test_a_pipeline_splits_by_the_embedder_in_use_and_another_embedder_is_another_index(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text(f"{GARDEN} {MONEY}")
    split = "split: {name: semantic, min_tokens: 5, percentile: 99}\n"
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(split)) as kb:
        kb.index(tmp_path / "docs")
        assert [chunk.text for chunk in reads.chunks(kb)] == [GARDEN, MONEY]
        first = kb.components.loader_fingerprint("text")
    with KnowledgeBase.open(tmp_path / "other", Pipeline.from_yaml(split + "embed: {name: hashing}\n")) as kb:
        assert kb.components.loader_fingerprint("text") != first
