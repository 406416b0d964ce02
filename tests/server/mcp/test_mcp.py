"""The MCP server with the official client, over stdio and HTTP, in both protocol versions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from mcp import Client, MCPError
from mcp_types import TextResourceContents

from ragkit import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.server.mcp.http import create_mcp_app
from ragkit.server.mcp.server import McpServer
from ragkit.server.mcp.tools import McpTools
from ragkit.server.settings import ServerSettings
from tests.server.mcp.parts import LINES, REFUNDS, SECRET, McpConnection, build, process, serving, text

READING = ["search_knowledge_base", "ask", "list_documents", "outline", "read_document", "find_text", "status"]
CONNECTIONS = ["stdio", "stdio, 2025", "http", "http, 2025"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with documents and a knowledge base that no test changes."""
    return build(tmp_path_factory.mktemp("mcp"))


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The knowledge base over HTTP."""
    with (
        KnowledgeBase.open(folder / "kb") as kb,
        serving(create_mcp_app(McpServer(McpTools(kb)), ServerSettings())) as url,
    ):
        yield f"{url}/mcp"


@pytest.fixture(scope="module", params=CONNECTIONS)
def connection(request: pytest.FixtureRequest, folder: Path) -> Iterator[McpConnection]:
    """A client for each transport and protocol version."""
    transport, _, legacy = str(request.param).partition(", ")
    mode = "legacy" if legacy else "auto"
    target = process(folder) if transport == "stdio" else request.getfixturevalue("address")
    with McpConnection(lambda: Client(target, mode=mode)) as result:
        yield result


def test_the_tools_are_read_only_and_declare_their_schemas(connection: McpConnection) -> None:
    tools = connection.do(lambda client: client.list_tools()).tools
    assert [tool.name for tool in tools] == READING
    for tool in tools:
        assert tool.annotations is not None and tool.annotations.read_only_hint is True
        assert tool.output_schema is not None and tool.output_schema["type"] == "object"
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        assert all(item.get("description") for item in tool.input_schema["properties"].values())


def test_every_result_matches_the_schema_of_its_tool(connection: McpConnection, folder: Path) -> None:
    schemas = {tool.name: tool.output_schema for tool in connection.do(lambda client: client.list_tools()).tools}
    arguments_by_tool = {
        "search_knowledge_base": {"query": "refunds"},
        "ask": {"question": "When does money come back?"},
        "list_documents": {},
        "outline": {"source": "refunds.md"},
        "read_document": {"source": str(folder / "docs" / "refunds.md")},
        "find_text": {"pattern": "money"},
        "status": {},
    }
    assert list(arguments_by_tool) == READING
    for name, arguments in arguments_by_tool.items():
        result = connection.call(name, **arguments)
        assert not result.is_error, text(result)
        jsonschema.validate(result.structured_content, schemas[name] or {})


def test_a_search_returns_numbered_passages_with_their_locations(connection: McpConnection) -> None:
    result = connection.call("search_knowledge_base", query="money back refunds", top_k=1)
    assert text(result).startswith("[1] ") and "refunds.md, lines " in text(result)
    [hit] = result.structured_content["hits"]
    assert hit["source"].endswith("docs/refunds.md")
    assert REFUNDS[hit["start"] : hit["end"]] == hit["text"]
    document = connection.call("get_document", document=hit["document_id"])
    assert document.structured_content["text"] == REFUNDS


def test_a_search_applies_its_filter(connection: McpConnection) -> None:
    result = connection.call("search_knowledge_base", query="refunds", where='format == "text"')
    hits = result.structured_content["hits"]
    assert hits and {Path(hit["source"]).name for hit in hits} == {"long.txt"}


def test_an_answer_without_a_model_is_quoted_and_cited(connection: McpConnection) -> None:
    result = connection.call("ask", question="When does money come back?")
    answer = result.structured_content
    assert answer["model"] == "extractive" and answer["usage"]["total_cost_usd"] == 0
    first = answer["citations"][0]
    assert (first["n"], first["verified"], first["stale"]) == (1, True, False)
    assert first["quote"] == REFUNDS[first["start"] : first["end"]]
    assert f'[1] {first["source"]}, line 3: "Money comes back within 14 days."' in text(result)
    listed = connection.call("list_documents", query="refunds").structured_content["documents"]
    assert [item["id"] for item in listed] == [first["document_id"]]


@pytest.mark.parametrize("name", ["docs/refunds.md", "{folder}/docs/refunds.md"])
def test_a_document_is_found_by_its_id_its_source_or_its_displayed_source(
    connection: McpConnection, folder: Path, name: str
) -> None:
    if name.startswith("docs"):
        name = next(
            item["source"]
            for item in connection.call("list_documents", query="refunds").structured_content["documents"]
        )
    assert connection.call("get_document", document=name.format(folder=folder)).structured_content["lines"] == 6


def test_the_parts_of_a_long_document_add_up_to_its_text(connection: McpConnection, folder: Path) -> None:
    parts, line, source = list[str](), 1, str(folder / "docs" / "long.txt")
    while line is not None:
        part = connection.call("get_document", document=source, start_line=line).structured_content
        assert (part["first_line"], part["lines"]) == (line, LINES + 1)
        parts.append(part["text"])
        line = part["next_line"]
    assert len(parts) == 4
    assert "\n".join(parts) == (folder / "docs" / "long.txt").read_text()


def test_a_range_of_lines_of_a_document_is_exact(connection: McpConnection, folder: Path) -> None:
    result = connection.call("get_document", document=str(folder / "docs/long.txt"), start_line=10, end_line=12)
    assert result.structured_content["text"] == "line 10 of the log\nline 11 of the log\nline 12 of the log"
    assert text(result).startswith(f"{result.structured_content['source']}, lines 10-12 of {LINES + 1}; continue with")


def test_parts_of_a_document_are_read_by_heading_and_lines_and_exact_text_is_found(connection: McpConnection) -> None:
    part = connection.call("read_document", source="refunds.md", section="Refunds").structured_content
    assert part["text"].startswith("# Refunds") and part["lines"] == 6
    lines = connection.call("read_document", source="long.txt", lines="10-12").structured_content
    assert lines["text"] == "line 10 of the log\nline 11 of the log\nline 12 of the log"
    found = connection.call("find_text", pattern="MONEY  comes").structured_content
    assert (found["places"], found["matching"], found["searched"], found["complete"]) == (1, 1, 3, True)
    assert found["documents"][0]["places"] == [{"place": "line 3", "text": "Money comes back within 14 days."}]
    assert connection.call("outline", source="refunds.md").structured_content["sections"] == [
        {"title": "Refunds", "level": 1, "place": "line 1"}
    ]
    for name, arguments in (("outline", {"source": "nothing.md"}), ("find_text", {"pattern": "(", "regex": True})):
        assert connection.call(name, **arguments).is_error


def test_a_list_continues_at_its_cursor(connection: McpConnection) -> None:
    pages, cursor = list[list[str]](), ""
    while cursor is not None:
        page = connection.call("list_documents", limit=2, cursor=cursor).structured_content
        pages.append([Path(item["source"]).name for item in page["documents"]])
        cursor = page["next"]
    assert pages == [["long.txt", "refunds.md"], ["retries.md"]]


def test_the_status_has_the_counts_of_the_knowledge_base(connection: McpConnection) -> None:
    result = connection.call("status")
    assert (result.structured_content["documents"], result.structured_content["stale"]) == (3, 0)
    assert text(result).startswith("3 documents in ")


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("search_knowledge_base", {}, "parameter 'query' is missing"),
        ("search_knowledge_base", {"query": ""}, "'query' is '': string should have at least 1 character"),
        ("search_knowledge_base", {"query": "x", "top_k": -1}, "'top_k' is -1: input should be greater than or equal"),
        ("search_knowledge_base", {"query": "x", "top_k": 51}, "'top_k' is 51: input should be less than or equal"),
        ("search_knowledge_base", {"query": "x", "topk": 5}, "unknown parameter 'topk' (did you mean 'top_k'?)"),
        ("search_knowledge_base", {"query": "x", "where": "a = 1"}, "column 3: expected one of == !="),
        ("search_knowledge_base", {"query": ["x"]}, "'query' is ['x']: input should be a valid string"),
        ("ask", {"question": "x" * 8001}, "string should have at most 8000 characters"),
        ("get_document", {"document": "docs/refunds.md", "start_line": 0}, "'start_line' is 0"),
        ("get_document", {"document": "{folder}/docs/refunds.md", "start_line": 9}, "start_line must be <= "),
        (
            "get_document",
            {"document": "{folder}/docs/refunds.md", "start_line": 3, "end_line": 2},
            "end_line must be >= start_line, 3 (got 2)",
        ),
        ("list_documents", {"cursor": "!!"}, "invalid cursor"),
        ("list_documents", {"limit": 1000}, "'limit' is 1000: input should be less than or equal to 100"),
        ("status", {"verbose": True}, "unknown parameter 'verbose' (known: none)"),
    ],
)
def test_invalid_arguments_give_a_one_line_error(
    connection: McpConnection, folder: Path, name: str, arguments: dict[str, object], message: str
) -> None:
    formatted = {
        key: value.format(folder=folder) if isinstance(value, str) else value for key, value in arguments.items()
    }
    assert message in connection.call_rejected(name, **formatted)


def test_an_unknown_tool_is_an_error_of_the_protocol(connection: McpConnection) -> None:
    with pytest.raises(MCPError, match=r"unknown tool 'serch'; available: search_knowledge_base, ask, "):
        connection.call("serch", query="x")


def test_no_tool_can_modify_anything_without_permission(connection: McpConnection) -> None:
    with pytest.raises(MCPError, match="unknown tool 'index'"):
        connection.call("index")


OUTSIDE = [
    "secret.txt",
    "{folder}/secret.txt",
    "docs/../secret.txt",
    "{folder}/docs/../secret.txt",
    "../../../../../../etc/passwd",
    "/etc/passwd",
    "file:///etc/passwd",
    "docs/refunds.md/../../secret.txt",
    "docs\\..\\..\\secret.txt",
    "%2e%2e/secret.txt",
    "docs/refunds.md\0/etc/passwd",
    "~/.ssh/id_rsa",
    "kb/catalog.sqlite",
    "{folder}/kb/catalog.sqlite",
    "{folder}/docs",
    "{folder}/docs/./refunds.md",
    ".",
    "\ud800",
    "' OR 1=1 --",
    "docs/%.md",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_mcp_reads_no_file_named_by_a_client(connection: McpConnection, folder: Path, name: str) -> None:
    if name == "\ud800":
        name = "\ufffd"  # JSON in UTF-8 cannot carry half a surrogate pair: the client library rejects it
    result = connection.call_rejected("get_document", document=name.format(folder=folder))
    assert result.startswith("unknown document ")
    for address in (f"ragkit://document/{name}", f"file://{folder}/{name}"):
        with pytest.raises(MCPError, match=r"(unknown document|the URI must be)") as caught:
            read(connection, address.format(folder=folder))
        assert SECRET.strip() not in str(caught.value)


def test_documents_are_resources_too(connection: McpConnection, folder: Path) -> None:
    listed = connection.do(lambda client: client.list_resources())
    assert [Path(item.name).name for item in listed.resources] == ["long.txt", "refunds.md", "retries.md"]
    assert {item.mime_type for item in listed.resources} == {"text/plain"} and listed.next_cursor is None
    [template] = connection.do(lambda client: client.list_resource_templates()).resource_templates
    assert template.uri_template == "ragkit://document/{id}{?start_line,end_line}"
    long, refunds, _ = (item.uri for item in listed.resources)
    assert read(connection, refunds) == REFUNDS
    assert read(connection, f"{long}?start_line=6000") == "line 6000 of the log\n"
    assert read(connection, f"{long}?start_line=2&end_line=3") == "line 2 of the log\nline 3 of the log"


def test_a_resource_that_is_too_long_says_how_to_read_it_in_parts(connection: McpConnection) -> None:
    long = connection.do(lambda client: client.list_resources()).resources[0].uri
    with pytest.raises(MCPError, match=r"more than 40,000 characters: read it in parts, first ragkit://") as caught:
        read(connection, long)
    first = str(caught.value).rpartition(" ")[2]
    assert read(connection, first).startswith("line 1 of the log\n")


@pytest.mark.parametrize(
    "query", ["start_line=a", "start_line=-1", "start_line=0", "end_line=\u0663", "start_line=1e9"]
)
def test_a_resource_with_invalid_line_numbers_is_rejected(connection: McpConnection, query: str) -> None:
    refunds = connection.do(lambda client: client.list_resources()).resources[1].uri
    with pytest.raises(MCPError, match=r"_line must be a number >= 1 \(got "):
        read(connection, f"{refunds}?{query}")


def read(connection: McpConnection, address: str) -> str:
    """The text of a resource."""
    [content] = connection.do(lambda client: client.read_resource(address)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


def test_records_can_be_counted_and_added_up(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("name,price\npump,3\nvalve,4.5\n")
    pipeline = Pipeline.from_yaml("load: [{name: csv, records: {}}]\nembed: {name: hashing}\n")
    with KnowledgeBase.open(tmp_path / "kb", pipeline) as kb:
        kb.index(tmp_path / "prices.csv")
        with (
            serving(create_mcp_app(McpServer(McpTools(kb)), ServerSettings())) as url,
            McpConnection(lambda: Client(f"{url}/mcp")) as connection,
        ):
            names = [tool.name for tool in connection.do(lambda client: client.list_tools()).tools]
            assert names == [*READING, "aggregate_records"]
            result = connection.call("aggregate_records", function="sum", field="price", where="price > 2")
            assert text(result) == "sum of price over 2 of 2 records: 7.5"
            assert result.structured_content == {
                **{"field": "price", "documents": 2, "numbers": 2},
                **{"sum": 7.5, "min": 3, "max": 4.5, "mean": 3.75},
            }
