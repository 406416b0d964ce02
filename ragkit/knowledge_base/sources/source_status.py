"""The sources of a knowledge base with their last run, for `ragkit sources`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from ragkit.index.sources.added_documents import ADDED_ROOT
from ragkit.index.sources.ids import display_name, is_within
from ragkit.index.sources.runs import SourceRun, read_source_runs
from ragkit.index.sources.web_pages import is_url
from ragkit.knowledge_base.sources.source_files import SourceFiles
from ragkit.load.sources.base import Source
from ragkit.pipeline.components import ComponentConfig
from ragkit.records import JSON


@dataclass(frozen=True)
class SourceStatus:
    """One source."""

    source: str
    """Its id, which `ragkit index` and `ragkit rm` take."""
    kind: str
    """`folder`, `page`, `added`, or the name of the part in `sources:`."""
    configured: bool
    """Whether it stands in the `sources:` of the pipeline."""
    documents: int
    """Its files and pages in the index."""
    last_run: SourceRun | None
    """None: no run yet."""

    def to_json(self) -> dict[str, JSON]:
        """A line of `sources --json`."""
        return {
            "source": display_name(self.source),
            "kind": self.kind,
            "configured": self.configured,
            "documents": self.documents,
            "last_run": asdict(self.last_run) if self.last_run is not None else None,
        }


def read_source_statuses(
    roots: Sequence[str],
    configured: Mapping[str, tuple[ComponentConfig, Source]],
    indexed: Collection[str],
    files: SourceFiles,
) -> list[SourceStatus]:
    """The statuses of these sources; `indexed` are the source ids of all documents."""
    runs = read_source_runs(files.kb)
    statuses: list[SourceStatus] = []
    for root in roots:
        if root == ADDED_ROOT:
            names = {files.resolver.source_id(path) for path in files.resolver.added.paths()}
            kind = "added"
        elif root in configured and root not in files.resolver.source_copies:
            kind, names = configured[root][0].name, {name for name in indexed if is_within(name, root)}
        elif root in files.resolver.source_copies:
            kind, names = root.partition(":")[0], files.resolver.source_copies.members(root)
        else:
            kind = "page" if is_url(root) else "folder"
            names = {name for name in indexed if is_within(name, root)}
        count = len(names.intersection(indexed))
        statuses.append(SourceStatus(root, kind, root in configured, count, runs.get(root)))
    return statuses
