"""What an index run reads: the roots of the sources that it names, after pages and remote sources were fetched."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ragkit.errors import LoadError
from ragkit.index.catalog.directory import read_marker_roots
from ragkit.index.report import FileFailure
from ragkit.index.sources.added_documents import ADDED_ROOT
from ragkit.index.sources.ids import source_id
from ragkit.index.sources.runs import SourceRun
from ragkit.index.sources.sync import SyncOptions, sync_source
from ragkit.index.sources.web_pages import is_url, normalize_url
from ragkit.knowledge_base.sources.source_files import SourceFiles
from ragkit.load.files.fetch import FetchOptions
from ragkit.load.sources.options import SourceOptions
from ragkit.masking import mask_passwords
from ragkit.pipeline.assemble import LOCAL_SOURCE, PipelineComponents


@dataclass
class SourceTargets:
    """The roots of one run."""

    roots: list[Path] = field(default_factory=list)
    """Folders, files, and folders of copies."""
    failures: list[FileFailure] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    runs: dict[str, SourceRun] = field(default_factory=dict)
    """Source id -> its run, for `ragkit sources`."""


class TargetResolver:
    """Resolves the sources of one run."""

    def __init__(self, kb: Path, components: PipelineComponents, source_files: SourceFiles) -> None:
        self._kb = kb
        self._components = components
        self._files = source_files
        self._recorded = frozenset(read_marker_roots(kb))
        folder = components.folder_options
        self._fetch_options = FetchOptions(max_mb=folder.max_file_mb, allow_private=folder.allow_private)

    def resolve(self, sources: Sequence[str | os.PathLike[str]]) -> SourceTargets:
        """The roots of these sources; without sources those of every source that is configured or known.

        A page or remote source that cannot be fetched keeps its copies. Raises LoadError for a path that does not
        exist, unless every source is meant: then it is a failure.
        """
        targets = SourceTargets()
        for source in sources:
            self._resolve(source, targets)
        if sources:
            return targets
        known = [root for root in self._recorded if root not in self._components.sources]
        for root in [*self._components.sources, *sorted(known)]:
            try:
                self._resolve(root, targets)
            except LoadError as error:
                hint = f"restore it, or remove its documents with `ragkit remove '{root}'`"
                targets.failures.append(FileFailure(root, error.reason, hint))
                targets.runs[root] = _run(failed=1, error=error.reason)
        return targets

    def _resolve(self, source: str | os.PathLike[str], targets: SourceTargets) -> None:
        name, resolver = str(source), self._files.resolver
        if name == ADDED_ROOT:
            targets.roots.append(resolver.added.folder)
        elif name in self._components.sources:
            self._resolve_configured(name, targets)
        elif name in resolver.source_copies:
            raise LoadError(name, "is in no `sources:` of the pipeline", "name the pipeline file with --pipeline")
        elif is_url(source):
            self._download_page(normalize_url(name), targets)
        else:
            path = resolve_root(source, self._recorded)
            targets.roots.append(path)
            targets.runs[resolver.source_id(path)] = _run()

    def _resolve_configured(self, root: str, targets: SourceTargets) -> None:
        component, source = self._components.sources[root]
        if component.name == LOCAL_SOURCE:
            path = resolve_root(source.location, self._recorded)
            targets.roots.append(path)
            targets.runs[self._files.resolver.source_id(path)] = _run()
            return
        copies, options = self._files.resolver.source_copies, component.options
        patterns = (options.include, options.exclude) if isinstance(options, SourceOptions) else ((), ())
        limits = self._fetch_options
        result = sync_source(
            source, root, copies, SyncOptions(limits.max_mb, limits.allow_private, patterns[0], patterns[1])
        )
        targets.roots.append(copies.root_folder(root))
        targets.failures += result.failures
        targets.skipped += result.skipped
        error = result.failures[0].error if result.failures else ""
        targets.runs[root] = _run(result.listed, result.fetched, len(result.failures), error, result.seconds)

    def _download_page(self, url: str, targets: SourceTargets) -> None:
        copies = self._files.resolver.web_copies
        try:
            targets.roots.append(copies.download(url, self._fetch_options))
            targets.runs[url] = _run(1, 1)
        except LoadError as error:
            targets.failures.append(FileFailure(mask_passwords(url), error.reason, error.hint))
            targets.runs[url] = _run(failed=1, error=error.reason)
            before = copies.copy_path(url)
            targets.roots += [before] if before.exists() else []


def resolve_root(source: str | os.PathLike[str], recorded: Collection[str]) -> Path:
    """The path of a source. Raises LoadError if it does not exist, or is recorded and now a link to elsewhere."""
    path = Path(os.path.abspath(source))  # noqa: PTH100 - without following links
    if not Path(source).exists():
        raise LoadError(str(source), "does not exist", "name an existing folder or file")
    return require_not_redirected(path) if source_id(path) in recorded else Path(source).resolve()


def require_not_redirected(root: Path) -> Path:
    """Check that the path of an indexed source contains no link: it was recorded without links.

    A link in its place, or in a parent folder, would index files that the user has not named.
    """
    if root.exists() and root.resolve() != root:
        hint = "if that is intended, remove it with `ragkit remove` and index it again"
        raise LoadError(str(root), f"is now a link to {root.resolve()}", hint)
    return root


def _run(listed: int = 0, fetched: int = 0, failed: int = 0, error: str = "", seconds: float = 0.0) -> SourceRun:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return SourceRun(now, listed, fetched, failed, error, round(seconds, 3))
