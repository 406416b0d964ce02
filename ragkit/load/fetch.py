"""One page from the web, safely: http and https only, public addresses only, bounded in time and size.

Every hop of a redirect is checked, and the address that was checked is the one that is connected to, so that a
name cannot lead elsewhere at the second look. Proxies are not used: behind one, no address could be checked.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import quote, urljoin, urlsplit

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.options import require_positive

MB = 1024 * 1024
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
    """What may be fetched, and what it may cost."""

    timeout_s: float = 30.0
    """For the whole fetch, redirects and all."""
    max_mb: float = 50
    """Of the answer's body."""
    allow_private: bool = False
    """Reach loopback, private and link-local addresses too."""

    def __post_init__(self) -> None:
        require_positive("timeout_s", self.timeout_s)
        require_positive("max_mb", self.max_mb)


@dataclass(frozen=True, slots=True)
class FetchResult:
    """What a server sent."""

    url: str
    """Where it came from in the end, after redirects."""
    data: bytes
    media_type: str
    """As the server says, without parameters, in lower case: `text/html`."""


@dataclass
class _ConnectionGuard:
    """Opens the connections of one fetch, and cuts them when its time is up."""

    options: FetchOptions
    url: str
    deadline: float
    sockets: list[socket.socket] = field(default_factory=list)
    timed_out: bool = False

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to an address of `host` that was checked. Raises LoadError."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for *_, where in found:
            address = ip_address(str(where[0]).partition("%")[0])
            if not self.options.allow_private and not is_public_address(address):
                reason = f"{host} is not on the public network ({address})"
                raise LoadError(
                    self.url, reason, "pass allow_private=True if you trust it (`--set load.allow_private=true`)"
                )
        failed: OSError = OSError("no address")
        for family, kind, protocol, _, where in found:
            link = socket.socket(family, kind, protocol)
            link.settimeout(max(0.1, self.deadline - time.monotonic()))
            try:
                link.connect(where)
            except OSError as error:
                link.close()
                failed = error
                continue
            self.sockets.append(link)
            return link
        raise failed

    def abort(self) -> None:
        """The time is up: whoever waits on a connection is woken."""
        self.timed_out = True
        for link in self.sockets:
            try:
                link.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed already


def is_public_address(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is on the public network; one that wraps another is judged by what it wraps."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is None and address in NAT64_PREFIX:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public_address(inner)
    return address.is_global and not address.is_multicast


def fetch_url(url: str, options: FetchOptions | None = None) -> FetchResult:
    """What stands at a URL.

    Raises:
        LoadError: it is no http(s) URL, leads to a private address, cannot be reached or answers with an error.
        LoadLimitExceeded: it takes too long or is too large.
    """
    options = options or FetchOptions()
    guard = _ConnectionGuard(options, _validate_url(url), time.monotonic() + options.timeout_s)
    timer = threading.Timer(options.timeout_s, guard.abort)
    timer.daemon = True
    timer.start()
    try:
        return _follow_redirects(guard)
    except (OSError, HTTPException, ValueError) as error:
        if guard.timed_out or isinstance(error, TimeoutError):
            raise LoadLimitExceeded(
                url, f"took longer than {options.timeout_s:g} seconds", "try again, or raise it"
            ) from error
        words = str(error) or type(error).__name__
        raise LoadError(url, f"cannot be reached ({words})", "look at the address and the network") from error
    finally:
        timer.cancel()
        for link in guard.sockets:
            link.close()


def _validate_url(url: str) -> str:
    """`url`, where it is one that may be fetched. Raises LoadError."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError as error:
        raise LoadError(url, "no http or https URL", "write it as https://host/path") from error
    if "@" in parts.netloc:
        bare = url.replace(parts.netloc, parts.netloc.rpartition("@")[2])
        raise LoadError(bare, "a URL with a password", "leave the password out")
    if not known:
        raise LoadError(url, "no http or https URL", "write it as https://host/path")
    return url


def _follow_redirects(guard: _ConnectionGuard) -> FetchResult:
    """The answer at the end of at most MAX_HOPS redirects."""
    url = guard.url
    for _ in range(MAX_REDIRECTS + 1):
        answer = _send_request(url, guard)
        target = answer.headers.get("Location")
        if answer.status not in REDIRECT_STATUSES or not target:
            return FetchResult(url, _read_body(answer, guard), answer.headers.get_content_type())
        url = _validate_url(urljoin(url, target))
    raise LoadError(guard.url, f"redirects more than {MAX_REDIRECTS} times", "open it in a browser")


def _send_request(url: str, guard: _ConnectionGuard) -> HTTPResponse:
    parts = urlsplit(url)
    host = parts.hostname or ""
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    connection = HTTPSConnection(host, port) if secure else HTTPConnection(host, port)
    connection.sock = guard.connect(host, port)  # ours, so that no second look at the name is taken
    if secure:
        connection.sock = ssl.create_default_context().wrap_socket(connection.sock, server_hostname=host)
        guard.sockets.append(connection.sock)
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._") + (f"?{parts.query}" if parts.query else "")
    connection.request("GET", target, headers=REQUEST_HEADERS)
    return connection.getresponse()


def _read_body(answer: HTTPResponse, guard: _ConnectionGuard) -> bytes:
    """The whole body. Raises LoadError for an answer that is no page, LoadLimitExceeded for one that is too large."""
    if answer.status != 200:
        raise LoadError(guard.url, f"the server answered {answer.status} {answer.reason}", "open it in a browser")
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise LoadError(guard.url, "the server sent it compressed without being asked", "download it by hand")
    most = int(guard.options.max_mb * MB)
    pieces: list[bytes] = []
    size = 0
    while piece := answer.read(READ_SIZE):
        size += len(piece)
        if size > most:
            raise LoadLimitExceeded(guard.url, f"larger than {guard.options.max_mb:g} MB", "raise max_mb")
        pieces.append(piece)
    if guard.timed_out:
        raise TimeoutError("the connection was cut")
    return b"".join(pieces)
