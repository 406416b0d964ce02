"""Guardrails: checks of text at four places of a run. Each allows, warns, rewrites or blocks.

The places are the user's input, the model's answer, the arguments of a tool call, and a tool's result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from ragkit.errors import InvalidOption
from ragkit.records import JSON

GuardrailAction: TypeAlias = Literal["allow", "warn", "rewrite", "block"]
ViolationAction: TypeAlias = Literal["warn", "rewrite", "block"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a guardrail says of a text."""

    action: GuardrailAction = "allow"
    reason: str = ""
    text: str = ""
    """For `rewrite`: what takes the place of the text."""


ALLOW = Verdict()


class Guardrail(Protocol):
    """Looks at a text and judges it. It must be quick and must not wait for anything."""

    @property
    def name(self) -> str:
        """What the trace and the error call it."""

    def check(self, text: str) -> Verdict:
        """Judge one text."""


@dataclass(frozen=True, slots=True)
class Guardrails:
    """The guardrails of an agent, by place; each place in order, every one on what the one before left."""

    input: Sequence[Guardrail] = ()
    """For what the user says."""
    output: Sequence[Guardrail] = ()
    """For what the model answers."""
    tool_arguments: Sequence[Guardrail] = ()
    """For the texts among the arguments of a tool call."""
    tool_results: Sequence[Guardrail] = ()
    """For what tools return."""


@dataclass(frozen=True, slots=True)
class GuardrailFinding:
    """What one guardrail did to a text."""

    guardrail: str
    action: GuardrailAction
    reason: str


def apply_guardrails(guardrails: Iterable[Guardrail], text: str) -> tuple[str, list[GuardrailFinding]]:
    """Let every guardrail look at the text. Returns what is left of it, and what was found; a block ends it."""
    findings: list[GuardrailFinding] = []
    for guardrail in guardrails:
        verdict = guardrail.check(text)
        if verdict.action == "allow":
            continue
        findings.append(GuardrailFinding(guardrail.name, verdict.action, verdict.reason))
        if verdict.action == "block":
            break
        if verdict.action == "rewrite":
            text = verdict.text
    return text, findings


def apply_guardrails_to_arguments(
    guardrails: Iterable[Guardrail], arguments: Mapping[str, JSON]
) -> tuple[dict[str, JSON], list[GuardrailFinding]]:
    """The same for every text inside the arguments of a tool call."""
    found: list[GuardrailFinding] = []
    rails = list(guardrails)

    def visit(value: JSON) -> JSON:
        if isinstance(value, str):
            text, findings = apply_guardrails(rails, value)
            found.extend(findings)
            return text
        if isinstance(value, Mapping):
            return {key: visit(one) for key, one in value.items()}
        return [visit(one) for one in value] if isinstance(value, list | tuple) else value

    return {key: visit(value) for key, value in arguments.items()}, found


@dataclass(frozen=True, slots=True)
class LengthGuardrail:
    """The text must have so many characters. `rewrite` cuts a text that is too long."""

    max_chars: int | None = None
    min_chars: int = 0
    action: ViolationAction = "block"
    name: str = "length"

    def check(self, text: str) -> Verdict:
        """Judge the length."""
        if len(text) < self.min_chars:
            wanted = f"{len(text)} characters, at least {self.min_chars} are wanted"
            return Verdict("warn" if self.action == "rewrite" else self.action, wanted)
        if self.max_chars is not None and len(text) > self.max_chars:
            wanted = f"{len(text)} characters, at most {self.max_chars} are allowed"
            return Verdict(self.action, wanted, text[: self.max_chars])
        return ALLOW


@dataclass(frozen=True, slots=True)
class FormatGuardrail:
    """The text must be JSON, or match a regular expression from its first to its last character."""

    pattern: str = ""
    json: bool = False
    """Whether the text must be JSON."""
    action: Literal["warn", "block"] = "block"
    name: str = "format"

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise InvalidOption("the pattern of a format guardrail", self.pattern, "a regular expression") from error

    def check(self, text: str) -> Verdict:
        """Judge the form."""
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
    digits = [int(one) for one in reversed(text) if one.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) if place % 2 else digit for place, digit in enumerate(digits)]
    return 13 <= len(digits) <= 19 and sum(doubled) % 10 == 0


def _is_valid_iban(text: str) -> bool:
    """The check digits of bank accounts. Source: ISO 13616-1 with ISO 7064 MOD 97-10."""
    plain = re.sub(r"\s", "", text).upper()
    moved = plain[4:] + plain[:4]
    return int("".join(str(int(one, 36)) for one in moved)) % 97 == 1


def _always_valid(_: str) -> bool:
    return True


PII_PATTERNS: Mapping[str, tuple[re.Pattern[str], Callable[[str], bool]]] = {
    "email": (re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.)+[A-Za-z]{2,24}\b"), _always_valid),
    "card": (re.compile(r"(?<![\d-])(?:\d[ -]?){12,18}\d(?![\d-])"), _passes_luhn),
    "iban": (re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"), _is_valid_iban),
    "ssn": (re.compile(r"(?<![\d-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])"), _always_valid),
    "ip": (
        re.compile(r"(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d.])"),
        _always_valid,
    ),
    "phone": (re.compile(r"(?<![\w+])\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d(?:[ .-]?\d){5,11}(?!\w)"), _always_valid),
}
"""Kinds of personal data: what it looks like, and a check that what looks like it is it."""


@dataclass(frozen=True, slots=True)
class PIIGuardrail:
    """Finds personal data: mail addresses, payment cards, bank accounts, US social security, IP, phone numbers.

    `rewrite` puts `[email]` and the like in its place.
    """

    kinds: Sequence[str] = tuple(PII_PATTERNS)
    action: ViolationAction = "rewrite"
    name: str = "pii"

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in PII_PATTERNS]
        if unknown:
            raise InvalidOption("a kind of personal data", unknown[0], f"one of {', '.join(PII_PATTERNS)}")

    def check(self, text: str) -> Verdict:
        """Find personal data; the reason names kinds, never the data."""
        found: list[str] = []
        for kind in self.kinds:
            pattern, really = PII_PATTERNS[kind]

            def mask(match: re.Match[str], kind: str = kind, really: Callable[[str], bool] = really) -> str:
                if not really(match.group()):
                    return match.group()
                found.append(kind)
                return f"[{kind}]"

            text = pattern.sub(mask, text)
        if not found:
            return ALLOW
        return Verdict(self.action, f"personal data: {', '.join(sorted(set(found)))}", text)


@dataclass(frozen=True, slots=True)
class TopicGuardrail:
    """Refuses texts that speak of what they must not, by whole words, upper and lower case alike."""

    denied: Sequence[str]
    """Words or phrases."""
    action: Literal["warn", "block"] = "block"
    name: str = "topic"

    def check(self, text: str) -> Verdict:
        """Look for every denied phrase."""
        for phrase in self.denied:
            if re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.IGNORECASE):
                return Verdict(self.action, f"it speaks of {phrase!r}")
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
_INJECTION_REGEXES = [re.compile(pattern, re.IGNORECASE) for pattern in _INJECTION_PATTERNS]
_ANY_INJECTION = re.compile("|".join(f"(?:{pattern})" for pattern in _INJECTION_PATTERNS), re.IGNORECASE)
"""Nearly every text has none of them: one look is enough."""


@dataclass(frozen=True, slots=True)
class InjectionGuardrail:
    """Finds text that tries to give the model orders. It knows common phrases only: one defence of several.

    `rewrite` puts `[removed]` in the place of each.
    """

    action: ViolationAction = "block"
    name: str = "prompt_injection"

    def check(self, text: str) -> Verdict:
        """Look for every known phrase."""
        if _ANY_INJECTION.search(text) is None:
            return ALLOW
        found: list[str] = []

        def mask(match: re.Match[str]) -> str:
            found.append(" ".join(match.group().split()))
            return "[removed]"

        for pattern in _INJECTION_REGEXES:
            text = pattern.sub(mask, text)
        return Verdict(self.action, f"it gives the model orders: {found[0][:60]!r}", text) if found else ALLOW


@dataclass(frozen=True, slots=True)
class ToolOutputScreening:
    """How text that comes from tools is treated before a model sees it."""

    mark_as_data: bool = True
    """Whether it is put between marks that say that it is data."""
    guardrail: Guardrail | None = field(default_factory=lambda: InjectionGuardrail("warn"))
    """What looks at it; a warning goes into the trace. None: nothing does."""
