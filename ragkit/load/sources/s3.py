"""The source `s3`: the objects of an S3-compatible store.

Requests are signed here (AWS Signature Version 4): the SDK would bring 30 MB, and a version of `python-dateutil` that
excludes current versions of other packages.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, unquote_plus, urlsplit

from lxml import etree

from ragkit.errors import LoadError
from ragkit.load.files.fetch import HttpRequest, HttpStatusError
from ragkit.load.sources.base import ListingIncomplete, SourceContext, SourceFile, SourceItem, read_credential
from ragkit.load.sources.options import S3Options
from ragkit.load.sources.web import GONE_STATUSES, child_text, local_name, parse_xml, request_document, request_listing

DEFAULT_REGION = "us-east-1"
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
_ACCESS_ERRORS = (301, 307, 400, 401, 403)


@dataclass(frozen=True)
class S3Credentials:
    """The keys of one account."""

    key: str
    secret: str
    token: str = ""
    """The session token of temporary keys."""


class S3Source:
    """The fingerprint of an object is its ETag."""

    def __init__(self, options: S3Options) -> None:
        self._options = options
        self._prefix = f"{options.prefix.strip('/')}/" if options.prefix.strip("/") else ""
        self._region = (
            options.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or DEFAULT_REGION
        )

    @property
    def location(self) -> str:
        """The bucket and the prefix; the server, unless it is that of AWS."""
        server = f"@{self._options.endpoint.rstrip('/')}" if self._options.endpoint else ""
        return f"{self._options.bucket}/{self._prefix}".rstrip("/") + server

    def list(self, context: SourceContext) -> Iterator[SourceItem]:
        """Every object, page by page; see `Source.list`."""
        query = {"list-type": "2", "encoding-type": "url", "prefix": self._prefix}
        while True:
            url, request = self._request("", query)
            try:
                root = parse_xml(request_listing(url, context, request).data, self.location)
            except HttpStatusError as error:
                raise self._explain(error) from error
            if local_name(root) != "listbucketresult":
                raise LoadError(self.location, "did not answer with a listing", "check endpoint and bucket")
            is_encoded = child_text(root, "encodingtype") == "url"
            for entry in root:
                if local_name(entry) == "contents":
                    key = child_text(entry, "key")
                    yield from self._items(entry, unquote_plus(key) if is_encoded else key)
            if child_text(root, "istruncated") != "true":
                return
            token = child_text(root, "nextcontinuationtoken")
            if not token or token == query.get("continuation-token"):
                raise ListingIncomplete(self.location, "the listing does not go on", "check the endpoint")
            query["continuation-token"] = token

    def fetch(self, item: SourceItem, context: SourceContext) -> SourceFile:
        """The bytes of an object; see `Source.fetch`."""
        url, request = self._request(self._prefix + item.path, {})
        return SourceFile(request_document(item.key, url, context, request).data)

    def _items(self, entry: etree._Element, key: str) -> Iterator[SourceItem]:
        """The document of one entry; none for the marker of a folder."""
        if key.endswith("/") or not key.startswith(self._prefix):
            return
        size, etag = child_text(entry, "size"), child_text(entry, "etag").strip('"')
        modified = child_text(entry, "lastmodified")
        yield SourceItem(
            f"s3://{self._options.bucket}/{quote(key)}",
            etag or modified,
            int(size) if size.isdecimal() else None,
            modified,
            path=key.removeprefix(self._prefix),
        )

    def _request(self, key: str, query: Mapping[str, str]) -> tuple[str, HttpRequest]:
        """The URL of an object, or of the bucket, and the signed request. Raises LoadError without credentials."""
        chosen = self._options
        if chosen.endpoint:
            base = f"{chosen.endpoint.rstrip('/')}/{_encode(chosen.bucket)}"
        elif "." in chosen.bucket:  # a certificate for *.s3.amazonaws.com holds for one label
            base = f"https://s3.{self._region}.amazonaws.com/{chosen.bucket}"
        else:
            base = f"https://{chosen.bucket}.s3.{self._region}.amazonaws.com"
        text = "&".join(f"{_encode(name)}={_encode(value)}" for name, value in sorted(query.items()))
        url = f"{base}/{_encode(key, '/')}" + (f"?{text}" if text else "")
        if chosen.anonymous:
            return url, HttpRequest()
        return url, HttpRequest(headers=sign_request(url, self._credentials(), self._region, datetime.now(UTC)))

    def _credentials(self) -> S3Credentials:
        chosen = self._options
        if chosen.key_env:
            secret = read_credential(chosen.secret_env, self.location)
            return S3Credentials(read_credential(chosen.key_env, self.location), secret)
        key = read_credential("AWS_ACCESS_KEY_ID", self.location)
        secret = read_credential("AWS_SECRET_ACCESS_KEY", self.location)
        return S3Credentials(key, secret, os.environ.get("AWS_SESSION_TOKEN", ""))

    def _explain(self, error: HttpStatusError) -> LoadError:
        if error.status in GONE_STATUSES:
            return LoadError(self.location, "has no such bucket", "check bucket and endpoint")
        if error.status in _ACCESS_ERRORS:
            reason = f"refused the request ({error.status}, region {self._region})"
            return LoadError(self.location, reason, "check the credentials, their rights, and the region")
        return error


def sign_request(
    url: str, credentials: S3Credentials, region: str, now: datetime, headers: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The headers of a signed GET without a body: AWS Signature Version 4.

    Args:
        url: with every character encoded that is not unreserved, and the query sorted.
        credentials: the keys of the account.
        region: where the bucket is.
        now: the time of the request, in UTC.
        headers: further headers to send, with names in lower case.
    """
    parts, time = urlsplit(url), now.strftime("%Y%m%dT%H%M%SZ")
    signed = {"host": parts.netloc, "x-amz-content-sha256": _EMPTY_SHA256, "x-amz-date": time, **(headers or {})}
    if credentials.token:
        signed["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{value}\n" for name, value in sorted(signed.items()))
    canonical = "\n".join(("GET", parts.path, parts.query, lines, names, _EMPTY_SHA256))
    scope = f"{time[:8]}/{region}/s3/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", time, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{credentials.secret}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = f"Credential={credentials.key}/{scope},SignedHeaders={names},Signature={key.hex()}"
    return {**signed, "Authorization": f"AWS4-HMAC-SHA256 {signature}"}


def _encode(text: str, safe: str = "") -> str:
    """Percent-encode all but unreserved characters and `safe`."""
    return quote(text, safe=f"{safe}-._~")
