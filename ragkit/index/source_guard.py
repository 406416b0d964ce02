"""The guard against mass deletions: a source that suddenly lists few documents is more often broken than empty."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ragkit.index.catalog.sqlite import FileRow
from ragkit.index.plan import IndexPlan
from ragkit.index.report import FileFailure

MAX_DELETED_SHARE = 1 / 3
"""The share of the documents of a source that one run removes without being told to."""


def withhold_deletions(
    plan: IndexPlan,
    known: Mapping[str, FileRow],
    found: Mapping[str, int],
    is_member: Callable[[str, str], bool],
    *,
    accept: bool = False,
) -> tuple[IndexPlan, list[FileFailure]]:
    """The plan without the deletions of sources that would lose too much at once, and a failure for each of these.

    Args:
        plan: the plan of a run.
        known: the rows of the catalog.
        found: guarded source -> documents that were found in it.
        is_member: whether a source id belongs to a guarded source.
        accept: remove more than MAX_DELETED_SHARE; a source without documents still loses none.
    """
    failures: list[FileFailure] = []
    for root, count in found.items():
        gone = {row.source for row in plan.removed if is_member(row.source, root)}
        total = sum(is_member(source, root) for source in known)
        if not gone or (count and (accept or len(gone) <= total * MAX_DELETED_SHARE)):
            continue
        if count:
            reason = f"{len(gone):,} of {total:,} documents are no longer listed: none was removed"
            hint = "if that is right, run `ragkit index --accept-deletions`"
        else:
            reason, hint = "lists no documents: none was removed", f"remove it with `ragkit remove '{root}'`"
        failures.append(FileFailure(root, reason, hint))
        kept = [row for row in plan.removed if row.source in gone]
        unchanged = plan.unchanged + sum(row.status == "indexed" for row in kept)
        plan = replace(plan, removed=tuple(row for row in plan.removed if row.source not in gone), unchanged=unchanged)
    return plan, failures
