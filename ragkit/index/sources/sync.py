"""Bring the copies of one source up to date: list it, and fetch what changed. The index run follows.

Each copy is recorded when it is on disk: a run that was killed goes on where it stopped. Documents that are no longer
listed are only marked; the plan of the index run removes them, within the limits of `source_guard`. Before that the
source is listed again: a document that moved between two parts of a listing while it was read is missing in both.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.index.catalog.lock import WriterLock
from ragkit.index.report import FileFailure
from ragkit.index.sources.copies import COPIES_FOLDER, SourceCopies, SourceState
from ragkit.load.files.file_io import MB
from ragkit.load.files.ignore_rules import IgnoreRules
from ragkit.load.files.secret_files import is_secret_name, secret_reason
from ragkit.load.sources.base import DocumentGone, ListingIncomplete, Source, SourceContext, SourceFile, SourceItem
from ragkit.masking import mask_passwords


@dataclass(frozen=True)
class SyncOptions:
    """Options of all sources."""

    max_file_mb: float = 50
    allow_private: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass
class SyncResult:
    """What one synchronization did."""

    listed: int = 0
    """Documents in the listing."""
    fetched: int = 0
    """Documents whose content was fetched."""
    complete: bool = False
    """Whether the whole source was listed."""
    failures: list[FileFailure] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """(key, reason)."""
    seconds: float = 0.0


def sync_source(source: Source, root: str, copies: SourceCopies, options: SyncOptions) -> SyncResult:
    """List a source and fetch what changed. Errors are in the result; KnowledgeBaseLocked is raised."""
    started = time.perf_counter()
    cache = copies.cache_folder(root)
    with WriterLock(cache), copies.open_state(root) as state:
        run = _Sync(source, root, copies, state, options)
        run.run(SourceContext(cache, run.known_fingerprint, state.keys, options.max_file_mb, options.allow_private))
    run.result.seconds = time.perf_counter() - started
    return run.result


class _Sync:
    """The work of one synchronization."""

    def __init__(
        self, source: Source, root: str, copies: SourceCopies, state: SourceState, options: SyncOptions
    ) -> None:
        self.result = SyncResult()
        self._source, self._root, self._copies, self._state = source, root, copies, state
        self._options = options
        self._include = IgnoreRules(options.include) if options.include else None
        self._exclude = IgnoreRules(options.exclude)

    def run(self, context: SourceContext) -> None:
        """List, and fetch while listing."""
        seen: set[str] = set()
        kept: set[str] = set()
        try:
            self._list(context, seen, kept)
            if seen and self._state.keys(listed=True) - kept:
                self._list(context, seen, kept)
            self.result.complete = True
        except ListingIncomplete as error:
            self.fail(error.source, error)
        except LoadError as error:
            self.fail(self._root, error)
        self.result.listed = len(kept)
        if not self.result.complete:
            return
        if seen:
            self._state.set_listed(kept)
        elif self._state.keys():
            hint = f"nothing was removed: `ragkit remove '{self._root}'` does"
            self.fail(self._root, LoadError(self._root, "lists no documents", hint))

    def _list(self, context: SourceContext, seen: set[str], kept: set[str]) -> None:
        """Take every listed document once; `kept` are those that are not skipped."""
        for item in self._source.list(context):
            if item.key not in seen:
                seen.add(item.key)
                kept |= {item.key} if self._take(item, context) else set()

    def known_fingerprint(self, key: str) -> str | None:
        """The fingerprint of an existing copy."""
        known = self._state.get(key)
        if known is None or not (self._copies.root_folder(self._root) / COPIES_FOLDER / known[1]).is_file():
            return None
        return known[0]

    def fail(self, source: str, error: LoadError) -> None:
        """Add a failure."""
        self.result.failures.append(FileFailure(mask_passwords(source), mask_passwords(error.reason), error.hint))

    def _take(self, item: SourceItem, context: SourceContext) -> bool:
        """Fetch a listed document if it changed. Returns False if it is skipped."""
        reason = self._skip_reason(item)
        if reason:
            self.result.skipped += [(item.key, reason)] if reason != "excluded" else []
            return False
        known = self.known_fingerprint(item.key)
        if known is not None and item.fingerprint and known == item.fingerprint:
            return True
        try:
            file = item.file or self._source.fetch(item, context)
            if file is not None:
                self._save(item, file)
        except DocumentGone:
            return True  # the next listing tells
        except LoadError as error:
            self.fail(item.key, error)
        return True

    def _save(self, item: SourceItem, file: SourceFile) -> None:
        if len(file.data) > self._options.max_file_mb * MB:
            raise LoadLimitExceeded(item.key, f"larger than {self._options.max_file_mb:g} MB", "raise max_file_mb")
        self.result.fetched += 1
        path = self._copies.write(self._root, item.key, file)
        self._state.put(item.key, item.fingerprint or file.fingerprint, path)

    def _skip_reason(self, item: SourceItem) -> str:
        """Why a document is not indexed, or ''."""
        parts = [part for part in PurePosixPath(item.path or unquote(urlsplit(item.key).path)).parts if part != "/"]
        if parts and is_secret_name(parts[-1]):
            return secret_reason(parts[-1])
        if item.size is not None and item.size > self._options.max_file_mb * MB:
            return f"larger than {self._options.max_file_mb:g} MB"
        if parts and self._is_excluded(parts):
            return "excluded"
        return ""

    def _is_excluded(self, parts: list[str]) -> bool:
        folders = [(parts[:end], end < len(parts)) for end in range(1, len(parts) + 1)]
        if any(self._exclude.match(part, is_folder) for part, is_folder in folders):
            return True
        return self._include is not None and not any(self._include.match(part, folder) for part, folder in folders)
