"""Serves the files of the web UI with strict security headers.

The files are read once at startup: no path is built from a request.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePath

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

STATIC_FOLDER = "static"
INDEX_FILE = "index.html"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".woff2": "font/woff2",
}

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # the page builds DOM nodes: the browser blocks every parsing of strings as HTML or script
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    # a DNS lookup would tell the host of a link that the link was displayed
    "x-dns-prefetch-control": "off",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "cache-control": "no-cache",
    "vary": "accept-encoding",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file of the web UI."""

    name: str
    media_type: str
    body: bytes
    gzip_body: bytes
    """`body`, compressed with gzip."""
    etag: str

    async def respond(self, request: Request) -> Response:
        """The file, or 304 if the client has it cached."""
        headers = {**HEADERS, "etag": self.etag}
        if self.etag in (etag.strip() for etag in request.headers.get("if-none-match", "").split(",")):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.gzip_body, headers={**headers, "content-encoding": "gzip"}, media_type=self.media_type)
        return Response(self.body, headers=headers, media_type=self.media_type)


def load_static_files() -> list[StaticFile]:
    """The files of the web UI, by name; those of its subfolders among them."""
    folder = files(__package__) / STATIC_FOLDER
    below = [entry for part in folder.iterdir() for entry in (part.iterdir() if part.is_dir() else (part,))]
    entries = [entry for entry in below if entry.is_file() and PurePath(entry.name).suffix in MEDIA_TYPES]
    return [_create_file(entry.name, entry.read_bytes()) for entry in sorted(entries, key=lambda entry: entry.name)]


def static_routes() -> Sequence[Route]:
    """`GET /` and `GET /static/NAME` for every file; they need no token and are not in the OpenAPI document."""
    routes = []
    for file in load_static_files():
        path = "/" if file.name == INDEX_FILE else f"/{STATIC_FOLDER}/{file.name}"
        routes.append(Route(path, file.respond, methods=["GET"], include_in_schema=False))
    return routes


def _create_file(name: str, body: bytes) -> StaticFile:
    etag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    return StaticFile(name, MEDIA_TYPES[PurePath(name).suffix], body, gzip.compress(body, 9, mtime=0), etag)
