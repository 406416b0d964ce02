"""The options of the sources, one dataclass each. Importable without the packages that a source needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from ragkit.errors import InvalidOption
from ragkit.load.option_checks import require_patterns, require_positive


def _require_web_url(url: str, option: str = "url") -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise InvalidOption(option, url, "an http or https URL without a password")


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What every remote source has."""

    include: tuple[str, ...] = ()
    """Patterns of documents to index, in `.gitignore` syntax, of paths below the source; empty: all."""
    exclude: tuple[str, ...] = ()
    """Patterns of documents to skip, in `.gitignore` syntax."""

    def __post_init__(self) -> None:
        for name in ("include", "exclude"):
            require_patterns(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class FolderSourceOptions:
    """A folder or a file of this machine. Which files are read is a matter of `load:`."""

    path: str
    """The path; a relative one is below the working directory."""

    def __post_init__(self) -> None:
        if not self.path:
            raise InvalidOption("path", self.path, "the path of a folder or a file ('.': the working directory)")


@dataclass(frozen=True, kw_only=True)
class FsspecOptions(SourceOptions):
    """Files of any file system that fsspec knows: `gs://bucket/docs`, `sftp://host/docs`, `az://container`."""

    url: str
    """The folder."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the file system; `${VAR}` for credentials."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if "://" not in self.url or "@" in urlsplit(self.url).netloc:
            raise InvalidOption("url", self.url, "the URL of a folder without a password, such as gs://bucket/docs")


@dataclass(frozen=True, kw_only=True)
class S3Options(SourceOptions):
    """Objects of an S3-compatible store. Keys are in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN."""

    bucket: str
    """The bucket."""
    prefix: str = ""
    """Only keys that start with this folder."""
    endpoint: str = ""
    """The URL of the server; empty: that of AWS."""
    region: str = ""
    """The region; empty: that of AWS_REGION or AWS_DEFAULT_REGION, or else us-east-1."""
    key_env: str = ""
    """The environment variable with the access key; empty: AWS_ACCESS_KEY_ID."""
    secret_env: str = ""
    """The environment variable with the secret key; needed with `key_env`."""
    anonymous: bool = False
    """Send no credentials."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.bucket or "/" in self.bucket:
            raise InvalidOption("bucket", self.bucket, "the name of a bucket")
        if bool(self.key_env) != bool(self.secret_env):
            name = "secret_env" if self.key_env else "key_env"
            raise InvalidOption(name, "", "the name of a variable, as the other key has one")
        if self.endpoint:
            _require_web_url(self.endpoint, "endpoint")


@dataclass(frozen=True, kw_only=True)
class GitOptions(SourceOptions):
    """The files of a git repository at a branch, tag or commit. Needs the program `git`."""

    repository: str
    """A path or URL, as `git fetch` takes it; credentials are those of git."""
    ref: str = "HEAD"
    """A branch, tag or commit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.repository or self.repository.startswith("-") or "::" in self.repository:
            raise InvalidOption("repository", self.repository, "a path or URL of a git repository")
        if not self.ref or self.ref.startswith("-") or ":" in self.ref:
            raise InvalidOption("ref", self.ref, "a branch, tag or commit")


@dataclass(frozen=True, kw_only=True)
class SitemapOptions(SourceOptions):
    """The pages that a sitemap lists. `robots.txt` is respected."""

    url: str
    """The sitemap, or an index of sitemaps: `https://host/sitemap.xml`."""
    max_pages: int = 10_000
    """With more pages the listing counts as incomplete, and nothing is removed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_web_url(self.url)
        require_positive("max_pages", self.max_pages)


@dataclass(frozen=True, kw_only=True)
class CrawlOptions(SourceOptions):
    """The pages of a site that links lead to, from one page on. Other sites are left out; `robots.txt` is respected."""

    url: str
    """The first page."""
    max_pages: int = 1000
    """With more pages the listing counts as incomplete, and nothing is removed."""
    max_depth: int = 10
    """Links from the first page at most."""
    delay_s: float = 0.0
    """Seconds between requests; a longer `Crawl-delay` of `robots.txt` is respected."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_web_url(self.url)
        require_positive("max_pages", self.max_pages)
        for name in ("max_depth", "delay_s"):
            if not getattr(self, name) >= 0:
                raise InvalidOption(name, getattr(self, name), ">= 0")


@dataclass(frozen=True, kw_only=True)
class FeedOptions(SourceOptions):
    """The entries of an RSS or Atom feed."""

    url: str
    """The feed."""
    content: Literal["page", "feed"] = "page"
    """Index the page that an entry links to, or the text in the feed."""
    keep_old: bool = True
    """Keep entries that the feed no longer lists; false: remove them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_web_url(self.url)


@dataclass(frozen=True, kw_only=True)
class WebdavOptions(SourceOptions):
    """The files of a WebDAV folder: Nextcloud, ownCloud, SharePoint, Apache."""

    url: str
    """The folder."""
    user: str = ""
    """The user name; empty: no login."""
    password_env: str = ""
    """The environment variable with the password."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_web_url(self.url)


@dataclass(frozen=True, kw_only=True)
class MaildirOptions(SourceOptions):
    """The mails of a Maildir on this machine, with its subfolders."""

    path: str
    """The folder that holds `cur` and `new`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.path:
            raise InvalidOption("path", self.path, "the path of a Maildir")


@dataclass(frozen=True, kw_only=True)
class ImapOptions(SourceOptions):
    """The mails of one folder of an IMAP server, read without marking them as seen."""

    host: str
    """The server."""
    user: str
    """The user name."""
    password_env: str = ""
    """The environment variable with the password."""
    mailbox: str = "INBOX"
    """The folder."""
    port: int = 993
    """The port; encrypted (TLS) unless `tls` is false."""
    tls: bool = True
    """Use TLS from the start; false: only for a server on this machine."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.host or not self.user:
            raise InvalidOption("host" if not self.host else "user", "", "a server and a user name")
        if not self.tls and self.host not in ("localhost", "127.0.0.1", "::1"):
            raise InvalidOption("tls", self.tls, "true for a server on another machine")
        if any(ord(character) < 32 or character in '"\\' for character in self.mailbox):
            raise InvalidOption("mailbox", self.mailbox, "the name of a folder without quotes")


@dataclass(frozen=True, kw_only=True)
class SqlOptions(SourceOptions):
    """The rows of a query, one document each. The database is opened for reading."""

    label: str
    """The name of the source, in citations: `sql://label/key`."""
    database: str
    """A `postgresql://` URL (the password in PGPASSWORD or `${VAR}`), or the path of an SQLite file."""
    query: str
    """A SELECT."""
    key: str = "id"
    """The column that identifies a row."""
    text: tuple[str, ...]
    """The columns with the text, joined by blank lines."""
    title: str = ""
    """The column with the title."""
    metadata: tuple[str, ...] = ()
    """Columns to filter by."""
    changed: str = ""
    """A column that changes with the row, a time or a version: only changed rows are read. Empty: by content."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("label", "database", "query", "key", "text"):
            if not getattr(self, name):
                raise InvalidOption(name, getattr(self, name), "a value")
        if not self.label.replace("-", "").replace("_", "").isalnum():
            raise InvalidOption("label", self.label, "letters, digits, - and _")
