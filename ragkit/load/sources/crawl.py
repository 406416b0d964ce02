"""The source `crawl`: the pages of a site that links lead to.

Each page is requested once a run, on the condition that it changed; the links of an unchanged page are remembered. A
page that the server fails to deliver makes the listing incomplete, because its links are unknown.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

from lxml import etree, html

from ragkit.errors import LoadError
from ragkit.load.files.fetch import FetchResult, HttpStatusError
from ragkit.load.sources.base import ListingIncomplete, SourceContext, SourceFile, SourceItem
from ragkit.load.sources.options import CrawlOptions
from ragkit.load.sources.web import (
    GONE_STATUSES,
    PageSource,
    Robots,
    canonical_url,
    conditional_request,
    request_url,
    response_fingerprint,
    same_site,
)

CACHE_FILE = "crawl.json"
CACHE_EVERY = 50
"""Pages after which the cache is written, for a run that is killed."""
HTML_TYPES = ("text/html", "application/xhtml+xml")
_SKIPPED_SUFFIXES = (".css", ".js", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".ico", ".woff", ".woff2", ".mp4", ".zip")


@dataclass(frozen=True)
class _Page:
    """What is remembered of a page."""

    fingerprint: str
    canonical: str
    """Its canonical URL; that of another page: this one is not indexed."""
    links: tuple[str, ...]
    noindex: bool = False


class CrawlSource(PageSource[CrawlOptions]):
    """The key of a page is its canonical URL."""

    def __init__(self, options: CrawlOptions) -> None:
        super().__init__(options)
        self._start = canonical_url(options.url)

    def list(self, context: SourceContext) -> Iterator[SourceItem]:
        """Every page that can be reached; see `Source.list`."""
        robots = Robots(self._start, context)
        delay = max(robots.delay_s, self._options.delay_s)
        before, pages = _read_cache(context.folder), dict[str, _Page]()
        pending, seen = deque([(self._start, 0)]), {self._start}
        failure: LoadError | None = None
        while pending:
            url, depth = pending.popleft()
            if len(pages) >= self._options.max_pages:
                failure = LoadError(
                    self.location, f"has more than {self._options.max_pages:,} pages", "raise max_pages"
                )
                break
            try:
                known = before[url].fingerprint if url in before else None
                response = request_url(url, context, conditional_request(known))
            except LoadError as error:
                if isinstance(error, HttpStatusError) and error.status in GONE_STATUSES and url != self._start:
                    continue
                if url == self._start:
                    raise
                failure = failure or error
                continue
            page = before[url] if response.status == 304 else _read_page(url, response)
            pages[url] = page
            if len(pages) % CACHE_EVERY == 0:
                _write_cache(context.folder, {**before, **pages})
            links = [page.canonical, *page.links] if depth < self._options.max_depth else [page.canonical]
            for link in links:
                if link not in seen and same_site(link, self._start) and robots.allows(link):
                    seen.add(link)
                    pending.append((link, depth + 1))
            if page.canonical == url and not page.noindex:
                file = None if response.status == 304 else SourceFile(response.data, response.media_type)
                yield SourceItem(url, page.fingerprint, file=file)
            if delay:
                time.sleep(delay)
        _write_cache(context.folder, {**before, **pages} if failure is not None else pages)
        if failure is not None:
            raise ListingIncomplete(failure.source, failure.reason, failure.hint)


def _read_page(url: str, response: FetchResult) -> _Page:
    """What a response says about its page."""
    fingerprint, final = response_fingerprint(response), canonical_url(response.url)
    canonical = final if same_site(final, url) else ""  # a redirect to another site leaves this one
    if not canonical:
        return _Page(fingerprint, url, (), noindex=True)
    if response.media_type not in HTML_TYPES or not response.data.strip():
        return _Page(fingerprint, canonical, ())
    try:
        tree = html.fromstring(response.data)
    except (etree.ParserError, ValueError):
        return _Page(fingerprint, canonical, ())
    base = urljoin(final, next(iter(tree.xpath("//base/@href")), ""))
    named = canonical_url(urljoin(base, next(iter(tree.xpath("//link[@rel='canonical']/@href")), canonical)))
    robots = " ".join(tree.xpath("//meta[@name='robots']/@content")).lower()
    hrefs = [] if "nofollow" in robots else tree.xpath("//a[not(contains(@rel, 'nofollow'))]/@href")
    found = dict.fromkeys(canonical_url(_join(base, href)) for href in hrefs)
    links = tuple(link for link in found if link and same_site(link, url) and not link.endswith(_SKIPPED_SUFFIXES))
    is_own = bool(named) and same_site(named, url)
    return _Page(fingerprint, named if is_own else canonical, links, "noindex" in robots)


def _join(base: str, href: str) -> str:
    try:
        return urljoin(base, href)
    except ValueError:
        return ""


def _read_cache(folder: Path) -> dict[str, _Page]:
    """The pages of the last run; none if the file is missing or damaged."""
    try:
        entries = json.loads((folder / CACHE_FILE).read_bytes())
        return {url: _Page(entry[0], entry[1], tuple(entry[2]), entry[3]) for url, entry in entries.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def _write_cache(folder: Path, pages: dict[str, _Page]) -> None:
    path = folder / CACHE_FILE
    new = path.with_suffix(".new")
    new.write_text(json.dumps({url: [p.fingerprint, p.canonical, p.links, p.noindex] for url, p in pages.items()}))
    new.rename(path)
