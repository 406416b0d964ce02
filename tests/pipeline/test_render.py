"""Pipelines as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragkit.config.convert import settable_fields
from ragkit.masking import is_secret
from ragkit.pipeline import discovery
from ragkit.pipeline.components import ComponentConfig
from ragkit.pipeline.render import render_resolved
from ragkit.pipeline.settings import Pipeline
from ragkit.store.options import MemoryOptions

TEXT = """\
extends: default
load:
  - {name: folder, include: ["*.md"]}
  - {name: csv, only: [.tsv], delimiter: "${TAB}"}
retrieve: {top_k: 4}
profiles:
  careful:
    retrieve: {candidates: 300}
"""


@pytest.fixture
def pipeline(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    folder = tmp_path_factory.mktemp("show")
    monkeypatch.chdir(folder)
    (folder / "own.yaml").write_text(TEXT, encoding="utf-8")
    return Pipeline.load("own.yaml", ["answer.provider=echo"], "careful", {"TAB": ";"})


def rows(pipeline: Pipeline) -> dict[str, tuple[str, str]]:
    """`section.option` -> value and origin, parsed from the text."""
    result: dict[str, tuple[str, str]] = {}
    section = ""
    for line in render_resolved(pipeline).splitlines()[1:]:
        if line and not line.startswith(" "):
            section = line.rstrip(":")
        elif line:
            setting, origin = line.strip().split("  ", 1)
            option, value = setting.split(": ", 1)
            result[f"{section}.{option}"] = (value, origin.strip())
    return result


def test_every_value_is_shown_with_its_origin(pipeline: Pipeline) -> None:
    shown = rows(pipeline)
    default = discovery.pipelines_folder() / "default.yaml"
    lines = default.read_text(encoding="utf-8").splitlines()
    chunk_size = next(number for number, line in enumerate(lines, 1) if "chunk_size" in line)
    assert shown["load.0.include"] == ('["*.md"]', "own.yaml:3:29")
    assert shown["load.1.only"] == ('[".tsv"]', "own.yaml:4:23")
    assert shown["load.1.delimiter"] == ('";"', "environment TAB (own.yaml:4:42)")
    assert shown["retrieve.top_k"] == ("4", "own.yaml:5:19")
    assert shown["retrieve.candidates"] == ("300", "profile careful (own.yaml:8:28)")
    assert shown["retrieve.dense_weight"][1] == "default"
    assert shown["answer.provider"] == ("echo", "--set:1:17")
    assert shown["split.chunk_size"] == ("200", f"{default}:{chunk_size}:15")
    assert shown["store.path"] == ("(the knowledge base)", "default")


def test_every_option_of_every_component_is_shown(pipeline: Pipeline) -> None:
    shown = rows(pipeline)
    for _, key, choice in pipeline.components():
        for option in settable_fields(type(choice.options)) if choice.options else ():
            assert f"{key}.{option.name}" in shown


def test_values_from_code_have_the_origin_code(pipeline: Pipeline) -> None:
    shown = rows(replace(pipeline, store=ComponentConfig("memory", MemoryOptions(dimension=3))))
    assert shown["store.dimension"] == ("3", "code")
    assert shown["store.name"] == ("memory", "code")


def test_the_value_of_a_secret_variable_is_hidden() -> None:
    text = "extends: default\nanswer: {provider: 'local:${OPENAI_API_KEY}'}\nload: {include: ['${DB_PASSWORD}']}\n"
    pipeline = Pipeline.from_yaml(text, {"OPENAI_API_KEY": "sk-1", "DB_PASSWORD": "hunter2"})
    shown = render_resolved(pipeline)
    assert rows(pipeline)["answer.provider"] == ("(hidden)", "environment OPENAI_API_KEY (pipeline:2:20)")
    assert "sk-1" not in shown
    assert "hunter2" not in shown


def test_the_password_in_an_address_is_hidden() -> None:
    pipeline = Pipeline.from_yaml("extends: default\nstore: {path: 'postgres://ann:hunter2@db:5432/x'}\n", {})
    assert rows(pipeline)["store.path"] == ('"postgres://ann:(hidden)@db:5432/x"', "pipeline:2:15")


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("api_key", True),
        ("OPENAI_API_KEY", True),
        ("token", True),
        ("HF_TOKEN", True),
        ("DB_PASSWORD", True),
        ("dsn", True),
        ("apikey", True),
        ("PGPASSWORD", True),
        ("API_KEY_2", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("token_budget", False),
        ("max_tokens", False),
        ("keywords", False),
        ("monkey", False),
        ("author", False),
    ],
)
def test_option_names_of_secrets_are_recognized(name: str, secret: bool) -> None:
    assert is_secret(name) is secret
