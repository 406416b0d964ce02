"""`ragkit doctor`: what is installed, what works, and what to run where it does not."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from re import match

import click

from ragkit import __version__
from ragkit.cli import EXIT_ERROR
from ragkit.cli.common import CliContext, with_common_options
from ragkit.distribution import DISTRIBUTION, install_command
from ragkit.errors import RagkitError
from ragkit.knowledge_base.knowledge_base import KnowledgeBase

API_KEY_VARIABLES = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GROQ_API_KEY",
    "COHERE_API_KEY",
    "VOYAGE_API_KEY",
)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    """A command that helps, when it is not well; an optional thing that is missing is well, and has one too."""


@click.command()
@with_common_options
def command(shell: CliContext) -> int:
    """Say what is installed and whether it works. Exits with 1 when something that is needed does not."""
    checks = [*_check_core(), *_check_extras(), *_check_keys(), *_check_knowledge_base(shell)]
    if shell.json:
        shell.write_json({"checks": [{"name": c.name, "ok": c.ok, "what": c.detail, "fix": c.fix} for c in checks]})
    else:
        for check in checks:
            mark = click.style("ok  ", fg="green") if check.ok else click.style("FAIL", fg="red")
            fix = f"  -> {check.fix}" if check.fix else ""
            shell.write(f"{mark} {check.name}: {check.detail}{fix}")
    return 0 if all(check.ok for check in checks) else EXIT_ERROR


def _check_core() -> Iterator[Check]:
    yield Check("ragkit", True, f"{__version__} on Python {'.'.join(map(str, sys.version_info[:3]))}")
    yield _run_check("sqlite", _check_sqlite, "use a Python whose sqlite3 has FTS5")
    yield _run_check("embedder minilm", _check_minilm, f"pip install --force-reinstall {DISTRIBUTION}")


def _check_sqlite() -> str:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(a)")
    return f"{sqlite3.sqlite_version} with FTS5"


def _check_minilm() -> str:
    # here: the doctor's patient may be the import itself
    from ragkit.embed.minilm import MiniLM

    model = MiniLM()
    return f"{model.fingerprint}, {len(model.probe())} columns"


def _check_extras() -> Iterator[Check]:
    """Every optional dependency group, and whether its packages are here."""
    groups: dict[str, list[str]] = {}
    for line in requires(DISTRIBUTION) or []:
        found = match(r"([A-Za-z0-9_.-]+).*extra == ['\"]([a-z0-9-]+)['\"]", line)
        if found and found[2] not in ("all", "test"):
            groups.setdefault(found[2], []).append(found[1])
    for extra, packages in sorted(groups.items()):
        missing = [name for name in packages if not _is_installed(name)]
        fix = install_command(extra) if missing else ""
        yield Check(f"extra {extra}", True, f"not installed: {', '.join(missing)}" if missing else "installed", fix)


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return find_spec(package.replace("-", "_")) is not None
    return True


def _check_keys() -> Iterator[Check]:
    there = [key for key in API_KEY_VARIABLES if os.environ.get(key)]
    yield Check("keys", True, ", ".join(there) + " set" if there else "none set: answers are quoted, at no cost")


def _check_knowledge_base(shell: CliContext) -> Iterator[Check]:
    if not shell.kb.exists():
        yield Check("knowledge base", True, f"none at {shell.kb}", "ragkit index FOLDER")
        return

    def look() -> str:
        with KnowledgeBase.open(shell.kb) as kb:
            status = kb.status()
        return f"{status.documents} documents, {status.chunks} chunks at {shell.kb}"

    yield _run_check("knowledge base", look, f"ragkit verify --kb {shell.kb}")


def _run_check(name: str, look: Callable[[], str], fix: str) -> Check:
    try:
        return Check(name, True, look())
    except (RagkitError, ImportError, OSError, sqlite3.Error) as error:
        return Check(name, False, str(error), fix)
