"""`ragkit serve --otel` exports the trace of each answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ragkit.agent.exporters.otel import is_requested, provider_from_environment
from ragkit.errors import InvalidOption
from tests.server.parts import process


@pytest.mark.parametrize(
    ("options", "env"),
    [(["--otel"], {"OTEL_TRACES_EXPORTER": "console"}), ([], {"OTEL_TRACES_EXPORTER": "console"})],
    ids=["option", "variable"],
)
def test_an_answer_is_exported_with_the_names_of_the_conventions(
    base: Path, options: list[str], env: Mapping[str, str]
) -> None:
    with process(base, *options, env=env) as server:
        with server.client() as client:
            assert client.post("/chat", json={"message": "When is the hedge cut?"}).status_code == 200
        log = server.stopped()
    spans = [json.loads(line) for line in log.splitlines() if line.startswith('{"name"')]
    operations = {span["attributes"].get("gen_ai.operation.name") for span in spans}
    assert {"invoke_agent", "chat", "execute_tool"} <= operations
    assert {span["resource"]["attributes"]["service.name"] for span in spans} == {"ragkit"}
    assert "hedge" not in json.dumps(spans), "texts are not exported"


def test_the_variables_of_opentelemetry_are_understood() -> None:
    assert is_requested({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317"})
    assert not is_requested({})
    assert not is_requested({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317", "OTEL_SDK_DISABLED": "true"})
    provider_from_environment({"OTEL_TRACES_EXPORTER": "none"})
    with pytest.raises(InvalidOption, match="OTEL_TRACES_EXPORTER must be one of otlp, console, none"):
        provider_from_environment({"OTEL_TRACES_EXPORTER": "zipkin"})
