"""Render the HTTP page: every endpoint of the FastAPI application, with its parameters and body fields."""

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from markdown_pages import table

from ragkit.server.app import ROUTERS

HEAD = ("Field", "Type", "Default", "What it does")


def http_api() -> str:
    """The whole page."""
    app = FastAPI()
    for router in ROUTERS:
        app.include_router(router)
    spec = get_openapi(title="ragkit", version="1", routes=app.routes)
    schemas = spec["components"]["schemas"]
    text = (
        "# HTTP API\n\nThe endpoints of `ragkit serve`. How to run it, its limits and its errors: "
        "[the server](../how-to/server.md).\nA running server describes itself at `/openapi.json`.\n\n"
    )
    rows = [
        (
            f"[`{method.upper()} {path}`](#{anchor(method, path)})",
            str(operation.get("description", "")).partition("\n\n")[0],
        )
        for method, path, operation in operations(spec["paths"])
    ]
    text += table(("Endpoint", "What it does"), *rows) + "\n"
    for method, path, operation in operations(spec["paths"]):
        text += f"## `{method.upper()} {path}` {{: #{anchor(method, path)} }}\n\n"
        text += str(operation.get("description") or operation.get("summary", "")) + "\n\n"
        parameters = [
            (
                f"`{parameter['name']}` ({parameter['in']})",
                kind(parameter["schema"], schemas),
                default(parameter["schema"], parameter.get("required")),
                parameter.get("description", ""),
            )
            for parameter in operation.get("parameters", ())
        ]
        text += table(("Parameter", "Type", "Default", "What it does"), *parameters) + "\n" if parameters else ""
        if body := schema_name(content(operation.get("requestBody", {}))):
            text += "Body:\n\n" + fields(body, schemas)
        response = next((item for status, item in operation["responses"].items() if status.startswith("2")), {})
        if name := schema_name(content(response)):
            text += "Answer:\n\n" + fields(name, schemas)
    return text


def operations(paths: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(method, path, operation), in the order of the routes."""
    for path, methods in paths.items():
        for method, operation in methods.items():
            yield method, path, operation


def anchor(method: str, path: str) -> str:
    return "-".join([method, *path.replace("{", "").replace("}", "").split("/")]).replace("--", "-")


def content(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a JSON body."""
    schema: Mapping[str, Any] = part.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def schema_name(schema: Mapping[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def fields(name: str, schemas: Mapping[str, Any]) -> str:
    """The table of the fields of a schema."""
    schema = schemas[name]
    required = schema.get("required", ())
    rows = [
        (f"`{key}`", kind(field, schemas), default(field, key in required), field.get("description", ""))
        for key, field in schema.get("properties", {}).items()
    ]
    return table(HEAD, *rows) + "\n" if rows else ""


def default(schema: Mapping[str, Any], required: object) -> str:
    if required:
        return "required"
    return f"`{schema['default']!r}`" if schema.get("default") is not None else ""


def kind(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """A short description of the type of a schema."""
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return ", ".join(dict.fromkeys(kind(choice, schemas) for choice in choices if choice.get("type") != "null"))
    if name := schema_name(schema):
        properties = schemas[name].get("properties")
        return f"object ({', '.join(properties)})" if properties else kind(schemas[name], schemas)
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}), schemas) or 'values'}"
    return str(schema.get("type", ""))
