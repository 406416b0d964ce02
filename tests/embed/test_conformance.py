"""Conformance tests of all registered embedders that run on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from threading import Thread

import numpy as np
import pytest

from ragkit.embed import EMBEDDERS
from ragkit.embed.base import PROBE_COSINE, EmbeddingProvider, ProbingEmbedder, Rows, TokenizingEmbedder
from ragkit.embed.gguf import GGUFEmbedder
from ragkit.embed.onnx import OnnxEmbedder
from tests.embed.exported_models import write_minilm
from tests.gguf_models import write_minilm_gguf

CORE = [name for name in EMBEDDERS if not EMBEDDERS.extra(name)]
"""Embedders that need no extra."""
NAMES = [*CORE, "multilingual"]
"""Embedders that need no option."""
UNUSUAL_TEXTS = [
    "",
    " \n\t",
    "a\x00b",
    "\x01\x02",
    "\ud800 lone",
    "tail \udfff",
    "漢字かな",
    "각 가",
    "🙂" * 40,
    "x" * 5000,
    "?!",
    "\u200b",
]
TEXTS = ["the cat sleeps", "a longer text about cats that sleep all day long", "invoice", "the dog barks", "cat"]

SHOW_IDENTITY = """
import json, sys
from ragkit.embed import EMBEDDERS
for name in json.loads(sys.argv[1]):
    embedder = EMBEDDERS.find(name)()
    print(json.dumps([name, embedder.fingerprint, embedder.embed_query("the same words again").tolist()]))
"""


@pytest.fixture(scope="module", params=[*CORE, "gguf", "multilingual", "onnx"])
def embedder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EmbeddingProvider:
    return create(request.param, tmp_path_factory)


@pytest.fixture(scope="module", params=[*CORE, "multilingual", "onnx"])
def tokenizing_embedder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TokenizingEmbedder:
    made = create(request.param, tmp_path_factory)
    assert isinstance(made, TokenizingEmbedder)
    return made


def create(name: str, folders: pytest.TempPathFactory) -> EmbeddingProvider:
    if name == "onnx":
        return OnnxEmbedder(str(write_minilm(folders.mktemp("minilm"))))
    if name == "gguf":
        return GGUFEmbedder(str(write_minilm_gguf(folders.mktemp("gguf") / "minilm.gguf")))
    return EMBEDDERS.find(name)()


def assert_unit_rows(rows: Rows, count: int, embedder: EmbeddingProvider) -> None:
    assert rows.shape == (count, embedder.dimension)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_every_text_has_a_row_of_length_1(embedder: EmbeddingProvider) -> None:
    assert_unit_rows(embedder.embed_texts(TEXTS), len(TEXTS), embedder)


def test_unusual_texts_have_rows_of_length_1(embedder: EmbeddingProvider) -> None:
    assert_unit_rows(embedder.embed_texts(UNUSUAL_TEXTS), len(UNUSUAL_TEXTS), embedder)


@pytest.mark.rotating
@pytest.mark.parametrize("text", UNUSUAL_TEXTS)
def test_the_row_of_an_unusual_text_does_not_depend_on_other_texts(embedder: EmbeddingProvider, text: str) -> None:
    together = embedder.embed_texts([*TEXTS, text])[-1]
    np.testing.assert_array_equal(embedder.embed_texts([text])[0], together)


def test_no_texts_give_an_empty_array_of_the_right_width(embedder: EmbeddingProvider) -> None:
    rows = embedder.embed_texts([])
    assert (rows.shape, rows.dtype) == ((0, embedder.dimension), np.dtype(np.float32))


def test_rows_are_in_the_order_of_their_texts(embedder: EmbeddingProvider) -> None:
    forwards, backwards = embedder.embed_texts(TEXTS), embedder.embed_texts(TEXTS[::-1])
    np.testing.assert_array_equal(forwards, backwards[::-1])
    assert len({row.tobytes() for row in forwards}) == len(TEXTS)


def test_equal_texts_have_equal_rows(embedder: EmbeddingProvider) -> None:
    first, _, again = embedder.embed_texts(["cat", "dog", "cat"])
    np.testing.assert_array_equal(first, again)


def test_a_question_is_nearest_to_the_text_that_shares_its_words(embedder: EmbeddingProvider) -> None:
    row = embedder.embed_query("invoice")
    assert (row.shape, row.dtype) == ((embedder.dimension,), np.dtype(np.float32))
    assert TEXTS[int(np.argmax(embedder.embed_texts(TEXTS) @ row))] == "invoice"


def test_rows_are_the_same_from_several_threads(embedder: EmbeddingProvider) -> None:
    alone = embedder.embed_texts(TEXTS)
    results: list[Rows] = []
    threads = [Thread(target=lambda: results.append(embedder.embed_texts(TEXTS))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [np.array_equal(rows, alone) for rows in results] == [True] * 6


def test_the_probe_of_a_second_instance_agrees(embedder: EmbeddingProvider) -> None:
    assert isinstance(embedder, ProbingEmbedder)
    again = type(embedder)(embedder.path) if isinstance(embedder, GGUFEmbedder | OnnxEmbedder) else type(embedder)()
    assert isinstance(again, ProbingEmbedder)
    assert float(embedder.probe() @ again.probe()) >= PROBE_COSINE


def test_token_starts_are_non_decreasing_and_inside_the_text(tokenizing_embedder: TokenizingEmbedder) -> None:
    assert tokenizing_embedder.max_tokens > 0
    for text in [*UNUSUAL_TEXTS, *TEXTS]:
        starts = tokenizing_embedder.token_starts(text)
        assert starts.dtype == np.int64
        assert all(0 <= start < len(text) for start in starts)
        assert (np.diff(starts) >= 0).all()


def test_tokens_start_at_the_words(tokenizing_embedder: TokenizingEmbedder) -> None:
    assert tokenizing_embedder.token_starts("the  cat\n\nwill").tolist() == [0, 5, 10]


def test_fingerprint_and_rows_are_the_same_in_another_process() -> None:
    command = [sys.executable, "-c", SHOW_IDENTITY, json.dumps(NAMES)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in output.splitlines():
        name, fingerprint, row = json.loads(line)
        embedder = EMBEDDERS.find(name)()
        assert embedder.fingerprint == fingerprint
        np.testing.assert_array_equal(embedder.embed_query("the same words again"), np.array(row, np.float32))
    assert len(output.splitlines()) == len(NAMES)


def test_every_embedder_has_a_different_fingerprint() -> None:
    assert len({EMBEDDERS.find(name)().fingerprint for name in NAMES}) == len(NAMES)
