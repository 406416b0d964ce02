"""Guardrails: checks of text at four places of a run. Each allows, warns, rewrites or blocks.

The places are the user's input, the model's answer, the arguments of a tool call, and a tool's result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption
from ragkit.records import JSON

GuardrailAction: TypeAlias = Literal["allow", "warn", "rewrite", "block"]
ViolationAction: TypeAlias = Literal["warn", "rewrite", "block"]


@check_types()
@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a guardrail about a text."""

    action: GuardrailAction = "allow"
    reason: str = ""
    text: str = ""
    """For `rewrite`: the new text."""


ALLOW = Verdict()


class Guardrail(Protocol):
    """Checks a text. It must be fast and must not block."""

    @property
    def name(self) -> str:
        """The name in traces and errors."""

    def check(self, text: str) -> Verdict:
        """Check a text."""


@check_types()
@dataclass(frozen=True, slots=True)
class Guardrails:
    """The guardrails of an agent, by place. Those of a place run in order, each on the output of the one before."""

    input: Sequence[Guardrail] = ()
    """For the user's messages."""
    output: Sequence[Guardrail] = ()
    """For the model's answers."""
    tool_arguments: Sequence[Guardrail] = ()
    """For the texts in the arguments of a tool call."""
    tool_results: Sequence[Guardrail] = ()
    """For the results of tools."""


@dataclass(frozen=True, slots=True)
class GuardrailFinding:
    """The action of one guardrail on a text."""

    guardrail: str
    action: GuardrailAction
    reason: str


def apply_guardrails(guardrails: Iterable[Guardrail], text: str) -> tuple[str, list[GuardrailFinding]]:
    """Run every guardrail on a text. Returns the new text and the findings; stops at a block."""
    findings: list[GuardrailFinding] = []
    for guardrail in guardrails:
        verdict = guardrail.check(text)
        if verdict.action == "allow":
            continue
        name = getattr(guardrail, "name", type(guardrail).__name__)
        findings.append(GuardrailFinding(name, verdict.action, verdict.reason))
        if verdict.action == "block":
            break
        if verdict.action == "rewrite":
            text = verdict.text
    return text, findings


def apply_guardrails_to_arguments(
    guardrails: Iterable[Guardrail], arguments: Mapping[str, JSON]
) -> tuple[dict[str, JSON], list[GuardrailFinding]]:
    """Run every guardrail on every text in the arguments of a tool call."""
    all_findings: list[GuardrailFinding] = []
    active = list(guardrails)

    def visit(value: JSON) -> JSON:
        if isinstance(value, str):
            text, findings = apply_guardrails(active, value)
            all_findings.extend(findings)
            return text
        if isinstance(value, Mapping):
            return {key: visit(item) for key, item in value.items()}
        return [visit(item) for item in value] if isinstance(value, list | tuple) else value

    return {key: visit(value) for key, value in arguments.items()}, all_findings


@dataclass(frozen=True, slots=True)
class LengthGuardrail:
    """Limits the length of a text in characters. `rewrite` truncates a longer text."""

    max_chars: int | None = None
    min_chars: int = 0
    action: ViolationAction = "block"
    name: str = "length"

    def check(self, text: str) -> Verdict:
        """Check the length."""
        if len(text) < self.min_chars:
            reason = f"{len(text)} characters, at least {self.min_chars} are required"
            return Verdict("warn" if self.action == "rewrite" else self.action, reason)
        if self.max_chars is not None and len(text) > self.max_chars:
            reason = f"{len(text)} characters, at most {self.max_chars} are allowed"
            return Verdict(self.action, reason, text[: self.max_chars])
        return ALLOW


@dataclass(frozen=True, slots=True)
class FormatGuardrail:
    """Requires JSON, or a full match of a regular expression."""

    pattern: str = ""
    json: bool = False
    """Whether the text must be JSON."""
    action: Literal["warn", "block"] = "block"
    name: str = "format"

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise InvalidOption("pattern", self.pattern, "a regular expression") from error

    def check(self, text: str) -> Verdict:
        """Check the format."""
        if self.json:
            try:
                json.loads(text)
            except json.JSONDecodeError as error:
                return Verdict(self.action, f"the text is not JSON: {error.msg} at character {error.pos}")
            except RecursionError:
                return Verdict(self.action, "the text is JSON that is nested too deep to be read")
        if self.pattern and not re.fullmatch(self.pattern, text, re.DOTALL):
            return Verdict(self.action, f"the text does not match {self.pattern!r}")
        return ALLOW


def _passes_luhn(text: str) -> bool:
    """The check digit of payment cards. Source: ISO/IEC 7812-1, annex B."""
    digits = [int(character) for character in reversed(text) if character.isdigit()]
    doubled_digits = [digit * 2 - 9 * (digit > 4) if place % 2 else digit for place, digit in enumerate(digits)]
    return 13 <= len(digits) <= 19 and sum(doubled_digits) % 10 == 0


def _is_valid_iban(text: str) -> bool:
    """The check digits of bank accounts. Source: ISO 13616-1 with ISO 7064 MOD 97-10."""
    plain = re.sub(r"\s", "", text).upper()
    rearranged = plain[4:] + plain[:4]
    return int("".join(str(int(character, 36)) for character in rearranged)) % 97 == 1


def _always_valid(_: str) -> bool:
    return True


PII_PATTERNS: Mapping[str, tuple[str, Callable[[str], bool]]] = {
    "email": (r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.)+[A-Za-z]{2,24}\b", _always_valid),
    "card": (r"(?<![\d-])(?:\d[ -]?){12,18}\d(?![\d-])", _passes_luhn),
    "iban": (r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b", _is_valid_iban),
    "ssn": (r"(?<![\d-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])", _always_valid),
    "ip": (r"(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d.])", _always_valid),
    "phone": (r"(?<![\w+])\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d(?:[ .-]?\d){5,11}(?!\w)", _always_valid),
}
"""Kinds of personal data: a pattern, compiled on first use, and a check of its matches."""


@check_types()
@dataclass(frozen=True, slots=True)
class PIIGuardrail:
    """Finds personal data: mail addresses, payment cards, bank accounts, US social security, IP, phone numbers.

    `rewrite` replaces it by `[email]` and the like.
    """

    kinds: Sequence[str] = tuple(PII_PATTERNS)
    action: ViolationAction = "rewrite"
    name: str = "pii"

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in PII_PATTERNS]
        if unknown:
            raise InvalidOption("kinds", unknown[0], f"one of {', '.join(PII_PATTERNS)}")

    def check(self, text: str) -> Verdict:
        """Find personal data; the reason names kinds, never the data."""
        kinds: list[str] = []
        for kind in self.kinds:
            pattern, is_valid = PII_PATTERNS[kind]

            def mask(match: re.Match[str], kind: str = kind, is_valid: Callable[[str], bool] = is_valid) -> str:
                if not is_valid(match.group()):
                    return match.group()
                kinds.append(kind)
                return f"[{kind}]"

            text = re.sub(pattern, mask, text)
        if not kinds:
            return ALLOW
        return Verdict(self.action, f"personal data: {', '.join(sorted(set(kinds)))}", text)


@dataclass(frozen=True, slots=True)
class TopicGuardrail:
    """Blocks texts with denied phrases, matched as whole words, case-insensitively."""

    denied: Sequence[str]
    """Words or phrases."""
    action: Literal["warn", "block"] = "block"
    name: str = "topic"

    def check(self, text: str) -> Verdict:
        """Find denied phrases."""
        for phrase in self.denied:
            if re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.IGNORECASE):
                return Verdict(self.action, f"denied topic {phrase!r}")
        return ALLOW


_INJECTION_PATTERNS = (
    r"\b(?:ignore|disregard|forget|override)\s+(?:all\s+|any\s+|the\s+|your\s+|of\s+)*"
    r"(?:previous|prior|above|earlier|preceding|system|developer)\s+(?:\w+\s+)?"
    r"(?:instructions?|prompts?|rules?|messages?|directions?)",
    r"\b(?:reveal|print|repeat|show|leak)\s+(?:me\s+)?(?:your|the)\s+(?:system|hidden|initial|developer)\s+"
    r"(?:prompt|instructions?|message)",
    r"\byou\s+are\s+(?:now|no\s+longer)\s+(?:an?\s+|the\s+|in\s+)?(?:\w+\s+){0,3}"
    r"(?:assistant|mode|model|ai|dan|agent|developer)\b",
    r"(?:^|\n)[ \t]*+(?:#++[ \t]*+|<\|?|\[)[ \t]*+"
    r"(?:system|assistant|developer)(?:\s+(?:prompt|message))?\s*+(?:\|?>|\]|:)",
    r"<\|im_(?:start|end)\|>|\[/?INST\]|<</?SYS>>",
    r"\bnew\s+(?:system\s+)?instructions?\s*:",
    r"\bTOOL_CALL\s*+(?::\s*+)?[`{]",
)
_ANY_INJECTION = re.compile("|".join(f"(?:{pattern})" for pattern in _INJECTION_PATTERNS), re.IGNORECASE)
"""Tested first: most texts contain no injection."""


@dataclass(frozen=True, slots=True)
class InjectionGuardrail:
    """Detects prompt injection by common phrases: one defence of several.

    `rewrite` replaces each by `[removed]`.
    """

    action: ViolationAction = "block"
    name: str = "prompt_injection"

    def check(self, text: str) -> Verdict:
        """Find known phrases."""
        if _ANY_INJECTION.search(text) is None:
            return ALLOW
        matches: list[str] = []

        def mask(match: re.Match[str]) -> str:
            matches.append(" ".join(match.group().split()))
            return "[removed]"

        for pattern in _INJECTION_PATTERNS:
            text = re.sub(pattern, mask, text, flags=re.IGNORECASE)
        return Verdict(self.action, f"instructions to the model: {matches[0][:60]!r}", text) if matches else ALLOW


@check_types()
@dataclass(frozen=True, slots=True)
class ToolOutputScreening:
    """How tool results are treated before a model sees them."""

    mark_as_data: bool = True
    """Whether they are put between markers that declare them as data."""
    guardrail: Guardrail | None = field(default_factory=lambda: InjectionGuardrail("warn"))
    """The guardrail that checks them; a warning goes into the trace. None: no check."""
