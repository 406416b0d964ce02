"""Move a knowledge base between directories and databases without embedding, and verify the copy of a database."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ragkit.errors import InvalidOption, NotAKnowledgeBase
from ragkit.index.access.rules import AccessSettings
from ragkit.index.access.stores import AccessFile, AccessTable, copy_access
from ragkit.index.catalog.database_url import DatabaseUrl, is_database_url
from ragkit.index.catalog.directory import (
    CATALOG_FILE,
    NewKnowledgeBase,
    knowledge_base_exists,
    open_catalog,
    place_name,
    write_place,
)
from ragkit.index.catalog.lock import WriterLock
from ragkit.index.catalog.schema import open_connection
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.external_store import ExternalStore
from ragkit.index.replica import clone_directory, forget_database, write_position
from ragkit.index.replica_changes import start_recording
from ragkit.index.verify import VerificationProblem, VerificationReport, verify
from ragkit.knowledge_base.copying.migrate import CopyReport
from ragkit.knowledge_base.shared import SharedKnowledgeBase, Writer
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline

_LOCAL_STORE_NOTE = "the store {!r} is in files of this machine: the copy searches its own vectors"


def copy_knowledge_base(
    source: Path, store: str, target: str | os.PathLike[str], access: AccessSettings, *, overwrite: bool
) -> CopyReport:
    """Copy a directory (of a database: the local copy) with the store `store`; see `KnowledgeBase.copy_to`.

    `access`: its users and rules; those of the target stay if they are empty.
    """
    started = time.perf_counter()
    with closing(open_catalog(source)) as connection:
        chunks = int(connection.execute("SELECT count(*) FROM chunks WHERE live = 1").fetchone()[0])
    notes: tuple[str, ...] = ()
    if isinstance(target, str) and is_database_url(target):
        with closing(SharedKnowledgeBase(DatabaseUrl.parse(target))) as shared:
            notes = _copy_to_database(source, shared, access, overwrite=overwrite)
            place = str(shared.url)
    else:
        _copy_to_directory(source, Path(target), access, overwrite=overwrite)
        place = str(target)
    report = CopyReport(place_name(source), store, place, chunks, chunks, None, 0, 1.0, (), notes, 0, 0.0)
    return replace(report, seconds=time.perf_counter() - started)


def _copy_to_database(
    source: Path, shared: SharedKnowledgeBase, access: AccessSettings, *, overwrite: bool
) -> tuple[str, ...]:
    """Publish everything that a directory holds, in one transaction."""
    with closing(open_catalog(source, verify_checksums=False)) as connection:
        catalog = Catalog(connection)
        pipeline = Pipeline.from_yaml(catalog.get_meta("pipeline") or "extends: default\n")
        fingerprint = catalog.get_meta("recipe") or "{}"
    state = shared.database.create()
    documents = shared.database.count_rows()[0]
    if documents and not overwrite:
        raise InvalidOption("--to-kb", str(shared.url), f"an empty knowledge base: it holds {documents} documents")
    if access != AccessSettings():  # before anybody can read the documents
        with closing(AccessTable(shared.url)) as table:
            table.update(lambda _: access)
    notes: tuple[str, ...] = ()
    new_base = NewKnowledgeBase(fingerprint, lambda connection: Bm25Index(connection).create_tables())
    with shared.write(new_base) as writer:
        state = shared.database.state() or state
        with WriterLock(source):
            clone_directory(source, writer.directory)
        write_place(writer.directory, str(shared.url))
        if PipelineComponents(pipeline).has_local_store:
            notes = (_LOCAL_STORE_NOTE.format(pipeline.store.name),)
            pipeline = Pipeline.from_yaml(pipeline.to_yaml(), overrides=("store={name: sqlite}",))
        _prepare_clone(writer, pipeline, state.id, state.version)
        writer.publish(last=True, everything=True)
    return notes


def _prepare_clone(writer: Writer, pipeline: Pipeline, identity: str, version: int) -> None:
    with closing(open_connection(writer.directory / CATALOG_FILE)) as connection:
        catalog = Catalog(connection)
        with catalog.transaction():
            catalog.set_settings({"pipeline": pipeline.to_yaml()})
            write_position(catalog, identity, version)
            connection.execute("DROP TABLE IF EXISTS changed")
            start_recording(connection)


def _copy_to_directory(source: Path, target: Path, access: AccessSettings, *, overwrite: bool) -> None:
    if target.exists() and not target.is_dir():
        raise NotAKnowledgeBase(str(target), "is a file", "name a directory")
    if knowledge_base_exists(target) and not overwrite:
        raise InvalidOption("--to-kb", str(target), "a directory without a knowledge base, or --overwrite")
    if target.exists() and any(target.iterdir()) and not knowledge_base_exists(target):
        raise NotAKnowledgeBase(str(target), "holds other files", "name a new directory")
    new = target.with_name(f"{target.name}.new")
    with WriterLock(source):
        clone_directory(source, new)
    copy_access(access if access != AccessSettings() else AccessFile(target).read(), new)
    if target.exists():
        with WriterLock(target):
            shutil.rmtree(target)
    new.rename(target)
    forget_database(target)


def verify_shared(shared: SharedKnowledgeBase, store: ExternalStore | None, *, repair: bool) -> VerificationReport:
    """Verify the local copy, and compare it with the database. `repair` fetches the copy again."""
    shared.refresh()
    report = _verify_once(shared, store)
    if report.is_sound or not repair or not shared.database.state():
        return report
    shared.replica.refetch(shared.database)
    return replace(_verify_once(shared, store), repaired=("the local copy was fetched from the database again",))


def _verify_once(shared: SharedKnowledgeBase, store: ExternalStore | None) -> VerificationReport:
    report = verify(shared.directory, Bm25Index, store)
    if report.problems:
        return report
    with closing(open_catalog(shared.directory, verify_checksums=False)) as connection:
        query = (
            "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM chunks),"
            " (SELECT coalesce(sum(checksum), 0) FROM documents) + (SELECT coalesce(sum(checksum), 0) FROM chunks)"
        )
        here = connection.execute(query).fetchone()
    there = shared.database.count_rows()
    if tuple(here) == there:
        return report
    message = f"the local copy has {here[0]} documents and {here[1]} chunks, the database {there[0]} and {there[1]}"
    problem = VerificationProblem("catalog", f"{message}, or their checksums differ")
    return replace(report, problems=(problem,))
