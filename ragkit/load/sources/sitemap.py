"""The source `sitemap`: the pages that a sitemap lists, or an index of sitemaps."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from io import BytesIO

from ragkit.errors import LoadError
from ragkit.load.files.file_io import MB
from ragkit.load.sources.base import ListingIncomplete, SourceContext, SourceItem
from ragkit.load.sources.options import SitemapOptions
from ragkit.load.sources.web import (
    PageSource,
    Robots,
    canonical_url,
    child_text,
    local_name,
    parse_xml,
    request_listing,
    same_site,
)

MAX_SITEMAPS = 500
MAX_SITEMAP_BYTES = 50 * MB
"""The limit of the sitemap protocol, after decompression."""


class SitemapSource(PageSource[SitemapOptions]):
    """The fingerprint of a page is its `lastmod`; without one the page is requested if it changed."""

    def list(self, context: SourceContext) -> Iterator[SourceItem]:
        """Every page of the site; see `Source.list`."""
        robots = Robots(self._options.url, context)
        pending, seen, count = [self._options.url], {self._options.url}, 0
        failure: LoadError | None = None
        while pending:
            url = pending.pop(0)
            try:
                root = parse_xml(_read_sitemap(url, context), url)
            except LoadError as error:
                if url == self._options.url:
                    raise
                failure = failure or error
                continue
            for entry in root:
                address = canonical_url(child_text(entry, "loc"))
                if not address or not same_site(address, canonical_url(self._options.url)):
                    continue
                if local_name(entry) == "sitemap" and address not in seen and len(seen) < MAX_SITEMAPS:
                    seen.add(address)
                    pending.append(address)
                elif local_name(entry) == "url" and robots.allows(address):
                    count += 1
                    if count > self._options.max_pages:
                        reason = f"lists more than {self._options.max_pages:,} pages"
                        raise ListingIncomplete(self.location, reason, "raise max_pages")
                    modified = child_text(entry, "lastmod")
                    yield SourceItem(address, f"lastmod:{modified}" if modified else "", modified=modified)
        if failure is not None:
            raise ListingIncomplete(failure.source, failure.reason, failure.hint)


def _read_sitemap(url: str, context: SourceContext) -> bytes:
    """The XML of a sitemap, decompressed. Raises LoadError."""
    data = request_listing(url, context).data
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as stream:
            text = stream.read(MAX_SITEMAP_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise LoadError(url, "is a damaged gzip file", "check the URL") from error
    if len(text) > MAX_SITEMAP_BYTES:
        raise LoadError(url, f"is larger than {MAX_SITEMAP_BYTES // MB} MB", "split the sitemap")
    return text
