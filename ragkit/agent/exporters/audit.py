"""The audit log: one JSON line per event of a run, with masked secrets and a privacy level."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Literal, TypeAlias

from ragkit.agent import events
from ragkit.agent.guardrails import PIIGuardrail
from ragkit.agent.observers import OBSERVER_METHODS, AgentObserver
from ragkit.errors import InvalidOption
from ragkit.records import JSON

PrivacyLevel: TypeAlias = Literal["full", "masked", "hashed", "none"]
"""How texts are written: in full, without personal data, as a hash, or not at all."""

_PRIVACY_LEVELS = ("full", "masked", "hashed", "none")

_SECRET_KEY = re.compile(
    r"(?i)(?:^|[_-])(?:password|passwd|secret|token|authorization|credential|cookie|api[_-]?key)s?$|apikey$"
)
_SECRET_PATTERNS = [
    re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}"),
    re.compile(r"\bgsk_[A-Za-z0-9]{20,}|\bAIza[\w-]{35}|\bpa-[\w-]{30,}|\bpcsk_[\w-]{20,}|\bxox[abprs]-[\w-]{10,}"),
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_\w{30,}|\bhf_[A-Za-z0-9]{20,}|\bAKIA[0-9A-Z]{16}\b"),
    re.compile(r"(?i)\bbearer\s+[\w.~+/-]{12,}=*"),
    re.compile(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]+"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"(?i)(?<=://)[^\s:/@]+:[^\s/@]+(?=@)"),
]
_ASSIGNED_SECRET = re.compile(
    r"(?i)\b((?:\w+[_-])?(?:api[_-]?key|password|passwd|secret|token))(\s*[=:]\s*[\"']?)([^\s\"',;&]{6,})"
)
MASK = "[secret]"


def mask_secrets(text: str) -> str:
    """The text with keys, tokens and passwords replaced by `[secret]`, as far as patterns recognize them."""
    for pattern in _SECRET_PATTERNS:
        text = pattern.sub(MASK, text)
    return _ASSIGNED_SECRET.sub(rf"\1\2{MASK}", text)


def mask_json(value: JSON) -> JSON:
    """Mask every text inside a JSON value; the whole value under a key like `password`."""
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, Mapping):
        return {key: MASK if _SECRET_KEY.search(key) and item else mask_json(item) for key, item in value.items()}
    return [mask_json(item) for item in value] if isinstance(value, list | tuple) else value


class AuditLog(AgentObserver):
    """Appends JSON lines to a file. Add it to `observers` of an AgentConfig.

    Args:
        path: the file; lines are appended.
        privacy: how texts are written. Secrets are masked at every level.
    """

    def __init__(self, path: str | Path, *, privacy: PrivacyLevel = "masked") -> None:
        if privacy not in _PRIVACY_LEVELS:
            raise InvalidOption("privacy", privacy, f"one of {', '.join(_PRIVACY_LEVELS)}")
        self.path, self.privacy = Path(path), privacy
        self._lock = Lock()
        self._pii = PIIGuardrail()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch(mode=0o600)  # conversations are private: readable by the owner only

    def handle(self, event: events.Event) -> None:
        """Write a line for every event except text chunks."""
        if isinstance(event, events.TextChunk | events.ToolCallChunk | events.ToolChunk):
            return
        line: dict[str, JSON] = {
            "at": datetime.now(tz=UTC).isoformat(timespec="milliseconds"),
            "run_id": event.run_id,
            "event": OBSERVER_METHODS[type(event)].removeprefix("on_"),
            **self._event_fields(event),
        }
        text = json.dumps(line, ensure_ascii=False, default=str)
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def _event_fields(self, event: events.Event) -> dict[str, JSON]:
        match event:
            case events.RunStarted():
                return {
                    "agent": event.agent_name,
                    "input": [self._redact(message.content) for message in event.messages],
                }
            case events.ModelCallEnded():
                model, text = f"{event.provider}:{event.model}", self._redact(event.message.content)
                return {"model": model, "cached": event.cached, "usage": event.usage.to_dict(), "said": text}
            case events.ToolStarted() | events.PolicyDecided() | events.ApprovalNeeded():
                return self._call_fields(event)
            case events.ToolEnded() | events.ToolFailed():
                return {**self._call_fields(event), "seconds": event.seconds, "result": self._redact(event.content)}
            case events.RunEnded():
                result = event.result
                usage = result.usage.to_dict()
                return {"stop_reason": result.stop_reason, "usage": usage, "output": self._redact(result.content)}
            case _:
                return self._other_fields(event)

    def _other_fields(self, event: events.Event) -> dict[str, JSON]:
        names = [name for name in event.__slots__ if name not in ("request", "messages", "message")]
        fields = {name: getattr(event, name) for name in names}
        return {
            name: value if isinstance(value, bool | int | float) else mask_secrets(str(value))
            for name, value in fields.items()
        }

    def _call_fields(
        self,
        event: events.ToolStarted | events.PolicyDecided | events.ApprovalNeeded | events.ToolEnded | events.ToolFailed,
    ) -> dict[str, JSON]:
        fields: dict[str, JSON] = {"tool": event.call.name, "call_id": event.call.id}
        if isinstance(event, events.PolicyDecided):
            fields |= {"decision": event.decision, "reason": event.reason}
        if isinstance(event, events.ToolFailed):
            fields["error"] = type(event.error).__name__
        return {**fields, "arguments": self._redact_arguments(dict(event.call.arguments))}

    def _redact_arguments(self, arguments: dict[str, JSON]) -> JSON:
        masked = mask_json(arguments)
        if self.privacy == "full" or not isinstance(masked, Mapping):
            return masked
        if self.privacy == "masked":
            return {key: self._redact(item) if isinstance(item, str) else item for key, item in masked.items()}
        return {key: self._redact(json.dumps(item, ensure_ascii=False)) for key, item in masked.items()}

    def _redact(self, text: str) -> JSON:
        """A text at the privacy level of the log."""
        if self.privacy == "none":
            return None
        if self.privacy == "hashed":
            digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
            return f"{len(text)} characters, {digest}"
        text = mask_secrets(text)
        if self.privacy == "masked":
            verdict = self._pii.check(text)
            return verdict.text if verdict.action == "rewrite" else text
        return text
