"""`sources:` of a pipeline file: listed, fetched and removed by `ragkit index` without arguments."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragkit.index.catalog.lock import WriterLock, is_locked
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.sources.runs import SourceRun, write_source_runs
from ragkit.knowledge_base import indexing
from ragkit.knowledge_base.sources.index_planner import finish_sources
from ragkit.knowledge_base.sources.source_files import SourceFiles
from ragkit.knowledge_base.sources.source_targets import SourceTargets
from tests.cli.conftest import HASHING, CommandResult, Ragkit, hashing, ragkit, workplace
from tests.load.sources.site_server import Site, serve

__all__ = ["hashing", "ragkit", "workplace"]

OPEN = "load: {name: folder, allow_private: true}\n"
PAGES = 300


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as found:
        yield found


def configure(sources: str) -> None:
    """Write ragkit.yaml with these sources."""
    Path("ragkit.yaml").write_text(f"{HASHING}{OPEN}sources:\n{sources}")


def files(result: CommandResult) -> dict[str, int]:
    """The counts of `index --json` that are not 0."""
    return {name: count for name, count in result.json["files"].items() if count}


def sources_of(ragkit: Ragkit) -> set[str]:
    """The sources of all documents."""
    return {line["source"] for line in ragkit("list", "--json").lines}


def page(number: int, text: str = "") -> str:
    return f"<title>Page {number}</title><h1>Page {number}</h1><p>Pump number {number} {text or 'runs'}.</p>"


def fill_crawl_site(site: Site, count: int = PAGES) -> None:
    """A site whose first page links to sections, and these to pages."""
    sections = range(0, count, 30)
    site.put("/", "".join(f"<a href='/s{first}.html'>s</a>" for first in sections) + page(0))
    for first in sections:
        links = "".join(f"<a href='p{number}.html#top'>p</a>" for number in range(first, min(first + 30, count)))
        site.put(f"/s{first}.html", f"{links}{page(first, 'section')}<a href='http://other.example/'>other</a>")
    for number in range(count):
        site.put(f"/p{number}.html", page(number))


def fill_sitemap_site(site: Site, count: int = PAGES, *, lastmod: str = "2026-01-01") -> None:
    for number in range(count):
        site.put(f"/p{number}.html", page(number))
    write_sitemap(site, {f"/p{number}.html": lastmod for number in range(count)})


def write_sitemap(site: Site, entries: dict[str, str]) -> None:
    urls = "".join(
        f"<url><loc>{site.url}{path}</loc>{f'<lastmod>{day}</lastmod>' if day else ''}</url>"
        for path, day in entries.items()
    )
    site.put("/sitemap.xml", f"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{urls}</urlset>", "text/xml")


# contract: folder, guard, listing


def test_index_without_arguments_updates_folders_and_configured_sources(ragkit: Ragkit, workplace: Path) -> None:
    for name in ("docs", "more"):
        Path(name).mkdir()
        Path(name, "a.md").write_text(f"# {name}\n\nThe pump of {name} is red.")
    configure("  - {name: folder, path: more}\n")
    assert files(ragkit("index", "docs", "--json")) == {"added": 1}
    assert files(ragkit("index", "--json")) == {"added": 1, "unchanged": 1}
    Path("docs/b.md").write_text("# New\n\nA second pump.")
    assert files(ragkit("index", "--json")) == {"added": 1, "unchanged": 2}
    lines = {line["source"]: line for line in ragkit("sources", "--json").lines}
    assert {name: (line["kind"], line["configured"], line["documents"]) for name, line in lines.items()} == {
        "docs": ("folder", False, 2),
        "more": ("folder", True, 1),
    }
    assert all(line["last_run"]["error"] == "" for line in lines.values())


def test_a_folder_that_vanished_is_a_failure_that_names_rm_and_removes_nothing(ragkit: Ragkit, workplace: Path) -> None:
    Path("ragkit.yaml").write_text(HASHING)
    for name in ("docs", "more"):
        Path(name).mkdir()
        Path(name, "a.md").write_text(f"# {name}\n\nThe pump of {name}.")
    ragkit("index", "docs", "more", "-q")
    shutil.rmtree("more")
    result = ragkit("index", "--json", code=7)
    assert files(result) == {"unchanged": 1, "failed": 1}
    assert result.json["failures"][0]["error"] == "does not exist"
    assert "ragkit remove" in result.json["failures"][0]["hint"]
    assert sources_of(ragkit) == {"docs/a.md", "more/a.md"}


def test_index_without_arguments_keeps_the_patterns_of_each_source(ragkit: Ragkit, workplace: Path) -> None:
    Path("ragkit.yaml").write_text(HASHING)
    Path("docs").mkdir()
    for name in ("a.md", "b.csv"):
        Path("docs", name).write_text("name,size\npump,3\n")
    ragkit("index", "docs", "--exclude", "*.csv", "-q")
    assert files(ragkit("index", "--json")) == {"unchanged": 1}
    assert files(ragkit("index", "--json")) == {"unchanged": 1}


def test_index_without_any_source_is_a_usage_error(ragkit: Ragkit, workplace: Path) -> None:
    Path("ragkit.yaml").write_text(HASHING)
    assert "missing source: ragkit index docs/" in ragkit("index", code=2).err


def test_a_configured_folder_that_is_empty_loses_no_documents(ragkit: Ragkit, workplace: Path) -> None:
    Path("docs").mkdir()
    Path("docs/a.md").write_text("# A\n\nThe pump is red.")
    configure("  - {name: folder, path: docs}\n")
    ragkit("index", "-q")
    Path("docs/a.md").unlink()
    for arguments in ((), ("--accept-deletions",)):
        result = ragkit("index", *arguments, "--json", code=7)
        assert "lists no documents: none was removed" in result.json["failures"][0]["error"]
        assert sources_of(ragkit) == {"docs/a.md"}


def test_more_than_a_third_of_a_source_goes_only_when_told(ragkit: Ragkit, workplace: Path) -> None:
    Path("docs").mkdir()
    for number in range(9):
        Path(f"docs/{number}.md").write_text(f"# {number}\n\nPump {number} is red.")
    configure("  - {name: folder, path: docs}\n")
    ragkit("index", "-q")
    for number in range(3):
        Path(f"docs/{number}.md").unlink()
    assert files(ragkit("index", "--json")) == {"unchanged": 6, "removed": 3}
    for number in range(3, 6):
        Path(f"docs/{number}.md").unlink()
    result = ragkit("index", "--json", code=7)
    assert files(result) == {"unchanged": 6, "failed": 1}
    assert result.json["failures"][0]["error"] == "3 of 6 documents are no longer listed: none was removed"
    assert files(ragkit("index", "--accept-deletions", "--json")) == {"unchanged": 3, "removed": 3}


# sitemap and crawl


def test_a_sitemap_of_300_pages_is_fetched_once_and_by_change(ragkit: Ragkit, workplace: Path, site: Site) -> None:
    fill_sitemap_site(site)
    configure(f"  - {{name: sitemap, url: '{site.url}/sitemap.xml'}}\n")
    assert files(ragkit("index", "--json")) == {"added": PAGES}
    assert len(site.fetched(but=("/sitemap.xml",))) == PAGES
    assert files(ragkit("index", "--json")) == {"unchanged": PAGES}
    assert site.fetched(but=("/sitemap.xml",)) == []
    site.put("/p7.html", page(7, "was replaced"))
    site.put("/new.html", page(301, "is new"))
    days = {f"/p{number}.html": "2026-01-01" for number in range(10, PAGES)}
    write_sitemap(site, {**days, "/p7.html": "2026-02-02", "/new.html": "2026-02-02"})
    expected = {"added": 1, "updated": 1, "removed": 9, "unchanged": PAGES - 10}
    assert files(ragkit("index", "--json")) == expected
    assert site.fetched(but=("/sitemap.xml",)) == ["/new.html", "/p7.html"]
    [hit] = ragkit("search", "pump 7 was replaced", "-k", "1", "--json").json["hits"]
    assert hit["source"] == f"{site.url}/p7.html"
    [line] = ragkit("sources", "--json").lines
    assert (line["kind"], line["documents"], line["last_run"]["listed"], line["last_run"]["fetched"]) == (
        "sitemap",
        PAGES - 8,
        PAGES - 8,
        2,
    )


def test_a_sitemap_without_times_asks_for_changed_pages_only(ragkit: Ragkit, workplace: Path, site: Site) -> None:
    fill_sitemap_site(site, 20, lastmod="")
    configure(f"  - {{name: sitemap, url: '{site.url}/sitemap.xml'}}\n")
    ragkit("index", "-q")
    site.fetched()
    site.put("/p3.html", page(3, "leaks"))
    assert files(ragkit("index", "--json")) == {"updated": 1, "unchanged": 19}
    assert site.fetched(but=("/sitemap.xml",)) == ["/p3.html"]


@pytest.mark.parametrize("broken", ["", "<urlset", "<urlset/>", "503"])
def test_a_broken_or_empty_sitemap_removes_nothing(ragkit: Ragkit, workplace: Path, site: Site, broken: str) -> None:
    fill_sitemap_site(site, 5)
    configure(f"  - {{name: sitemap, url: '{site.url}/sitemap.xml'}}\n")
    ragkit("index", "-q")
    if broken == "503":
        site.errors["/sitemap.xml"] = 503
    else:
        site.put("/sitemap.xml", broken, "text/xml")
    result = ragkit("index", "--accept-deletions", "--json", code=7)
    assert files(result) == {"unchanged": 5, "failed": 1}
    assert len(sources_of(ragkit)) == 5


def test_copies_that_cannot_be_written_end_the_run_with_one_line(ragkit: Ragkit, workplace: Path, site: Site) -> None:
    fill_sitemap_site(site, 3)
    configure(f"  - {{name: sitemap, url: '{site.url}/sitemap.xml'}}\n")
    ragkit("index", "-q")
    [state] = Path(".ragkit/sources").rglob("*.sqlite")
    shutil.rmtree(state.parent)
    state.parent.touch()
    result = ragkit("index", "-q", code=1)
    assert re.fullmatch(r"error: .* cannot be written [(].*[)]: .*then run the same command again\n", result.err)


def test_pages_that_answer_503_keep_their_text(ragkit: Ragkit, workplace: Path, site: Site) -> None:
    fill_sitemap_site(site, 5)
    configure(f"  - {{name: sitemap, url: '{site.url}/sitemap.xml'}}\n")
    ragkit("index", "-q")
    write_sitemap(site, {f"/p{number}.html": "2026-03-03" for number in range(5)})
    site.errors["/p2.html"] = 503
    result = ragkit("index", "--json", code=7)
    assert (result.json["files"]["failed"], result.json["files"]["removed"]) == (1, 0)
    assert result.json["failures"][0]["source"] == f"{site.url}/p2.html"
    assert f"{site.url}/p2.html" in sources_of(ragkit)
    site.errors.clear()
    assert files(ragkit("index", "--json")) == {"unchanged": 5}


def test_a_crawl_of_300_pages_follows_links_within_the_site(ragkit: Ragkit, workplace: Path, site: Site) -> None:
    fill_crawl_site(site)
    site.put("/robots.txt", "User-agent: *\nDisallow: /p5.html\n", "text/plain")
    site.put("/p6.html", "<link rel='canonical' href='/p7.html'>" + page(6))
    configure(f"  - {{name: crawl, url: '{site.url}/'}}\n")
    total = 1 + 10 + PAGES - 2  # the first page, the sections, all pages but the forbidden one and the copy
    assert files(ragkit("index", "--json")) == {"added": total}
    assert site.requests["/p5.html"] == 0
    assert {f"{site.url}/p6.html", f"{site.url}/p5.html"}.isdisjoint(sources_of(ragkit))
    site.fetched()
    assert files(ragkit("index", "--json")) == {"unchanged": total}
    assert site.fetched(but=("/robots.txt",)) == []


def test_a_crawl_removes_what_no_page_links_to_unless_a_page_failed(
    ragkit: Ragkit, workplace: Path, site: Site
) -> None:
    fill_crawl_site(site, 90)
    configure(f"  - {{name: crawl, url: '{site.url}/'}}\n")
    ragkit("index", "-q")
    site.errors["/s30.html"] = 503
    result = ragkit("index", "--json", code=7)
    assert (result.json["files"]["removed"], result.json["files"]["unchanged"]) == (0, 94)
    del site.errors["/s30.html"]
    site.put("/", "<a href='/s0.html'>s</a><a href='/s60.html'>s</a>" + page(0))
    result = ragkit("index", "--json")
    assert (result.json["files"]["removed"], result.json["files"]["unchanged"]) == (31, 62)


def test_a_crawl_with_too_many_pages_removes_nothing(ragkit: Ragkit, workplace: Path, site: Site) -> None:
    fill_crawl_site(site, 30)
    configure(f"  - {{name: crawl, url: '{site.url}/', max_pages: 10}}\n")
    result = ragkit("index", "--json", code=7)
    assert files(result) == {"added": 10, "failed": 1}
    assert result.json["failures"][0]["error"] == "has more than 10 pages"


def test_a_feed_adds_new_entries_and_keeps_old_ones(ragkit: Ragkit, workplace: Path, site: Site) -> None:
    def write(numbers: range) -> None:
        items = "".join(
            f"<item><title>News {n}</title><link>/n{n}.html</link><pubDate>Mon, {n:02} Jun 2026</pubDate></item>"
            for n in numbers
        )
        site.put("/feed.xml", f"<rss version='2.0'><channel>{items}</channel></rss>", "application/rss+xml")

    for number in range(1, 9):
        site.put(f"/n{number}.html", page(number))
    write(range(1, 6))
    configure(f"  - {{name: feed, url: '{site.url}/feed.xml'}}\n")
    assert files(ragkit("index", "--json")) == {"added": 5}
    write(range(4, 9))
    site.fetched()
    assert files(ragkit("index", "--json")) == {"added": 3, "unchanged": 5}
    assert site.fetched(but=("/feed.xml",)) == ["/n6.html", "/n7.html", "/n8.html"]


def test_an_atom_feed_can_be_indexed_by_its_own_text(ragkit: Ragkit, workplace: Path, site: Site) -> None:
    text = "&lt;p&gt;The seal leaks.&lt;/p&gt;"
    entry = f"<entry><title>Leak</title><link href='/x'/><content type='html'>{text}</content></entry>"
    site.put("/atom.xml", f"<feed xmlns='http://www.w3.org/2005/Atom'>{entry}</feed>", "application/atom+xml")
    configure(f"  - {{name: feed, url: '{site.url}/atom.xml', content: feed}}\n")
    assert files(ragkit("index", "--json")) == {"added": 1}
    [hit] = ragkit("search", "seal leaks", "--json").json["hits"]
    assert (hit["source"], site.requests["/x"]) == (f"{site.url}/x", 0)


def test_a_run_that_is_killed_goes_on_where_it_stopped(ragkit: Ragkit, workplace: Path, site: Site) -> None:
    fill_sitemap_site(site, 200)
    configure(f"  - {{name: sitemap, url: '{site.url}/sitemap.xml'}}\n")
    process = subprocess.Popen([sys.executable, "-m", "ragkit", "index", "-q"], env={**os.environ})
    while len(site.bodies) < 60 and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert files(ragkit("index", "--json")) == {"added": 200}
    again = [path for path, count in site.bodies.items() if count > 1 and path.startswith("/p")]
    assert len(again) <= 1  # the one on its way when the run was killed
    site.fetched()
    assert files(ragkit("index", "--json")) == {"unchanged": 200}
    assert site.fetched(but=("/sitemap.xml",)) == []


def test_a_run_leaves_the_copies_of_a_source_that_another_run_is_fetching(
    ragkit: Ragkit, workplace: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_sitemap_site(site, 5)
    configure(f"  - {{name: sitemap, url: '{site.url}/sitemap.xml'}}\n")
    ragkit("index", "-q")
    write_sitemap(site, {f"/p{number}.html": "2026-01-01" for number in range(1, 5)})
    copies = Path(".ragkit/sources")

    def finish_while_it_is_fetched(catalog: Catalog, source_files: SourceFiles, targets: SourceTargets) -> None:
        with WriterLock(next(copies.rglob("cache"))):
            finish_sources(catalog, source_files, targets)

    with monkeypatch.context() as patch:
        patch.setattr(indexing, "finish_sources", finish_while_it_is_fetched)
        assert files(ragkit("index", "--json")) == {"removed": 1, "unchanged": 4}
    assert len([*copies.rglob("*.html")]) == 5
    assert files(ragkit("index", "--json")) == {"unchanged": 4}
    assert len([*copies.rglob("*.html")]) == 4


def test_a_run_is_recorded_under_the_writer_lock(
    ragkit: Ragkit, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: list[bool] = []

    def record(kb: Path, runs: dict[str, SourceRun]) -> None:
        locked.append(is_locked(kb))
        write_source_runs(kb, runs)

    monkeypatch.setattr("ragkit.knowledge_base.sources.index_planner.write_source_runs", record)
    Path("ragkit.yaml").write_text(HASHING)
    Path("docs").mkdir()
    Path("docs/a.md").write_text("# Pump\n\nThe pump is red.")
    ragkit("index", "docs", "-q")
    assert locked == [True]


def test_a_dry_run_changes_neither_index_nor_copies(ragkit: Ragkit, workplace: Path, site: Site) -> None:
    fill_sitemap_site(site, 5)
    configure(f"  - {{name: sitemap, url: '{site.url}/sitemap.xml'}}\n")
    assert files(ragkit("index", "--dry-run", "--json")) == {"added": 5}
    assert not Path(".ragkit").exists()
    ragkit("index", "-q")
    site.put("/p0.html", page(0, "leaks"))
    write_sitemap(site, {f"/p{number}.html": "2026-01-01" for number in range(1, 5)} | {"/p0.html": "2026-05-05"})
    before = {path: path.read_bytes() for path in Path(".ragkit/sources").rglob("*=*") if path.is_file()}
    assert files(ragkit("index", "--dry-run", "--json")) == {"updated": 1, "unchanged": 4}
    assert {path: path.read_bytes() for path in before} == before
    assert files(ragkit("index", "--json")) == {"updated": 1, "unchanged": 4}


def test_rm_of_a_source_removes_its_documents_and_copies(ragkit: Ragkit, workplace: Path, site: Site) -> None:
    fill_sitemap_site(site, 5)
    configure(f"  - {{name: sitemap, url: '{site.url}/sitemap.xml'}}\n")
    ragkit("index", "-q")
    assert ragkit("remove", f"sitemap:{site.url}/sitemap.xml", "--json").json["removed"] == 5
    assert [*Path(".ragkit/sources").rglob("*.html")] == []
    Path("ragkit.yaml").write_text(HASHING)
    assert ragkit("sources", "--json").lines == []


# git, maildir, SQL


def git(*arguments: str, at: str = "repo") -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=at, check=True, capture_output=True)


def test_a_git_branch_is_followed_by_blobs(ragkit: Ragkit, workplace: Path) -> None:
    Path("repo/docs").mkdir(parents=True)
    git("init", "-q", "-b", "main")
    for number in range(6):
        Path(f"repo/docs/{number}.md").write_text(f"# {number}\n\nPump {number} is red.")
    Path("repo/.env").write_text("KEY=1")
    git("add", "-A", "-f")
    git("commit", "-q", "-m", "one")
    configure("  - {name: git, repository: ./repo, ref: main, include: [docs/**]}\n")
    assert files(ragkit("index", "--json")) == {"added": 6}
    git("mv", "docs/0.md", "docs/zero.md")
    Path("repo/docs/1.md").write_text("# 1\n\nPump 1 is green.")
    git("commit", "-q", "-a", "-m", "two")
    assert files(ragkit("index", "--json")) == {"added": 1, "updated": 1, "removed": 1, "unchanged": 4}
    assert ragkit("sources", "--json").lines[0]["last_run"]["fetched"] == 2
    assert f"git://{workplace}/repo@main/docs/zero.md" in sources_of(ragkit)
    git("branch", "-q", "-m", "main", "other")
    result = ragkit("index", "--json", code=7)
    assert files(result) == {"unchanged": 6, "failed": 1}
    assert "git fetch failed" in result.json["failures"][0]["error"]


@pytest.mark.parametrize(
    "damage", ["zeroed list of shallow commits", "lock left by a kill", "cut objects", "empty objects", "an empty blob"]
)
def test_a_damaged_copy_of_a_repository_is_fetched_anew(ragkit: Ragkit, workplace: Path, damage: str) -> None:
    Path("repo").mkdir()
    git("init", "-q", "-b", "main")
    for number in range(3):
        Path(f"repo/{number}.md").write_text(f"# {number}\n\nPump {number} is red.")
    git("add", "-A")
    git("commit", "-q", "-m", "one")
    configure("  - {name: git, repository: ./repo, ref: main}\n")
    ragkit("index", "-q")
    [copy] = Path(".ragkit/sources").rglob("repository.git")
    if damage == "zeroed list of shallow commits":
        (copy / "shallow").write_bytes(bytes(41))
    elif damage == "lock left by a kill":
        (copy / "shallow.lock").touch()
    else:
        blob = hashlib.sha1(b"blob 19\0# 0\n\nPump 0 is red.", usedforsecurity=False).hexdigest()
        for path in (path for path in (copy / "objects").rglob("*") if path.is_file()):
            if damage != "an empty blob" or path.name == blob[2:]:
                path.chmod(0o600)
                path.write_bytes(path.read_bytes()[:20] if damage == "cut objects" else b"")
        assert damage != "an empty blob" or (copy / "objects" / blob[:2] / blob[2:]).stat().st_size == 0
    Path("repo/1.md").write_text("# 1\n\nPump 1 is green.")
    git("commit", "-q", "-a", "-m", "two")
    assert files(ragkit("index", "--json")) == {"updated": 1, "unchanged": 2}
    assert [path.name for path in copy.parent.glob("repository.*")] == ["repository.git"]
    assert files(ragkit("index", "--json")) == {"unchanged": 3}


def test_mails_of_a_maildir_stay_when_they_are_read_and_go_when_deleted(ragkit: Ragkit, workplace: Path) -> None:
    for part in ("cur", "new", "tmp", ".Archive/cur", ".Archive/new"):
        Path("mail", part).mkdir(parents=True)
    for number in range(4):
        head = f"From: a@example.org\nSubject: Pump {number}\nDate: Mon, 1 Jun 2026 10:00:00 +0000"
        Path(f"mail/new/17000000{number}.M1.host").write_text(f"{head}\n\nPump {number} leaks.\n")
    Path("mail/.Archive/cur/9.host:2,S").write_text("Subject: Old\n\nThe old pump.\n")
    configure("  - {name: maildir, path: mail}\n")
    assert files(ragkit("index", "--json")) == {"added": 5}
    Path("mail/new/170000000.M1.host").rename("mail/cur/170000000.M1.host:2,S")
    Path("mail/new/170000001.M1.host").unlink()
    assert files(ragkit("index", "--json")) == {"unchanged": 4, "removed": 1}
    assert ragkit("sources", "--json").lines[0]["last_run"]["fetched"] == 0
    [hit] = ragkit("search", "pump 3 leaks", "-k", "1", "--json").json["hits"]
    assert hit["source"] == f"maildir://{workplace}/mail/170000003.M1.host"
    shutil.rmtree("mail")
    assert files(ragkit("index", "--json", code=7)) == {"unchanged": 4, "failed": 1}


@pytest.mark.parametrize("changed", ["", "version"])
def test_rows_of_a_query_are_documents_with_metadata(ragkit: Ragkit, workplace: Path, changed: str) -> None:
    with sqlite3.connect("shop.db") as database:
        database.execute(
            "CREATE TABLE parts (id INTEGER PRIMARY KEY, name TEXT, body TEXT, price REAL, version INTEGER)"
        )
        rows = [(number, f"Part {number}", f"Valve number {number} of brass.", number * 10.0, 1) for number in range(6)]
        database.executemany("INSERT INTO parts VALUES (?, ?, ?, ?, ?)", rows)
    database.close()
    columns = f"text: [name, body], title: name, metadata: [price], changed: '{changed}'"
    configure(f"  - {{name: sql, label: parts, database: shop.db, query: SELECT * FROM parts, {columns}}}\n")
    assert files(ragkit("index", "--json")) == {"added": 6}
    with sqlite3.connect("shop.db") as database:
        database.execute("UPDATE parts SET body = 'Valve of steel.', version = 2 WHERE id = 2")
        database.execute("DELETE FROM parts WHERE id = 0")
        database.execute("INSERT INTO parts VALUES (9, 'Part 9', 'A new gasket.', 5, 1)")
    database.close()
    assert files(ragkit("index", "--json")) == {"added": 1, "updated": 1, "removed": 1, "unchanged": 4}
    assert ragkit("sources", "--json").lines[0]["last_run"]["fetched"] == 2
    hits = ragkit("search", "valve", "--where", "price > 30", "--json").json["hits"]
    assert {hit["source"] for hit in hits} == {"sql://parts/4", "sql://parts/5"}
    Path("shop.db").unlink()
    result = ragkit("index", "--json", code=7)
    assert files(result) == {"unchanged": 6, "failed": 1}


def test_two_entries_of_one_source_are_refused(ragkit: Ragkit, workplace: Path) -> None:
    configure("  - {name: maildir, path: mail}\n  - {name: maildir, path: mail}\n")
    assert "one entry for each source" in ragkit("index", code=2).err


def test_a_mistake_in_sources_has_its_line(ragkit: Ragkit, workplace: Path) -> None:
    configure("  - {name: gti, repository: x}\n")
    assert "ragkit.yaml:4:12: unknown source 'gti' (did you mean 'git'?)" in ragkit("index", code=1).err


def test_two_sources_may_list_the_same_page(ragkit: Ragkit, workplace: Path, site: Site) -> None:
    fill_sitemap_site(site, 6)
    site.pages["/other.xml"] = site.pages["/sitemap.xml"]
    configure("".join(f"  - {{name: sitemap, url: '{site.url}/{name}.xml'}}\n" for name in ("sitemap", "other")))
    assert files(ragkit("index", "--json")) == {"added": 6}
    write_sitemap(site, {f"/p{number}.html": "2026-01-01" for number in range(5)})
    assert files(ragkit("index", "--json")) == {"unchanged": 6}
