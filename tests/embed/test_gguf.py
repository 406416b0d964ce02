"""Embedding models in GGUF files: the shipped weights in the engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragkit import Document, KnowledgeBase
from ragkit.embed.gguf import GGUFEmbedder
from ragkit.embed.minilm import MiniLM
from ragkit.embed.options import GGUFOptions
from ragkit.errors import InvalidOption
from ragkit.usage.meter import Meter, use_meter
from tests.gguf_models import write_chat_model, write_minilm_gguf

TEXTS = ["The cat sleeps on the roof.", "Invoice 4711 was sent to Oslo.", "El gato duerme.", "Reset the router."]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_minilm_gguf(tmp_path_factory.mktemp("gguf") / "minilm.gguf")


def test_the_vectors_are_those_of_the_same_weights_in_the_shipped_runtime(model: Path) -> None:
    cosines = np.sum(GGUFEmbedder(str(model)).embed_texts(TEXTS) * MiniLM().embed_texts(TEXTS), axis=1)
    assert cosines.min() > 0.95  # the shipped runtime rounds to 8 bits; .96 on processors without VNNI


def test_a_text_above_the_limit_has_the_vector_of_its_beginning(model: Path) -> None:
    embedder = GGUFEmbedder(GGUFOptions(str(model), max_tokens=20))
    long, longer = "the cat sleeps " * 50, "the cat sleeps " * 50 + "invoice " * 500
    rows = embedder.embed_texts([long, longer, "invoice " * 500])
    assert rows[0] @ rows[1] > 0.9  # the cut is not exactly at the limit
    assert rows[1] @ rows[2] < 0.5
    assert embedder.max_tokens == 20


def test_prompts_go_before_texts_and_questions(model: Path) -> None:
    plain = GGUFEmbedder(str(model))
    prompted = GGUFEmbedder(GGUFOptions(str(model), document_prompt="passage: ", query_prompt="query: "))
    np.testing.assert_array_equal(prompted.embed_texts(["cat"])[0], plain.embed_query("passage: cat"))
    np.testing.assert_array_equal(prompted.embed_query("cat"), plain.embed_query("query: cat"))
    assert prompted.fingerprint != plain.fingerprint


def test_the_fingerprint_is_that_of_the_content(model: Path, tmp_path: Path) -> None:
    copy = tmp_path / model.name
    copy.write_bytes(model.read_bytes())
    assert GGUFEmbedder(str(copy)).fingerprint == GGUFEmbedder(str(model)).fingerprint
    raw = bytearray(copy.read_bytes())
    raw[-100] ^= 1
    copy.write_bytes(raw)
    assert GGUFEmbedder(str(copy)).fingerprint != GGUFEmbedder(str(model)).fingerprint


def test_its_tokens_are_counted_and_cost_nothing(model: Path) -> None:
    meter = Meter()
    with use_meter(meter):
        GGUFEmbedder(str(model)).embed_texts(["the cat", "the dog sleeps"])
    assert (meter.usage().embedding_tokens, meter.usage().embedding_cost_usd) == (4 + 5, 0.0)


def test_a_knowledge_base_searches_with_it(model: Path, tmp_path: Path) -> None:
    pipeline = tmp_path / "ragkit.yaml"
    pipeline.write_text(f"embed: {{name: gguf, path: {model}}}\nretrieve: {{name: dense}}\n")
    with KnowledgeBase.open(tmp_path / "kb", pipeline=str(pipeline)) as kb:
        kb.add([Document(text, {"source": f"{number}.txt"}) for number, text in enumerate(TEXTS)])
        assert [hit.source for hit in kb.search("Where does the feline nap?", top_k=1)] == ["0.txt"]


def test_a_model_that_writes_text_is_refused(tmp_path: Path) -> None:
    path = write_chat_model(tmp_path / "chat.gguf")
    with pytest.raises(InvalidOption, match=r"embed.path must be an embedding model; this one writes text"):
        GGUFEmbedder(str(path))
    assert GGUFEmbedder(GGUFOptions(str(path), pooling="mean")).dimension == 320


def test_a_reranker_is_refused(tmp_path: Path) -> None:
    path = write_minilm_gguf(tmp_path / "rerank.gguf", reranker=True)
    with pytest.raises(InvalidOption, match=r"this one is for `rerank: \{name: gguf\}`"):
        GGUFEmbedder(str(path))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"path": ""}, "embed.path must be a GGUF file: `ragkit models --local` lists those found"),
        ({"path": "x", "pooling": "best"}, "embed.pooling must be mean, cls, last, or empty"),
        ({"path": "x", "threads": -1}, "embed.threads must be 0 or greater"),
    ],
)
def test_options_out_of_range_are_rejected(options: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        GGUFOptions(**options)  # type: ignore[arg-type]  # wrong ones


def test_a_limit_above_that_of_the_model_is_rejected(model: Path) -> None:
    with pytest.raises(InvalidOption, match=r"embed.max_tokens must be at most 256, the limit of the model"):
        GGUFEmbedder(GGUFOptions(str(model), max_tokens=512))
