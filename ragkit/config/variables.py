"""Substitute `${NAME}`, `${NAME:-default}` and `$$` in the values of a parsed YAML file.

Keys are not substituted. The value of a variable is never parsed as more than one scalar.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ragkit.config.yaml_nodes import ConfigProblem, MappingNode, Node, ScalarNode, SequenceNode
from ragkit.config.yaml_parser import resolve_scalar
from ragkit.errors import did_you_mean

_VARIABLE_PATTERN = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{")


def substitute_variables(node: Node, environ: Mapping[str, str], problems: list[ConfigProblem]) -> Node:
    """The tree with variables substituted; unset variables are added to `problems`."""
    if isinstance(node, SequenceNode):
        return replace(node, entries=tuple(substitute_variables(entry, environ, problems) for entry in node.entries))
    if isinstance(node, MappingNode):
        pairs = tuple((key, substitute_variables(value, environ, problems)) for key, value in node.pairs)
        return replace(node, pairs=pairs)
    if not isinstance(node.value, str) or "$" not in node.text:
        return node
    return _expand_scalar(node, environ, problems)


def _expand_scalar(node: ScalarNode, environ: Mapping[str, str], problems: list[ConfigProblem]) -> ScalarNode:
    used: list[str] = []

    def expand(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if match[0] == "$$":
            return "$"
        if name is None:
            message = "invalid variable: write ${NAME} or ${NAME:-default}, or $$ for a '$'"
            problems.append(ConfigProblem(node.location, message, is_root_cause=True))
            return ""
        used.append(name)
        value = environ.get(name)
        if default is not None:
            return value or default
        if value is None:
            hint = did_you_mean(name, environ)
            message = f"the environment variable {name} is not set{hint}: set it, or write ${{{name}:-default}}"
            problems.append(ConfigProblem(node.location, message, is_root_cause=True))
        return value or ""

    text = _VARIABLE_PATTERN.sub(expand, node.text)
    if not used:
        return replace(node, text=text, value=text)
    value = resolve_scalar(text) if node.plain else text
    return replace(node, text=text, value=value, variables=tuple(used), template=node.text)
