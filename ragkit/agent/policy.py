"""Tool policies: which calls are allowed, need human approval, or are denied.

Pure: a policy only decides; the loop asks for approval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from io import StringIO
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from ragkit.agent.messages import ToolCall, canonical_json
from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption
from ragkit.records import JSON

Decision: TypeAlias = Literal["allow", "review", "deny"]
DECISIONS: tuple[Decision, ...] = ("allow", "review", "deny")
"""From the mildest to the strictest."""


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """The decision of a policy about a call."""

    decision: Decision
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ArgumentRule:
    """A rule about the value of one argument."""

    tool: str
    """Name of the tool; `*` and `?` stand for any characters."""
    argument: str
    """Name of the argument; values other than text are matched as JSON."""
    matches: str
    """Regular expression, searched anywhere in the value."""
    decision: Decision = "deny"
    reason: str = ""

    def __post_init__(self) -> None:
        if self.decision not in DECISIONS:
            raise InvalidOption("the rule decision", self.decision, f"one of {', '.join(DECISIONS)}")
        try:
            re.compile(self.matches)
        except re.error as error:
            raise InvalidOption("`matches` of a rule", self.matches, "a regular expression") from error

    def applies_to(self, call: ToolCall) -> bool:
        """Whether the rule matches this call."""
        if self.argument not in call.arguments or not fnmatchcase(call.name, self.tool):
            return False
        value = call.arguments[self.argument]
        return re.search(self.matches, value if isinstance(value, str) else canonical_json(value)) is not None


@check_types()
@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """Rules about tools. The strictest match wins: deny, then review, then allow, then the default."""

    allow: Sequence[str] = ()
    """Names of tools; `*` and `?` stand for any characters."""
    review: Sequence[str] = ()
    """Tools whose calls need human approval."""
    deny: Sequence[str] = ()
    """Tools that are never executed."""
    when: Sequence[ArgumentRule] = ()
    """Rules about arguments. One that says `allow` lifts a `review` by name, never a `deny`."""
    default: Decision = "allow"
    """The decision for tools without a rule."""

    def __post_init__(self) -> None:
        if self.default not in DECISIONS:
            raise InvalidOption("the policy default", self.default, f"one of {', '.join(DECISIONS)}")

    def decide(self, call: ToolCall) -> PolicyDecision:
        """Decide about a call."""
        rules = [rule for rule in self.when if rule.applies_to(call)]
        by_argument = {rule.decision: rule.reason or f"its {rule.argument} matches {rule.matches!r}" for rule in rules}
        if _matches_any(call.name, self.deny):
            return PolicyDecision("deny", f"{call.name} is denied")
        for decision in reversed(DECISIONS):
            if decision in by_argument:
                return PolicyDecision(decision, by_argument[decision])
        if _matches_any(call.name, self.review):
            return PolicyDecision("review", f"{call.name} needs approval")
        if _matches_any(call.name, self.allow):
            return PolicyDecision("allow")
        return PolicyDecision(self.default, "" if self.default == "allow" else "no rule names it")

    @staticmethod
    def from_dict(data: Mapping[str, JSON]) -> ToolPolicy:
        """Build a policy from parsed YAML or JSON. Raises InvalidOption, with the key."""
        known = {field.name for field in fields(ToolPolicy)} | {"version"}
        for key in data:
            if key not in known:
                raise InvalidOption("a policy key", key, f"one of {', '.join(sorted(known))}")
        if data.get("version", 1) != 1:
            raise InvalidOption("the policy version", data.get("version"), "1")
        rules = data.get("when") or []
        if not isinstance(rules, list):
            raise InvalidOption("`when` of the policy", rules, "a list of rules")
        allow, review, deny = (_read_names(data, key) for key in ("allow", "review", "deny"))
        default = cast("Decision", str(data.get("default", "allow")))
        return ToolPolicy(allow, review, deny, tuple(map(_read_rule, rules)), default)

    @staticmethod
    def from_yaml(path: str | Path) -> ToolPolicy:
        """Read a policy file. Raises InvalidOption, with the file and the key."""
        from ruamel.yaml import YAML  # noqa: PLC0415 - needed for policy files only
        from ruamel.yaml.error import YAMLError  # noqa: PLC0415 - as above

        try:
            data = YAML(typ="safe", pure=True).load(StringIO(Path(path).read_text("utf-8")))
        except (OSError, UnicodeDecodeError, YAMLError) as error:
            raise InvalidOption(f"the policy {path}", str(error).splitlines()[0], "a readable YAML file") from error
        if not isinstance(data, dict):
            raise InvalidOption(f"the policy {path}", type(data).__name__, "a mapping")
        try:
            return ToolPolicy.from_dict(data)
        except InvalidOption as error:
            raise InvalidOption(f"{path}: {error.option}", error.value, error.expected) from error


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that awaits human approval."""

    call: ToolCall
    reason: str
    agent_name: str
    run_id: str


Approver: TypeAlias = Callable[[ApprovalRequest], bool | None]
"""Called for each call under review: True approves, False rejects, None suspends the run."""


def _matches_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _read_names(data: Mapping[str, JSON], key: str) -> tuple[str, ...]:
    names = data.get(key) or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidOption(f"{key!r} of the policy", names, "a list of names")
    return tuple(str(name) for name in names)


def _read_rule(data: JSON) -> ArgumentRule:
    known = [field.name for field in fields(ArgumentRule)]
    if not isinstance(data, Mapping) or not {"tool", "argument", "matches"} <= data.keys():
        raise InvalidOption("a policy rule", data, "a mapping with tool, argument and matches")
    for key in data:
        if key not in known:
            raise InvalidOption("a rule key", key, f"one of {', '.join(known)}")
    values: dict[str, Any] = {key: str(value) for key, value in data.items()}
    return ArgumentRule(**values)
