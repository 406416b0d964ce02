"""Settings of the server: address, access, limits of requests, retention."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields

from ragkit.errors import InvalidOption
from ragkit.masking import register_secret

_MAY_BE_ZERO = ("max_waiting", "free_disk_bytes", "cached_answers")


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of requests. Counts are per worker process."""

    header_seconds: float = 10.0
    """Timeout for receiving the headers of a request."""
    idle_seconds: int = 15
    """Time after which a connection without a request is closed."""
    max_connections: int = 1000
    """Maximum open connections. A further one replaces the one that has waited longest without a request."""
    max_connections_per_client: int = 250
    """The same of one address; of IPv6, of one network."""
    body_bytes: int = 8_000_000
    """Maximum bytes of a request body."""
    body_seconds: float = 20.0
    """Timeout for reading a request body."""
    send_seconds: float = 20.0
    """Timeout for sending to a client; a slower one is disconnected."""
    upload_bytes: int = 2_000_000_000
    """Maximum bytes of all uploaded files. The size of one is limited by the pipeline (`load: {max_file_mb: 50}`)."""
    upload_files: int = 10_000
    """Maximum number of uploaded files."""
    upload_seconds: float = 600.0
    """Timeout for receiving one uploaded file; a pause of `body_seconds` ends it too."""
    max_uploads: int = 8
    """Maximum files that are received at the same time; see `max_running`."""
    free_disk_bytes: int = 500_000_000
    """Bytes of the disk that uploads leave free."""
    index_usd: float | None = 1.0
    """Estimated cost of an index job in US dollars above which it must be confirmed. None: no job must."""
    question_chars: int = 20_000
    """Maximum characters of a question. What else a conversation may hold follows from the model that answers."""
    top_k: int = 100
    """Maximum hits of one search."""
    max_running: int = 16
    """Maximum answers that run at the same time. One client has at most as many as are free besides: alone, 8."""
    max_waiting: int = 128
    """Maximum answers in the queue; more are rejected. One client has at most as many places as are free besides."""
    max_searches: int = 8
    """Maximum searches, and reads of documents and of the status, that run at the same time; see `max_running`."""
    max_embeddings: int = 2
    """Maximum requests for embeddings that run at the same time; see `max_running`."""
    max_drawings: int = 2
    """Maximum pages of files that are drawn at the same time; see `max_running`."""
    max_wait_seconds: float = 30.0
    """Maximum time in the queue."""
    answer_seconds: float = 120.0
    """Timeout of one answer."""
    max_iterations: int = 10
    """Maximum requests to the model for one answer. The limit of the pipeline does not apply to the server."""
    answer_usd: float | None = 0.25
    """Maximum cost of one answer in US dollars, in addition to the limit of the pipeline. None: only that one."""
    requests_per_minute: int | None = 600
    """Per token; requests without a token are not limited. None: no limit."""
    shared_per_minute: int = 60
    """Reads of links to sessions per address, where tokens are required: links need none."""
    cached_answers: int = 256
    """Answers that are kept in memory, to give them again at no cost. 0: none."""
    shutdown_seconds: float = 10.0
    """Time for running answers to finish after the server is stopped."""

    def __post_init__(self) -> None:
        for field_ in fields(self):
            value = getattr(self, field_.name)
            if value is not None and not value > 0 and field_.name not in _MAY_BE_ZERO:
                raise InvalidOption(field_.name, value, "> 0")
            if value is not None and value < 0:
                raise InvalidOption(field_.name, value, ">= 0")


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of stored sessions and traces. The oldest are deleted first, those of one user by no other.

    Without users, the limits of one user are those of a token, or of the server.
    """

    max_sessions: int = 10_000
    """Maximum conversations of one user. Sessions without messages count apart: a tenth of it, or what is free."""
    max_messages: int = 400
    """Maximum messages per session; a full session takes no more."""
    max_traces: int = 50_000
    """Maximum traces of one user."""
    max_bytes: int = 1_000_000_000
    """Bytes of the conversations of one user, with their traces."""
    max_total_bytes: int = 20_000_000_000
    """Bytes of all conversations, beyond which questions in sessions are rejected and nothing is deleted."""
    free_disk_bytes: int = 100_000_000
    """Bytes of the disk that conversations leave free; below, questions in sessions are rejected."""
    days: float = 90.0
    """Days since the last use of a session, or the start of a trace."""

    def __post_init__(self) -> None:
        for field_ in fields(self):
            value = getattr(self, field_.name)
            if not value > 0:
                raise InvalidOption(field_.name, value, "> 0")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """All settings of the server."""

    host: str = "127.0.0.1"
    port: int = 8321
    """0: any free port."""
    tokens: tuple[str, ...] = field(default=(), repr=False)
    """Accepted bearer tokens. Empty: no token is required; allowed on loopback only."""
    hosts: tuple[str, ...] = ()
    """Additional allowed `Host` names; `*`: any, which requires a token."""
    origins: tuple[str, ...] = ()
    """Allowed CORS origins, as `https://host[:port]`."""
    models: tuple[str, ...] = ()
    """`provider:model` names that requests can choose, the default first. Empty: the model of the pipeline."""
    tools: tuple[str, ...] = ()
    """Built-in tools of the server's agent beside the search: `calculator`, `web_search`. Empty: none."""
    roots: tuple[str, ...] = ()
    """Folders of this machine below which clients on it may add folders as sources. Empty: none."""
    watch_seconds: float = 0.0
    """Seconds between two looks at the sources, which are indexed when they have changed. 0: they are not watched."""
    otel: bool = False
    """Whether traces of answers are exported with OpenTelemetry, as its standard variables say."""
    any_model: bool = False
    """Whether an unknown model name in a request means the default model, instead of an error."""
    limits: ServerLimits = field(default_factory=ServerLimits)
    retention: Retention = field(default_factory=Retention)
    proxy_secret: str = field(default="", repr=False)
    """The secret with which a proxy signs the header that says who sends a request. Empty: no such header."""

    def __post_init__(self) -> None:
        if self.watch_seconds < 0:
            raise InvalidOption("watch", self.watch_seconds, "seconds, 0 or more")
        for token in self.tokens:
            register_secret(token)
            if len(token) < 16 or not token.isascii() or not token.isprintable():
                raise InvalidOption("token", f"{len(token)} characters", "at least 16 printable ASCII characters")
        if self.proxy_secret:
            register_secret(self.proxy_secret)
            if len(self.proxy_secret) < 32:
                raise InvalidOption("proxy_secret", f"{len(self.proxy_secret)} characters", "at least 32 characters")
        if not self.tokens and not self.proxy_secret and not is_loopback(self.host):
            expected = "a loopback address, unless a token is required (set RAGKIT_SERVER_TOKEN)"
            raise InvalidOption("host", self.host, expected)
        if not self.tokens and "*" in self.hosts:
            raise InvalidOption("hosts", "*", "a list of names, unless a token is required (set RAGKIT_SERVER_TOKEN)")
        if "*" in self.origins:
            raise InvalidOption("origins", "*", "a list of https://host[:port]")


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
