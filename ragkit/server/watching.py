"""Index the sources again when their files have changed: `ragkit serve --watch-interval SECONDS`."""

from __future__ import annotations

import asyncio
import logging

from ragkit.errors import NotAKnowledgeBase, RagkitError
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.sources.web_pages import is_url
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.api.dependencies import AppContext
from ragkit.server.concurrency import run_in_thread
from ragkit.server.principals import as_server
from ragkit.server.state.job_store import JobRequest

LOG = logging.getLogger("ragkit.server")
CHECK_TIMEOUT_S = 60.0
"""Time limit of one look at the folders."""

Changes = tuple[int, int, int]
"""Files that are new, changed, removed."""


async def watch_sources(context: AppContext, seconds: float) -> None:
    """Look at the sources every `seconds`, and queue a job when they have changed. Runs until it is cancelled.

    Changes that a job did not end, as it failed or waits for a confirmation, queue no further job.
    """
    queued: Changes | None = None
    while True:
        await asyncio.sleep(seconds)
        try:
            with as_server():
                changes, roots = await run_in_thread(lambda: find_changes(context.kb))
            if any(changes) and changes != queued:
                limit = context.settings.limits.index_usd
                await context.jobs.submit(JobRequest("index", index=roots, max_cost_usd=limit))
                context.job_runner.wake()
            queued = changes if any(changes) else None
        except NotAKnowledgeBase:
            continue  # the first upload creates it
        except RagkitError as error:
            LOG.warning("the sources could not be compared with the index: %s", error)
        except Exception:  # boundary: the background task must go on
            LOG.exception("the sources could not be compared with the index")


def find_changes(kb: KnowledgeBase) -> tuple[Changes, tuple[str, ...]]:
    """The changes since the last run, and the folders and files that are sources."""
    with kb.session() as session:
        with session.snapshot() as snapshot:
            roots = tuple(root for root in Catalog(snapshot.connection).roots() if not is_url(root))
        found = session.freshness(CHECK_TIMEOUT_S)
    return (found.added, found.changed, found.removed), roots
