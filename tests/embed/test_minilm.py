"""The shipped model: checksums, vectors, and errors of damaged files."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragkit.embed import onnx_session
from ragkit.embed.base import Rows
from ragkit.embed.minilm import MODEL_FOLDER, MiniLM
from ragkit.embed.onnx_session import OnnxSession
from ragkit.embed.options import MiniLMOptions
from ragkit.errors import InvalidOption, KnowledgeBaseDamaged

GOLDEN = json.loads((Path(__file__).parent / "golden_minilm.json").read_text(encoding="utf-8"))
PAIRED_TEXTS = 8
"""The first eight golden texts are four pairs of paraphrases."""
FILES = ["minilm.json", "model.onnx", "tokenizer.json"]


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    return MiniLM()


@pytest.fixture(scope="module")
def golden_rows() -> Rows:
    """Rows computed by sentence-transformers in float32."""
    return np.array(GOLDEN["rows"], np.float32)


@pytest.fixture
def own_copy(tmp_path: Path) -> Iterator[Path]:
    """A copy of the model folder that tests may damage."""
    copy = tmp_path / "model"
    shutil.copytree(MODEL_FOLDER, copy)
    yield copy
    shutil.rmtree(copy)


def many_texts(count: int) -> list[str]:
    """Distinct texts of 1 to 60 words."""
    rng = random.Random(7)
    words = ["cat", "sleeps", "while", "seven", "engineers", "retry", "a", "failed", "request", "on", "port", "8080"]
    return [f"{n} " + " ".join(rng.choices(words, k=rng.randint(1, 60))) for n in range(count)]


def test_the_files_match_the_checksums_of_the_model_card() -> None:
    card = json.loads((MODEL_FOLDER / "minilm.json").read_bytes())
    checksums = {name: hashlib.sha256((MODEL_FOLDER / name).read_bytes()).hexdigest() for name in card["sha256"]}
    assert card["sha256"] == checksums
    assert sorted(path.name for path in MODEL_FOLDER.iterdir()) == FILES


def test_every_row_is_within_cosine_099_of_float32(minilm: MiniLM, golden_rows: Rows) -> None:
    cosines = (minilm.embed_texts(GOLDEN["texts"]) * golden_rows).sum(axis=1)
    assert cosines.min() >= 0.99


def test_similarities_between_texts_match_float32(minilm: MiniLM, golden_rows: Rows) -> None:
    rows = minilm.embed_texts(GOLDEN["texts"])
    np.testing.assert_allclose(rows @ rows.T, golden_rows @ golden_rows.T, atol=0.05)


def test_the_nearest_neighbour_of_every_text_is_its_pair(minilm: MiniLM) -> None:
    rows = minilm.embed_texts(GOLDEN["texts"])
    similarities = rows @ rows.T
    np.fill_diagonal(similarities, -1)
    assert similarities.argmax(axis=1)[:PAIRED_TEXTS].tolist() == [1, 0, 3, 2, 5, 4, 7, 6]


def test_a_row_does_not_depend_on_other_texts_or_threads() -> None:
    texts = many_texts(120)
    alone = MiniLM(MiniLMOptions(threads=1, token_budget=1)).embed_texts(texts)
    order = random.Random(3).sample(range(120), 120)
    for threads, token_budget in [(1, 256), (2, 256), (4, 10_000)]:
        minilm = MiniLM(MiniLMOptions(threads, token_budget))
        together = minilm.embed_texts([texts[index] for index in order])
        np.testing.assert_array_equal(together, alone[order])


def test_a_text_is_truncated_to_256_tokens(minilm: MiniLM) -> None:
    fits, cut, longer = minilm.embed_texts(["cat " * 254, "cat " * 255, "cat " * 254 + "invoice payment"])
    np.testing.assert_array_equal(fits, cut)
    np.testing.assert_array_equal(fits, longer)


def test_a_text_of_megabytes_is_truncated(minilm: MiniLM) -> None:
    first, second = minilm.embed_texts([" " * 2_000_000 + "cat", "cat " * 500_000])
    np.testing.assert_array_equal(first, minilm.embed_query(""))
    np.testing.assert_array_equal(second, minilm.embed_query("cat " * 254))


def test_words_too_long_for_the_vocabulary_have_different_vectors(minilm: MiniLM) -> None:
    first, second = minilm.embed_texts(["abcde" * 60, "vwxyz" * 60])
    assert float(first @ second) < 0.9


def test_names_of_special_tokens_in_a_text_are_words(minilm: MiniLM) -> None:
    assert minilm.token_starts("[SEP] x").tolist() == [0, 1, 4, 6]


def test_the_fingerprint_needs_neither_runtime_nor_tokenizer() -> None:
    code = (
        "import sys; from ragkit.embed.minilm import MiniLM; m = MiniLM(); m.fingerprint, m.dimension, m.max_tokens;"
        "print(sorted({'onnxruntime', 'tokenizers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_settings_without_effect_on_vectors_are_not_in_the_fingerprint() -> None:
    assert MiniLM(MiniLMOptions(threads=3, token_budget=999)).fingerprint == MiniLM().fingerprint


def test_another_model_file_changes_the_fingerprint(own_copy: Path) -> None:
    card = json.loads((own_copy / "minilm.json").read_bytes())
    card["sha256"]["model.onnx"] = "0" * 64
    (own_copy / "minilm.json").write_text(json.dumps(card))
    assert MiniLM(folder=own_copy).fingerprint != MiniLM().fingerprint


def test_a_truncated_model_file_is_reported_with_a_fix(own_copy: Path) -> None:
    with (own_copy / "model.onnx").open("r+b") as file:
        file.truncate(20_000_000)
    with pytest.raises(
        KnowledgeBaseDamaged,
        match=r"model\.onnx is truncated or altered.*run `pip install --force-reinstall ragkit-kb`",
    ):
        MiniLM(folder=own_copy).embed_query("cat")


def test_a_flipped_bit_in_the_weights_is_reported(own_copy: Path) -> None:
    with (own_copy / "model.onnx").open("r+b") as file:
        file.seek(10_000_000)
        byte = file.read(1)[0]
        file.seek(10_000_000)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(KnowledgeBaseDamaged, match=r"model\.onnx is truncated or altered"):
        MiniLM(folder=own_copy).embed_query("cat")


def test_an_altered_tokenizer_is_reported(own_copy: Path) -> None:
    (own_copy / "tokenizer.json").write_text("{}")
    with pytest.raises(KnowledgeBaseDamaged, match=r"tokenizer\.json is truncated or altered"):
        MiniLM(folder=own_copy).token_starts("cat")


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_reported(own_copy: Path, name: str) -> None:
    (own_copy / name).unlink()
    with pytest.raises(
        KnowledgeBaseDamaged, match=f"{name} cannot be read .No such file or directory.: run `pip install"
    ):
        MiniLM(folder=own_copy).embed_query("cat")


def test_a_missing_model_card_is_reported(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseDamaged, match=r"minilm\.json cannot be read"):
        MiniLM(folder=tmp_path)


@pytest.mark.parametrize(("content", "reason"), [("{", "is not JSON"), ('{"name": "x"}', "is not a model card")])
def test_an_invalid_model_card_is_reported(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "minilm.json").write_text(content)
    with pytest.raises(KnowledgeBaseDamaged, match=rf"minilm\.json {reason}"):
        MiniLM(folder=tmp_path)


def test_a_model_that_the_runtime_cannot_load_is_reported(own_copy: Path) -> None:
    (own_copy / "model.onnx").write_bytes(b"not a graph")
    card = json.loads((own_copy / "minilm.json").read_bytes())
    card["sha256"]["model.onnx"] = hashlib.sha256(b"not a graph").hexdigest()
    (own_copy / "minilm.json").write_text(json.dumps(card))
    with pytest.raises(
        KnowledgeBaseDamaged, match=r"cannot be loaded by onnxruntime \d.*run `pip install --upgrade onnxruntime`"
    ):
        MiniLM(folder=own_copy).embed_query("cat")


def test_a_model_that_is_replaced_while_it_is_loaded_is_reported(
    own_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ReplacingSession(OnnxSession):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            shutil.copy(path, path.with_name("new"))
            path.with_name("new").rename(path)

    monkeypatch.setattr(onnx_session, "OnnxSession", ReplacingSession)
    minilm = MiniLM(folder=own_copy)
    with pytest.raises(KnowledgeBaseDamaged, match=r"model\.onnx changed while it was read: run the command again"):
        minilm.embed_query("cat")
    monkeypatch.undo()
    np.testing.assert_array_equal(minilm.embed_query("cat"), MiniLM().embed_query("cat"))


@pytest.mark.parametrize(
    ("values", "message"), [((-1, 256), r"embed\.threads must be 0"), ((0, 0), r"embed\.token_budget must be >= 1")]
)
def test_options_out_of_range_are_rejected(values: tuple[int, int], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        MiniLMOptions(*values)
