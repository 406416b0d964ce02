"""Sources: what can be listed and fetched, a folder, a bucket, a web site or a mailbox for example.

Holds the registry; an index run keeps a copy of every document, and fetches those again that have changed.
"""

from __future__ import annotations

from ragkit.load.sources.base import Source
from ragkit.registry import ComponentSpec, Registry

_OPTIONS = "ragkit.load.sources.options"

SOURCES: Registry[Source] = Registry(
    "source",
    "sources",
    {
        "crawl": ComponentSpec("ragkit.load.sources.crawl:CrawlSource", options=f"{_OPTIONS}:CrawlOptions"),
        "feed": ComponentSpec("ragkit.load.sources.feed:FeedSource", options=f"{_OPTIONS}:FeedOptions"),
        "folder": ComponentSpec("ragkit.load.sources.folder:FolderSource", options=f"{_OPTIONS}:FolderSourceOptions"),
        "fsspec": ComponentSpec("ragkit.load.sources.fsspec:FsspecSource", "fsspec", f"{_OPTIONS}:FsspecOptions"),
        "git": ComponentSpec("ragkit.load.sources.git:GitSource", options=f"{_OPTIONS}:GitOptions"),
        "imap": ComponentSpec("ragkit.load.sources.imap:ImapSource", options=f"{_OPTIONS}:ImapOptions"),
        "maildir": ComponentSpec("ragkit.load.sources.maildir:MaildirSource", options=f"{_OPTIONS}:MaildirOptions"),
        "s3": ComponentSpec("ragkit.load.sources.s3:S3Source", options=f"{_OPTIONS}:S3Options"),
        "sitemap": ComponentSpec("ragkit.load.sources.sitemap:SitemapSource", options=f"{_OPTIONS}:SitemapOptions"),
        "sql": ComponentSpec("ragkit.load.sources.sql:SqlSource", options=f"{_OPTIONS}:SqlOptions"),
        "webdav": ComponentSpec("ragkit.load.sources.webdav:WebdavSource", options=f"{_OPTIONS}:WebdavOptions"),
    },
)
