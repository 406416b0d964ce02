"""Fetch a web page safely: http and https only, public addresses only, limited in time and size.

Every redirect is checked, and the connection uses the checked address, which prevents DNS rebinding. Proxies are
not used, because the address behind a proxy cannot be checked.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import quote, urljoin, urlsplit

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.files.file_io import MB
from ragkit.load.option_checks import require_positive

READ_SIZE = 65_536
MAX_REDIRECTS = 5
REDIRECT_STATUSES = (301, 302, 303, 307, 308)
REQUEST_HEADERS = {
    "Accept-Encoding": "identity",
    "Connection": "close",
    "User-Agent": "ragkit (+https://pypi.org/project/ragkit)",
}
NAT64_PREFIX = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True)
class FetchOptions:
    """The limits of a request."""

    timeout_s: float = 30.0
    """Timeout of the whole request in seconds, redirects included."""
    max_mb: float = 50
    """Largest response body, in MB."""
    allow_private: bool = False
    """Allow loopback, private and link-local addresses."""

    def __post_init__(self) -> None:
        require_positive("timeout_s", self.timeout_s)
        require_positive("max_mb", self.max_mb)


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The response to a request."""

    url: str
    """The final URL, after redirects."""
    data: bytes
    media_type: str
    """The Content-Type without parameters, in lower case: `text/html`."""
    status: int = 200
    """The HTTP status, one of those that the request accepts."""
    headers: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The headers, with names in lower case."""


@dataclass(frozen=True)
class HttpRequest:
    """What a request sends, other than its URL."""

    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers. Authorization is not sent to another host after a redirect."""
    body: bytes = b""
    accepted: tuple[int, ...] = (200,)
    """The statuses that are no errors."""


class HttpStatusError(LoadError):
    """A response with an error status."""

    def __init__(self, source: str, status: int, reason: str) -> None:
        super().__init__(source, f"the server returned {status} {reason}", "open it in a browser")
        self.status = status


@dataclass
class _ConnectionGuard:
    """Opens the connections of one request, and closes them on timeout."""

    options: FetchOptions
    url: str
    deadline: float
    request: HttpRequest = field(default_factory=HttpRequest)
    sockets: list[socket.socket] = field(default_factory=list)
    timed_out: bool = False

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to a checked address of `host`. Raises LoadError."""
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for *_, sockaddr in addresses:
            address = ip_address(str(sockaddr[0]).partition("%")[0])
            if not self.options.allow_private and not is_public_address(address):
                reason = f"{host} has a non-public address ({address})"
                hint = "set allow_private=True if you trust it (`--set load.allow_private=true`)"
                raise LoadError(self.url, reason, hint)
        last_error: OSError = OSError("no address")
        for family, kind, protocol, _, sockaddr in addresses:
            connection = socket.socket(family, kind, protocol)
            connection.settimeout(max(0.1, self.deadline - time.monotonic()))
            try:
                connection.connect(sockaddr)
            except OSError as error:
                connection.close()
                last_error = error
                continue
            self.sockets.append(connection)
            return connection
        raise last_error

    def abort(self) -> None:
        """Shut down all connections, which wakes blocked reads."""
        self.timed_out = True
        for connection in self.sockets:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # already closed


def is_public_address(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is public; an address that embeds another is checked by the embedded one."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is None and address in NAT64_PREFIX:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public_address(inner)
    return address.is_global and not address.is_multicast


def fetch_url(url: str, options: FetchOptions | None = None, request: HttpRequest | None = None) -> FetchResult:
    """Fetch a URL.

    Raises:
        LoadError: not an http(s) URL, a non-public address or an unreachable server.
        HttpStatusError: an error response.
        LoadLimitExceeded: the request timed out, or the response is too large.
    """
    options = options or FetchOptions()
    guard = _ConnectionGuard(
        options, _validate_url(url), time.monotonic() + options.timeout_s, request or HttpRequest()
    )
    timer = threading.Timer(options.timeout_s, guard.abort)
    timer.daemon = True
    timer.start()
    try:
        return _follow_redirects(guard)
    except (OSError, HTTPException, ValueError) as error:
        if guard.timed_out or isinstance(error, TimeoutError):
            reason = f"timed out after {options.timeout_s:g} seconds"
            raise LoadLimitExceeded(url, reason, "retry, or raise the timeout") from error
        reason = str(error) or type(error).__name__
        raise LoadError(url, f"unreachable ({reason})", "check the URL and the network") from error
    finally:
        timer.cancel()
        for connection in guard.sockets:
            connection.close()


def _validate_url(url: str) -> str:
    """`url` itself. Raises LoadError unless it is an http(s) URL without credentials."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError as error:
        raise LoadError(url, "not an http or https URL", "write it as https://host/path") from error
    if "@" in parts.netloc:
        bare = url.replace(parts.netloc, parts.netloc.rpartition("@")[2])
        raise LoadError(bare, "the URL contains a password", "remove the password")
    if not is_valid:
        raise LoadError(url, "not an http or https URL", "write it as https://host/path")
    return url


def _follow_redirects(guard: _ConnectionGuard) -> FetchResult:
    """The response after at most MAX_REDIRECTS redirects."""
    url = guard.url
    for _ in range(MAX_REDIRECTS + 1):
        with _send_request(url, guard) as response:
            target = response.headers.get("Location")
            if response.status not in REDIRECT_STATUSES or not target:
                headers = {name.lower(): value for name, value in response.headers.items()}
                data = _read_body(response, guard)
                return FetchResult(url, data, response.headers.get_content_type(), response.status, headers)
        url = _validate_url(urljoin(url, target))
    raise LoadError(guard.url, f"more than {MAX_REDIRECTS} redirects", "open it in a browser")


def _send_request(url: str, guard: _ConnectionGuard) -> HTTPResponse:
    parts = urlsplit(url)
    host = parts.hostname or ""
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    connection = HTTPSConnection(host, port) if secure else HTTPConnection(host, port)
    connection.sock = guard.connect(host, port)  # connected to the checked address, without a second DNS lookup
    if secure:
        connection.sock = ssl.create_default_context().wrap_socket(connection.sock, server_hostname=host)
        guard.sockets.append(connection.sock)
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._") + (f"?{parts.query}" if parts.query else "")
    first = urlsplit(guard.url)
    same_host = (parts.scheme, parts.netloc) == (first.scheme, first.netloc)
    extra = {name: value for name, value in guard.request.headers.items() if same_host or name != "Authorization"}
    body = guard.request.body or None
    connection.request(guard.request.method, target, body=body, headers={**REQUEST_HEADERS, **extra})
    return connection.getresponse()


def _read_body(response: HTTPResponse, guard: _ConnectionGuard) -> bytes:
    """The whole body. Raises LoadError for an error response, LoadLimitExceeded for a body that is too large."""
    if response.status not in guard.request.accepted:
        raise HttpStatusError(guard.url, response.status, response.reason)
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise LoadError(guard.url, "the server sent an unrequested Content-Encoding", "download it manually")
    max_bytes = int(guard.options.max_mb * MB)
    chunks: list[bytes] = []
    size = 0
    while chunk := response.read(READ_SIZE):
        size += len(chunk)
        if size > max_bytes:
            raise LoadLimitExceeded(guard.url, f"larger than {guard.options.max_mb:g} MB", "raise max_mb")
        chunks.append(chunk)
    if guard.timed_out:
        raise TimeoutError
    return b"".join(chunks)
