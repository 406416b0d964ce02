"""Copies of web pages: file names convert back to URLs, and only changed pages are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.errors import LoadError
from ragkit.index.sources.ids import is_within
from ragkit.index.sources.resolver import SourceResolver
from ragkit.index.sources.web_pages import WebPageCopies, is_url, normalize_url
from ragkit.load.files.fetch import FetchOptions

URLS = st.text(min_size=1, max_size=700).map(lambda rest: "https://host/" + rest.replace("\x00", "-"))


@given(URLS)
def test_the_path_of_a_copy_converts_back_to_its_url(url: str) -> None:
    url = url.encode("utf-8", "replace").decode()
    copies = WebPageCopies(Path("/kb/web"))
    path = copies._base_path(url)
    assert copies.copy_url(path.with_name(path.name + "=.html")) == url
    assert all(len(part.encode()) <= 255 for part in path.parts)
    assert path.is_relative_to("/kb/web") and ".." not in path.parts


@given(URLS, URLS)
def test_copies_of_two_pages_never_collide_or_nest(first_url: str, second_url: str) -> None:
    copies = WebPageCopies(Path("/kb/web"))
    first, second = (copies._base_path(url.encode("utf-8", "replace").decode()) for url in (first_url, second_url))
    if first != second:
        assert first not in second.parents and second not in first.parents


def test_source_ids_of_other_files_are_their_paths(tmp_path: Path) -> None:
    resolver = SourceResolver(tmp_path / "web", tmp_path / "documents", tmp_path / "sources")
    assert resolver.source_id(tmp_path / "docs/a.md") == str(tmp_path / "docs/a.md")
    assert resolver.resolve_path(str(tmp_path / "docs/a.md")) == tmp_path / "docs/a.md"


def test_urls_are_normalized() -> None:
    assert normalize_url("HTTPS://Host.Example/A?q=1#part") == "https://host.example/A?q=1"
    assert normalize_url("http://host") == "http://host/"
    with pytest.raises(LoadError, match="is not a valid http or https URL"):
        normalize_url("http://[::1/")
    assert is_url("http://host") and not is_url("docs/http://host") and not is_url(Path("http://host"))


def test_no_source_lies_below_a_url() -> None:
    assert is_within("https://host/docs", "https://host/docs")
    assert not is_within("https://host/docs/a", "https://host/docs")


def test_offline_downloads_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGKIT_OFFLINE", "1")
    with pytest.raises(LoadError, match="RAGKIT_OFFLINE is 1"):
        WebPageCopies(tmp_path).download("https://host/", FetchOptions())
