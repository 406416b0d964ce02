"""Basic types are described and validated without pydantic, with the same results."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from ragkit.agent.tools import function_schema
from ragkit.agent.tools.base import ToolContext
from ragkit.agent.tools.function_schema import read_signature, validate_arguments
from ragkit.answer.tool import RAGTool
from ragkit.errors import InvalidToolArguments
from ragkit.records import JSON


def no_parameters() -> None: ...


def only_defaults(text: str = "a", flag: bool = False, count: int = 3, share: float = 0.5) -> None:
    """Summary.

    Args:
        text: what it says.
        flag: whether.
    """


def mixed(self: str, model_dump: int, context: ToolContext, *rest: str, last: bool = True, **more: int) -> None: ...


def odd_defaults(a: float = 1, b: int = True, c: str | None = None, d: float = float("inf")) -> None: ...


FUNCTIONS = [no_parameters, only_defaults, mixed, odd_defaults, RAGTool.search_knowledge_base]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_schema_of_basic_types_is_that_of_pydantic(function: Callable[..., object]) -> None:
    signature = read_signature(function, context_type=ToolContext)
    assert json.dumps(signature.schema) == json.dumps(function_schema._build_schema(signature))


@pytest.mark.parametrize("hint", ["str", "int", "float", "bool"])
@pytest.mark.parametrize(
    "value", ["x", "\ud800", "1", "true", 1, 0, 10**400, 1.0, 1.5, float("nan"), True, None, [1], {}]
)
def test_basic_types_are_validated_like_pydantic_does(hint: str, value: JSON) -> None:
    scope: dict[str, Callable[..., object]] = {}
    exec(f"def function(a: {hint}, b: {hint} = None): ...", scope)
    signature = read_signature(scope["function"], context_type=ToolContext)
    for arguments in ({"a": value}, {"a": value, "b": value}, {"b": value}, {"a": value, "c": 1}):
        try:
            model = signature.model.model_validate(arguments)
            expected = sorted(("ab"[int(field[1:])], repr(getattr(model, field))) for field in model.model_fields_set)
        except ValueError:
            with pytest.raises(InvalidToolArguments):
                validate_arguments(signature, "function", arguments)
        else:
            result = validate_arguments(signature, "function", arguments)
            assert sorted((name, repr(item)) for name, item in result.items()) == expected


def test_the_search_tool_does_not_import_pydantic() -> None:
    code = (
        "import sys; from ragkit.answer.tool import RAGTool; from ragkit.agent.tools.function_schema import *;"
        "from ragkit.agent.tools.base import ToolContext;"
        "signature = read_signature(RAGTool.search_knowledge_base, context_type=ToolContext, hidden=('self',));"
        "print(validate_arguments(signature, 'search', {'query': 'a', 'top_k': 2}), 'pydantic' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "{'query': 'a', 'top_k': 2} False\n"
