"""Bound the work that a JSON Schema can cause, before a library compiles it or validates a value against it.

A few lines of `allOf` and `$ref` can ask for 2**40 evaluations. This module counts them without making them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from ragkit.errors import InvalidOption
from ragkit.records import JSON

MAX_OBJECTS = 10_000
"""JSON objects in a schema; a pattern counts as `PATTERN_WEIGHT` of them."""
PATTERN_WEIGHT = 100
"""Objects that cost as much time and memory as one regular expression at the size limit of the library."""
MAX_EVALUATIONS = 100_000
"""Subschema evaluations that every value may cause."""
EVALUATIONS_PER_NODE = 20
"""Evaluations that each scalar, list and object of a value adds to the limit."""
MAX_DEPTH = 400
"""Subschemas that may be evaluated inside each other."""
MAX_VALUE_DEPTH = 200
"""Lists and objects of a value inside each other. Far deeper values overflow the stack of the library."""

_DIALECTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
)
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_CHILDREN = (
    *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("prefixItems", "items", "additionalItems", "contains", "unevaluatedItems"),
)
_UNCOUNTABLE = 10**15
_MAPS = frozenset(("properties", "patternProperties", "dependentSchemas", "dependencies"))

Subschema = Mapping[str, JSON]
Costs = dict[tuple[int, int], int]


class EvaluationCounter:
    """Counts the subschemas that a validation evaluates: an upper bound, in time linear in the distinct ones.

    The schema must be a tree as `json.loads` returns it. `$id` and `$schema` may stand at its root only, so that
    every reference has one meaning: a place in this schema.

    Raises:
        InvalidOption: the schema is too large, refers to another document, or causes too many evaluations
            whatever the value.
    """

    def __init__(self, schema: JSON) -> None:
        self._root = schema
        self._anchors: dict[str, Subschema] = {}
        self._scalar_costs: Costs = {}
        _check_dialect(schema)
        self._index_objects()
        self._check_scalars()

    def count(self, value: JSON) -> tuple[int, int]:
        """(evaluations, limit) for a value. Raises InvalidOption if its nesting exceeds a limit."""
        limit = MAX_EVALUATIONS + EVALUATIONS_PER_NODE * count_nodes(value)
        return self._count(self._root, value, dict(self._scalar_costs), limit), limit

    def _index_objects(self) -> None:
        pending: list[JSON] = [self._root]
        weight = 0
        while pending:
            node = pending.pop()
            if isinstance(node, Mapping):
                weight += 1 + PATTERN_WEIGHT * isinstance(node.get("pattern"), str)
                patterns = node.get("patternProperties")
                weight += PATTERN_WEIGHT * len(patterns) if isinstance(patterns, Mapping) else 0
                self._index_object(node)
                pending += node.values()
            elif isinstance(node, list):
                pending += node
            if weight > MAX_OBJECTS:
                raise InvalidOption(
                    "the size", "more", f"<= {MAX_OBJECTS} objects; a pattern counts as {PATTERN_WEIGHT}"
                )

    def _index_object(self, node: Subschema) -> None:
        for keyword in ("$id", "$schema"):
            if node is not self._root and isinstance(node.get(keyword), str):
                raise InvalidOption(f"{keyword!r}", node[keyword], "at the root only")
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = node.get(keyword)
            if isinstance(anchor, str) and self._anchors.setdefault(anchor, node) is not node:
                raise InvalidOption(f"{keyword!r}", anchor, "unique")

    def _check_scalars(self) -> None:
        """Count the evaluations of each subschema for a scalar: those that no value can avoid."""
        pending, seen = [self._root], set()
        while pending:
            schema = pending.pop()
            if not isinstance(schema, Mapping) or id(schema) in seen:
                continue
            seen.add(id(schema))
            count = self._count(schema, None, self._scalar_costs, MAX_EVALUATIONS)
            if count > MAX_EVALUATIONS:
                raise InvalidOption("the number of evaluations", count, f"<= {MAX_EVALUATIONS}")
            pending += self._subschemas_in_place(schema)
            pending += _select(schema, _CHILDREN)

    def _count(self, schema: JSON, value: JSON, costs: Costs, limit: int, depth: int = 1) -> int:
        if not isinstance(schema, Mapping):
            return 1
        key = (id(schema), id(value) if isinstance(value, Mapping | list | tuple) else 0)
        if key in costs:
            return costs[key]
        if depth > MAX_DEPTH:
            raise InvalidOption("the nesting of evaluations", depth, f"<= {MAX_DEPTH}")
        if len(costs) > limit + len(self._scalar_costs):
            return limit + 1
        costs[key] = 0  # under way
        options = schema.get("enum")
        cost = 1 + (len(options) // 100 if isinstance(options, list) else 0)
        # to know what was evaluated, the library evaluates the subschemas in place a second time
        times = 1 + ("unevaluatedProperties" in schema or "unevaluatedItems" in schema)
        for subschema in self._subschemas_in_place(schema):
            nested = self._count(subschema, value, costs, limit, depth + 1)
            if nested == 0:
                reference = next((schema[keyword] for keyword in _REFERENCES if keyword in schema), "#")
                raise InvalidOption("a recursive reference", reference, "below a property or an item")
            cost += times * nested
        for subschema, part in _parts(schema, value):
            cost += self._count(subschema, part, costs, limit, depth + 1)
        costs[key] = min(cost, _UNCOUNTABLE)
        return costs[key]

    def _subschemas_in_place(self, schema: Subschema) -> Iterator[JSON]:
        """The subschemas that apply to the same value as `schema`."""
        for keyword in _REFERENCES:
            reference = schema.get(keyword)
            if isinstance(reference, str):
                yield self._resolve(keyword, reference)
        yield from _select(schema, _IN_PLACE)

    def _resolve(self, keyword: str, reference: str) -> JSON:
        root_id = self._root.get("$id") if isinstance(self._root, Mapping) else None
        document, _, fragment = reference.partition("#")
        node: JSON = self._root
        if document and document != str(root_id).partition("#")[0]:
            raise InvalidOption(f"{keyword!r}", reference, "a reference into the schema itself, '#...'")
        if fragment and not fragment.startswith("/"):
            node = self._anchors.get(fragment)
        for step in unquote(fragment).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping):
                node = node.get(name)
            elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            else:
                node = None
        if not isinstance(node, Mapping | bool):
            raise InvalidOption(f"{keyword!r}", reference, "a reference to a schema that exists")
        return node


def count_nodes(value: JSON) -> int:
    """The scalars, lists and objects of a value. Raises InvalidOption if they are nested too deeply."""
    level: list[JSON] = [value]
    nodes = depth = 0
    while level:
        nodes, depth = nodes + len(level), depth + 1
        if depth > MAX_VALUE_DEPTH:
            raise InvalidOption("the nesting of the value", "more", f"<= {MAX_VALUE_DEPTH} levels")
        level = [
            child
            for node in level
            if isinstance(node, Mapping | list | tuple)
            for child in (node.values() if isinstance(node, Mapping) else node)
        ]
    return nodes


def _check_dialect(schema: JSON) -> None:
    dialect = schema.get("$schema", _DIALECTS[0]) if isinstance(schema, Mapping) else _DIALECTS[0]
    if str(dialect).removesuffix("#") not in _DIALECTS:
        raise InvalidOption("'$schema'", dialect, f"one of {', '.join(_DIALECTS)}")


def _parts(schema: Subschema, value: JSON) -> Iterator[tuple[JSON, JSON]]:
    """The subschemas that may apply to the properties or items of `value`, each with its property or item."""
    if isinstance(value, Mapping):
        properties = schema.get("properties")
        known: Mapping[str, JSON] = properties if isinstance(properties, Mapping) else {}
        patterns = list(_select(schema, ("patternProperties",)))
        additional = list(_select(schema, ("additionalProperties", "unevaluatedProperties")))
        names = list(_select(schema, ("propertyNames",)))
        for name, item in value.items():
            yield from ((subschema, name) for subschema in names)
            yield from ((subschema, item) for subschema in patterns)
            yield from ((subschema, item) for subschema in ([known[name]] if name in known else additional))
    elif isinstance(value, list | tuple):
        tuple_keyword = "items" if isinstance(schema.get("items"), list) else "prefixItems"  # draft 7: `items`
        first = list(_select(schema, (tuple_keyword,)))
        rest = list(_select(schema, ("additionalItems", "unevaluatedItems")))
        rest += [] if tuple_keyword == "items" else _select(schema, ("items",))
        contains = list(_select(schema, ("contains",)))
        for index, item in enumerate(value):
            yield from ((subschema, item) for subschema in contains)
            yield from ((subschema, item) for subschema in ([first[index]] if index < len(first) else rest))


def _select(schema: Subschema, keywords: tuple[str, ...]) -> Iterator[JSON]:
    """The subschemas under these keywords."""
    for keyword in keywords:
        value = schema.get(keyword)
        if isinstance(value, Mapping) and keyword in _MAPS:
            yield from value.values()
        elif isinstance(value, list):
            yield from value
        elif value is not None:
            yield value
