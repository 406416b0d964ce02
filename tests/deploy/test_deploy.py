"""The files of deploy/ are valid, and start what exists."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from ragkit.server.middleware import PUBLIC_PATHS
from tests.docs import console

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted(set((DEPLOY / "kubernetes").glob("*.yaml")) - {DEPLOY / "kubernetes" / "kustomization.yaml"})


def documents(path: Path) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all(path.read_text("utf-8")))


def containers(value: object) -> list[dict[str, Any]]:
    """All containers of a manifest, however deep."""
    if isinstance(value, dict):
        return [*value.get("containers", []), *(found for item in value.values() for found in containers(item))]
    return [found for item in value for found in containers(item)] if isinstance(value, list) else []


def compose() -> dict[str, Any]:
    found: dict[str, Any] = documents(DEPLOY / "compose.yaml")[0]["services"]
    return found


def test_the_servers_of_stores_have_the_addresses_that_the_benchmark_reads() -> None:
    lines = (DEPLOY / "stores.env").read_text("utf-8").splitlines()
    values = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    text = (ROOT / "configs" / "bench-full.yaml").read_text("utf-8")
    named = set(re.findall(r"\$\{(\w+)", text)) - {"PINECONE_API_KEY"}  # a service
    assert set(values) == named
    services = documents(DEPLOY / "stores.compose.yaml")[0]["services"]
    published = [port for service in services.values() for port in service["ports"]]
    assert all(port.startswith("127.0.0.1:") for port in published)
    ports = {port.split(":")[1] for port in published}
    assert {port for value in values.values() for port in re.findall(r"(?:^|:)(\d+)(?=/|$)", value)} == ports
    user = services["pgvector"]["environment"]
    address = "postgresql://{POSTGRES_USER}:{POSTGRES_PASSWORD}@127.0.0.1:5433/{POSTGRES_DB}".format_map(user)
    assert values["PGVECTOR_DSN"] == address
    assert all("healthcheck" in service for service in services.values())  # `up --wait` waits for them


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_follows_the_schema_of_kubernetes(path: Path) -> None:
    for manifest in documents(path):
        kubernetes_validate.validate(manifest, "1.37", strict=True)


def test_every_started_command_is_one_of_ragkit() -> None:
    started = [service["command"] for service in compose().values() if service["image"] == "ragkit"]
    started += [one["args"] for path in MANIFESTS for item in documents(path) for one in containers(item)]
    started += [re.findall(r'"([^"]+)"', re.findall(r"^CMD (.*)$", (DEPLOY / "Dockerfile").read_text(), re.M)[-1])]
    assert len(started) == 8
    for arguments in started:
        text = re.sub(r"\$\{\w+[^}]*\}", "value", shlex.join(["ragkit", *arguments]))
        assert not list(console.problems(text)), text


def test_every_container_runs_without_rights_and_without_a_writable_system() -> None:
    for service in compose().values():
        if service["image"] == "ragkit":
            assert (service["read_only"], service["user"], service["cap_drop"]) == (True, "10001:10001", ["ALL"])
    found = [one for path in MANIFESTS for item in documents(path) for one in containers(item)]
    assert len(found) == 3
    for one in found:
        rights = one["securityContext"]
        assert rights == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in one["resources"]["limits"]
        assert {mount["mountPath"] for mount in one["volumeMounts"]} >= {"/cache", "/tmp", "/config"}


def test_probes_ask_for_a_name_that_the_server_knows() -> None:
    (server,) = [one for item in documents(DEPLOY / "kubernetes" / "server.yaml") for one in containers(item)]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = server[probe]["httpGet"]
        assert asked["httpHeaders"] == [{"name": "Host", "value": "localhost"}]
        assert asked["path"] in PUBLIC_PATHS


def test_every_variable_of_the_compose_file_is_in_the_example() -> None:
    wanted = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text("utf-8")))
    example = re.findall(r"^(\w+)=", (DEPLOY / ".env.example").read_text("utf-8"), re.M)
    assert set(example) == wanted


def test_the_image_holds_everything_that_the_package_is_built_from() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = build["tool"]["hatch"]["build"]["targets"]["wheel"]
    parts = {Path(path).parts[0] for path in (*wheel["packages"], *wheel["force-include"])}
    parts |= {"pyproject.toml", build["project"]["readme"], *build["project"]["license-files"]}
    copied = " ".join(re.findall(r"^COPY (?!--)(.*) \S+$", (DEPLOY / "Dockerfile").read_text("utf-8"), re.M)).split()
    kept = re.findall(r"^!(\S+)$", (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8"), re.M)
    assert set(copied) == parts
    assert set(kept) == parts


def test_the_extras_of_the_image_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = re.findall(r"^ARG EXTRAS=(\S+)$", (DEPLOY / "Dockerfile").read_text("utf-8"), re.M)[0].split(",")
    assert set(named) <= set(extras)
    assert {"server", "pgvector"} <= set(named)
