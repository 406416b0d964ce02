"""What one index run does: the files of its sources compared with the catalog, within the limits for deletions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from ragkit.errors import KnowledgeBaseLocked
from ragkit.index.catalog.lock import WriterLock
from ragkit.index.catalog.sqlite import FILE_FILTERS_KEY, Catalog, FileRow
from ragkit.index.plan import IndexPlan, IndexPlanOptions, make_plan
from ragkit.index.report import FileFailure
from ragkit.index.source_guard import withhold_deletions
from ragkit.index.sources.ids import is_within
from ragkit.index.sources.runs import write_source_runs
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.sources.source_files import SourceFiles
from ragkit.knowledge_base.sources.source_targets import SourceTargets
from ragkit.load.files.walk import FoundFile, SkippedPath
from ragkit.pipeline.assemble import PipelineComponents


class IndexPlanner:
    """Plans one index run."""

    def __init__(self, source_files: SourceFiles, components: PipelineComponents, run: IndexOptions) -> None:
        self._source_files = source_files
        self._components = components
        self._run = run

    def plan(
        self, roots: Sequence[Path], catalog: Catalog, known: Mapping[str, FileRow], *, reindex_all: bool
    ) -> tuple[IndexPlan, list[FileFailure]]:
        """The plan, and a failure for each source whose deletions it leaves out.

        Args:
            roots: folders, files, and folders of copies.
            catalog: holds the patterns of the last run.
            known: the rows of the catalog.
            reindex_all: index unchanged files too.
        """
        run, resolver = self._run, self._source_files.resolver
        copies = resolver.source_copies
        names = {root: resolver.source_id(root) for root in roots}
        guarded = {name: 0 for name in names.values() if name in copies or name in self._components.sources}
        members = {name: copies.members(name) for name in guarded}
        unlisted = {name: copies.unlisted(name) for name in guarded}
        patterns = _patterns(catalog, run)
        chosen = {"include": run.include, "exclude": run.exclude}

        def walk(root: Path) -> Iterator[FoundFile | SkippedPath]:
            name = names[root]
            for entry in self._source_files.walk(root, **patterns.get(name, chosen)):
                if name in guarded and isinstance(entry, FoundFile):
                    guarded[name] += 1
                yield entry

        options = IndexPlanOptions(
            self._components.current_fingerprint,
            self._source_files.hash,
            run.retry_failed,
            reindex_all,
            frozenset(run.again),
            resolver.source_id,
            lambda source, root: is_within(source, root) or source in unlisted.get(root, ()),
        )
        plan = make_plan(chain.from_iterable(map(walk, roots)), list(names.values()), known, options)
        allowed, failures = withhold_deletions(
            plan,
            known,
            guarded,
            lambda source, root: is_within(source, root) or source in members[root],
            accept=run.accept_deletions,
        )
        if failures and not run.dry_run:
            kept = {row.source for row in plan.removed}.difference(row.source for row in allowed.removed)
            for failure in failures:  # their documents stay, so a rebuild from the copies must find them
                copies.relist(failure.source, kept & unlisted[failure.source])
        return allowed, failures


def file_filters_json(catalog: Catalog, roots: Sequence[str], run: IndexOptions) -> str:
    """Source -> include and exclude patterns of its last run, as JSON."""
    filters: dict[str, object] = json.loads(catalog.get_meta(FILE_FILTERS_KEY) or "{}")
    for root in () if run.keep_patterns else roots:
        filters.pop(root, None)
        if run.include or run.exclude:
            filters[root] = {"include": list(run.include), "exclude": list(run.exclude)}
    return json.dumps(filters, sort_keys=True)


def finish_sources(catalog: Catalog, source_files: SourceFiles, targets: SourceTargets) -> None:
    """Delete the copies whose documents were removed, and record the runs. The caller holds the writer lock.

    A source that another run is fetching keeps its copies: that run deletes them.
    """
    copies = source_files.resolver.source_copies
    indexed = catalog.files().keys()
    for root in targets.runs:
        if copies.unlisted(root) - indexed:
            with suppress(KnowledgeBaseLocked), WriterLock(copies.cache_folder(root), timeout_s=0):
                copies.forget(root, copies.unlisted(root) - indexed)
    write_source_runs(source_files.kb, targets.runs)


def _patterns(catalog: Catalog, run: IndexOptions) -> dict[str, dict[str, list[str]]]:
    """Source -> the patterns of its last run, if this run keeps them."""
    return json.loads(catalog.get_meta(FILE_FILTERS_KEY) or "{}") if run.keep_patterns else {}
