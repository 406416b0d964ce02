"""The sources of a knowledge base with their last run, for `ragkit sources`."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ragkit.index.catalog.directory import read_marker_roots
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.sources.added_documents import ADDED_ROOT
from ragkit.index.sources.ids import display_name, is_within
from ragkit.index.sources.runs import SourceRun, read_source_runs
from ragkit.index.sources.web_pages import is_url
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.records import JSON


@dataclass(frozen=True)
class SourceStatus:
    """One source."""

    source: str
    """Its id, which `ragkit index` and `ragkit remove` take."""
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


def read_source_statuses(kb: KnowledgeBase) -> list[SourceStatus]:
    """The sources of earlier runs and of the pipeline, with their last run, sorted by id."""
    configured, files = kb.components.sources, kb.location.source_files(kb.components.folder_options)
    known, indexed = read_marker_roots(kb.path), set[str]()
    if known:
        with kb.session() as session, session.snapshot() as snapshot:
            rows = Catalog(snapshot.connection).files().values()
            indexed = {row.source for row in rows if row.status == "indexed"}
    runs = read_source_runs(kb.path)
    statuses: list[SourceStatus] = []
    for root in sorted({*known, *configured}):
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
