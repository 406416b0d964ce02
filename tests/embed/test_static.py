"""Static token vectors: files, sums of tokens, and correlation with the shipped model."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragkit.embed.base import Rows
from ragkit.embed.hashing import HashingEmbedder
from ragkit.embed.minilm import MODEL_FOLDER as TOKENIZER_FOLDER
from ragkit.embed.minilm import MiniLM
from ragkit.embed.static import MODEL_FOLDER, StaticEmbedder
from ragkit.errors import KnowledgeBaseDamaged

FILES = ["scales.npy", "static.json", "vectors.npy"]
GOLDEN = json.loads((Path(__file__).parent / "golden_minilm.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def static() -> StaticEmbedder:
    return StaticEmbedder()


@pytest.fixture
def own_copy(tmp_path: Path) -> Iterator[Path]:
    """A copy of the folder that tests may damage."""
    copy = tmp_path / "static"
    shutil.copytree(MODEL_FOLDER, copy)
    yield copy
    shutil.rmtree(copy)


def test_the_files_match_the_checksums_of_the_model_card_and_are_small() -> None:
    card = json.loads((MODEL_FOLDER / "static.json").read_bytes())
    folders = {"tokenizer.json": TOKENIZER_FOLDER}
    checksums = {
        name: hashlib.sha256((folders.get(name, MODEL_FOLDER) / name).read_bytes()).hexdigest()
        for name in card["sha256"]
    }
    assert card["sha256"] == checksums
    assert sorted(path.name for path in MODEL_FOLDER.iterdir()) == FILES
    assert sum(path.stat().st_size for path in MODEL_FOLDER.iterdir()) < 8_000_000


def test_the_tokens_are_those_of_the_distilled_model(static: StaticEmbedder) -> None:
    static_card = json.loads((MODEL_FOLDER / "static.json").read_bytes())
    card = json.loads((TOKENIZER_FOLDER / "minilm.json").read_bytes())
    assert static_card["made_from"].startswith(f"{card['name']}-int8:")
    assert static_card["sha256"]["tokenizer.json"] == card["sha256"]["tokenizer.json"]
    text = "Tokenization of 2 words"
    np.testing.assert_array_equal(static.token_starts(text), MiniLM().token_starts(text))


def test_a_text_is_the_sum_of_its_tokens_in_any_order(static: StaticEmbedder) -> None:
    first, second = static.embed_texts(["the valve is closed", "closed is the valve"])
    assert float(first @ second) == pytest.approx(1, abs=1e-6)
    once, twice = static.embed_texts(["valve", "valve valve valve"])
    np.testing.assert_allclose(once, twice, atol=1e-6)


def test_a_common_word_weighs_less_than_a_rare_one(static: StaticEmbedder) -> None:
    both, common, rare = static.embed_texts(["the valve", "the", "valve"])
    assert float(both @ rare) > 0.9 > float(both @ common)


def test_a_vector_does_not_depend_on_other_texts(static: StaticEmbedder) -> None:
    texts = [f"the valve number {n} " * (1 + n % 7) for n in range(200)]
    together = static.embed_texts(texts)
    alone = np.stack([static.embed_query(text) for text in texts])
    np.testing.assert_array_equal(together, alone)


def test_a_text_without_tokens_has_the_first_unit_vector(static: StaticEmbedder) -> None:
    rows = static.embed_texts([" \n", "word", ""])
    first = np.eye(1, static.dimension, dtype=np.float32)[0]
    np.testing.assert_array_equal(rows[[0, 2]], [first, first])


def test_similarities_correlate_with_the_model_more_than_hashed_words_do(static: StaticEmbedder) -> None:
    model = cosines(np.array(GOLDEN["rows"], np.float32))
    static_correlation, hashing_correlation = (
        np.corrcoef(model, cosines(embedder.embed_texts(GOLDEN["texts"])))[0, 1]
        for embedder in (static, HashingEmbedder())
    )
    assert static_correlation > 0.6
    assert static_correlation > hashing_correlation + 0.1


def cosines(rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """The cosine similarity of every pair of rows."""
    upper = np.triu_indices(len(rows), 1)
    return (rows @ rows.T)[upper]


@pytest.mark.parametrize("name", ["vectors.npy", "scales.npy"])
def test_a_truncated_file_is_rejected(own_copy: Path, name: str) -> None:
    (own_copy / name).write_bytes((own_copy / name).read_bytes()[:-1])
    with pytest.raises(KnowledgeBaseDamaged, match=rf"{name}.* is truncated or altered"):
        StaticEmbedder(folder=own_copy).embed_query("a word")


def test_an_invalid_model_card_is_rejected(own_copy: Path) -> None:
    (own_copy / "static.json").write_text("{}")
    with pytest.raises(KnowledgeBaseDamaged, match=r"static.json.* is not a model card"):
        StaticEmbedder(folder=own_copy)
