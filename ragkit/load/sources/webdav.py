"""The source `webdav`: the files of a WebDAV folder."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from urllib.parse import unquote, urljoin, urlsplit

from ragkit.errors import LoadError
from ragkit.load.files.fetch import HttpRequest
from ragkit.load.sources.base import ListingIncomplete, SourceContext, SourceFile, SourceItem, read_credential
from ragkit.load.sources.options import WebdavOptions
from ragkit.load.sources.web import canonical_url, child_text, local_name, parse_xml, request_document, request_listing

MAX_FOLDERS = 10_000
_PROPERTIES = b"""<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/><getetag/><getcontentlength/>
<getlastmodified/><getcontenttype/></prop></propfind>"""


class WebdavSource:
    """The fingerprint of a file is its ETag, or else its time and size."""

    def __init__(self, options: WebdavOptions) -> None:
        self._options = options
        self._root = canonical_url(options.url).rstrip("/") + "/"

    @property
    def location(self) -> str:
        """The URL of the folder."""
        return self._options.url

    def list(self, context: SourceContext) -> Iterator[SourceItem]:
        """Every file, folder by folder; see `Source.list`."""
        pending, seen = [self._root], {self._root}
        failure: LoadError | None = None
        while pending:
            folder = pending.pop()
            try:
                found = _responses(folder, self._send(folder, context, "PROPFIND", _PROPERTIES))
            except LoadError as error:
                if folder == self._root:
                    raise
                failure = failure or error
                continue
            for url, properties in found:
                if not url.startswith(self._root) or url.rstrip("/") == folder.rstrip("/"):
                    continue
                if properties["is_folder"]:
                    below = url.rstrip("/") + "/"
                    pending += [below] if below not in seen and len(seen) < MAX_FOLDERS else []
                    seen.add(below)
                    continue
                yield self._item(url, properties)
        if failure is not None:
            raise ListingIncomplete(failure.source, failure.reason, failure.hint)

    def fetch(self, item: SourceItem, context: SourceContext) -> SourceFile:
        """The bytes of a file; see `Source.fetch`."""
        return SourceFile(self._send(item.key, context))

    def _item(self, url: str, properties: dict[str, str]) -> SourceItem:
        size = int(properties["size"]) if properties["size"].isdecimal() else None
        version = properties["etag"] or (f"{properties['modified']}-{size}" if properties["modified"] else "")
        return SourceItem(url, version, size, properties["modified"], path=unquote(url[len(self._root) :]))

    def _send(self, url: str, context: SourceContext, method: str = "GET", body: bytes = b"") -> bytes:
        headers = {"Depth": "1", "Content-Type": "application/xml"} if body else {}
        if self._options.user:
            password = read_credential(self._options.password_env, self.location)
            pair = b64encode(f"{self._options.user}:{password}".encode()).decode()
            headers["Authorization"] = f"Basic {pair}"
        if body:
            return request_listing(url, context, HttpRequest(method, headers, body, (207,))).data
        return request_document(url, url, context, HttpRequest(method, headers)).data


def _responses(folder: str, data: bytes) -> list[tuple[str, dict[str, str]]]:
    """The URL and properties of each entry of an answer to PROPFIND. Raises LoadError."""
    found: list[tuple[str, dict[str, str]]] = []
    for response in parse_xml(data, folder):
        href = child_text(response, "href")
        if local_name(response) != "response" or not href:
            continue
        url = canonical_url(urljoin(folder, urlsplit(href)._replace(scheme="", netloc="").geturl()))
        values = {"is_folder": "", "etag": "", "size": "", "modified": ""}
        names = {"getetag": "etag", "getcontentlength": "size", "getlastmodified": "modified"}
        for element in response.iter():
            name = local_name(element)
            if name == "collection":
                values["is_folder"] = "1"
            elif name in names and element.text:
                values[names[name]] = element.text.strip()
        found.append((url, values))
    return found
