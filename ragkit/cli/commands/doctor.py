"""`ragkit doctor`: check the installation, and suggest commands that fix problems; say what arrives of files."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, distributions, requires, version
from importlib.util import find_spec
from pathlib import Path
from re import match

import click

from ragkit import __version__
from ragkit.cli import EXIT_ERROR
from ragkit.cli.common import CliContext, with_common_options
from ragkit.distribution import DISTRIBUTION, install_command
from ragkit.errors import RagkitError
from ragkit.sqlite_errors import DATABASE_ERRORS

PACKAGE = "ragkit"
"""The package of this distribution, and the name of an unrelated distribution."""
_REINSTALL = f"pip install --force-reinstall {DISTRIBUTION}"
API_KEY_VARIABLES = (
    "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY", "COHERE_API_KEY", "VOYAGE_API_KEY",
    "JINA_API_KEY",
)  # fmt: skip


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    """A command that helps: to fix a failed check, or to install something optional."""


@click.command()
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@with_common_options
def command(context: CliContext, files: tuple[Path, ...]) -> int:
    """Check the installation, API keys and the knowledge base. Exits with 1 if a check fails.

    With files: say what arrives of each, and how many letters leave at each step that removes text. Exits with 1 if a
    file cannot be read, or loses letters for no reason.
    """
    if files:
        return _examine_files(context, files)
    core, extras = list(_check_core()), list(_check_extras())
    rest = [*_check_keys(), *_check_knowledge_base(context), *_check_model_file(context)]
    checks = [*core, *extras, *rest]
    if context.json:
        context.write_json({"checks": [{"name": c.name, "ok": c.ok, "what": c.detail, "fix": c.fix} for c in checks]})
    else:
        for check in (*core, *_summarize_extras(extras), *rest):
            mark = click.style("ok  ", fg="green") if check.ok else click.style("FAIL", fg="red")
            fix = f"  -> {check.fix}" if check.fix else ""
            context.write(f"{mark} {check.name}: {check.detail}{fix}")
    return 0 if all(check.ok for check in checks) else EXIT_ERROR


def _examine_files(context: CliContext, files: Sequence[Path]) -> int:
    from ragkit.cli.commands.doctor_files import describe_file, examine_file
    from ragkit.pipeline.assemble import PipelineComponents

    pipeline = context.load_pipeline()
    routes = PipelineComponents(pipeline).loader_routes if pipeline is not None else ()
    found = [examine_file(path, routes) for path in files]
    if context.json:
        context.write_json({"files": found})
    else:
        for counts in found:
            context.write("\n".join(describe_file(counts)))
    return EXIT_ERROR if any("error" in counts or counts.get("letters_lost") for counts in found) else 0


def _check_core() -> Iterator[Check]:
    yield Check("ragkit", True, f"{__version__} on Python {'.'.join(map(str, sys.version_info[:3]))}")
    if conflicts := _conflicting_distributions():
        names = " ".join(conflicts)
        detail = f"{', '.join(conflicts)} also provides the package `{PACKAGE}` and can shadow {DISTRIBUTION}"
        yield Check("distribution", False, detail, f"pip uninstall -y {names} && {_REINSTALL}")
    yield _run_check("sqlite", _check_sqlite, "use a Python whose sqlite3 has FTS5")
    yield _run_check("embedder minilm", _check_minilm, _REINSTALL)


def _conflicting_distributions() -> list[str]:
    """Other installed distributions that are named `ragkit`, or provide the package `ragkit`."""
    names = set()
    for distribution in distributions():
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        files = distribution.read_text("RECORD") or ""
        if name == PACKAGE or files.startswith(f"{PACKAGE}/") or f"\n{PACKAGE}/" in files:
            names.add(name)
    return sorted(names - {DISTRIBUTION})


def _check_sqlite() -> str:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(a)")
    return f"{sqlite3.sqlite_version} with FTS5"


def _check_minilm() -> str:
    # imported here: the import may be what fails
    from ragkit.embed.minilm import MiniLM

    model = MiniLM()
    return f"{model.fingerprint}, {len(model.probe())} dimensions"


def _check_extras() -> Iterator[Check]:
    """One check per extra. `fix` installs it if packages are missing."""
    groups: dict[str, list[str]] = {}
    try:
        requirements = requires(DISTRIBUTION) or []
    except PackageNotFoundError:  # run from a source tree that is not installed
        requirements = []
    for line in requirements:
        extra_match = match(r"([A-Za-z0-9_.-]+).*extra == ['\"]([a-z0-9-]+)['\"]", line)
        if extra_match and extra_match[2] not in ("all", "test"):
            groups.setdefault(extra_match[2], []).append(extra_match[1])
    for extra, packages in sorted(groups.items()):
        missing = [name for name in packages if not _is_installed(name)]
        fix = install_command(extra) if missing else ""
        yield Check(f"extra {extra}", True, f"not installed: {', '.join(missing)}" if missing else "installed", fix)


def _summarize_extras(extras: Sequence[Check]) -> Iterator[Check]:
    """Two lines: the extras that are installed, and those that are not."""
    installed = [extra.name.removeprefix("extra ") for extra in extras if not extra.fix]
    missing = [extra.name.removeprefix("extra ") for extra in extras if extra.fix]
    if installed:
        yield Check("extras installed", True, ", ".join(installed))
    if missing:
        yield Check("extras not installed", True, ", ".join(missing), install_command("NAME"))


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return find_spec(package.replace("-", "_")) is not None
    return True


def _check_keys() -> Iterator[Check]:
    keys = [key for key in API_KEY_VARIABLES if os.environ.get(key)]
    detail = f"{', '.join(keys)} set" if keys else "none set: answers are extractive, at no cost"
    yield Check("keys", True, detail)


def _check_knowledge_base(context: CliContext) -> Iterator[Check]:
    if not context.address and not context.kb.exists():
        yield Check("knowledge base", True, f"none at {context.place}", "ragkit index FOLDER")
        return

    notes: list[str] = []

    def count() -> str:
        with context.open_or_create(None) as kb:
            kb.location.require_exists()
            status = kb.status()
        notes.extend(filter(None, [status.language_note]))
        lacking = f" ({status.embedded} embedded)" if status.embedded < status.chunks else ""
        return f"{status.documents} documents, {status.chunks} chunks{lacking} at {context.place}"

    yield _run_check("knowledge base", count, f"ragkit verify --kb {context.place}")
    yield from (Check("language", True, what, fix) for what, _, fix in (note.partition(": ") for note in notes))


def _check_model_file(context: CliContext) -> Iterator[Check]:
    """The file of a model that runs in the process, if the pipeline names one."""
    try:
        pipeline = context.load_pipeline()
        if pipeline is None and (context.address or context.kb.exists()):
            with context.open_or_create(None) as kb:
                pipeline = kb.pipeline
    except (RagkitError, OSError, *DATABASE_ERRORS):  # the check of the knowledge base says so
        return
    name = pipeline.answer.provider if pipeline is not None else ""
    if name.partition(":")[0] == "gguf":
        yield _run_check("model", partial(_check_model, name), "ragkit models --local")


def _check_model(name: str) -> str:
    from ragkit.agent.providers.gguf import GGUFProvider

    provider = GGUFProvider(name.partition(":")[2])
    return f"{name}, {provider.context_window:,} tokens of context"


def _run_check(name: str, check: Callable[[], str], fix: str) -> Check:
    try:
        return Check(name, True, check())
    except (RagkitError, ImportError, OSError, *DATABASE_ERRORS) as error:
        return Check(name, False, str(error), fix)
