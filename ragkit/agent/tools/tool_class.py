"""Tools as classes with a method `perform`: their fields are read from the class.

Independent of `ragkit.agent.tools.base`, which calls `adapt_class` when such a class is defined.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from ragkit.agent.tools.function_schema import read_signature
from ragkit.errors import InvalidOption

OwnInit: TypeAlias = Callable[..., None]


def adapt_class(cls: type[Any], tool_class: type[Any], context_type: type) -> None:
    """Let a subclass of Tool with `perform(self, tool_context, ...)` be made without the fields of Tool.

    `name`, `description`, `parameters`, `timeout_s` and `retries` are class attributes, all of them optional: by
    default the name is that of the class, the description its docstring, the parameters those of `perform`. An
    `__init__` of the subclass needs no `super().__init__()`. `tool_class` is Tool, `context_type` ToolContext.
    """
    own_init: OwnInit | None = vars(cls).get("__init__", getattr(cls.__init__, "own_init", None))

    def init(self: Any, *args: object, **kwargs: object) -> None:
        if "function" in kwargs:  # a copy by `dataclasses.replace`
            tool_class.__init__(self, **kwargs)
            return
        _define(self, cls, tool_class, context_type)
        if own_init is not None:
            own_init(self, *args, **kwargs)

    init.own_init = own_init  # type: ignore[attr-defined]
    cls.__init__ = init


def _define(self: Any, cls: type[Any], tool_class: type[Any], context_type: type) -> None:
    """Set the fields of a tool from its class."""
    perform: Callable[..., object] = self.perform
    names = list(inspect.signature(perform).parameters)
    if not names:
        raise InvalidOption(f"perform of {cls.__name__}", "no parameter", "perform(self, tool_context, ...)")
    given = {key: value for base in reversed(cls.__mro__) for key, value in vars(base).items()}
    schema = given.get("parameters")
    signature = replace(
        read_signature(perform, context_type=context_type, hidden=names[:1]), context_parameter=names[0]
    )
    own_doc = inspect.cleandoc(cls.__doc__) if cls.__doc__ and cls.__doc__ != tool_class.__doc__ else ""
    name = given.get("name")
    name = name if isinstance(name, str) else _snake_case(cls.__name__)
    description = given.get("description")
    tool_class.__init__(
        self,
        name,
        description if isinstance(description, str) else own_doc or signature.summary or name.replace("_", " "),
        perform,
        schema if isinstance(schema, Mapping) else signature.schema,
        timeout_s=cls.timeout_s,
        retries=cls.retries,
        signature=None if isinstance(schema, Mapping) else signature,
        context_parameter=names[0],
    )


def _snake_case(name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return words.removesuffix("_tool") or words
