"""The source `feed`: the entries of an RSS or Atom feed."""

from __future__ import annotations

import html
from collections.abc import Iterator
from hashlib import blake2b
from urllib.parse import quote, urljoin

from lxml import etree

from ragkit.errors import LoadError
from ragkit.load.sources.base import SourceContext, SourceFile, SourceItem
from ragkit.load.sources.options import FeedOptions
from ragkit.load.sources.web import PageSource, canonical_url, child_text, local_name, parse_xml, request_listing


class FeedSource(PageSource[FeedOptions]):
    """The key of an entry is its link. Entries that the feed no longer lists stay, unless `keep_old` is false."""

    def list(self, context: SourceContext) -> Iterator[SourceItem]:
        """Every entry; see `Source.list`."""
        root = parse_xml(request_listing(self._options.url, context).data, self._options.url)
        if local_name(root) not in ("rss", "feed", "rdf"):
            raise LoadError(self.location, "is neither RSS nor Atom", "check the URL of the feed")
        seen: set[str] = set()
        for entry in root.iter():
            if local_name(entry) in ("item", "entry"):
                item = self._item(entry)
                if item is not None and item.key not in seen:
                    seen.add(item.key)
                    yield item
        for key in sorted(set(context.known_keys()) - seen) if seen and self._options.keep_old else ():
            known = context.known_fingerprint(key)
            if known is not None:
                yield SourceItem(key, known)

    def _item(self, entry: etree._Element) -> SourceItem | None:
        """The document of an entry; None without a link or a text."""
        link = canonical_url(urljoin(self._options.url, _link(entry)))
        modified = child_text(entry, "updated", "pubdate", "published", "date")
        if self._options.content == "page":
            return SourceItem(link, f"updated:{modified}" if modified else "", modified=modified) if link else None
        text = child_text(entry, "encoded", "content", "description", "summary")
        name = link or child_text(entry, "guid", "id")
        if not text or not name:
            return None
        title = html.escape(child_text(entry, "title"))
        page = (
            f"<html><head><meta charset='utf-8'><title>{title}</title></head><body><h1>{title}</h1>{text}</body></html>"
        )
        data = page.encode()
        key = link or f"feed://{quote(name, safe='')}"
        digest = blake2b(data, digest_size=16).hexdigest()
        return SourceItem(key, digest, modified=modified, file=SourceFile(data, "text/html", suffix=".html"))


def _link(entry: etree._Element) -> str:
    """The link of an entry: the text of `link` in RSS, its `href` in Atom."""
    links = [child for child in entry if local_name(child) == "link"]
    for child in links:
        if child.get("href") and child.get("rel", "alternate") == "alternate":
            return str(child.get("href"))
    return next((child.text.strip() for child in links if child.text and child.text.strip()), "")
