"""schemathesis with the OpenAPI document: no 5xx and no undocumented response."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.app import create_app
from tests.server.parts import limited, serving

EXAMPLES = 12
"""Examples per operation."""
TOKEN = "the-token-of-the-schema"
"""Of an owner, who stays one whichever users the requests add."""
OPTIONS = (
    *("--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES), "--generation-deterministic"),
    # a schema cannot express that a question is not blank, or that a cursor is valid
    *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
    *("--suppress-health-check", "all", "--continue-on-failure", "--no-color"),
)


def test_every_response_matches_the_openapi_document(built: Path, tmp_path: Path) -> None:
    """In a process of its own, since the cases are made before the first request: several CPU-seconds."""
    kb = Path(shutil.copytree(built, tmp_path / "kb"))  # which the requests change
    settings = replace(limited(question_chars=2000, requests_per_minute=None), tokens=(TOKEN,))
    with serving(kb, settings=settings) as (served, client):
        header = f"Authorization: Bearer {TOKEN}"
        document = tmp_path / "openapi.json"
        document.write_text(client.get("/openapi.json", headers=dict([header.split(": ")])).text)
        command = [str(Path(sys.executable).with_name("st")), "run", str(document), "--url", served.url, *OPTIONS]
        command += ["--header", header]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_operation_documents_its_errors(tmp_path: Path) -> None:
    document = create_app(KnowledgeBase.open(tmp_path / "kb"), tmp_path / "kb").openapi()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            codes = set(operation["responses"])
            assert {"200", "400", "401", "413", "429", "500", "503"} <= codes, (method, path)
            assert "422" not in codes
