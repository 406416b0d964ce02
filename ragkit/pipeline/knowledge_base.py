"""A knowledge base as one object: index folders into it, search it, ask it, look after it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ragkit.agent.config import AgentConfig
from ragkit.agent.memory import ConversationMemory
from ragkit.answer.agent import RAGAgent, RAGOptions
from ragkit.answer.base import Answer
from ragkit.embed.base import Probing
from ragkit.errors import Damaged, LoadError, SettingsMismatch
from ragkit.index.build import Build, BuildOptions
from ragkit.index.catalog import Catalog, FileRow
from ragkit.index.home import exists, open_catalog
from ragkit.index.lock import WriterLock
from ragkit.index.names import is_within, source_name, source_path
from ragkit.index.plan import Plan, PlanOptions, make_plan
from ragkit.index.reader import Reader, View
from ragkit.index.recipe import Recipe, check_weights
from ragkit.index.repair import REBUILD, Salvage, swap_in
from ragkit.index.report import Event, IndexReport
from ragkit.index.session import WriteSession
from ragkit.index.verify import Verification, verify
from ragkit.load.files import FileStat, read_bytes
from ragkit.load.parse import hash_of
from ragkit.load.walk import FolderOptions, Found, Skipped, walk
from ragkit.pipeline.assemble import Assembly
from ragkit.pipeline.providers import model_name, provider_for
from ragkit.pipeline.settings import Pipeline
from ragkit.records import JSON, Chunk, Document, Hit
from ragkit.retrieve.base import Explanation
from ragkit.retrieve.fts import FtsLexicon
from ragkit.usage.limits import Limits
from ragkit.usage.meter import Meter, metered

Mode = Literal["dense", "lexical", "hybrid"]
Where = Mapping[str, JSON] | None


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
    """Worker processes that read files; 0: one for each core."""
    spend: Callable[[int], None] | None = None
    """Called with the tokens of a window before it is embedded; raises BudgetExceeded to stop the run."""
    on_event: Callable[[Event], None] = lambda event: None
    """Told of every step."""


@dataclass(frozen=True)
class Status:
    """What is in a knowledge base."""

    kb: str
    pipeline: str
    generation: int
    files: int
    failed: int
    documents: int
    chunks: int
    vectors: int
    bytes: int
    """On disk."""
    sources: tuple[str, ...]
    """What was named when it was indexed."""
    settings: Mapping[str, JSON]
    stale: int
    """Indexed files that have changed, or are gone, since."""


class KnowledgeBase:
    """One index of some folders, in a directory of its own. Made by `open`; safe to search from many threads."""

    def __init__(self, path: Path, pipeline: Pipeline) -> None:
        self.path = path
        self.pipeline = pipeline
        self._parts = Assembly(pipeline)
        self._reader: Reader | None = None
        self._weights_are_known = False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        pipeline: Pipeline | str | os.PathLike[str] | None = None,
        *,
        check: bool = True,
    ) -> KnowledgeBase:
        """The knowledge base in the directory `path`; it is made there by the first `index`.

        Args:
            path: its directory.
            pipeline: a Pipeline, the path of a pipeline file, or the name of a ready-made one. None: the settings
                that the knowledge base was built with, or the default ones when there is none yet.
            check: hold `pipeline` against the settings that the knowledge base was built with.

        Raises:
            SettingsMismatch: it was built with other loader, splitter or embedder settings.
            PipelineError: the pipeline file cannot be used.
            Damaged: a file of the knowledge base is missing, cut short, foreign or altered.
        """
        directory = Path(path)
        stored = _stored_settings(directory) if exists(directory) else None
        if isinstance(pipeline, Pipeline):
            chosen = pipeline
        elif pipeline is not None:
            chosen = Pipeline.load(Path(pipeline) if isinstance(pipeline, os.PathLike) else pipeline)
        else:
            chosen = Pipeline.from_yaml(stored[1]) if stored else Pipeline.default()
        kb = cls(directory, chosen)
        if check and stored is not None and pipeline is not None:
            kb._check_settings(Recipe.from_json(stored[0]))
        return kb

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def require(self) -> None:
        """Raises NotAKnowledgeBase when nothing has been indexed here yet."""
        if not exists(self.path):
            open_catalog(self.path)

    def close(self) -> None:
        """Let go of every file."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # indexing

    def index(self, *sources: str | os.PathLike[str], run: IndexRun | None = None) -> IndexReport:
        """Bring the knowledge base in line with folders and files. What is not named stays as it is.

        Raises:
            LoadError: a source does not exist.
            SettingsMismatch: the knowledge base was built with other settings, and `run.rebuild` is not set.
            Locked: another process writes to it.
            BudgetExceeded: `run.spend` said so; what was embedded is kept.
        """
        run = run or IndexRun()
        started = time.perf_counter()
        roots = [_root(source) for source in sources]
        if run.dry_run and not exists(self.path):
            return self._dry_run_of_nothing(roots, run, started)
        notes = self._heal()
        meter = Meter()
        with metered(meter), WriteSession(self.path, self._parts.new_base) as session:
            report = self._run(session, roots, run, started)
        return replace(report, notes=notes, usage=meter.usage().to_dict())

    def _run(self, session: WriteSession, roots: Sequence[Path], run: IndexRun, started: float) -> IndexReport:
        catalog, recipe = session.catalog, self._parts.recipe
        before = Recipe.from_json(catalog.get("recipe") or "")
        other = before.differences(recipe)
        if other and not run.rebuild:
            raise self._mismatch(other)
        if run.rebuild:
            roots = _merged(roots, [Path(root) for root in catalog.roots()])
        embedder = self._parts.embedder
        _, vectors = session.vectors_for(embedder.fingerprint, embedder.dimension)
        plan = self._plan(roots, catalog.files(), run, everything=bool(other))
        settled = {
            "recipe": recipe.to_json(),
            "embedder": embedder.fingerprint,
            "pipeline": self.pipeline.to_yaml(),
        }
        lexicon = FtsLexicon(catalog.connection)
        stations = self._parts.stations(lexicon, run.jobs)
        options = BuildOptions(str(self.path), run.dry_run, run.spend, settled, tuple(map(source_name, roots)))
        build = Build(catalog, vectors, stations, options)
        for event in build.events(plan):
            run.on_event(event)
        return build.report(plan, started)

    def _plan(self, roots: Sequence[Path], known: Mapping[str, FileRow], run: IndexRun, *, everything: bool) -> Plan:
        folder = self._parts.folder
        folder = replace(folder, include=run.include or folder.include, exclude=(*folder.exclude, *run.exclude))
        found = chain.from_iterable(self._walk(root, folder) for root in roots)
        options = PlanOptions(self._parts.recipe_of_row, self._hash, run.retry_failed, everything)
        return make_plan(found, [source_name(root) for root in roots], known, options)

    def _walk(self, root: Path, folder: FolderOptions) -> Iterator[Found | Skipped]:
        """The files of a source. The knowledge base itself is never one of them."""
        own = str(self.path.resolve())
        for entry in walk(root, folder):
            if not is_within(source_name(entry.path), own):
                yield entry

    def _hash(self, path: Path) -> str:
        """Digest of a file's bytes."""
        return hash_of(read_bytes(path, None, int(self._parts.folder.max_file_mb * 2**20)))

    def _heal(self) -> tuple[str, ...]:
        """Build a damaged knowledge base again before it is written to; says so."""
        if not exists(self.path):
            return ()
        try:
            open_catalog(self.path).close()
        except Damaged as error:
            return self._rebuild(str(error.path), error.reason)
        return ()

    def _rebuild(self, what: str, reason: str) -> tuple[str, ...]:
        """Make everything again from the sources, with the vectors that can still be trusted."""
        with WriterLock(self.path):
            salvage = Salvage(self.path, self._parts.embedder.fingerprint)
            roots = [Path(root) for root in salvage.roots]
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
            self.close()
            swap_in(self.path)
        kept = f"{len(salvage.hashes)} vectors were kept"
        return (f"{what} {reason}: built again from {len(roots)} sources, {kept}",)

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

    def _dry_run_of_nothing(self, roots: Sequence[Path], run: IndexRun, started: float) -> IndexReport:
        """A dry run where there is no knowledge base yet: in a temporary one, so that none is left behind."""
        with TemporaryDirectory(prefix="ragkit-") as folder:
            scratch = KnowledgeBase(Path(folder) / "kb", self.pipeline)
            with WriteSession(scratch.path, self._parts.new_base) as session:
                return replace(scratch._run(session, roots, run, started), kb=str(self.path))

    # reading

    @property
    def reader(self) -> Reader:
        """The open read side."""
        if self._reader is None:
            self._reader = Reader(self.path, FtsLexicon)
        return self._reader

    def search(
        self, question: str, top_k: int | None = None, where: Where = None, mode: Mode | None = None
    ) -> list[Hit]:
        """The chunks that speak of a question, best first.

        Args:
            question: in plain words.
            top_k: how many, at least 1; None: as the pipeline says.
            where: a filter in the one filter language.
            mode: `dense`, `lexical` or `hybrid`; None: as the pipeline says.

        Raises:
            NotAKnowledgeBase, Damaged, InvalidFilter.
        """
        with self.reader.view() as view:
            self._same_weights(view)
            return self._parts.retriever(view, mode).retrieve(question, top_k, where)

    def explain(
        self, question: str, top_k: int | None = None, where: Where = None, mode: Mode | None = None
    ) -> list[Explanation]:
        """The same as `search`, each hit with the reasons for its place."""
        with self.reader.view() as view:
            self._same_weights(view)
            return self._parts.retriever(view, mode).explain(question, top_k, where)

    def agent(
        self, model: str | None = None, max_cost_usd: float | None = None, memory: ConversationMemory | None = None
    ) -> RAGAgent:
        """The agent that answers from this knowledge base, for use beside other agents or with other tools.

        Args:
            model: `provider:model`; None: as the pipeline says.
            max_cost_usd: what one answer may cost; None: as the pipeline says.
            memory: the conversation that it keeps, if any.
        """
        answer = self.pipeline.answer
        provider = provider_for(model or answer.provider, self)
        limit = answer.max_cost_usd if max_cost_usd is None else max_cost_usd
        limits = Limits(max_cost_usd=limit) if provider.remote else Limits()
        config = AgentConfig(
            model=model_name(model or answer.provider), max_iterations=answer.max_iterations, limits=limits
        )
        return RAGAgent(self, provider, config, RAGOptions(self._parts.top_k), memory)

    def ask(
        self,
        question: str,
        *,
        model: str | None = None,
        max_cost_usd: float | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Answer:
        """A cited answer. Without a model's key it is made of sentences of the documents.

        Args:
            question: in plain words.
            model: `provider:model`; None: as the pipeline says.
            max_cost_usd: stop before more is spent; None: as the pipeline says.
            on_text: called with each piece of the answer as it comes.

        Raises:
            NotAKnowledgeBase, Damaged, ProviderError, BudgetExceeded, RunError.
        """
        self.require()
        return self.agent(model, max_cost_usd).ask(question, on_text=on_text)

    def chat(self, *, model: str | None = None, max_cost_usd: float | None = None) -> RAGAgent:
        """An agent that keeps the conversation: ask it one question after the other."""
        self.require()
        return self.agent(model, max_cost_usd, ConversationMemory())

    def chunks(self) -> Iterator[Chunk]:
        """Every chunk, by source and place in it."""
        with self.reader.view() as view:
            yield from view.all_chunks()

    def documents(self) -> list[tuple[str, str, int]]:
        """(source, title, number of chunks) of every document, by source."""
        with self.reader.view() as view:
            return list(view.documents())

    def document(self, source: str) -> Document | None:
        """The document of a source, with the text that was indexed; None when there is none."""
        with self.reader.view() as view:
            return view.document(source)

    def chunk(self, chunk_id: str) -> Chunk | None:
        """The chunk with this id; None when there is none."""
        with self.reader.view() as view:
            return view.find_chunk(chunk_id)

    def failures(self) -> list[FileRow]:
        """The files that could not be indexed, by source."""
        with self.reader.view() as view:
            return [row for row in Catalog(view.connection).files().values() if row.status == "failed"]

    def status(self) -> Status:
        """What is in it."""
        with self.reader.view() as view:
            catalog = Catalog(view.connection)
            files = catalog.files().values()
            return Status(
                kb=str(self.path),
                pipeline=self.pipeline.name,
                generation=catalog.generation(),
                files=sum(row.status == "indexed" for row in files),
                failed=sum(row.status == "failed" for row in files),
                documents=sum(1 for _ in view.documents()),
                chunks=len(view.arrays.keys),
                vectors=len(view.arrays.matrix),
                bytes=sum(path.stat().st_size for path in self.path.iterdir() if path.is_file()),
                sources=tuple(catalog.roots()),
                settings=asdict(Recipe.from_json(catalog.get("recipe") or "")),
                stale=sum(row.status == "indexed" and self._is_changed(row) for row in files),
            )

    def _same_weights(self, view: View) -> None:
        """Once: is the embedder the one that the vectors are from? Only where asking costs nothing."""
        embedder = self._parts.embedder
        if not self._weights_are_known and isinstance(embedder, Probing):
            row = Catalog(view.connection).embedder(embedder.fingerprint)
            if row is not None and row.probe is not None:
                check_weights(str(self.path), row.probe, embedder.probe())
        self._weights_are_known = True

    # what answering asks for

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """How rare each term is among the chunks: (len(terms),)."""
        with self.reader.view() as view:
            return FtsLexicon(view.connection).idf(terms)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit rows of some texts: (len(texts), dimension)."""
        return self._parts.embedder.embed_texts(texts)

    def embed_question(self, question: str) -> NDArray[np.float32]:
        """The unit row of a question: (dimension,)."""
        return self._parts.embedder.embed_query(question)

    def is_stale(self, source: str) -> bool:
        """Whether the file on disk is not the one that was indexed, or is gone."""
        with self.reader.view() as view:
            row = Catalog(view.connection).file(source)
        return row is None or self._is_changed(row)

    def _is_changed(self, row: FileRow) -> bool:
        path = source_path(row.source)
        try:
            stat = FileStat.of(path.stat())
            if (stat.size, stat.mtime_ns, stat.ctime_ns, stat.inode) == (
                row.size,
                row.mtime_ns,
                row.ctime_ns,
                row.inode,
            ):
                return False
            return stat.size != row.size or self._hash(path) != row.content_hash
        except (OSError, LoadError):
            return True

    # looking after

    def remove(self, *sources: str | os.PathLike[str]) -> int:
        """Take files out, and folders with all below them; returns how many documents went.

        They come back when a folder that holds them is indexed again.
        """
        names = [source_name(Path(source).absolute()) for source in sources]
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
        return len(documents)

    def clear(self) -> None:
        """Take everything out: files, chunks and vectors. The directory stays a knowledge base, an empty one."""
        with WriteSession(self.path) as session:
            catalog = session.catalog
            with catalog.transaction():
                for table in ("roots", "files", "documents", "chunks", "vectors", "embedders"):
                    catalog.connection.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours
                lexicon = FtsLexicon(catalog.connection)
                lexicon.remove(lexicon.keys().tolist())
                catalog.set("generation", str(catalog.generation() + 1))
            catalog.connection.execute("VACUUM")

    def verify(self, *, repair: bool = False) -> Verification:
        """Read everything and say what is wrong; with `repair`, make again what is."""
        found = verify(self.path, FtsLexicon)
        if found.sound or not repair:
            return found
        first = found.problems[0]
        done = self._rebuild(first.part, first.what)
        return replace(verify(self.path, FtsLexicon), repaired=done)

    def _check_settings(self, before: Recipe) -> None:
        other = before.differences(self._parts.recipe)
        if other:
            raise self._mismatch(other)

    def _mismatch(self, differences: Sequence[str]) -> SettingsMismatch:
        fix = f"`ragkit index --rebuild --kb {self.path}` with the settings that you want"
        return SettingsMismatch(str(self.path), differences, fix)


def stored_pipeline(directory: Path) -> str | None:
    """The pipeline file that a knowledge base was built with, as text; None when there is none."""
    stored = _stored_settings(directory) if exists(directory) else None
    return stored[1] if stored else None


def _stored_settings(directory: Path) -> tuple[str, str] | None:
    """The recipe and the pipeline file that a knowledge base was built with; None when it is damaged."""
    try:
        connection = open_catalog(directory, check_seal=False)
    except Damaged:
        return None
    catalog = Catalog(connection)
    recipe, pipeline = catalog.get("recipe"), catalog.get("pipeline")
    connection.close()
    return (recipe, pipeline) if recipe and pipeline else None


def _root(source: str | os.PathLike[str]) -> Path:
    path = Path(source)
    if not path.exists():
        raise LoadError(str(source), "does not exist", "name a folder or a file that does")
    return path.resolve()


def _merged(named: Sequence[Path], known: Sequence[Path]) -> list[Path]:
    """The named sources and the known ones that still exist, none twice."""
    return list(dict.fromkeys([*named, *(path for path in known if path.exists())]))
