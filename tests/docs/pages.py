"""The pages whose blocks are tested here, and those that another test covers."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(os.environ.get("DOCS_ROOT", Path(__file__).parents[2]))
"""The repository; DOCS_ROOT overrides it."""

TESTED_ELSEWHERE = {"docs/error-messages.md": "tests/error_messages/test_error_messages.py"}
"""Generated pages, whose test compares every block."""
GENERATED = tuple(f"docs/reference/{page}" for page in ("api", "cli.md", "options.md", "errors.md", "http.md"))
"""Written by scripts/docs at build time; not in the repository."""


def pages() -> list[Path]:
    """README.md, CONTRIBUTING.md and every page below docs/."""
    result = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [item for item in result if not name(item).startswith((*TESTED_ELSEWHERE, *GENERATED))]


def name(page: Path) -> str:
    """The path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()
