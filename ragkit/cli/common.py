"""Common options of all commands, and output helpers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click

from ragkit.cli.terminal import echo
from ragkit.errors import InvalidOption, NotAKnowledgeBase, RagkitError
from ragkit.index.catalog.database_url import DatabaseUrl, is_database_url
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.stored_settings import read_stored_pipeline
from ragkit.masking import mask_secrets
from ragkit.pipeline.read import read_place
from ragkit.pipeline.settings import Pipeline
from ragkit.places import format_lines
from ragkit.records import JSON, Chunk, Citation

MAX_ALSO_IN = 3
"""Files named beside a passage that stands in several."""

_JSON_CONTROL_CHARS = re.compile("[\x7f-\x9f\u2028\u2029]")
"""Characters that are valid in JSON but that some readers treat as line ends or control characters."""

PATH = click.Path(path_type=Path)
"""The type of options and arguments that name a file or directory."""

SERVE = "serve"
"""The command that takes several knowledge bases."""
_NAMED_PLACE = re.compile(r"(?P<name>[a-z0-9][a-z0-9_-]{0,39})=(?P<place>.+)", re.DOTALL)

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class CliContext:
    """The common options, given before or after the command."""

    kb: Path
    """Its directory; that of the local copy for a knowledge base in a database."""
    config: str | None
    quiet: bool
    verbose: bool
    json: bool
    address: str = ""
    """The address of its database, with the password; '' for a directory."""
    bases: Mapping[str, str] = field(default_factory=dict)
    """All knowledge bases of `--kb NAME=PLACE` by name, this one first; empty for one without a name."""

    @classmethod
    def for_place(cls, kb: str, config: str | None, *, quiet: bool, verbose: bool, json: bool) -> CliContext:
        """The context of a knowledge base at a directory or at the address of a database."""
        if is_database_url(kb):
            return cls(DatabaseUrl.parse(kb).cache_directory, config, quiet, verbose, json, kb)
        return cls(Path(kb), config, quiet, verbose, json)

    @property
    def place(self) -> str:
        """The directory or address as messages show it, without a password."""
        return str(DatabaseUrl.parse(self.address)) if self.address else str(self.kb)

    def log(self, line: str = "", *, level: int = 0) -> None:
        """Print a line to stderr: nothing with -q, and level 1 only with -v."""
        if not self.quiet and (level == 0 or self.verbose):
            echo(mask_secrets(line), err=True)

    def write(self, line: str = "") -> None:
        """Print a line to stdout."""
        echo(line)

    def write_json(self, value: Mapping[str, JSON]) -> None:
        """Print a JSON object as one line to stdout."""
        text = json.dumps(value, ensure_ascii=False)
        click.echo(_JSON_CONTROL_CHARS.sub(lambda match: f"\\u{ord(match[0]):04x}", text))

    def load_pipeline(self, name: str | None = None, overrides: tuple[str, ...] = ()) -> Pipeline | None:
        """The pipeline by name, environment, option or file; None: that of the knowledge base."""
        selected = name or os.environ.get("RAGKIT_PIPELINE") or self.config or Pipeline.find()
        if selected is not None:
            return Pipeline.load(selected, overrides)
        if not overrides:
            return None
        if self.address:
            with self.open_or_create(None) as kb:  # updates the local copy
                kb.location.refresh()
        if (stored := read_stored_pipeline(self.kb)) is not None:
            return Pipeline.from_yaml(stored, overrides=overrides)
        return Pipeline.load("default", overrides)

    def open_knowledge_base(self, name: str | None = None, overrides: tuple[str, ...] = ()) -> KnowledgeBase:
        """Open the knowledge base with the selected pipeline. Raises NotAKnowledgeBase, SettingsMismatch."""
        kb = self.open_or_create(self.load_pipeline(name, overrides))
        try:
            kb.location.require_exists()
        except NotAKnowledgeBase:
            kb.close()
            raise
        return kb

    def open_or_create(self, pipeline: Pipeline | None, *, check: bool = True) -> KnowledgeBase:
        """Open the knowledge base, which need not exist yet. Raises SettingsMismatch."""
        return KnowledgeBase.open(self.address or self.kb, pipeline, check=check)

    def create_filter(self, kb: KnowledgeBase, where: str | None, source: str) -> Mapping[str, JSON] | None:
        """The filter of `filter_options`; logs what it cannot match. Raises InvalidFilter."""
        with kb.session() as session:
            condition = session.create_filter(where, source)
            for note in session.filter_notes(condition):
                self.log(f"note: {note}")
        return condition

    def report_freshness(self, kb: KnowledgeBase) -> dict[str, JSON]:
        """Log if sources changed since the last index run; returns the report as JSON: {} if nothing would show it."""
        if self.quiet and not self.json:
            return {}
        with kb.session() as session:
            freshness = session.freshness()
        for line in freshness.messages():
            self.log(f"note: {line}")
        return freshness.to_json()


def with_common_options(function: Callable[Concatenate[CliContext, P], R]) -> Callable[P, R]:
    """Add the common options to a command; it receives them as a CliContext."""

    @click.option(
        "--kb",
        "kb_",
        multiple=True,
        metavar="DIR|URL",
        help="Knowledge base: a directory, or postgresql://... (default: .ragkit, or RAGKIT_KB).",
    )
    @click.option("--config", "config_", metavar="FILE", help="Pipeline file (default: the ragkit.yaml found).")
    @click.option("-q", "--quiet", "quiet_", is_flag=True, help="Print only results and errors.")
    @click.option("-v", "--verbose", "verbose_", is_flag=True, help="Print more details.")
    @click.option("--no-color", "no_color_", is_flag=True, help="Disable colors (also NO_COLOR).")
    @click.option("--json", "json_", is_flag=True, help="Print JSON.")
    @click.pass_context
    @wraps(function)
    def command(ctx: click.Context, /, *args: P.args, **kwargs: P.kwargs) -> R:
        own = {name: kwargs.pop(f"{name}_") for name in ("config", "quiet", "verbose", "no_color", "json")}
        parent = ctx.obj or {}
        given: Sequence[str] = ctx.params["kb_"] or parent.get("kb", ())
        del kwargs["kb_"]
        bases = _read_places(given, ctx.info_name or "")
        if own["no_color"] or parent.get("no_color") or os.environ.get("NO_COLOR"):
            ctx.color = False
        config = own["config"] or parent.get("config")
        place = next(iter(bases.values()), None)
        kb = place or os.environ.get("RAGKIT_KB") or _configured_place(config) or ".ragkit"
        quiet, verbose = (bool(own[name] or parent.get(name)) for name in ("quiet", "verbose"))
        context = CliContext.for_place(
            str(kb), str(config) if config else None, quiet=quiet, verbose=verbose, json=bool(own["json"])
        )
        if "" not in bases:
            context = replace(context, bases=bases)
        return function(context, *args, **kwargs)

    return command


def _read_places(places: Sequence[str], command: str) -> dict[str, str]:
    """The values of `--kb` by name; of a single one, by ''. Raises InvalidOption."""
    is_named = command == SERVE and any(_NAMED_PLACE.fullmatch(place) and not Path(place).exists() for place in places)
    if len(places) < 2 and not is_named:
        return {"": places[0]} if places else {}
    if command != SERVE:
        raise InvalidOption("--kb", mask_secrets(" ".join(places)), f"given once: only `ragkit {SERVE}` takes several")
    named: dict[str, str] = {}
    for place in places:
        match = _NAMED_PLACE.fullmatch(place)
        if match is None or match["name"] in named:
            expected = "NAME=DIR or NAME=URL, each with a name of its own: small letters, digits, `-` and `_`"
            raise InvalidOption("each of several --kb", mask_secrets(place), expected)
        named[match["name"]] = match["place"]
    return named


def _configured_place(config: object) -> str | None:
    """The knowledge base that the selected pipeline file names (`kb:`); relative to the file. None: it names none."""
    selected = os.environ.get("RAGKIT_PIPELINE") or config or Pipeline.find()
    return read_place(str(selected), os.environ) if selected else None


def filter_options(function: Callable[P, R]) -> Callable[P, R]:
    """Add the options that restrict a search: `where`, `source` and `top_k`."""
    for option in (
        click.option("-k", "--top-k", type=click.IntRange(min=1), metavar="N", help="Number of passages."),
        click.option(
            "--source", metavar="NAME", default="", help="Search only this file, folder, URL or added document."
        ),
        click.option("--where", metavar="EXPR", help="""Filter on metadata: 'format == "pdf" and year >= 2020'."""),
    ):
        function = option(function)
    return function


def strict_option(function: Callable[P, R]) -> Callable[P, R]:
    """Add the option `strict`."""
    text = "Exit with 6 if the documents do not support the answer: nothing found, searched or cited, refused, cut."
    return click.option("--strict", is_flag=True, help=text)(function)


def format_also_in(sources: Sequence[str]) -> str:
    """`also in: a.md, b.md, c.md and 4 more`; empty without sources."""
    names = ", ".join(display_name(source) for source in sources[:MAX_ALSO_IN])
    more = f" and {len(sources) - MAX_ALSO_IN} more" if len(sources) > MAX_ALSO_IN else ""
    return f"also in: {names}{more}" if sources else ""


def format_location(item: Chunk | Citation) -> str:
    """`guide.md:10-24`, `paper.pdf, page 3` or `pumps.xlsx, Pumps!A20:D23`: the place in the file."""
    name, place = display_name(item.source), item.place or format_lines(item.start_line, item.end_line)
    unit, _, number = place.partition(" ")
    # a record is named after its line: `prices.csv/48`
    return f"{name.removesuffix(f'/{number}')}:{number}" if unit in ("line", "lines") else f"{name}, {place}"


def chunk_json(chunk: Chunk) -> dict[str, JSON]:
    """A line of `list --chunks --json`."""
    return {
        "id": chunk.id,
        "source": display_name(chunk.source),
        "start": chunk.start,
        "end": chunk.end,
        "text": chunk.text,
        "metadata": dict(chunk.metadata),
        "place": chunk.place,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "page": chunk.page,
        "heading": list(chunk.heading),
        "title": chunk.title,
        "context": chunk.context,
    }


def format_count(count: int, noun: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_size(count: float) -> str:
    """A number of bytes as text: `1.4 MB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file and create its parent directories. Raises RagkitError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise RagkitError(f"{path} cannot be written: {error.strerror}") from error
