"""`${NAME}`, `${NAME:-default}` and `$$` in the values of a pipeline file, after it was parsed.

Values only, never keys; what a variable holds is never parsed as more than one value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ragkit.errors import did_you_mean
from ragkit.pipeline.nodes import Items, Node, Problem, Scalar, Table
from ragkit.pipeline.syntax import resolve

_PIECE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{")


def expand(node: Node, environ: Mapping[str, str], problems: list[Problem]) -> Node:
    """The tree with the variables of every value put in; those that are not set are added to `problems`."""
    if isinstance(node, Items):
        return replace(node, entries=tuple(expand(entry, environ, problems) for entry in node.entries))
    if isinstance(node, Table):
        return replace(node, pairs=tuple((key, expand(value, environ, problems)) for key, value in node.pairs))
    if not isinstance(node.value, str) or "$" not in node.text:
        return node
    return _expand_scalar(node, environ, problems)


def _expand_scalar(node: Scalar, environ: Mapping[str, str], problems: list[Problem]) -> Scalar:
    used: list[str] = []

    def piece(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if match[0] == "$$":
            return "$"
        if name is None:
            problems.append(
                Problem(node.mark, "'${' begins no variable: ${NAME} or ${NAME:-default}, and $$ for a '$'", root=True)
            )
            return ""
        used.append(name)
        value = environ.get(name)
        if default is not None:
            return value or default
        if value is None:
            hint = did_you_mean(name, environ)
            message = f"the variable {name} is not set{hint}: set it, or write ${{{name}:-default}}"
            problems.append(Problem(node.mark, message, root=True))
        return value or ""

    text = _PIECE.sub(piece, node.text)
    if not used:
        return replace(node, text=text, value=text)
    value = resolve(text) if node.plain else text
    return replace(node, text=text, value=value, variables=tuple(used), template=node.text)
