"""The write side of a knowledge base: index runs, repairs, removals."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from ragkit.embed.base import Row
from ragkit.errors import Damaged, LoadError, Locked, SettingsMismatch
from ragkit.index.build import Build, BuildOptions
from ragkit.index.catalog import Catalog, FileRow
from ragkit.index.compact import compacted
from ragkit.index.derived import Derived
from ragkit.index.disk import refusals
from ragkit.index.freshness import Freshness, look
from ragkit.index.home import exists, marked_roots, repair_command
from ragkit.index.lock import WriterLock
from ragkit.index.names import is_within, source_name
from ragkit.index.plan import Plan, PlanOptions, make_plan
from ragkit.index.recipe import Recipe
from ragkit.index.repair import REBUILD, Salvage, swap_in
from ragkit.index.report import Event, Failure, IndexReport
from ragkit.index.runner import Runner
from ragkit.index.session import WriteSession
from ragkit.index.unsealed import check_unsealed
from ragkit.index.web import WEB, Names, is_url, normal
from ragkit.load.fetch import FetchOptions
from ragkit.load.files import read_bytes
from ragkit.load.parse import hash_of
from ragkit.load.walk import FolderOptions, Found, Skipped, walk
from ragkit.pipeline.assemble import Assembly
from ragkit.pipeline.money import Purse, afford, embedder_name, embedding_price, estimate_embedding
from ragkit.pipeline.stored import recipe_in
from ragkit.retrieve.fts import FtsLexicon
from ragkit.store.vectorfile import VectorFile
from ragkit.usage.ledger import Ledger
from ragkit.usage.meter import Meter, current_meter, metered


@dataclass(frozen=True)
class IndexRun:
    """How one index run goes."""

    dry_run: bool = False
    """Read and split, count what would be embedded, and change nothing."""
    retry_failed: bool = False
    """Take up files that failed before, though they have not changed."""
    rebuild: bool = False
    """Accept other settings than the knowledge base was built with, and do everything again."""
    include: tuple[str, ...] = ()
    """Only files that match, this time; empty: as the pipeline says."""
    exclude: tuple[str, ...] = ()
    """Files to leave out, this time, beside those of the pipeline."""
    jobs: int = 0
    """Workers that read and split files; 0: as the pipeline says."""
    max_cost_usd: float | None = None
    """US dollars that embedding may cost. The run does not begin when it is likely to cost more, and stops in time
    when it does; what was embedded is kept, and the next run goes on from there."""
    on_event: Callable[[Event], None] = lambda event: None
    """Told of every step."""
    runner: Callable[[Assembly, int], Runner] = Assembly.runner
    """Who reads, splits and embeds: the pipeline and `jobs` say, or one that has some of it already."""
    known: Callable[[Sequence[bytes]], Mapping[bytes, Row]] | None = None
    """Hashes of texts -> the vectors that are known elsewhere, by the same embedder: they are copied, not made."""


class Writing:
    """Changes one knowledge base. Every method takes the writer's lock for as long as it works."""

    def __init__(self, path: Path, parts: Assembly, ledger: Ledger) -> None:
        self.path = path
        self.names = Names(path.resolve() / WEB)
        self._parts = parts
        self._ledger = ledger

    def index(self, sources: Sequence[str | os.PathLike[str]], run: IndexRun) -> IndexReport:
        """One index run; see `KnowledgeBase.index`."""
        started = time.perf_counter()
        if run.dry_run and not exists(self.path):
            return self._dry_run_of_nothing(sources, run, started)
        if run.dry_run and any(map(is_url, sources)):
            return self._dry_run_with_pages(sources, run)
        roots, failures = self._roots(sources)
        told = self._ledger.writer("index", self._parts.pipeline.name)
        meter = Meter(budget_usd=run.max_cost_usd, on_call=told)
        with metered(meter), closing(self._ledger):
            notes = self._heal()
            self._afford(roots, run)
            with WriteSession(self.path, self._parts.new_base) as session:
                report = self._run(session, roots, run, started)
        return replace(_with_failures(report, failures), notes=(*notes, *report.notes), usage=meter.usage().to_dict())

    def _roots(self, sources: Sequence[str | os.PathLike[str]]) -> tuple[list[Path], list[Failure]]:
        """The paths of the sources; a page is fetched first. A page that cannot be had now stays as it was."""
        roots: list[Path] = []
        failures: list[Failure] = []
        recorded = frozenset(marked_roots(self.path))
        folder = self._parts.folder
        options = FetchOptions(max_mb=folder.max_file_mb, allow_private=folder.allow_private)
        for source in sources:
            if not is_url(source):
                roots.append(_root(source, recorded))
                continue
            url = normal(str(source))
            try:
                roots.append(self.names.web.bring(url, options))
            except LoadError as error:
                failures.append(Failure(url, error.reason, error.hint))
                before = self.names.path(url)
                roots += [before] if before.exists() else []
        return roots, failures

    def _afford(self, roots: Sequence[Path], run: IndexRun) -> None:
        """Raises BudgetTooSmall or PriceUnknown when the run must not begin. A model that costs nothing may."""
        embedder = self._parts.embedder
        price = embedding_price(embedder, 1_000_000)
        if run.dry_run or run.max_cost_usd is None or price == 0:
            return
        tokens = 0
        if price is not None:
            rehearsal = replace(run, dry_run=True, max_cost_usd=None, on_event=lambda event: None)
            tokens = self.index(roots, rehearsal).tokens
        afford(embedder_name(embedder), price and embedding_price(embedder, tokens), run.max_cost_usd)

    def remove(self, names: Sequence[str]) -> int:
        """Take out sources and all below them; returns how many documents went."""
        with WriteSession(self.path) as session:
            catalog = session.catalog
            rows = [r for r in catalog.files().values() if any(is_within(r.source, name) for name in names)]
            documents = [row.document for row in rows if row.document is not None]
            with catalog.transaction():
                FtsLexicon(catalog.connection).remove(catalog.chunk_keys(documents))
                catalog.delete_documents(documents)
                catalog.delete_files(row.source for row in rows)
                catalog.remove_roots(root for root in catalog.roots() if any(is_within(root, n) for n in names))
                catalog.set("generation", str(catalog.generation() + 1))
            embedder = self._parts.embedder
            row, vectors = session.vectors_for(embedder.fingerprint, embedder.dimension)
            self._sync_store(catalog, compacted(session, row, vectors) if documents else vectors)
            for name in filter(is_url, names):  # last: until the catalog has forgotten a page, its copy is its source
                self.names.web.drop(name)
        return len(documents)

    def clear(self) -> None:
        """Take everything out, vectors too."""
        derived = self._parts.derived(self.path)
        with WriteSession(self.path) as session:
            catalog = session.catalog
            with catalog.transaction():
                for table in ("roots", "files", "documents", "chunks", "vectors", "embedders", "derived"):
                    catalog.connection.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours
                lexicon = FtsLexicon(catalog.connection)
                lexicon.remove(lexicon.keys().tolist())
                catalog.set("generation", str(catalog.generation() + 1))
            catalog.connection.execute("VACUUM")
            shutil.rmtree(self.names.web.folder, ignore_errors=True)
            if derived is not None:
                with closing(derived):
                    derived.forget(catalog)

    def check_settings(self, before: Recipe) -> None:
        """Raises SettingsMismatch when the knowledge base was built by another recipe than the pipeline's."""
        other = before.differences(self._parts.recipe)
        if other:
            raise self._mismatch(other)

    def _run(self, session: WriteSession, roots: Sequence[Path], run: IndexRun, started: float) -> IndexReport:
        catalog, recipe = session.catalog, self._parts.recipe
        before = recipe_in(catalog, self.path)
        other = before.differences(recipe)
        if other and not run.rebuild:
            raise self._mismatch(other)
        if run.rebuild:
            roots = _merged(roots, self._sources(catalog.roots()))
        embedder = self._parts.embedder
        row, vectors = session.vectors_for(embedder.fingerprint, embedder.dimension)
        plan = self._plan(roots, catalog.files(), run, everything=bool(other))
        settled = {
            "recipe": recipe.to_json(),
            "embedder": embedder.fingerprint,
            "pipeline": self._parts.pipeline.to_yaml(),
            "pipeline_name": self._parts.pipeline.name,
            CHOSEN_FILES: _chosen_files(catalog, [*map(self.names.name, roots)], run),
        }
        lexicon = FtsLexicon(catalog.connection)
        stations = self._parts.stations(lexicon, run.runner(self._parts, run.jobs))
        meter = None if run.dry_run else current_meter()
        affordable = None if meter is None or meter.left_usd is None else Purse(meter, embedder).affordable
        named = tuple(map(self.names.name, roots))
        options = BuildOptions(str(self.path), run.dry_run, affordable, settled, named, run.known)
        generation = catalog.generation()
        build = Build(catalog, vectors, stations, options)
        with closing(build.events(plan)) as events:
            for event in events:
                run.on_event(event)
        if catalog.generation() != generation:
            vectors = compacted(session, row, vectors)
        notes = () if run.dry_run else self._sync_store(catalog, vectors)
        report = replace(build.report(plan, started), notes=notes)
        return replace(report, estimate=estimate_embedding(embedder, report.tokens)) if run.dry_run else report

    def _sync_store(self, catalog: Catalog, vectors: VectorFile) -> tuple[str, ...]:
        """Bring the vector store beside the catalog in line with it, when the pipeline names one; says what is not.

        Some stores can be open in one process only. While another one searches in it, the store stays as it is, and
        the catalog, which has everything, answers in its place.
        """
        derived = self._parts.derived(self.path)
        if derived is None:
            return ()
        try:
            with closing(derived):
                derived.sync(catalog, vectors.matrix())
        except Locked:
            name = self._parts.pipeline.store.name
            return (f"the store {name!r} is open in another process and was not brought in line: the catalog is"
                    " searched instead until the next run",)  # fmt: skip
        return ()

    def freshness(self, catalog: Catalog, seconds: float) -> Freshness:
        """What an index run like the last one would find, by a look at the folders; see `KnowledgeBase.freshness`."""
        chosen: dict[str, dict[str, list[str]]] = json.loads(catalog.get(CHOSEN_FILES) or "{}")
        roots = catalog.roots()
        walks = (
            self.walk(self.names.path(root), chosen[root].get("include", ()), chosen[root].get("exclude", ()))
            if root in chosen
            else self.walk(self.names.path(root))
            for root in roots
        )
        return look(chain.from_iterable(walks), roots, catalog.files(), self.digest, seconds, self.names.name)

    def _sources(self, roots: Iterable[str]) -> list[Path]:
        """Where the sources of the catalog lie. Raises LoadError for one that leads elsewhere by now."""
        return [self.names.path(root) if is_url(root) else _unmoved(self.names.path(root)) for root in roots]

    def walk(self, root: Path, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Iterator[Found | Skipped]:
        """The files of a source by the pipeline's rules, changed by those of one run."""
        folder = self._parts.folder
        folder = replace(folder, include=tuple(include) or folder.include, exclude=(*folder.exclude, *exclude))
        return self._walk(root, folder)

    def _plan(self, roots: Sequence[Path], known: Mapping[str, FileRow], run: IndexRun, *, everything: bool) -> Plan:
        found = chain.from_iterable(self.walk(root, run.include, run.exclude) for root in roots)
        options = PlanOptions(self._parts.recipe_of_row, self.digest, run.retry_failed, everything, self.names.name)
        return make_plan(found, [self.names.name(root) for root in roots], known, options)

    def _walk(self, root: Path, folder: FolderOptions) -> Iterator[Found | Skipped]:
        """The files of a source. The knowledge base itself is never one of them, but for the copies of pages."""
        own = str(self.path.resolve())
        for entry in walk(root, folder):
            if entry.path == root or not is_within(source_name(entry.path), own):
                yield entry

    def digest(self, path: Path) -> str:
        """Digest of a file's bytes."""
        return hash_of(read_bytes(path, None, int(self._parts.folder.max_file_mb * 2**20)))

    def _heal(self) -> tuple[str, ...]:
        """Build a damaged knowledge base again before it is written to; says so."""
        if not exists(self.path):
            return ()
        try:
            check_unsealed(self.path)
        except Damaged as error:
            return self.rebuild(str(error.path), error.reason)
        return ()

    def rebuild(self, what: str, reason: str) -> tuple[str, ...]:
        """Make everything again from the sources, with the vectors that can still be trusted."""
        with refusals(self.path, repair_command(self.path)), WriterLock(self.path):
            salvage = Salvage(self.path, self._parts.embedder.fingerprint)
            roots = self._sources(salvage.roots)
            gone = [root for root in roots if not root.exists()]
            if gone:
                raise LoadError(
                    str(gone[0]), "is gone, and the damaged knowledge base was built from it", "bring it back"
                )
            folder = self.path / REBUILD
            shutil.rmtree(folder, ignore_errors=True)
            with WriteSession(folder, self._parts.new_base) as session:
                self._refill(session, salvage)
                self._run(session, roots, IndexRun(), time.perf_counter())
            swap_in(self.path)
        kept = f"{len(salvage.hashes)} vectors were kept"
        return (f"{what} {reason}: built again from {len(roots)} sources, {kept}",)

    def refill_store(self, derived: Derived) -> tuple[str, ...]:
        """Empty the vector store beside the catalog and fill it again; says so."""
        embedder = self._parts.embedder
        with WriteSession(self.path) as session, closing(derived):
            _, vectors = session.vectors_for(embedder.fingerprint, embedder.dimension)
            derived.forget(session.catalog)
            count = derived.sync(session.catalog, vectors.matrix())
        return (f"the store {self._parts.pipeline.store.name!r}: emptied, and filled with {count:,} chunks",)

    def _refill(self, session: WriteSession, salvage: Salvage) -> None:
        embedder = self._parts.embedder
        with session.catalog.transaction():
            session.catalog.set("last_file", str(salvage.last_file))
        row, file = session.vectors_for(embedder.fingerprint, embedder.dimension)
        if salvage.rows is None or not len(salvage.rows):
            return
        first = file.append(salvage.rows)
        file.sync()
        with session.catalog.transaction():
            sums = file.checksums(first, len(salvage.hashes)).tolist()
            session.catalog.add_vectors(row.key, first, salvage.hashes, sums)

    def _dry_run_of_nothing(
        self, sources: Sequence[str | os.PathLike[str]], run: IndexRun, started: float
    ) -> IndexReport:
        """A dry run where there is no knowledge base yet: in a temporary one, so that none is left behind."""
        with TemporaryDirectory(prefix="ragkit-") as folder:
            scratch = Writing(Path(folder) / "kb", self._parts, self._ledger)
            roots, failures = scratch._roots(sources)
            with WriteSession(scratch.path, self._parts.new_base) as session:
                report = _with_failures(scratch._run(session, roots, run, started), failures)
            return replace(report, kb=str(self.path), usage=Meter().usage().to_dict())

    def _dry_run_with_pages(self, sources: Sequence[str | os.PathLike[str]], run: IndexRun) -> IndexReport:
        """A dry run that fetches pages: beside the copies that citations are checked against, not over them."""
        with TemporaryDirectory(prefix="ragkit-") as folder:
            scratch = Writing(self.path, self._parts, self._ledger)
            scratch.names = Names(Path(folder).resolve() / WEB)
            roots, failures = scratch._roots(sources)
            return _with_failures(scratch.index(roots, run), failures)

    def _mismatch(self, differences: Sequence[str]) -> SettingsMismatch:
        fix = f"`ragkit index --rebuild --kb {self.path}` with the settings that you want"
        return SettingsMismatch(str(self.path), differences, fix)


CHOSEN_FILES = "chosen-files"
"""Where the catalog keeps which files a run was told to take from a source, beside what the pipeline says."""


def _chosen_files(catalog: Catalog, roots: Sequence[str], run: IndexRun) -> str:
    """What is written down there: source -> include and exclude of its last run, as JSON."""
    chosen: dict[str, object] = json.loads(catalog.get(CHOSEN_FILES) or "{}")
    for root in roots:
        chosen.pop(root, None)
        if run.include or run.exclude:
            chosen[root] = {"include": list(run.include), "exclude": list(run.exclude)}
    return json.dumps(chosen, sort_keys=True)


def _with_failures(report: IndexReport, failures: Sequence[Failure]) -> IndexReport:
    """The report with what could not be fetched."""
    if not failures:
        return report
    files = {**report.files, "failed": report.files["failed"] + len(failures)}
    return replace(report, files=files, failures=(*report.failures, *failures))


def _root(source: str | os.PathLike[str], recorded: Collection[str]) -> Path:
    path = Path(os.path.abspath(source))  # noqa: PTH100 - without following links
    if not Path(source).exists():
        raise LoadError(str(source), "does not exist", "name a folder or a file that does")
    return _unmoved(path) if source_name(path) in recorded else Path(source).resolve()


def _unmoved(root: Path) -> Path:
    """The path of a source that is in the knowledge base already: recorded without links, it must still have none.

    A link that was put in its place, or above it, would bring in what nobody has named.
    """
    if root.exists() and root.resolve() != root:
        hint = "if it should, take it out with `ragkit rm`, and index it again"
        raise LoadError(str(root), f"leads to {root.resolve()} by now, through a link", hint)
    return root


def _merged(named: Sequence[Path], known: Sequence[Path]) -> list[Path]:
    """The named sources and the known ones that still exist, none twice."""
    return list(dict.fromkeys([*named, *(path for path in known if path.exists())]))
