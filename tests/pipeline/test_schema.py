"""The JSON Schema agrees with the reader of pipeline files."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from ragkit.pipeline import discovery
from ragkit.pipeline.schema import SCHEMA_FILE_NAME, field_descriptions, json_schema
from ragkit.records import JSON
from tests.pipeline.golden import BROKEN, SHIPPED
from tests.pipeline.sample import SECTIONS, RemoteOptions, ServerOptions


def errors(text: str) -> list[str]:
    """The errors of an independent validator with the schema of the sample components."""
    validation_errors = Draft202012Validator(json_schema(SECTIONS)).iter_errors(YAML(typ="safe", pure=True).load(text))
    return sorted(error.message for error in validation_errors)


def component_schema(name: str) -> JSON:
    definitions = json_schema(SECTIONS)["$defs"]
    assert isinstance(definitions, dict)
    definition: JSON = definitions[name]
    return definition


def test_the_schema_is_valid() -> None:
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.rotating
@pytest.mark.parametrize("name", discovery.pipeline_names())
def test_every_shipped_pipeline_is_valid_against_the_schema(name: str) -> None:
    text = (discovery.pipelines_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    Draft202012Validator(json_schema()).validate(YAML(typ="safe", pure=True).load(text))


@pytest.mark.parametrize("name", discovery.pipeline_names())
def test_every_shipped_pipeline_references_the_schema(name: str) -> None:
    text = (discovery.pipelines_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    assert text.startswith(f"# yaml-language-server: $schema={SCHEMA_FILE_NAME}\n")


def test_the_docstring_below_a_field_is_its_description() -> None:
    assert field_descriptions(RemoteOptions) == {
        "model": "The name of the model.",
        "api_key": "Empty: read from the environment.",
        "dimensions": "Dimension of the vectors; null: the default of the model.",
        "headers": "Sent with every request.",
        "cache": "A folder for answers.\n\n    A second paragraph, which is part of the docstring.",
    }


def test_an_inherited_field_keeps_its_description() -> None:
    assert field_descriptions(ServerOptions) == {
        "path": "The folder.",
        "sync": "Call fsync after each write.",
        "retries": "Maximum number of retries.",
    }


def test_every_option_of_every_component_has_a_description() -> None:
    definitions = json_schema()["$defs"]
    assert isinstance(definitions, dict)
    undescribed = [
        f"{name}.{option}"
        for name, definition in definitions.items()
        if "." in name and isinstance(definition, dict) and isinstance(properties := definition["properties"], dict)
        for option, schema in properties.items()
        if option != "name" and isinstance(schema, dict) and "description" not in schema
    ]
    assert undescribed == []


def test_the_schema_of_a_component_is_complete() -> None:
    assert component_schema("embed.remote") == {
        "description": "A remote model.",
        "type": "object",
        "properties": {
            "name": {"const": "remote"},
            "model": {"description": "The name of the model.", "type": "string"},
            "api_key": {"description": "Empty: read from the environment.", "type": "string", "default": ""},
            "dimensions": {
                "description": "Dimension of the vectors; null: the default of the model.",
                "anyOf": [{"type": "integer"}, {"type": "null"}, {"$ref": "#/$defs/variable"}],
                "default": None,
            },
            "headers": {
                "description": "Sent with every request.",
                "type": "object",
                "additionalProperties": {"type": "string"},
                "default": {},
            },
            "cache": {
                "description": "A folder for answers. A second paragraph, which is part of the docstring.",
                "anyOf": [{"type": "string"}, {"type": "null"}],
                "default": None,
            },
        },
        "additionalProperties": False,
        "required": ["model"],
    }


def test_an_option_set_by_the_knowledge_base_is_not_required() -> None:
    definition = component_schema("store.files")
    assert isinstance(definition, dict)
    assert "required" not in definition


@pytest.mark.parametrize("name", ["plain", "careful"])
def test_the_sample_pipelines_are_valid(name: str) -> None:
    assert errors((SHIPPED / f"{name}.yaml").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "name",
    [
        "unknown-section",
        "section-is-a-word",
        "list-for-a-single-component",
        "list-without-entries",
        "unknown-component",
        "unknown-option",
        "text-for-a-whole-number",
        "yes-for-true",
        "value-not-among-the-choices",
        "text-for-a-list",
        "required-option-missing",
        "profile-with-an-unknown-section",
    ],
)
def test_the_schema_rejects_broken_files(name: str) -> None:
    assert errors((BROKEN / f"{name}.yaml").read_text(encoding="utf-8")) != []


def test_a_variable_is_allowed_for_a_number_and_a_name() -> None:
    text = "extends: plain\nsplit: {name: recursive, chunk_size: '${SIZE}'}\nembed: {name: '${EMBEDDER:-small}'}\n"
    assert errors(text) == []


def test_options_without_a_name_can_belong_to_any_component() -> None:
    assert errors("extends: plain\nsplit: {chunk_size: 5}\n") == []
    assert errors("extends: plain\nsplit: {chunksize: 5}\n") != []
