"""Requests of the sources that read web servers: conditional, repeated when a server is busy, within `robots.txt`."""

from __future__ import annotations

import time
from dataclasses import replace
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlsplit, urlunsplit
from urllib.robotparser import RobotFileParser

from lxml import etree

from ragkit.errors import LoadError
from ragkit.load.files.fetch import FetchOptions, FetchResult, HttpRequest, HttpStatusError, fetch_url
from ragkit.load.sources.base import DocumentGone, SourceContext, SourceFile, SourceItem, require_network

RETRY_STATUSES = (429, 502, 503, 504)
RETRY_DELAYS_S = (0.2, 1.0)
"""Seconds before each further attempt."""
MAX_LISTING_MB = 50.0
MAX_CRAWL_DELAY_S = 20.0
GONE_STATUSES = (404, 410)
ROBOT_NAME = "ragkit"
_VALIDATORS = (("etag", "If-None-Match"), ("last-modified", "If-Modified-Since"))


class _HasUrl(Protocol):
    @property
    def url(self) -> str:
        """The address of the source."""


OptionsT = TypeVar("OptionsT", bound=_HasUrl)


class PageSource(Generic[OptionsT]):
    """The base of sources whose documents are pages of the web."""

    def __init__(self, options: OptionsT) -> None:
        self._options = options

    @property
    def location(self) -> str:
        """The address that the options name."""
        return self._options.url

    def fetch(self, item: SourceItem, context: SourceContext) -> SourceFile | None:
        """The page; see `Source.fetch`."""
        return fetch_page(item, context)


def request_url(url: str, context: SourceContext, request: HttpRequest | None = None) -> FetchResult:
    """The response to a request, after further attempts if the server is busy. Raises like `fetch_url`."""
    require_network(url)
    options = FetchOptions(max_mb=context.max_file_mb, allow_private=context.allow_private)
    for delay in RETRY_DELAYS_S:
        try:
            return fetch_url(url, options, request)
        except HttpStatusError as error:
            if error.status not in RETRY_STATUSES:
                raise
            time.sleep(delay)
    return fetch_url(url, options, request)


def request_document(key: str, url: str, context: SourceContext, request: HttpRequest | None = None) -> FetchResult:
    """The response to a request for the document of a key. Raises DocumentGone, or like `fetch_url`."""
    try:
        return request_url(url, context, request)
    except HttpStatusError as error:
        if error.status in GONE_STATUSES:
            raise DocumentGone(key, "was deleted", "run again") from error
        raise


def request_listing(url: str, context: SourceContext, request: HttpRequest | None = None) -> FetchResult:
    """The response to a request for a listing, which the limit for documents does not concern."""
    return request_url(url, replace(context, max_file_mb=max(context.max_file_mb, MAX_LISTING_MB)), request)


def conditional_request(fingerprint: str | None) -> HttpRequest:
    """A request that is answered with status 304, without a body, if the page still has this fingerprint."""
    headers: dict[str, str] = {}
    for name, header in _VALIDATORS:
        if fingerprint and fingerprint.startswith(f"{name}:"):
            headers[header] = fingerprint.removeprefix(f"{name}:")
    return HttpRequest(headers=headers, accepted=(200, 304) if headers else (200,))


def response_fingerprint(response: FetchResult) -> str:
    """The ETag or the time of a response; without both a digest of the body."""
    for name, _ in _VALIDATORS:
        if response.headers.get(name):
            return f"{name}:{response.headers[name]}"
    return f"digest:{blake2b(response.data, digest_size=16).hexdigest()}"


def fetch_page(item: SourceItem, context: SourceContext) -> SourceFile | None:
    """The page of a listed URL; None if it has not changed. Raises DocumentGone or LoadError."""
    request = conditional_request(None if item.fingerprint else context.known_fingerprint(item.key))
    response = request_document(item.key, item.key, context, request)
    if response.status == 304:
        return None
    return SourceFile(response.data, response.media_type, response_fingerprint(response))


def canonical_url(url: str) -> str:
    """One spelling of a URL: scheme and host in lower case, no default port, no fragment. '' if it is no web page."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    default = 443 if parts.scheme.lower() == "https" else 80
    netloc = host if port in (None, default) else f"{host}:{port}"
    return urlunsplit((parts.scheme.lower(), netloc, parts.path or "/", parts.query, ""))


def same_site(url: str, other: str) -> bool:
    """Whether two canonical URLs have the same host and port."""
    return urlsplit(url).netloc == urlsplit(other).netloc


class Robots:
    """The `robots.txt` of one site. Without one everything is allowed; an unreadable one is an error."""

    def __init__(self, url: str, context: SourceContext) -> None:
        parts = urlsplit(url)
        self._parser = RobotFileParser()
        try:
            response = request_url(f"{parts.scheme}://{parts.netloc}/robots.txt", context)
            self._parser.parse(response.data.decode("utf-8", "replace").splitlines())
        except HttpStatusError as error:
            if error.status >= 500 or error.status == 429:
                raise
            self._parser.parse([])

    def allows(self, url: str) -> bool:
        """Whether a page may be read."""
        return self._parser.can_fetch(ROBOT_NAME, url)

    @property
    def delay_s(self) -> float:
        """The seconds between requests that the site asks for; 0: none."""
        return min(float(self._parser.crawl_delay(ROBOT_NAME) or 0), MAX_CRAWL_DELAY_S)


def parse_xml(data: bytes, source: str) -> etree._Element:
    """The root of an XML document, without entities, network and huge trees. Raises LoadError."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, recover=False, load_dtd=False)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise LoadError(source, f"is not valid XML ({str(error)[:120]})", "check the URL") from error
    if root is None:
        raise LoadError(source, "is empty", "check the URL")
    return root


def local_name(element: etree._Element) -> str:
    """The name of an element without its namespace, in lower case; '' for comments."""
    return etree.QName(element).localname.lower() if isinstance(element.tag, str) else ""


def child_text(element: etree._Element, *names: str) -> str:
    """The text of the first child with one of these names, in the order of the names; ''."""
    for name in names:
        for child in element:
            if local_name(child) == name:
                return "".join(child.itertext()).strip()
    return ""
