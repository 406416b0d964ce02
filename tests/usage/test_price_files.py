"""Price files: search, parsing and precedence."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragkit.errors import InvalidOption, PipelineError
from ragkit.usage import price_files
from ragkit.usage.pricing import ModelInfo, Price, PriceBook
from ragkit.usage.tokens import Tokens


@pytest.fixture
def working_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory below the root of a repository, without user settings."""
    monkeypatch.delenv("RAGKIT_PRICES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "project" / ".git").mkdir(parents=True)
    folder = tmp_path / "project" / "below"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(path: Path, text: str) -> Path:
    """Write a file and create its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_shipped_file_has_rerankers_missing_from_the_catalogue(working_dir: Path) -> None:
    book = PriceBook()
    assert book.rerank_cost("cohere", "rerank-v3.5", searches=500) == pytest.approx(1.0)
    assert book.rerank_cost("voyage", "rerank-2.5", tokens=2_000_000) == pytest.approx(0.1)
    assert book.embedding_cost("cohere", "embed-english-v3.0", 1_000_000) == pytest.approx(0.1)
    assert book.rerank_cost("cohere", "unknown-model", searches=1) is None
    assert book.rerank_cost("local", "minilm", searches=1) == 0.0


def test_every_shipped_price_has_a_date_and_a_source() -> None:
    from ruamel.yaml import YAML

    data = YAML(typ="safe").load(price_files.shipped_price_file())
    priced = [values for models in data.values() for values in models.values() if {"input", "searches"} & set(values)]
    assert len(priced) >= 10
    assert all(values["as_of"] and values["source"] for values in priced)


def test_a_price_file_is_searched_up_to_the_root_of_the_repository(working_dir: Path, tmp_path: Path) -> None:
    find = price_files.find_user_price_file
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert find(working_dir, environ) is None
    user_file = write(tmp_path / "config" / "ragkit" / "prices.yaml", "")
    assert find(working_dir, environ) == user_file
    write(tmp_path / "prices.yaml", "")  # above the repository: not searched
    assert find(working_dir, environ) == user_file
    root_file = write(working_dir.parent / "configs" / "prices.yaml", "")
    assert find(working_dir, environ) == root_file
    nearest_file = write(working_dir / "prices.yaml", "")
    assert find(working_dir, environ) == nearest_file
    named_file = write(tmp_path / "mine.yaml", "")
    assert find(working_dir, {**environ, "RAGKIT_PRICES": str(named_file)}) == named_file
    with pytest.raises(InvalidOption, match="RAGKIT_PRICES must be an existing file"):
        find(working_dir, {"RAGKIT_PRICES": "/nowhere"})


def test_a_user_price_takes_precedence_and_changes_apply_at_once(working_dir: Path) -> None:
    tokens = Tokens(1_000_000, 1_000_000)
    assert PriceBook().chat_cost("openai", "gpt-4o-mini", tokens) == pytest.approx(0.75)
    path = write(working_dir / "prices.yaml", "openai: {gpt-4o-mini: {input: 1, output: 2}}\nmine: {m: {input: 3}}\n")
    assert PriceBook().chat_cost("openai", "gpt-4o-mini", tokens) == pytest.approx(3.0)
    assert PriceBook().embedding_cost("mine", "m", 1_000_000) == pytest.approx(3.0)
    path.write_text("openai: {gpt-4o-mini: {input: 4, output: 20}}\n", encoding="utf-8")
    assert PriceBook().chat_cost("openai", "gpt-4o-mini", tokens) == pytest.approx(24.0)


def test_an_entry_with_limits_only_does_not_change_the_price(working_dir: Path) -> None:
    write(working_dir / "prices.yaml", "openai: {gpt-4o-mini: {max_output_tokens: 99}}\n")
    book = PriceBook()
    assert book.chat_cost("openai", "gpt-4o-mini", Tokens(1_000_000)) == pytest.approx(0.15)
    assert book.model_info("openai", "gpt-4o-mini") == ModelInfo(
        "openai", "gpt-4o-mini", 128_000, 99, Price(0.15, 0.6, 0.075)
    )


def test_prices_of_several_files_are_not_merged(working_dir: Path) -> None:
    write(working_dir / "prices.yaml", "openai: {gpt-4o-mini: {input: 1}}\n")
    assert PriceBook().chat_cost("openai", "gpt-4o-mini", Tokens(10, 10)) is None


def test_all_errors_of_a_file_are_reported_together(working_dir: Path) -> None:
    write(
        working_dir / "prices.yaml",
        "openai:\n  a: {inputs: 1}\n  b: {input: -1, output: .nan}\n  c: {kind: embeding}\n  d: 3\nother: [x]\n",
    )
    with pytest.raises(PipelineError, match="inputs") as caught:
        PriceBook.from_price_files()
    lines = [line.partition("prices.yaml: ")[2] for line in caught.value.problems]
    assert lines == [
        "openai: a: unknown key 'inputs'; available: input, output, cached, searches, context_window,"
        " max_output_tokens, kind, as_of, source",
        "openai: b: input must be a number >= 0 (got -1)",
        "openai: b: output must be a number >= 0 (got nan)",
        "openai: c: kind must be one of chat, embedding, rerank, other (got 'embeding')",
        "openai: d: must be a mapping (got 3)",
        "other: must be a mapping (got ['x'])",
    ]


def test_invalid_yaml_is_reported(working_dir: Path) -> None:
    write(working_dir / "prices.yaml", "openai: {a: [\n")
    with pytest.raises(PipelineError, match=r"prices.yaml: cannot be read"):
        PriceBook().embedding_cost("openai", "a", 1)


def test_no_file_is_read_for_a_free_model(working_dir: Path) -> None:
    write(working_dir / "prices.yaml", "openai: {a: [\n")
    assert PriceBook().embedding_cost("local", "minilm", 10) == 0.0
    assert PriceBook().chat_cost("ollama", "llama3.2", Tokens(10, 10)) == 0.0
    assert PriceBook().chat_cost("openai", "gpt-4o", Tokens(10, 10, cost_usd=0.5)) == 0.5
