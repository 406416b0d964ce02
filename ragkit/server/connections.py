"""Limits of connections: time to send the headers of a request, number of connections by client and in all.

uvicorn has a timeout for idle connections between two requests, but none for headers and no limit of connections: this
protocol class adds them. A connection over a limit replaces the one that has waited longest without a request, so that
whoever holds many slow connections open loses them, and a client that sends its request at once is served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import MutableMapping
from enum import IntEnum
from ipaddress import IPv6Address, ip_address
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from ragkit.server.http_errors import ErrorResponse
from ragkit.server.settings import ServerLimits

LOG = logging.getLogger("ragkit.server.connections")
_TOO_MANY = ErrorResponse(503, "too many connections: retry later", "too_many_connections", "server_error").encode()
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 5\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_TOO_MANY), _TOO_MANY)
)


def client_name(host: str) -> str:
    """The name under which the connections of a client are counted: its address; of IPv6 the network (/64)."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address) or address.is_loopback:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) >> 64 << 64)}/64"


class Activity(IntEnum):
    """What a connection does. The lowest are closed first."""

    WAITING = 0
    """No request, or incomplete headers."""
    SENDING = 1
    """The client sends the body of a request."""
    ANSWERING = 2
    """The server works on a request."""


class ConnectionTable:
    """The open connections of one process, by client."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self.total = 0
        self._by_client: dict[str, dict[LimitedProtocol, None]] = {}

    def add(self, connection: LimitedProtocol, client: str) -> bool:
        """Count a new connection, and close one that it replaces. False: there is no room for it."""
        own = self._by_client.get(client, {})
        if len(own) >= self.limits.max_connections_per_client:
            if not self._close_one(own):
                return False
        elif self.total >= self.limits.max_connections:
            largest = max(self._by_client.values(), key=len)
            if not self._close_one(largest):
                return False
        self._by_client.setdefault(client, {})[connection] = None
        self.total += 1
        return True

    def remove(self, connection: LimitedProtocol, client: str) -> None:
        """Forget a closed connection. Idempotent."""
        own = self._by_client.get(client, {})
        if connection in own:
            del own[connection]
            self.total -= 1
            if not own:
                del self._by_client[client]

    def _close_one(self, connections: dict[LimitedProtocol, None]) -> bool:
        """Close the oldest connection with the least activity, unless all are being answered."""
        chosen: LimitedProtocol | None = None
        for connection in connections:
            activity = connection.activity
            if activity is not Activity.ANSWERING and (chosen is None or activity < chosen.activity):
                chosen = connection
            if activity is Activity.WAITING:
                break
        if chosen is None:
            return False
        extra = {"client": chosen.client_host}
        LOG.warning("closed a connection without a complete request: too many connections", extra=extra)
        chosen.abort()
        return True


class LimitedProtocol(H11Protocol):
    """uvicorn's HTTP protocol with the limits of the module."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        table: ConnectionTable,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._table = table
        self._header_timer: asyncio.TimerHandle | None = None
        self.client_host = ""

    @property
    def activity(self) -> Activity:
        """What this connection does now."""
        if self.cycle is None or self.cycle.response_complete:
            return Activity.WAITING
        return Activity.SENDING if self.cycle.more_body and not self.cycle.response_started else Activity.ANSWERING

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and start the timer of its first request."""
        super().connection_made(transport)
        self.client_host = self.client[0] if self.client else ""
        self.logger = _ClientLogger(self.logger, {"client": self.client_host})  # type: ignore[assignment]
        if not self._table.add(self, client_name(self.client_host)):
            LOG.warning("refused a connection: too many connections", extra={"client": self.client_host})
            transport.write(_REFUSAL)
            transport.close()
            return
        self._start_header_timer()

    def data_received(self, data: bytes) -> None:
        """Handle data; the timer runs while the headers of a request are incomplete."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_header_timer()
        elif self._header_timer is None and not self.transport.is_closing():
            self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._forget()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection at once."""
        self._forget()
        self.transport.abort()

    def _forget(self) -> None:
        self._stop_header_timer()
        self._table.remove(self, client_name(self.client_host))

    def _start_header_timer(self) -> None:
        self._header_timer = self.loop.call_later(self._table.limits.header_seconds, self.abort)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


class _ClientLogger(logging.LoggerAdapter[logging.Logger]):
    """uvicorn's logger, with the address of the client in each record."""

    @property
    def level(self) -> int:
        """The level of the logger, which uvicorn compares."""
        return self.logger.level

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the fields of the client."""
        return msg, {**kwargs, "extra": {**(self.extra or {}), **(kwargs.get("extra") or {})}}
