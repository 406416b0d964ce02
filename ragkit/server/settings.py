"""How a server is set up: where it listens, who may ask, what one request may use, what is kept and for how long."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields

from ragkit.errors import InvalidOption
from ragkit.masking import register_secret


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What requests may use. Counts are those of one worker process."""

    body_bytes: int = 1_000_000
    """Of a request's body."""
    body_seconds: float = 20.0
    """Within which a body must have come in whole."""
    send_seconds: float = 20.0
    """Within which a client must take what it is sent; one that does not is let go."""
    question_chars: int = 20_000
    """Of all that is said in one request: the question, and in OpenAI's API the whole conversation."""
    top_k: int = 100
    """Passages of one search."""
    max_running: int = 8
    """Answers that are worked on at the same time."""
    max_waiting: int = 64
    """Answers that wait for their turn; one more is refused."""
    max_wait_seconds: float = 30.0
    """How long an answer may wait for its turn."""
    answer_seconds: float = 120.0
    """From the start of an answer to its end."""
    answer_usd: float | None = 0.25
    """US dollars that one answer may cost; the pipeline's own limit holds beside it. None: only that one."""
    requests_per_minute: int | None = 600
    """By token; requests without a token are not counted. None: no limit."""
    shutdown_seconds: float = 10.0
    """How long answers may go on after the server was told to stop."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None and not value > 0 and one.name != "max_waiting":
                raise InvalidOption(one.name, value, "> 0")
            if value is not None and value < 0:
                raise InvalidOption(one.name, value, ">= 0")


@dataclass(frozen=True, slots=True)
class Retention:
    """How many sessions and traces are kept, and for how long. What is over it goes, the oldest first."""

    max_sessions: int = 10_000
    max_messages: int = 400
    """Of one session; a session that has so many takes no more."""
    max_traces: int = 50_000
    days: float = 90.0
    """Since a session was last used, or a trace was begun."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not value > 0:
                raise InvalidOption(one.name, value, "> 0")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Everything that a server is told."""

    host: str = "127.0.0.1"
    port: int = 8321
    """0: any free one."""
    tokens: tuple[str, ...] = field(default=(), repr=False)
    """Bearer tokens, one of which every request must bring; empty: none is asked for, on loopback only."""
    hosts: tuple[str, ...] = ()
    """Names under which it may be asked for, beside its own; `*`: any, which needs a token."""
    origins: tuple[str, ...] = ()
    """Other sites whose pages may ask, as `https://host[:port]`."""
    models: tuple[str, ...] = ()
    """`provider:model` names that requests may choose beside the default; the first one is the default. Empty: as
    the pipeline says."""
    limits: ServerLimits = field(default_factory=ServerLimits)
    retention: Retention = field(default_factory=Retention)

    def __post_init__(self) -> None:
        if any(len(token) < 16 or not token.isascii() or not token.isprintable() for token in self.tokens):
            raise InvalidOption("a token", "too weak", "at least 16 printable ASCII characters")
        for token in self.tokens:
            register_secret(token)
        if not self.tokens and not is_loopback(self.host):
            raise InvalidOption(
                "host", self.host, "a loopback address, or a token (RAGKIT_SERVER_TOKEN) that requests must bring,"
            )
        if not self.tokens and "*" in self.hosts:
            raise InvalidOption("hosts", "*", "a list of names, or a token (RAGKIT_SERVER_TOKEN),")
        if "*" in self.origins:
            raise InvalidOption("origins", "*", "a list of sites, each as https://host[:port]")


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
