"""The token vectors: right files, sums of tokens, and nearer to the shipped model than words are."""

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


def test_the_files_are_the_ones_that_their_card_names_and_small() -> None:
    card = json.loads((MODEL_FOLDER / "static.json").read_bytes())
    folders = {"tokenizer.json": TOKENIZER_FOLDER}
    found = {
        name: hashlib.sha256((folders.get(name, MODEL_FOLDER) / name).read_bytes()).hexdigest()
        for name in card["sha256"]
    }
    assert card["sha256"] == found
    assert sorted(path.name for path in MODEL_FOLDER.iterdir()) == FILES
    assert sum(path.stat().st_size for path in MODEL_FOLDER.iterdir()) < 8_000_000


def test_the_tokens_are_those_of_the_model_that_the_vectors_were_made_from(static: StaticEmbedder) -> None:
    card = json.loads((MODEL_FOLDER / "static.json").read_bytes())
    assert card["made_from"] == MiniLM().fingerprint
    text = "Tokenization of 2 words"
    np.testing.assert_array_equal(static.token_starts(text), MiniLM().token_starts(text))


def test_a_text_is_the_sum_of_its_tokens_whatever_their_order(static: StaticEmbedder) -> None:
    one, other = static.embed_texts(["the valve is closed", "closed is the valve"])
    assert float(one @ other) == pytest.approx(1, abs=1e-6)
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


def test_it_orders_pairs_as_the_model_does_and_hashed_words_do_not(static: StaticEmbedder) -> None:
    model = cosines(np.array(GOLDEN["rows"], np.float32))
    near, words = (
        np.corrcoef(model, cosines(one.embed_texts(GOLDEN["texts"])))[0, 1] for one in (static, HashingEmbedder())
    )
    assert near > 0.6
    assert near > words + 0.1


def cosines(rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Of every pair of rows."""
    upper = np.triu_indices(len(rows), 1)
    return (rows @ rows.T)[upper]


@pytest.mark.parametrize("name", ["vectors.npy", "scales.npy"])
def test_a_file_that_was_cut_short_is_refused(own_copy: Path, name: str) -> None:
    (own_copy / name).write_bytes((own_copy / name).read_bytes()[:-1])
    with pytest.raises(KnowledgeBaseDamaged, match=rf"{name}.* is truncated or altered"):
        StaticEmbedder(folder=own_copy).embed_query("a word")


def test_an_invalid_model_card_is_rejected(own_copy: Path) -> None:
    (own_copy / "static.json").write_text("{}")
    with pytest.raises(KnowledgeBaseDamaged, match=r"static.json.* is not a model card"):
        StaticEmbedder(folder=own_copy)
