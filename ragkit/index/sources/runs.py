"""The last run of each source, for `ragkit sources`: one small file in the knowledge base."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ragkit.index.catalog.checksums import write_file_durably
from ragkit.index.sources.copies import SOURCES_FOLDER

RUNS_FILE = "runs.json"


@dataclass(frozen=True)
class SourceRun:
    """The last run of one source."""

    time: str
    """When it ended, ISO 8601 in UTC."""
    listed: int = 0
    """Documents that the source listed."""
    fetched: int = 0
    """Documents whose content was fetched; 0 for a folder, which is read in place."""
    failed: int = 0
    """Documents that could not be fetched, and parts that could not be listed."""
    error: str = ""
    """The first failure."""
    seconds: float = 0.0
    """Time for listing and fetching."""


def read_source_runs(kb: Path) -> dict[str, SourceRun]:
    """Source -> its last run; empty if the file is missing or damaged, as it only informs."""
    try:
        entries = json.loads((kb / SOURCES_FOLDER / RUNS_FILE).read_bytes())
        return {root: SourceRun(**run) for root, run in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_source_runs(kb: Path, runs: Mapping[str, SourceRun]) -> None:
    """Add the runs of these sources to the file."""
    folder = kb / SOURCES_FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    entries = {root: asdict(run) for root, run in {**read_source_runs(kb), **runs}.items()}
    write_file_durably(folder / RUNS_FILE, json.dumps(entries, indent=1, sort_keys=True).encode())


def forget_source_run(kb: Path, root: str) -> None:
    """Remove a source from the file."""
    runs = read_source_runs(kb)
    if runs.pop(root, None) is not None:
        data = json.dumps({name: asdict(run) for name, run in runs.items()}, indent=1, sort_keys=True)
        write_file_durably(kb / SOURCES_FOLDER / RUNS_FILE, data.encode())
