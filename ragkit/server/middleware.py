"""The middleware around every request: id, access checks, rate limit, size and time limits, headers, request log."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragkit.server.bases import BASE_KEY
from ragkit.server.concurrency import PRINCIPAL
from ragkit.server.connections import client_name
from ragkit.server.http_errors import ErrorResponse, RequestRejected, to_error_response
from ragkit.server.logs import REQUEST_ID
from ragkit.server.metrics import Metrics
from ragkit.server.principals import CURRENT, USER_HEADER, AccessControl, Principal
from ragkit.server.rate_limit import RequestRates
from ragkit.server.settings import ServerSettings, is_loopback

LOG = logging.getLogger("ragkit.server.request")
PUBLIC_PATHS = frozenset({"/", "/health", "/ready", "/favicon.ico"})
"""Paths that need no token: the web UI, which asks the user for it, and health checks."""
UPLOAD = ("POST", "/documents")
"""Method and path of the requests whose body is not read before the route."""
MAX_LOGGED_PATH = 300
"""Maximum characters of a path in the log."""
PUBLIC_PREFIX = "/static/"
OWNER = "token-1"
"""The name of the first token, whose holder may do everything."""
SHARED_PREFIX = "/shared/"
"""Paths of read-only links to sessions, whose ids cannot be guessed: without users they need no token either."""
_DOCUMENT_PATH = re.compile("/documents/([A-Za-z0-9_-]+)")
_ID_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SECURITY_HEADERS: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}
"""Added unless the response sets them."""
_CORS_METHODS = "GET, POST, PATCH, DELETE, OPTIONS"
_CORS_HEADERS = "authorization, content-type, x-request-id"


class ClientTooSlow(Exception):
    """A client did not read the response in time."""


@dataclass(slots=True)
class _RequestLog:
    """The fields of the log line of a request."""

    id: str
    status: int = 0
    bytes_sent: int = 0
    token: str = ""
    started_at: float = field(default_factory=time.monotonic)


class RequestMiddleware:
    """ASGI middleware; see the module."""

    def __init__(
        self, app: ASGIApp, settings: ServerSettings, metrics: Metrics, access: AccessControl | None = None
    ) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._access = access or AccessControl({})
        self._digests = [sha256(token.encode()).digest() for token in settings.tokens]
        self._rates = RequestRates()
        self._allowed_hosts = _allowed_hosts(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # websockets are not supported
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        client_id = headers.get("x-request-id", "")
        request_log = _RequestLog(client_id if _ID_PATTERN.fullmatch(client_id) else f"req_{secrets.token_urlsafe(12)}")
        reset_token = REQUEST_ID.set(request_log.id)
        PRINCIPAL.set(client_name((scope.get("client") or ("",))[0]))
        sender = _ResponseSender(send, request_log, self._settings, headers.get("origin", ""))
        try:
            await self._handle(scope, receive, sender, headers)
        except (ClientTooSlow, ClientDisconnect):
            request_log.status = request_log.status or 499
        except RequestRejected as error:
            await sender.send_error(error.response)
        except Exception as error:  # boundary: a server request
            LOG.exception("a request failed")
            if not sender.started:
                await sender.send_error(to_error_response(error))
        finally:
            self._log_request(scope, request_log)
            REQUEST_ID.reset(reset_token)

    async def _handle(
        self, scope: Scope, receive: Receive, sender: _ResponseSender, headers: Mapping[str, str]
    ) -> None:
        if document := _find_opened_document(scope, headers):
            await sender.send_redirect(f"../#/document/{document}", scope["query_string"])
            return
        if not _is_public(scope["path"]):
            await self._access.load()
        error = self._check_access(scope, headers, sender.request_log)
        if error is None and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await sender.send_preflight()
            return
        is_upload = (scope["method"], scope["path"]) == UPLOAD  # its route limits and streams the body
        error = error or await self._check_rate_limit(scope, sender.request_log)
        error = error or (None if is_upload else self._check_content_length(headers))
        if error is not None:
            await sender.send_error(error)
            return
        if is_upload:
            await self._app(scope, receive, sender.send)
            return
        body = await self._read_body(receive)
        if isinstance(body, ErrorResponse):
            await sender.send_error(body)
            return
        await self._app(scope, _replay_body(body, receive), sender.send)

    def _check_access(self, scope: Scope, headers: Mapping[str, str], request_log: _RequestLog) -> ErrorResponse | None:
        host, origin = headers.get("host", ""), headers.get("origin", "")
        if self._allowed_hosts is not None and _strip_port(host) not in self._allowed_hosts:
            message = f"unknown host {_strip_port(host)!r}: start the server with --allow-host"
            return ErrorResponse(421, message, "wrong_host")
        if origin and not (_is_same_origin(origin, host) or origin in self._settings.origins):
            message = f"origin {origin!r} is not allowed: start the server with --allow-origin"
            return ErrorResponse(403, message, "wrong_origin")
        CURRENT.set(None)
        is_public = _is_public(scope["path"]) or scope["method"] == "OPTIONS"
        has_users = not is_public and self._access.has_users()
        is_link = scope["method"] == "GET" and scope["path"].startswith(SHARED_PREFIX)
        if is_public or (is_link and not has_users):
            return None
        signed = headers.get(USER_HEADER, "")
        if not self._digests and not signed and not has_users:
            CURRENT.set(Principal("local"))
            return None
        principal = self._find_principal(headers.get("authorization", ""), signed)
        CURRENT.set(principal)
        if principal is not None:
            request_log.token = principal.name
            PRINCIPAL.set(f"{principal.name} {principal.owner_key}".strip())
        else:
            PRINCIPAL.set("")
            message = "missing or invalid token: send it as `Authorization: Bearer TOKEN`"
            challenge = {"www-authenticate": "Bearer"}
            return ErrorResponse(401, message, "invalid_api_key", "authentication_error", headers=challenge)
        return None

    def _find_principal(self, authorization: str, signed: str) -> Principal | None:
        """Who sends a request: by the proxy's header if there is one, else by the token."""
        if signed:
            return self._access.find("", signed)
        scheme, _, token = authorization.partition(" ")
        if name := self._match_token(authorization):
            return self._access.server_token(name, is_owner=name == OWNER)
        return self._access.find(token.strip() if scheme.lower() == "bearer" else "", "")

    def _match_token(self, authorization: str) -> str:
        """The name of the token for logs and rate limits; empty if it is invalid."""
        scheme, _, token = authorization.partition(" ")
        given = sha256(token.strip().encode("utf-8", "surrogatepass")).digest()
        # compare all tokens in constant time: the duration reveals nothing
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        return f"token-{matches.index(True) + 1}" if scheme.lower() == "bearer" and any(matches) else ""

    async def _check_rate_limit(self, scope: Scope, request_log: _RequestLog) -> ErrorResponse | None:
        limits, who = self._settings.limits, ""
        rate = limits.requests_per_minute
        if request_log.token.startswith("token-"):  # by its digest: replicas may list tokens in any order
            who = self._digests[int(request_log.token.removeprefix("token-")) - 1].hex()
        elif request_log.token:
            who = request_log.token
        elif self._digests and scope["path"].startswith(SHARED_PREFIX):
            rate, who = limits.shared_per_minute, PRINCIPAL.get()
        if rate is None or not who:
            return None
        app = scope.get("app")  # not that of MCP alone, which has no state
        wait = await self._rates.take(app.state.service.state if app is not None else None, who, rate)
        if not wait:
            return None
        message = f"rate limit of {rate} requests per minute exceeded"
        headers = {"retry-after": str(max(1, round(wait)))}
        return ErrorResponse(429, message, "rate_limited", "rate_limit_error", headers=headers)

    def _check_content_length(self, headers: Mapping[str, str]) -> ErrorResponse | None:
        length, limit = headers.get("content-length", ""), self._settings.limits.body_bytes
        return _body_too_large(limit) if length.isdigit() and int(length) > limit else None

    async def _read_body(self, receive: Receive) -> bytes | ErrorResponse:
        """Read the whole body, within the limits of bytes and seconds."""
        limits, parts, size = self._settings.limits, list[bytes](), 0
        try:
            async with asyncio.timeout(limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limits.body_bytes:
                        return _body_too_large(limits.body_bytes)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            return ErrorResponse(408, "timed out while reading the request body", "timeout")

    def _log_request(self, scope: Scope, request_log: _RequestLog) -> None:
        route = getattr(scope.get("route"), "path", "") or "other"
        seconds = time.monotonic() - request_log.started_at
        self._metrics.requests.labels(route, str(request_log.status)).inc()
        self._metrics.request_seconds.labels(route).observe(seconds)
        extra = {
            "client": (scope.get("client") or ("",))[0],
            "method": scope["method"][:20],
            "path": scope["path"][:MAX_LOGGED_PATH],
            "status": request_log.status,
            "seconds": round(seconds, 4),
            "bytes": request_log.bytes_sent,
            **({"token": request_log.token} if request_log.token else {}),
            **({"kb": scope[BASE_KEY]} if BASE_KEY in scope else {}),
        }
        LOG.info("%s %s %s", extra["method"], extra["path"], request_log.status, extra=extra)


class _ResponseSender:
    """Sends a response with additional headers and a timeout per message."""

    def __init__(self, send: Send, request_log: _RequestLog, settings: ServerSettings, origin: str) -> None:
        self.request_log = request_log
        self.started = False
        self._send = send
        self._timeout_s = settings.limits.send_seconds
        self._allowed_origin = origin if origin in settings.origins else ""

    async def send(self, message: Message) -> None:
        """Send a message. Raises ClientTooSlow."""
        if message["type"] == "http.response.start":
            self.started = True
            self.request_log.status = message["status"]
            message = {**message, "headers": self._add_headers(message.get("headers", ()))}
        self.request_log.bytes_sent += len(message.get("body", b""))
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._send(message)
        except TimeoutError:
            raise ClientTooSlow from None

    async def send_error(self, error: ErrorResponse) -> None:
        """Send an error response."""
        body = error.encode()
        # the rest of the request is not read, so the connection cannot be reused
        own = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        headers = [(name.encode(), value.encode()) for name, value in {**own, **error.headers}.items()]
        await self.send({"type": "http.response.start", "status": error.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def send_redirect(self, location: str, query: bytes) -> None:
        """Lead a browser to another address."""
        target = location.encode() + (b"?" + query if query else b"")
        headers = [(b"location", target), (b"content-length", b"0"), (b"vary", b"accept")]
        await self.send({"type": "http.response.start", "status": 303, "headers": headers})
        await self.send({"type": "http.response.body", "body": b""})

    async def send_preflight(self) -> None:
        """Answer a CORS preflight request."""
        headers = [(b"content-length", b"0"), (b"access-control-max-age", b"600")]
        if self._allowed_origin:
            headers += [
                (b"access-control-allow-methods", _CORS_METHODS.encode()),
                (b"access-control-allow-headers", _CORS_HEADERS.encode()),
            ]
        await self.send({"type": "http.response.start", "status": 204, "headers": headers})
        await self.send({"type": "http.response.body", "body": b""})

    def _add_headers(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        existing = {name.lower() for name, _ in headers}
        own = {**_SECURITY_HEADERS, "x-request-id": self.request_log.id}
        if self._allowed_origin:
            own |= {
                "access-control-allow-origin": self._allowed_origin,
                "access-control-expose-headers": "x-request-id, retry-after",
                "cross-origin-resource-policy": "cross-origin",
                "vary": "origin",
            }
        return [*headers, *((n.encode(), v.encode("latin-1")) for n, v in own.items() if n.encode() not in existing)]


def _allowed_hosts(settings: ServerSettings) -> frozenset[str] | None:
    """The allowed `Host` values; None: any.

    Prevents DNS rebinding, by which a website could send requests to a server without a token.
    """
    if "*" in settings.hosts or (settings.tokens and not settings.hosts and not is_loopback(settings.host)):
        return None
    return frozenset({"localhost", "127.0.0.1", "[::1]", _bracket_ipv6(settings.host.lower()), *settings.hosts})


def _bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _strip_port(host: str) -> str:
    """`Host` without its port, in lower case."""
    return re.sub(r":\d*$", "", host).lower() if not host.endswith("]") else host.lower()


def _is_public(path: str) -> bool:
    return path in PUBLIC_PATHS or (path.startswith(PUBLIC_PREFIX) and ".." not in path)


def _find_opened_document(scope: Scope, headers: Mapping[str, str]) -> str:
    """The id of the document whose link a browser opens, as people do with citations in other programs; else empty.

    Its page shows the lines, and asks for a token where one is needed. The route itself would show JSON, or an error.
    """
    path = _DOCUMENT_PATH.fullmatch(scope["path"]) if scope["method"] == "GET" else None
    return path[1] if path is not None and "text/html" in headers.get("accept", "") else ""


def _is_same_origin(origin: str, host: str) -> bool:
    return urlsplit(origin).netloc.lower() == host.lower()


def _body_too_large(limit: int) -> ErrorResponse:
    return ErrorResponse(413, f"the request body exceeds {limit} bytes", "request_too_large")


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body that was read, then the messages of `receive`."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay
