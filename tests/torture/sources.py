"""A folder that is indexed through every kind of source: web pages, S3, WebDAV, IMAP, git, Maildir, SQL and more.

The files of each subfolder are served by the servers of the tests, which run in one process of their own and read the
folder at every request, so that a change of the folder is a change of all sources.
"""

from __future__ import annotations

import random
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from email.message import EmailMessage
from html import escape
from pathlib import Path

from tests.torture.folder import Files, paragraphs_of

KINDS = ("site", "crawl", "feed", "s3", "dav", "imap", "git", "maildir", "sql", "fsspec", "folder")
EACH = 5
"""Files of a source."""
SUFFIXES = {"site": "html", "crawl": "html", "feed": "html", "imap": "eml", "maildir": "eml"}
VARIABLES = {
    "RAGKIT_OFFLINE": "",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "TEST_PASSWORD": "geheim",
}
WORDS = (20, 30)
Ports = Mapping[str, int]


def source_file(name: str, edition: int) -> bytes:
    """A file in one edition: a page, a mail or a text."""
    parts = paragraphs_of(name.replace("/", "-"), edition, words=WORDS)
    if name.endswith(".html"):
        body = "".join(f"<p>{escape(part)}</p>" for part in parts)
        return f"<title>{name}</title><h1>Page</h1>{body}".encode()
    if name.endswith(".eml"):
        mail = EmailMessage()
        mail["From"], mail["Subject"] = "ada@example.org", f"About {name}"
        mail.set_content("\n\n".join(parts))
        return mail.as_bytes().replace(b"\n", b"\r\n")
    return ("# Note\n\n" + "\n\n".join(parts)).encode()


class SourcesFolder:
    """Five files of each source."""

    def first(self) -> Files:
        """See `Folder`."""
        names = [f"{kind}/{number}.{SUFFIXES.get(kind, 'md')}" for kind in KINDS for number in range(EACH)]
        return {name: source_file(name, 0) for name in names}

    def change(self, files: Files, chance: random.Random) -> Files:
        """Change files: of each source one is edited, and it has one more, one less, or another name for one."""
        after = dict(files)
        for kind in KINDS:
            names = sorted(name for name in files if name.startswith(f"{kind}/"))
            chance.shuffle(names)
            after[names[0]] = source_file(names[0], chance.randrange(1, 10**6))
            way = chance.choice(["more", "less", "moved", "same"])
            new = f"{kind}/{chance.randrange(100, 10**4)}.{SUFFIXES.get(kind, 'md')}"
            if way == "more":
                after[new] = source_file(new, 1)
            elif way == "less":
                del after[names[1]]
            elif way == "moved":
                after[new] = after.pop(names[1])
        return after

    def publish(self, folder: Path) -> None:
        """Commit the files of `git`, fill the database of `sql`, and give the mails of `maildir` their folders."""
        _commit(folder)
        with closing(sqlite3.connect(folder.parent / "shop.db")) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, body TEXT)")
            database.execute("DELETE FROM notes")
            rows = [(int(path.stem), path.read_text()) for path in (folder / "sql").iterdir()]
            database.executemany("INSERT INTO notes VALUES (?, ?)", rows)
        mail = folder.parent / "mail"
        for part in ("cur", "new", "tmp"):
            (mail / part).mkdir(parents=True, exist_ok=True)
        wanted = {f"17{int(path.stem):08}.M1.host": path.read_bytes() for path in (folder / "maildir").iterdir()}
        for path in (mail / "new").iterdir():
            if path.name not in wanted:
                path.unlink()
        for name, content in wanted.items():
            path = mail / "new" / name
            if not path.exists() or path.read_bytes() != content:  # mails do not change: another one has another name
                path.write_bytes(content)


def _commit(folder: Path) -> None:
    """Make the branch `main` of the repository beside the folder hold its files."""
    repository = folder.parent / "repo.git"
    command = ["git", f"--git-dir={repository}", f"--work-tree={folder / 'git'}"]
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false", "-c", "gc.auto=0"]
    if not repository.exists():
        subprocess.run([*command, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*command, "add", "-A", "."], check=True, cwd=folder / "git")
    subprocess.run([*command, *identity, "commit", "-q", "--allow-empty", "-m", "x"], check=True, cwd=folder / "git")


def settings(root: Path, ports: Ports) -> str:
    """The sources of a pipeline file."""
    site, login = f"http://127.0.0.1:{ports['site']}", "user: anna, password_env: TEST_PASSWORD"
    lines = [
        f"{{name: sitemap, url: '{site}/sitemap.xml'}}",
        f"{{name: crawl, url: '{site}/crawl/'}}",
        f"{{name: feed, url: '{site}/feed.xml', keep_old: false}}",
        f"{{name: s3, bucket: manuals, region: eu-central-1, endpoint: 'http://127.0.0.1:{ports['s3']}'}}",
        f"{{name: webdav, url: 'http://127.0.0.1:{ports['dav']}/', {login}}}",
        f"{{name: imap, host: 127.0.0.1, port: {ports['imap']}, tls: false, {login}}}",
        "{name: git, repository: ./repo.git, ref: main}",
        "{name: maildir, path: mail}",
        "{name: sql, label: notes, database: shop.db, query: SELECT * FROM notes, text: [body]}",
        f"{{name: fsspec, url: 'file://{root}/docs/fsspec'}}",
        "{name: folder, path: docs/folder}",
    ]
    return "load: {name: folder, allow_private: true}\nsources:\n" + "".join(f"- {line}\n" for line in lines)


class _Served(Mapping[str, bytes]):
    """The files of a folder by name, read at every access."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except OSError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(path.name for path in self._folder.iterdir()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Mails(Mapping[int, bytes]):
    """Mails by UID. A mail that changed would keep its UID, which no server does: the UID names its content."""

    def __init__(self, folder: Path) -> None:
        self._files = _Served(folder)

    def _by_uid(self) -> dict[int, bytes]:
        contents = {int(Path(name).stem): content for name, content in self._files.items()}
        return {number * 10**6 + sum(content) % 10**6: content for number, content in sorted(contents.items())}

    def __getitem__(self, uid: int) -> bytes:
        return self._by_uid()[uid]

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_uid())

    def __len__(self) -> int:
        return len(self._files)


class _Pages(Mapping[str, tuple[str, str]]):
    """The pages of the site: those of three sources, their listings, and a page of links."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = ""

    def __getitem__(self, path: str) -> tuple[str, str]:
        kind, _, name = path.strip("/").partition("/")
        if kind in ("site", "crawl", "feed") and name:
            return "text/html; charset=utf-8", _Served(self._folder / kind)[name].decode()
        makers: Mapping[str, Callable[[], tuple[str, str]]] = {
            "sitemap.xml": self._sitemap, "feed.xml": self._feed, "crawl": self._links
        }  # fmt: skip
        return makers[path.strip("/")]()

    def _sitemap(self) -> tuple[str, str]:
        urls = "".join(f"<url><loc>{self.url}/site/{name}</loc></url>" for name in _Served(self._folder / "site"))
        return "text/xml", f"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{urls}</urlset>"

    def _feed(self) -> tuple[str, str]:
        names = _Served(self._folder / "feed")
        items = "".join(f"<item><title>{name}</title><link>/feed/{name}</link></item>" for name in names)
        return "application/rss+xml", f"<rss version='2.0'><channel>{items}</channel></rss>"

    def _links(self) -> tuple[str, str]:
        links = "".join(f"<a href='{name}'>{name}</a>" for name in _Served(self._folder / "crawl"))
        return "text/html", f"<title>Links</title><h1>Links</h1><p>All pages of the site.</p>{links}"

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


def serve(folder: Path, note: Path) -> int:
    """Serve the folder until killed; writes the ports to `note`. Runs in a process of its own."""
    from cheroot.wsgi import Server
    from wsgidav.wsgidav_app import WsgiDAVApp

    from tests.load.sources import imap_server, s3_server, site_server

    with ExitStack() as stack:
        site = stack.enter_context(site_server.serve())
        site.pages = pages = _Pages(folder)  # type: ignore[assignment]
        pages.url = site.url
        bucket = stack.enter_context(s3_server.serve())
        bucket.objects = _Served(folder / "s3")  # type: ignore[assignment]
        box = stack.enter_context(imap_server.serve())
        box.mails = _Mails(folder / "imap")  # type: ignore[assignment]
        users = {"*": {"anna": {"password": VARIABLES["TEST_PASSWORD"]}}}
        options = {"simple_dc": {"user_mapping": users}, "verbose": 0, "logging": {"enable": False}}
        dav = Server(("127.0.0.1", 0), WsgiDAVApp({"provider_mapping": {"/": str(folder / "dav")}, **options}))
        dav.prepare()
        threading.Thread(target=dav.serve, daemon=True).start()
        ports = {"site": _port(site.url), "s3": _port(bucket.url), "imap": box.port, "dav": dav.bind_addr[1]}
        note.with_suffix(".new").write_text(" ".join(f"{name}={port}" for name, port in ports.items()))
        note.with_suffix(".new").rename(note)
        threading.Event().wait()
    return 0


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


def wait_for_ports(note: Path) -> dict[str, int]:
    """The ports of the servers, when they are ready."""
    deadline = time.monotonic() + 60
    while not note.exists():
        if time.monotonic() > deadline:
            raise RuntimeError("the servers of the sources do not start")
        time.sleep(0.02)
    ports = {name: int(port) for name, _, port in (item.partition("=") for item in note.read_text().split())}
    for port in ports.values():
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
            pass
    return ports
