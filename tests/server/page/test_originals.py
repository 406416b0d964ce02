"""The files that documents were read from, over HTTP: pictures of pages, marks, HTML as a tree, download."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.server.page import originals as originals_api
from tests.load import sample_files
from tests.server.conftest import HASHING
from tests.server.parts import serving

PAGE = b"<h1>Shed</h1><p onclick=x()>The saw <a href='javascript:x()'>hangs</a>.<script>x()</script></p>"


def index(folder: Path, files: dict[str, bytes]) -> Path:
    """A knowledge base of these files."""
    (folder / "docs").mkdir()
    for name, data in files.items():
        (folder / "docs" / name).write_bytes(data)
    with KnowledgeBase.open(folder / "own", Pipeline.from_yaml(HASHING)) as kb:
        kb.index(folder / "docs")
    return folder / "own"


def one(client: httpx2.Client) -> str:
    """The path of the only document."""
    [row] = client.get("/documents").json()["documents"]
    return f"/documents/{row['id']}"


def png_pixels(data: bytes) -> tuple[int, int, bytes]:
    """Width, height and bytes of an image that the server drew."""
    width, height = struct.unpack(">II", data[16:24])
    length = struct.unpack(">I", data[33:37])[0]
    return width, height, zlib.decompress(data[41 : 41 + length])


def test_a_page_is_a_picture_with_black_on_white_where_the_mark_is(tmp_path: Path) -> None:
    kb = index(tmp_path, {"saw.pdf": sample_files.pdf([["The saw hangs on a nail.", "The rake leans beside it."]])})
    with serving(kb) as (_, client):
        path = one(client)
        text = client.get(path).json()["text"]
        span = {"start": text.index("rake"), "end": text.index("rake") + 4}
        [mark] = client.get(f"{path}/rectangles", params=span).json()["marks"]
        picture = client.get(f"{path}/pages/1", params={"width": 1000})
        again = client.get(f"{path}/pages/1", params={"width": 1000})
    assert (picture.headers["content-type"], again.content) == ("image/png", picture.content)
    assert "sandbox" in picture.headers["content-security-policy"]
    width, height, pixels = png_pixels(picture.content)
    assert (width, mark["page"]) == (1000, 1)
    inside = [
        pixels[row * (3 * width + 1) + 1 + 3 * column]
        for row in range(int(mark["top"] * height), int((mark["top"] + mark["height"]) * height))
        for column in range(int(mark["left"] * width), int((mark["left"] + mark["width"]) * width))
    ]
    dark = sum(value < 128 for value in inside) / len(inside)
    assert 0.05 < dark < 0.6, "letters stand in the mark"


def test_a_page_has_no_more_pixels_than_allowed(tmp_path: Path) -> None:
    kb = index(tmp_path, {"saw.pdf": sample_files.pdf([["The saw."]])})
    with serving(kb) as (_, client):
        path = one(client)
        width, height, _ = png_pixels(client.get(f"{path}/pages/1", params={"width": 2400}).content)
        wide = client.get(f"{path}/pages/1", params={"width": 2401})
        none = client.get(f"{path}/pages/2")
    assert width * height <= 4_000_000
    assert wide.status_code == 400
    assert (none.status_code, none.json()["error"]["message"]) == (404, "page 2 of 1 not found")


def test_html_is_a_tree_without_anything_that_runs(tmp_path: Path) -> None:
    with serving(index(tmp_path, {"shed.html": PAGE})) as (_, client):
        path = one(client)
        tree = client.get(f"{path}/html").json()["tree"]
        pages = client.get(f"{path}/pages/1")
        view = client.get(path).json()["view"]
    link: dict[str, Any] = {"tag": "a", "children": ["hangs"]}
    assert tree == [{"tag": "h1", "children": ["Shed"]}, {"tag": "p", "children": ["The saw ", link, "."]}]
    assert (view, pages.status_code) == ("html", 415)
    assert pages.json()["error"]["message"] == "only pdf files have pages: this document is html"


def test_a_download_is_the_file_itself_and_never_shown_by_a_browser(tmp_path: Path) -> None:
    name = "s\u00e4ge \u202egnp.html"
    with serving(index(tmp_path, {name: PAGE})) as (_, client):
        result = client.get(f"{one(client)}/file")
    assert result.content == PAGE
    assert result.headers["content-type"] == "application/octet-stream"
    assert result.headers["x-content-type-options"] == "nosniff"
    assert result.headers["content-security-policy"].startswith("default-src 'none'; sandbox")
    expected = "attachment; filename*=UTF-8''s%C3%A4ge%20%E2%80%AEgnp.html"
    assert result.headers["content-disposition"] == expected


@pytest.mark.parametrize("change", ["edited", "removed"])
def test_a_file_that_is_not_the_indexed_one_is_not_shown(tmp_path: Path, change: str) -> None:
    kb = index(tmp_path, {"saw.pdf": sample_files.pdf([["The saw."]])})
    file = tmp_path / "docs" / "saw.pdf"
    with serving(kb) as (_, client):
        path = one(client)
        assert client.get(f"{path}/pages/1").status_code == 200
        if change == "edited":
            file.write_bytes(sample_files.pdf([["The axe."]]))
        else:
            file.unlink()
        for part in ("pages/1", "file"):
            result = client.get(f"{path}/{part}")
            assert result.status_code == 409
            assert result.json()["error"]["message"] == originals_api.CHANGED
        marks = client.get(f"{path}/rectangles", params={"start": 0, "end": 3}).json()
    assert marks == {"rectangles": [], "marks": [], "stale": True}


@pytest.mark.parametrize("part", ["pages/1", "html", "file", "rectangles?start=0&end=1"])
@pytest.mark.parametrize("named", ["none", "..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd"])
def test_no_file_named_by_a_client_is_sent(base: Path, named: str, part: str) -> None:
    with serving(base) as (_, client):
        assert client.get(f"/documents/{named}/{part}").status_code == 404
