"""Runs the stored jobs, one at a time among all processes of the server, in a thread beside the searches."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ragkit.agent.runtime.background_tasks import THREAD_POOL
from ragkit.errors import (
    BudgetExceeded,
    BudgetTooSmall,
    DatabaseFailed,
    KnowledgeBaseLocked,
    NotAKnowledgeBase,
    PriceUnknown,
    RagkitError,
)
from ragkit.index.progress import RunProgress
from ragkit.index.report import FileRead, IndexEvent, IndexReport, PlanCreated, TextsEmbedded
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.writing import Writer
from ragkit.masking import mask_secrets
from ragkit.records import JSON
from ragkit.server.state.job_store import Job, JobRequest, JobStatus, JobStore
from ragkit.server.state.uploads import UploadFolder

T = TypeVar("T")

LOG = logging.getLogger("ragkit.server.jobs")
SAVE_INTERVAL_S = 0.25
"""Seconds between two saves of the progress of a job."""
IDLE_INTERVAL_S = 1.0
"""Seconds between two looks for jobs of other processes."""
LOCK_INTERVAL_S = 1.0
"""Seconds between two attempts while another process writes to the knowledge base."""
DATABASE_WAIT_S = 300.0
"""How long a job tries again when the database failed: a standby may take over."""
MAX_FAILURES = 100
"""Failures that are listed; the report counts all."""


class JobStopped(RagkitError):
    """Ends the work of a job that was cancelled, or whose server stops."""


@dataclass
class JobProgress:
    """What a job has done. The thread of the job writes it, and the event loop reads it."""

    phase: str = "starting"
    """starting, waiting (another process writes), reading, writing."""
    run: RunProgress = field(default_factory=RunProgress)
    """Files, chunks and texts so far, and how long the rest takes."""
    failures: list[JSON] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    """Set to end the job after the current file or batch."""

    def handle_event(self, event: IndexEvent) -> None:
        """Count an event. Raises JobStopped."""
        self.run.handle_event(event)
        if isinstance(event, PlanCreated):
            self.phase = "reading"
        elif isinstance(event, FileRead):
            if event.error and len(self.failures) < MAX_FAILURES:
                failure: JSON = {"source": display_name(event.source), "error": event.error, "hint": event.hint}
                self.failures.append(failure)
        elif not isinstance(event, TextsEmbedded) and self.run.is_complete:
            self.phase = "writing"  # a first build publishes documents while it reads and embeds others
        self.check()

    def check(self) -> None:
        """Raises JobStopped if the job must end."""
        if self.stop.is_set():
            raise JobStopped("the job was stopped")

    def to_json(self) -> dict[str, JSON]:
        """The progress and failures, as in JobSchema."""
        left = self.run.seconds_left
        progress: dict[str, JSON] = {
            "phase": self.phase,
            "files": self.run.files,
            "files_read": self.run.files_read,
            "chunks": self.run.chunks,
            "embedded": self.run.embedded,
            "share": round(self.run.share, 4),
            "seconds_left": None if left is None else round(left, 1),
        }
        return {"progress": progress, "failures": list(self.failures)}


@dataclass(frozen=True)
class JobResult:
    """How a job ended."""

    status: JobStatus
    report: IndexReport | None = None
    error: RagkitError | None = None
    estimate_usd: float | None = None

    def to_json(self) -> dict[str, JSON]:
        """The report, error and estimate, as in JobSchema."""
        error: JSON = None
        if self.error is not None:
            code = "needs_confirmation" if self.status == "needs_confirmation" else "job_failed"
            error = {"message": mask_secrets(str(self.error)), "code": code}
        return {
            "report": None if self.report is None else _report_json(self.report),
            "error": error,
            "estimate_usd": self.estimate_usd,
        }


class JobRunner:
    """Runs the jobs of a store until it is closed."""

    def __init__(
        self,
        store: JobStore,
        open_writer: Callable[[], Writer],
        uploads: UploadFolder,
        is_busy: Callable[[], bool] | None = None,
    ) -> None:
        """`is_busy`: whether requests are running. Without jobs and requests, what has no vector yet is embedded; None:
        never."""
        self._store, self._open_writer, self._uploads, self._is_busy = store, open_writer, uploads, is_busy
        self._wake = asyncio.Event()
        self._running: tuple[str, JobProgress] | None = None
        """The id of the running job, and its progress."""
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Look for a job now."""
        self._wake.set()

    def cancel(self, job: str) -> None:
        """Stop a cancelled job at once if it runs here; other processes notice when they save its progress."""
        if self._running is not None and self._running[0] == job:
            self._running[1].stop.set()
        self.wake()

    async def close(self, seconds: float) -> None:
        """Stop after the current file or batch, at most after `seconds`. The job goes on with the next server."""
        self._closing = True
        if self._running is not None:
            self._running[1].stop.set()
        self.wake()
        await asyncio.wait((self._task,), timeout=seconds)
        self._task.cancel()

    async def _run(self) -> None:
        while not self._closing:
            self._wake.clear()
            try:
                job = await self._store.claim()
                if job is not None:
                    await self._run_job(job)
                    continue
            except Exception:  # boundary: the other jobs must go on
                LOG.exception("a job could not be stored")
            try:
                async with asyncio.timeout(IDLE_INTERVAL_S):
                    await self._wake.wait()
            except TimeoutError:
                if self._is_busy is not None and not self._is_busy():
                    await asyncio.wrap_future(THREAD_POOL.submit(self._embed_remaining))

    def _embed_remaining(self) -> None:
        """Embed the chunks that have no vector yet, until there is a job or a request."""
        try:
            with self._open_writer() as writer:
                writer.embed_remaining(self._must_stop_embedding)
        except RagkitError as error:  # for example, another process writes
            LOG.debug("the remaining chunks could not be embedded: %s", error)
        except Exception:  # boundary: the jobs must go on
            LOG.exception("the remaining chunks could not be embedded")

    def _must_stop_embedding(self) -> bool:
        return self._wake.is_set() or self._closing or self._is_busy is None or self._is_busy()

    async def _run_job(self, job: Job) -> None:
        progress = JobProgress()
        self._running = (job.id, progress)
        LOG.info("job %s started", job.request.kind, extra={"job": job.id})
        work = asyncio.wrap_future(THREAD_POOL.submit(lambda: self._work(job, progress)))
        cancelled = job.cancel
        while not work.done():
            if cancelled or self._closing:
                progress.stop.set()
            await asyncio.wait((work,), timeout=SAVE_INTERVAL_S)
            try:
                cancelled = await self._store.update(job.id, progress.to_json())
            except DatabaseFailed as error:  # the work goes on as far as it can
                LOG.debug("the progress of a job could not be stored: %s", error, extra={"job": job.id})
        result = work.result()
        if isinstance(result.error, JobStopped):
            result = JobResult("queued" if self._closing and not cancelled else "cancelled")
        state = {**progress.to_json(), **result.to_json()}
        report = state["report"]
        if isinstance(report, dict) and report["failures"]:
            state["failures"] = report["failures"]
        while True:
            try:
                await self._store.finish(job.id, result.status, state)
                break
            except DatabaseFailed as error:
                LOG.warning("the end of a job could not be stored: %s", error, extra={"job": job.id})
                if self._closing:
                    break  # the next server resumes it
                await asyncio.sleep(LOCK_INTERVAL_S)
        self._running = None
        LOG.info("job %s: %s", job.request.kind, result.status, extra={"job": job.id})

    def _work(self, job: Job, progress: JobProgress) -> JobResult:
        """Do the work of a job, again and again while another process writes, or the database cannot be reached."""
        failed_at: float | None = None
        while True:
            try:
                progress.check()
                if failed_at is not None and self._is_lost(job, progress):
                    raise JobStopped("another server took the job over")
                return self._attempt(job, progress)
            except KnowledgeBaseLocked as error:
                _wait_before_retry(job, progress, error)
            except DatabaseFailed as error:
                failed_at = failed_at or time.monotonic()
                if time.monotonic() - failed_at > DATABASE_WAIT_S:
                    return JobResult("failed", error=error)
                _wait_before_retry(job, progress, error)
            except BudgetTooSmall as error:
                return JobResult("needs_confirmation", error=error, estimate_usd=error.estimate)
            except (BudgetExceeded, PriceUnknown) as error:
                return JobResult("needs_confirmation", error=error)
            except RagkitError as error:
                return JobResult("failed", error=error)
            except Exception:  # boundary: a job
                LOG.exception("a job failed", extra={"job": job.id})
                return JobResult("failed", error=RagkitError("internal error: see the log of the server"))

    def _is_lost(self, job: Job, progress: JobProgress) -> bool:
        """Whether the job must not go on here. Raises DatabaseFailed."""
        update = self._store.update(job.id, progress.to_json())
        return asyncio.run_coroutine_threadsafe(update, self._loop).result()

    def _attempt(self, job: Job, progress: JobProgress) -> JobResult:
        request = job.request
        with self._open_writer() as writer:
            if request.removes:
                try:
                    self._remove(writer, request)
                except NotAKnowledgeBase:
                    LOG.info("nothing to remove: there is no knowledge base yet")
            if not request.index:
                return JobResult("done")
            if str(self._uploads.folder) in request.index:
                self._uploads.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            dry_run = request.kind == "dry_run"
            options = IndexOptions(
                dry_run=dry_run,
                retry_failed=request.retry_failed,
                again=request.again,
                max_cost_usd=None if dry_run else request.max_cost_usd,
                on_event=progress.handle_event,
            )
            report = writer.index(request.index, options)
        return JobResult("done", report, estimate_usd=_estimated_usd(report))

    def _remove(self, writer: Writer, request: JobRequest) -> None:
        """Delete the uploads of a request, then what is indexed of them. It may have been interrupted before."""
        if request.documents:
            kept = self._wait_for(self._uploads.delete(request.documents))
            writer.remove_documents({seen.source: seen.id for seen in request.documents if seen.source not in kept})
        if request.uploads_until is not None:
            self._wait_for(self._uploads.delete_until(request.uploads_until))
            folder = str(self._uploads.folder)
            writer.remove_outdated(folder)
            if not any(self._uploads.files()):
                writer.remove(folder)
        if request.remove:
            writer.remove(*request.remove)

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _wait_before_retry(job: Job, progress: JobProgress, error: RagkitError) -> None:
    if progress.phase != "waiting":
        LOG.info("job %s waits: %s", job.request.kind, error, extra={"job": job.id})
    progress.phase = "waiting"
    progress.stop.wait(LOCK_INTERVAL_S)


def _estimated_usd(report: IndexReport) -> float | None:
    """The estimated cost of a dry run; None if a price is unknown, or the run was none."""
    if report.estimate is None:
        return None
    costs = [report.estimate.cost_usd, *(estimate.cost_usd for estimate in report.context_estimates)]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _report_json(report: IndexReport) -> dict[str, JSON]:
    """As `index --json`, with the names of sources to display."""
    failures = tuple(replace(failure, source=display_name(failure.source)) for failure in report.failures)
    skipped = tuple((display_name(source), reason) for source, reason in report.skipped)
    return replace(report, failures=failures[:MAX_FAILURES], skipped=skipped[:MAX_FAILURES]).to_json()
