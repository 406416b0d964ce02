"""Tools: the schema of a signature, validation of arguments, every kind of function."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, assert_type

import pytest
from pydantic import BaseModel, Field

from ragkit.agent.tools.base import Tool, ToolContext, ToolResult, build_tool_schema, tool
from ragkit.agent.tools.registry import ToolRegistry
from ragkit.errors import InvalidOption, InvalidToolArguments, UnknownName
from ragkit.records import JSON


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclass
class Point:
    x: float
    y: float = 0.0


class Address(BaseModel):
    street: str
    number: int = 1


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


def properties(function: Callable[..., object]) -> dict[str, JSON]:
    schema = Tool.from_function(function).parameters["properties"]
    assert isinstance(schema, dict)
    return schema


def test_the_decorator_reads_name_description_and_parameters() -> None:
    @tool(description="Your tool description")
    def my_tool(param1: str, param2: int = 10) -> str:
        """Tool implementation."""
        return f"Result: {param1}, {param2}"

    assert (my_tool.name, my_tool.description) == ("my_tool", "Your tool description")
    assert my_tool.parameters == {
        "type": "object",
        "properties": {"param1": {"type": "string"}, "param2": {"type": "integer", "default": 10}},
        "required": ["param1"],
        "additionalProperties": False,
    }
    assert my_tool("a", 2) == "Result: a, 2"


def test_descriptions_come_from_the_docstring() -> None:
    @tool
    def search(query: str) -> str:
        """Search the index.

        It knows everything.

        Args:
            query: what to look for.
        """
        return query

    assert search.description == "Search the index.\n\nIt knows everything."
    assert search.parameters["properties"] == {"query": {"type": "string", "description": "what to look for."}}


def test_the_description_may_be_the_only_argument() -> None:
    @tool("Analyze code for issues")
    def analyze_code(file_path: str) -> str:
        return file_path

    assert analyze_code.description == "Analyze code for issues"


def test_every_kind_of_hint_has_its_schema() -> None:
    def function(
        text: str,
        *,
        maybe: str | None = None,
        choice: Literal["a", "b"] = "a",
        either: int | str = 1,
        colour: Colour = Colour.RED,
        many: list[int] = [],  # noqa: B006 - a default is what is being tested
        table: dict[str, float] = {},  # noqa: B006
        point: Point | None = None,
        address: Address | None = None,
        bounded: Annotated[int, Field(ge=1, le=5, description="one to five")] = 3,
        flag: bool = False,
    ) -> None: ...

    schemas = properties(function)
    assert schemas["text"] == {"type": "string"}
    assert schemas["maybe"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert schemas["choice"] == {"enum": ["a", "b"], "type": "string", "default": "a"}
    assert schemas["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": 1}
    assert schemas["colour"] == {"enum": ["red", "green"], "type": "string", "default": "red"}
    assert schemas["many"] == {"items": {"type": "integer"}, "type": "array", "default": []}
    assert schemas["table"] == {"additionalProperties": {"type": "number"}, "type": "object", "default": {}}
    place = {"properties": {"x": {"type": "number"}, "y": {"default": 0.0, "type": "number"}}}
    assert schemas["point"] == {
        "anyOf": [{**place, "required": ["x"], "type": "object", "additionalProperties": False}, {"type": "null"}],
        "default": None,
    }
    assert schemas["bounded"] == {
        "type": "integer",
        "default": 3,
        "minimum": 1,
        "maximum": 5,
        "description": "one to five",
    }
    assert schemas["flag"] == {"type": "boolean", "default": False}


def test_a_recursive_type_keeps_its_definitions() -> None:
    def grow(tree: Tree) -> None: ...

    schema = Tool.from_function(grow).parameters
    assert schema["properties"] == {"tree": {"$ref": "#/$defs/Tree"}}
    assert schema["$defs"] == {
        "Tree": {
            "properties": {
                "name": {"type": "string"},
                "children": {"default": [], "items": {"$ref": "#/$defs/Tree"}, "type": "array"},
            },
            "required": ["name"],
            "type": "object",
        }
    }


def test_a_parameter_may_have_any_name() -> None:
    def odd(title: str, copy: int, model_config: str, _hidden: int = 1) -> str:
        return f"{title} {copy} {model_config} {_hidden}"

    tool_ = Tool.from_function(odd)
    assert list(properties(odd)) == ["title", "copy", "model_config", "_hidden"]
    assert tool_.execute({"title": "t", "copy": 1, "model_config": "m", "_hidden": 2}) == "t 1 m 2"


def test_a_parameter_without_a_hint_takes_the_type_of_its_default() -> None:
    def unhinted(anything, number=3):  # type: ignore[no-untyped-def]
        return anything, number

    assert properties(unhinted) == {"anything": {}, "number": {"type": "integer", "default": 3}}


def test_arguments_are_converted_to_the_types_of_the_function() -> None:
    @tool
    def take(point: Point, colour: Colour, address: Address, n: int) -> tuple[object, ...]:
        """Take."""
        return point, colour, address, n

    arguments: dict[str, JSON] = {"point": {"x": 1}, "colour": "green", "address": {"street": "A"}, "n": "7"}
    assert take.execute(arguments) == (Point(1.0), Colour.GREEN, Address(street="A"), 7)


def test_an_omitted_argument_takes_the_default_of_the_function() -> None:
    @tool
    def take(a: int = 1, b: int = 2) -> str:
        """Take."""
        return f"{a} {b}"

    assert take.validate({"b": 5}) == {"b": 5}
    assert take.execute(b=5) == "1 5"


@tool
def lookup(query: str, limit: int = 5, order: Literal["newest", "oldest"] = "newest") -> str:
    """Look up.

    Args:
        query: what to look for.
    """
    return f"{query} {limit} {order}"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({}, r"parameter 'query' is missing \(string, what to look for.\)"),
        ({"querry": "x"}, r"unknown parameter 'querry' \(did you mean 'query'\?\)"),
        ({"query": "x", "zzz": 1}, r"unknown parameter 'zzz' \(known: query, limit, order\)"),
        ({"query": "x", "limit": "many"}, r"'limit' is 'many': input should be a valid integer"),
        ({"query": "x", "order": "newst"}, r"'order' is 'newst': .*\(did you mean 'newest'\?\)"),
        ({"query": 3}, r"'query' is 3: input should be a valid string"),
    ],
)
def test_invalid_arguments_get_a_helpful_message(sent: dict[str, JSON], words: str) -> None:
    with pytest.raises(InvalidToolArguments, match=words):
        lookup.validate(sent)


def test_every_problem_of_the_arguments_is_reported_at_once() -> None:
    with pytest.raises(InvalidToolArguments, match="invalid arguments for lookup") as raised:
        lookup.validate({"querry": "x", "limit": "many"})
    assert len(raised.value.problems) == 3


def test_injected_arguments_are_hidden_from_the_model_and_rejected_from_it() -> None:
    @tool(injected_kwargs={"key": "secret"})
    def fetch(url: str, key: str) -> str:
        """Fetch."""
        return f"{url} {key}"

    assert list(fetch.parameters["properties"]) == ["url"]  # type: ignore[arg-type]
    assert fetch.execute({"url": "u"}) == "u secret"
    assert fetch.execute({"url": "u"}, {"key": "other"}) == "u other"
    with pytest.raises(InvalidToolArguments, match="unknown parameter 'key'"):
        fetch.execute({"url": "u", "key": "mine"})
    assert "secret" not in repr(fetch)


def test_bind_injects_an_argument() -> None:
    bound = lookup.bind(limit=9)
    assert bound.execute(query="q") == "q 9 newest"
    assert "limit" not in str(bound.parameters)
    assert lookup.execute(query="q") == "q 5 newest"


def test_the_context_is_found_by_its_type_and_hidden_from_the_model() -> None:
    @tool
    def who(ctx: ToolContext, greeting: str = "hi") -> str:
        """Who."""
        return f"{greeting} from {ctx.tool_name}"

    assert list(who.parameters["properties"]) == ["greeting"]  # type: ignore[arg-type]
    assert who.execute() == "hi from who"


def test_methods_partials_and_callable_objects_can_be_tools() -> None:
    class Service:
        def greet(self, name: str) -> str:
            """Greet."""
            return f"hello {name}"

        def __call__(self, name: str) -> str:
            return f"called {name}"

    service = Service()
    assert Tool.from_function(service.greet).execute(name="you") == "hello you"
    assert Tool.from_function(service, name="service").execute(name="you") == "called you"
    part = functools.partial(service.greet)
    assert Tool.from_function(part, "greets", name="part").execute(name="you") == "hello you"


def test_asynchronous_functions_are_recognized() -> None:
    async def wait() -> str:
        return "done"

    async def stream() -> object:
        yield "x"

    def plain() -> Iterator[str]:
        yield "x"

    assert [Tool.from_function(function).is_async for function in (wait, stream, plain)] == [True, True, False]


def test_a_type_without_a_json_schema_is_rejected_with_the_function_name() -> None:
    def bad(handle: Iterator[bytes] | type) -> None: ...

    with pytest.raises(InvalidOption, match="the signature of bad"):
        Tool.from_function(bad)


def test_a_name_that_services_reject_is_rejected() -> None:
    with pytest.raises(InvalidOption, match="the name of a tool must be up to 64 letters"):
        tool(description="x", name="my tool")(lambda: "x")

    with pytest.raises(InvalidOption, match=r"letters a-z and A-Z, .*: set another by `name=` \(got 'prüfe'\)"):
        tool(description="x", name="prüfe")(lambda: "x")


def test_a_hand_written_tool_is_validated_by_its_schema() -> None:
    schema: dict[str, JSON] = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}},
        "required": ["city"],
    }
    weather = Tool("weather", "Weather.", lambda city, unit="C": f"{city} {unit}", schema)
    assert weather.execute(city="Oslo") == "Oslo C"
    with pytest.raises(InvalidToolArguments, match="parameter 'city' is missing"):
        weather.validate({})
    with pytest.raises(InvalidToolArguments, match="unknown parameter 'cty'"):
        weather.validate({"city": "Oslo", "cty": 1})
    with pytest.raises(InvalidToolArguments, match="'unit' must be one of 'C', 'F'"):
        weather.validate({"city": "Oslo", "unit": "K"})


def test_the_schema_for_openai_is_a_function_object() -> None:
    def f(x: int) -> None:
        """Do it."""

    assert build_tool_schema(f) == {
        "type": "function",
        "function": {
            "name": "f",
            "description": "Do it.",
            "parameters": {
                "type": "object",
                "properties": {"x": {"type": "integer"}},
                "required": ["x"],
                "additionalProperties": False,
            },
        },
    }


def test_a_registry_looks_up_lists_and_counts_tools() -> None:
    registry = ToolRegistry()
    registry.register(lookup)

    def other(x: int) -> str:
        """Other."""
        return str(x)

    registry.register_function(other, "another description")
    assert registry.list_names() == ["lookup", "other"]
    assert registry.get("other").description == "another description"
    assert [tool_.name for tool_ in registry.list_all()] == [tool_.name for tool_ in registry] == ["lookup", "other"]
    assert (len(registry), "lookup" in registry, "nope" in registry) == (2, True, False)
    assert [schema["function"]["name"] for schema in registry.to_schemas()] == ["lookup", "other"]  # type: ignore[index, call-overload]


def test_a_registered_tool_with_a_new_description_keeps_everything_else() -> None:
    original = Tool(
        "query",
        "Query.",
        lambda sql, db: f"{sql} on {db}",
        {"type": "object", "properties": {"sql": {"type": "string"}}},
        timeout_s=3.0,
        retries=2,
        injected_kwargs={"db": "main"},
    )
    registered = ToolRegistry().register_function(original, "Query the database.")
    assert registered == dataclasses.replace(original, description="Query the database.")
    assert registered.execute(sql="SELECT 1") == "SELECT 1 on main"


def test_an_unknown_tool_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match=r"unknown tool 'lokup' \(did you mean 'lookup'\?\)"):
        ToolRegistry([lookup]).get("lokup")


def test_two_tools_with_the_same_name_are_rejected() -> None:
    registry = ToolRegistry([lookup])
    with pytest.raises(InvalidOption, match="the name of a tool must be unique in its registry"):
        registry.register(lookup)


def test_a_snapshot_is_frozen_and_does_not_follow_the_registry() -> None:
    registry = ToolRegistry([lookup])
    frozen = registry.snapshot()
    registry.register_function(tool(description="later", name="later")(lambda: "x"))
    assert (frozen.frozen, frozen.list_names(), registry.list_names()) == (True, ["lookup"], ["lookup", "later"])
    with pytest.raises(InvalidOption, match="the tool registry must be unfrozen to register 'lookup'"):
        frozen.register(lookup)


def test_a_result_contains_text_and_an_object() -> None:
    assert ToolResult("two hits", [1, 2]).data == [1, 2]


def test_a_type_checker_sees_the_types_of_the_function() -> None:
    @tool
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    @tool("Halve a number", retries=1)
    def halve(number: float) -> float:
        return number / 2

    @tool(description="Say hello", cache=True)
    async def greet(name: str = "you") -> str:
        return f"Hello {name}"

    assert assert_type(double(2), int) == 4
    assert assert_type(halve(number=3), float) == 1.5
    assert assert_type(asyncio.run(greet()), str) == "Hello you"
    double("2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword"):
        halve(numbers=1)  # type: ignore[call-arg]


def test_a_schema_that_names_a_parameter_which_the_function_lacks_is_refused() -> None:
    def look_up(city: str, days: int = 1) -> str:
        return city

    schema: dict[str, JSON] = {"type": "object", "properties": {"citty": {"type": "string"}}}
    with pytest.raises(InvalidOption, match=r"a parameter of tool 'weather' must be .*: city, days \(got 'citty'\)"):
        Tool("weather", "The weather.", look_up, schema)
    with pytest.raises(InvalidOption, match=r"must be one that its function has: city \(got 'days'\)"):
        Tool("weather", "The weather.", look_up, {"properties": {"days": {}}}, injected_kwargs={"days": 1})


def test_a_function_with_any_keyword_takes_every_schema() -> None:
    def anything(**arguments: object) -> str:
        return str(arguments)

    built = Tool("any", "Anything.", anything, {"type": "object", "properties": {"x": {"type": "integer"}}})
    assert built.execute(x=1) == "{'x': 1}"


def test_a_tool_with_a_schema_of_its_own_gets_its_context() -> None:
    def whoami(context: ToolContext, prefix: str) -> str:
        return prefix + context.tool_name

    schema: dict[str, JSON] = {"type": "object", "properties": {"prefix": {"type": "string"}}, "required": ["prefix"]}
    assert Tool("who", "Who?", whoami, schema).execute(prefix="I am ") == "I am who"


def test_a_blank_description_is_refused_and_a_missing_one_is_the_name() -> None:
    def read_mail(folder: str) -> str:
        return folder

    assert Tool.from_function(read_mail).description == "read mail"
    with pytest.raises(InvalidOption, match="the description of tool 'read_mail' must be text"):
        tool(" ")(read_mail)
    with pytest.raises(InvalidOption, match="the description of tool 'read_mail' must be text"):
        Tool.from_function(read_mail, "")
