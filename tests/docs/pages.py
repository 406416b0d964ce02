"""The pages whose blocks are tested, and those that another test holds."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(os.environ.get("DOCS_ROOT", Path(__file__).parents[2]))
"""The repository; DOCS_ROOT names another place for a trial."""

ELSEWHERE = {"docs/mistakes.md": "tests/mistakes/test_mistakes.py"}
"""Pages written by a program, whose test compares every block."""
GENERATED = tuple(f"docs/reference/{page}" for page in ("api", "cli.md", "options.md", "errors.md", "http.md"))
"""Written by scripts/docs at build time, and not in the repository."""


def pages() -> list[Path]:
    """README.md, CONTRIBUTING.md and every page below docs/."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [one for one in found if not name(one).startswith((*ELSEWHERE, *GENERATED))]


def name(page: Path) -> str:
    """The path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()
