"""What every verb shares: its common options, where the knowledge base is, and how things are printed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click

from ragkit.cli.terminal import echo
from ragkit.index.source_ids import display_name
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.stored_settings import read_stored_pipeline
from ragkit.pipeline.settings import Pipeline
from ragkit.records import JSON, Chunk

_JSON_CONTROL_CHARS = re.compile("[\x7f-\x9f\u2028\u2029]")
"""What JSON lets stand though some readers end a line there, or obey it."""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class CliContext:
    """The flags that every verb takes, before it or after it."""

    kb: Path
    config: str | None
    quiet: bool
    verbose: bool
    json: bool

    def log(self, line: str = "", *, level: int = 0) -> None:
        """A line for the person, on stderr: nothing with -q, and lines of level 1 only with -v."""
        if not self.quiet and (level == 0 or self.verbose):
            echo(line, err=True)

    def write(self, line: str = "") -> None:
        """A line of the answer, on stdout."""
        echo(line)

    def write_json(self, value: Mapping[str, JSON]) -> None:
        """One JSON object on one line, on stdout."""
        text = json.dumps(value, ensure_ascii=False)
        click.echo(_JSON_CONTROL_CHARS.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text))

    def load_pipeline(self, name: str | None = None, overrides: tuple[str, ...] = ()) -> Pipeline | None:
        """The pipeline that was asked for; None: what the knowledge base was built with."""
        chosen = name or os.environ.get("RAGKIT_PIPELINE") or self.config or Pipeline.find()
        if chosen is not None:
            return Pipeline.load(chosen, overrides)
        if not overrides:
            return None
        stored = read_stored_pipeline(self.kb)
        return (
            Pipeline.load("default", overrides) if stored is None else Pipeline.from_yaml(stored, overrides=overrides)
        )

    def open_knowledge_base(self, name: str | None = None, overrides: tuple[str, ...] = ()) -> KnowledgeBase:
        """The knowledge base, held against the pipeline that was asked for. It must be there."""
        kb = KnowledgeBase.open(self.kb, self.load_pipeline(name, overrides))
        kb.require_exists()
        return kb

    def report_freshness(self, kb: KnowledgeBase) -> dict[str, JSON]:
        """Look whether the sources changed since the last run; say so, and give it as JSON."""
        found = kb.freshness()
        for line in found.messages():
            self.log(f"note: {line}")
        return found.to_json()


def with_common_options(function: Callable[Concatenate[CliContext, P], R]) -> Callable[P, R]:
    """Give a verb the common options; it receives them as a Shell."""

    @click.option("--kb", "kb_", metavar="DIR", help="The knowledge base (default: .ragkit, or RAGKIT_KB).")
    @click.option("--config", "config_", metavar="FILE", help="A pipeline file instead of the ragkit.yaml found.")
    @click.option("-q", "--quiet", "quiet_", is_flag=True, help="Say only what was asked for, and errors.")
    @click.option("-v", "--verbose", "verbose_", is_flag=True, help="Say more.")
    @click.option("--no-color", "no_color_", is_flag=True, help="No colours (also NO_COLOR).")
    @click.option("--json", "json_", is_flag=True, help="JSON on stdout.")
    @click.pass_context
    @wraps(function)
    def command(ctx: click.Context, /, *args: P.args, **kwargs: P.kwargs) -> R:
        own = {name: kwargs.pop(f"{name}_") for name in ("kb", "config", "quiet", "verbose", "no_color", "json")}
        before = ctx.obj or {}
        if own["no_color"] or before.get("no_color") or os.environ.get("NO_COLOR"):
            ctx.color = False
        kb = own["kb"] or before.get("kb") or os.environ.get("RAGKIT_KB") or ".ragkit"
        config = own["config"] or before.get("config")
        shell = CliContext(
            Path(str(kb)),
            str(config) if config else None,
            bool(own["quiet"] or before.get("quiet")),
            bool(own["verbose"] or before.get("verbose")),
            bool(own["json"]),
        )
        return function(shell, *args, **kwargs)

    return command


def format_location(chunk: Chunk) -> str:
    """Where a chunk stands, as a person reads it: `guide.md:10-24` or `paper.pdf, page 3`."""
    name = display_name(chunk.source)
    if chunk.page is not None:
        return f"{name}, page {chunk.page}"
    lines = f"{chunk.start_line}" if chunk.start_line == chunk.end_line else f"{chunk.start_line}-{chunk.end_line}"
    return f"{name}:{lines}"


def chunk_json(chunk: Chunk) -> dict[str, JSON]:
    """The contract's line of `list --chunks --json`."""
    return {
        "id": chunk.id,
        "source": display_name(chunk.source),
        "start": chunk.start,
        "end": chunk.end,
        "text": chunk.text,
        "metadata": dict(chunk.metadata),
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "page": chunk.page,
        "heading": list(chunk.heading),
        "title": chunk.title,
    }


def format_count(count: int, noun: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_size(count: float) -> str:
    """Bytes for people: `1.4 MB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
