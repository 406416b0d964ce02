"""Writes docs/mistakes.md: `python -m tests.mistakes`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.mistakes.cases import GROUPS
from tests.mistakes.stage import made

PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"
HEAD = """# What ragkit says when something is wrong

The mistakes that users are most likely to make, with the exact words and the exit code that each is met with. Every
section is run by the tests and compared with this page; `python -m tests.mistakes` writes it.

Exit codes: 0 done; 1 error, or a check failed; 2 wrong usage; 3 the knowledge base was built with other settings;
4 budget exceeded; 5 verification failed; 6 no supported answer, with `--strict`; 7 finished, some files failed;
130 interrupted.
"""


def write() -> None:
    """Run every mistake and write the page."""
    parts = [HEAD]
    for group, mistakes in GROUPS.items():
        parts.append(f"## {group}\n")
        for mistake in mistakes:
            with tempfile.TemporaryDirectory() as folder:
                parts.append(made(mistake, Path(folder)))
    PAGE.write_text("\n".join(parts))


if __name__ == "__main__":
    write()
