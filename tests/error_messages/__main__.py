"""Writes docs/error-messages.md: `python -m tests.error_messages`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.error_messages.cases import GROUPS
from tests.error_messages.sandbox import render_section

PAGE = Path(__file__).parents[2] / "docs" / "error-messages.md"
HEAD = """# Error messages

The most common mistakes, with the exact messages and exit codes. The tests run every section and compare it with this
page; `python -m tests.error_messages` writes it.

Exit codes: 0 success; 1 error or failed check; 2 usage error; 3 the knowledge base was built with different settings;
4 budget exceeded; 5 verification failed; 6 no supported answer, with `--strict`; 7 completed, but some files failed;
130 interrupted.
"""


def write() -> None:
    """Run every mistake and write the page."""
    parts = [HEAD]
    for group, mistakes in GROUPS.items():
        parts.append(f"## {group}\n")
        for mistake in mistakes:
            with tempfile.TemporaryDirectory() as folder:
                parts.append(render_section(mistake, Path(folder)))
    PAGE.write_text("\n".join(parts))


if __name__ == "__main__":
    write()
