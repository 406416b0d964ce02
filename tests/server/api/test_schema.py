"""schemathesis with the OpenAPI document: no 5xx and no undocumented response."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.app import create_app
from tests.server.parts import Served, limited, serving

EXAMPLES = 12
"""Examples per operation."""
NO_KB = Path("no-knowledge-base")
SCHEMA = schemathesis.openapi.from_dict(create_app(KnowledgeBase.open(NO_KB), NO_KB).openapi())


@pytest.fixture(scope="module")
def served(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    import shutil

    base = Path(shutil.copytree(built, tmp_path_factory.mktemp("schema") / "kb"))
    with serving(base, settings=limited(question_chars=2000)) as (result, _):
        yield result


@SCHEMA.parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), derandomize=True)
def test_every_response_matches_the_openapi_document(case: schemathesis.Case[Any], served: Served) -> None:
    # a schema cannot express that a question is not blank, or that a cursor is valid
    case.call_and_validate(base_url=served.url, excluded_checks=[positive_data_acceptance])


def test_every_operation_documents_its_errors() -> None:
    document = create_app(KnowledgeBase.open(NO_KB), NO_KB).openapi()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            codes = set(operation["responses"])
            assert {"200", "400", "401", "413", "429", "500", "503"} <= codes, (method, path)
            assert "422" not in codes
