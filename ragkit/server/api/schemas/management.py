"""Requests and responses of the routes that change the knowledge base."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, StrictBool
from typing_extensions import TypedDict

from ragkit.server.api.schemas.requests import RequestBody
from ragkit.server.state.job_store import JobStatus

MaxCost = Annotated[float | None, Field(ge=0, le=1_000_000, allow_inf_nan=False)]


class BaseNameBody(RequestBody):
    """The name of a knowledge base."""

    name: str = Field(max_length=40, description="The new name: small letters, digits, `-` and `_`.")


class AddSourceBody(RequestBody):
    """A source to add: `path` or `url`."""

    path: str | None = Field(None, max_length=4000, description="A folder or file of the machine of the server.")
    url: str | None = Field(None, max_length=4000, description="A web page.")


class StartJobBody(RequestBody):
    """A job over sources that are known."""

    sources: list[str] = Field(default_factory=list, max_length=1000, description="Ids of sources; empty: all.")
    dry_run: StrictBool = Field(False, description="Only estimate: what would be read and embedded, and its cost.")
    retry_failed: StrictBool = Field(False, description="Read unchanged files that failed before again.")


class ResumeJobBody(RequestBody):
    """Confirms the cost of a job, or starts one again that was cancelled or failed."""

    max_cost_usd: MaxCost = Field(None, description="Maximum cost of the job in US dollars; null: no limit.")


class JobProgressSchema(TypedDict):
    """The progress of a job."""

    phase: Annotated[str, Field(description="`starting`, `waiting` (another process writes), `reading`, `writing`.")]
    files: Annotated[int, Field(description="Files to read.")]
    files_read: Annotated[int, Field(description="Files that were read.")]
    chunks: Annotated[int, Field(description="Passages of the files that were read.")]
    embedded: Annotated[int, Field(description="Passages that were embedded.")]
    share: NotRequired[Annotated[float, Field(description="The part of the work that is done, from 0 to 1.")]]
    seconds_left: Annotated[float | None, Field(description="Estimated remaining time; null if it is too early.")]


class JobFailureSchema(TypedDict):
    """A file that could not be indexed."""

    source: Annotated[str, Field(description="The file or URL.")]
    error: Annotated[str, Field(description="What is wrong.")]
    hint: Annotated[str, Field(description="What to do; may be empty.")]


class JobErrorSchema(TypedDict):
    """Why a job ended."""

    message: Annotated[str, Field(description="What happened, and what to do.")]
    code: Annotated[str, Field(description="`needs_confirmation`, `job_failed` or `interrupted`.")]


class JobSchema(TypedDict):
    """A job: a change of the knowledge base."""

    id: Annotated[str, Field(description="The id of the job.")]
    kind: Annotated[Literal["index", "remove", "dry_run"], Field(description="What it does.")]
    status: Annotated[JobStatus, Field(description="Its state. `done` may have failures.")]
    sources: Annotated[list[str], Field(description="The sources that it indexes or removes.")]
    created: Annotated[str, Field(description="Time of the request.")]
    started: Annotated[str | None, Field(description="Time of the start.")]
    ended: Annotated[str | None, Field(description="Time of the end.")]
    attempts: Annotated[int, Field(description="How often it was started; above 1 after the server died.")]
    cancelling: Annotated[bool, Field(description="It ends after the current file or batch.")]
    max_cost_usd: Annotated[float | None, Field(description="Cost above which it must be confirmed.")]
    progress: Annotated[JobProgressSchema | None, Field(description="Null before the start.")]
    failures: Annotated[list[JobFailureSchema], Field(description="The first files that could not be indexed.")]
    report: Annotated[dict[str, Any] | None, Field(description="The keys of `index --json`; null before the end.")]
    error: Annotated[JobErrorSchema | None, Field(description="Why it failed or must be confirmed.")]
    estimate_usd: Annotated[float | None, Field(description="Estimated cost in US dollars, where it is known.")]


class JobListSchema(TypedDict):
    """Jobs, latest first."""

    jobs: Annotated[list[JobSchema], Field(description="The jobs.")]
    next: Annotated[str | None, Field(description="`cursor` of the next page; null on the last page.")]


class UploadSchema(TypedDict):
    """A file that was received."""

    name: Annotated[str, Field(description="Its name in the folder of uploads, made safe.")]
    bytes: Annotated[int, Field(description="Its size.")]
    replaced: Annotated[bool, Field(description="A file of this name was there before.")]
    job: Annotated[JobSchema | None, Field(description="The job that indexes it; null with `index=false`.")]


class SourceSchema(TypedDict):
    """A source of the knowledge base."""

    id: Annotated[str, Field(description="The id of the source.")]
    source: Annotated[str, Field(description="The folder, file or URL.")]
    kind: Annotated[Literal["uploads", "path", "url", "added"], Field(description="What it is.")]
    files: Annotated[int, Field(description="Indexed files.")]
    failed: Annotated[int, Field(description="Files that could not be indexed.")]


class UploadLimitsSchema(TypedDict):
    """What may be uploaded."""

    id: Annotated[str, Field(description="The id of its source, for `POST /jobs` after uploads with `index=false`.")]
    source: Annotated[str, Field(description="The folder, as documents and jobs name it.")]
    files: Annotated[int, Field(description="Files that were uploaded.")]
    max_files: Annotated[int, Field(description="Maximum number of files.")]
    bytes: Annotated[int, Field(description="Bytes of these files.")]
    max_bytes: Annotated[int, Field(description="Maximum bytes of all files.")]
    max_file_bytes: Annotated[int, Field(description="Maximum bytes of one file.")]


class SourceListSchema(TypedDict):
    """The sources of the knowledge base, and what may be added."""

    exists: Annotated[bool, Field(description="There is a knowledge base; the first job creates it.")]
    sources: Annotated[list[SourceSchema], Field(description="The sources.")]
    uploads: Annotated[UploadLimitsSchema, Field(description="The folder of uploads.")]
    roots: Annotated[list[str], Field(description="Folders below which this client may add folders; empty: none.")]
    can_change: Annotated[bool, Field(description="This client may change the knowledge base.")]
    is_owner: Annotated[bool, Field(description="This client may change users, and see the settings of the server.")]
