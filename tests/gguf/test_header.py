"""Headers of GGUF files: what they say, and the one line for a file that cannot be used."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.errors import InvalidOption
from ragkit.gguf.header import read_gguf
from tests.gguf_models import TOOL_TEMPLATE, Field, write_chat_model, write_gguf, write_minilm_gguf

TENSOR = {"a": np.zeros(8, np.float32)}


def test_the_header_of_a_chat_model(tmp_path: Path) -> None:
    path = write_chat_model(tmp_path / "chat.gguf", context=4096)
    file = read_gguf(path)
    assert (file.kind, file.architecture, file.name, file.parameters) == ("chat", "llama", "Chains", "1M")
    assert (file.context_length, file.size, file.knows_tools) == (4096, path.stat().st_size, False)
    assert file.cache_bytes_per_token == 1 * 10 * (32 + 32) * 2  # layers, heads, key and value, 16 bits


def test_a_template_that_names_tools_takes_tools(tmp_path: Path) -> None:
    assert read_gguf(write_chat_model(tmp_path / "a.gguf", template=TOOL_TEMPLATE)).knows_tools
    more: dict[str, Field] = {"tokenizer.chat_template.tool_use": TOOL_TEMPLATE}
    assert read_gguf(write_chat_model(tmp_path / "b.gguf", more=more)).knows_tools


def test_embedding_models_and_rerankers_are_told_apart(tmp_path: Path) -> None:
    assert read_gguf(write_minilm_gguf(tmp_path / "a.gguf")).kind == "embedding"
    assert read_gguf(write_minilm_gguf(tmp_path / "b.gguf", reranker=True)).kind == "reranker"
    last: dict[str, Field] = {"general.architecture": "qwen3", "qwen3.pooling_type": 3}
    assert read_gguf(write_gguf(tmp_path / "c.gguf", last, TENSOR)).kind == "embedding"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"general.architecture": "llama", "general.type": "adapter"}, "a whole model; this one holds an adapter"),
        ({"general.architecture": "clip"}, "this one holds a part of a model without its weights"),
        ({"general.architecture": "llama", "split.count": 3, "split.no": 0}, "missing: m-00002-of-00003.gguf, m-00003"),
    ],
)
def test_what_is_no_whole_model_is_refused(fields: dict[str, Field], says: str, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m-00001-of-00003.gguf", fields, TENSOR)
    with pytest.raises(InvalidOption, match=re.escape(says)):
        read_gguf(path)


def test_a_model_in_parts_is_named_by_its_first_part(tmp_path: Path) -> None:
    fields: dict[str, Field] = {"general.architecture": "llama", "split.count": 2}
    first, second = (write_gguf(tmp_path / f"m-0000{n}-of-00002.gguf", fields, TENSOR) for n in (1, 2))
    assert read_gguf(first).size == first.stat().st_size + second.stat().st_size
    with pytest.raises(InvalidOption, match=r"the first part of the model: m-00001-of-00002.gguf"):
        read_gguf(second)


def test_a_file_that_is_cut_anywhere_is_refused_in_one_line(tmp_path: Path) -> None:
    raw = write_chat_model(tmp_path / "whole.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in (5, 24, 100, 5000, len(raw) // 2, len(raw) - 1):
        cut.write_bytes(raw[:size])
        with pytest.raises(
            InvalidOption, match="model must be a whole GGUF file; download or copy it again: "
        ) as caught:
            read_gguf(cut)
        assert "\n" not in str(caught.value)
    assert f"it has {len(raw) - 1:,} of {len(raw):,} bytes" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "a GGUF file; this one has another format"),
        (b"PK\3\4 something else", "a GGUF file; this one has another format"),
        (b"GGUF" + struct.pack("<IQQ", 99, 0, 0), "version 99 is not known"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "its header is damaged"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 60), "its header more"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q1sI", 1, b"a", 77), "type 77 of a value is not known"),
    ],
)
def test_another_or_a_damaged_file_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(InvalidOption, match=says):
        read_gguf(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="an existing GGUF file: `ragkit models --local` lists those"):
        read_gguf(tmp_path / "none.gguf")
    with pytest.raises(InvalidOption, match="a GGUF file; this is a folder"):
        read_gguf(tmp_path)


@given(st.binary(max_size=400))
def test_any_bytes_after_the_magic_are_refused_without_another_error(tail: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(b"GGUF\3\0\0\0" + tail)
        file.flush()
        with pytest.raises(InvalidOption, match="GGUF file"):
            read_gguf(file.name)
