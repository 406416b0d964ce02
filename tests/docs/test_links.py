"""Links of the documentation lead to files of the checkout: the pages are read there, too, without the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
GENERATED = {f"docs/reference/{name}.md" for name in ("cli", "options", "http", "errors")}


def is_written_by_the_site(path: Path) -> bool:
    """Whether `make docs` writes the page: it may be there from an earlier run, and is in no fresh checkout."""
    return path.is_relative_to("docs/reference/api") or path.as_posix() in GENERATED


PAGES = [
    page
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if not is_written_by_the_site(page.relative_to(ROOT))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_lead_to_files_of_the_checkout(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    paths = {link: (page.parent / link).resolve().relative_to(ROOT) for link in links}
    assert [link for link, path in paths.items() if not (ROOT / path).exists() or is_written_by_the_site(path)] == []
