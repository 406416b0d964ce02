"""Run the conformance suite on every registered store and write the results to `docs/conformance.md`.

    python scripts/conformance_table.py                    # all stores, random properties on 33 cases each
    python scripts/conformance_table.py --cases 5000       # with thousands more cases
    python scripts/conformance_table.py --stores faiss lancedb --out table.md

Exits with 1 if a check failed, a store was skipped, or a check is in none of the groups below.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SUITE = "tests/conformance/test_stores.py"

GROUPS: Mapping[str, tuple[str, ...]] = {
    "documents and ids": (
        "an_empty_store_finds_nothing",
        "documents_round_trip",
        "metadata_is_copied",
        "default_ids_depend_on_the_content",
        "ids_are_ordered_by_code_point",
    ),
    "replacing": (
        "an_existing_id_is_replaced",
        "the_last_document_of_duplicate_ids_is_stored",
        "repeated_replacement_keeps_only_the_latest_documents",
    ),
    "deleting": ("deleted_documents_are_never_found_again", "clear_removes_all_documents_and_the_dimension"),
    "ranking": ("equal_scores_are_ordered_by_id", "recall_is_high_among_many_documents"),
    "filters": (
        "every_comparison_matches_the_evaluator",
        "random_filters_match_the_evaluator",
        "results_are_complete_under_a_rare_filter",
    ),
    "random writes": ("random_writes_match_a_dict",),
    "bad input": ("invalid_input_is_rejected_without_changes",),
    "threads": ("reader_threads_see_whole_batches",),
    "reopening, crash": ("documents_persist_after_reopening", "a_killed_writer_leaves_whole_batches"),
    "processes": ("another_process_sees_committed_documents", "a_second_handle_sees_replaced_documents"),
}
"""Column of the table -> its checks; every check of `ragkit.testing.stores` appears once."""

NOT_PERSISTENT = "it exists only in the memory of its process"
ONE_PROCESS = "its engine allows one process at a time and rejects a second one"
NOT_APPLICABLE: Mapping[tuple[str, str], str] = {
    ("memory", "reopening, crash"): NOT_PERSISTENT,
    ("memory", "processes"): NOT_PERSISTENT,
    ("chroma", "processes"): f"embedded, {ONE_PROCESS}",
    ("duckdb", "processes"): ONE_PROCESS,
    ("milvus", "processes"): f"the tests use Milvus Lite; {ONE_PROCESS}",
    ("pinecone", "processes"): "the service is eventually consistent: another process sees a write with a delay",
    ("qdrant", "processes"): f"embedded, {ONE_PROCESS}",
}
"""Why a group does not apply to a store."""

PACKAGES = {
    "chroma": "chromadb",
    "duckdb": "duckdb",
    "faiss": "faiss-cpu",
    "lancedb": "lancedb",
    "milvus": "milvus-lite",
    "pgvector": "pgvector",
    "pinecone": "pinecone",
    "qdrant": "qdrant-edge-py",
}


@dataclass
class StoreResult:
    """The results of one store."""

    checks: dict[str, list[str]] = field(default_factory=dict)
    """Check -> the outcome of each run."""
    skipped: str = ""
    tally: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


class Recorder:
    """A pytest plugin that records the results for the table."""

    def __init__(self) -> None:
        self.stores: dict[str, StoreResult] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record one phase of one test; the test id ends with `[store-check]`."""
        store, _, check = report.nodeid.partition("[")[2].rstrip("]").partition("-")
        result = self.stores.setdefault(store, StoreResult())
        result.seconds += report.duration
        if report.skipped and isinstance(report.longrepr, tuple):
            result.skipped = str(report.longrepr[2]).removeprefix("Skipped: ")
        elif report.when == "call" or report.failed:
            result.checks.setdefault(check, []).append(report.outcome)
        if report.when == "teardown":
            result.tally.update({name: int(str(number)) for name, number in report.user_properties})


def cell(store: str, group: str, result: StoreResult) -> str:
    """The text of one table cell: the number of passed or failed runs, "n/a" or "not run"."""
    outcomes = [outcome for check in GROUPS[group] for outcome in result.checks.get(check, [])]
    if not outcomes:
        return "not run" if result.skipped or (store, group) not in NOT_APPLICABLE else "n/a"
    failed = outcomes.count("failed")
    return f"**{failed} of {len(outcomes)} failed**" if failed else f"{len(outcomes)} passed"


def render_page(stores: Mapping[str, StoreResult], command: str, seconds: float) -> list[str]:
    """The lines of the page."""
    today, system = datetime.now(UTC).date(), f"{platform.system()} {platform.machine()}"
    checks = sum(len(outcomes) for result in stores.values() for outcomes in result.checks.values())
    total = sum((result.tally for result in stores.values()), Counter[str]())
    lines = [
        "# Store conformance",
        "",
        "Every registered store is compared with exact search over a plain dict and with the reference evaluator for",
        "filters. The tests run each store's own engine. A local server with Pinecone's rules and limits replaces the",
        "Pinecone service; the tests use Pinecone's official client.",
        "",
        f"Generated by `{command}` on {today}: {checks} checks in {seconds / 60:.0f} minutes,",
        f"{total['cases']:,} generated cases with {total['searches']:,} searches;",
        f"Python {platform.python_version()}, {system}.",
        "",
        "| store | " + " | ".join(GROUPS) + " | generated cases | searches in them |",
        "| --- |" + " --- |" * (len(GROUPS) + 2),
    ]
    for store, result in sorted(stores.items()):
        cells = [cell(store, group, result) for group in GROUPS]
        cells += [f"{result.tally['cases']:,}", f"{result.tally['searches']:,}"]
        lines.append(f"| {_store_label(store)} | " + " | ".join(cells) + " |")
    lines += ["", "Not applicable (n/a), and why:", ""]
    lines += [
        f"- `{store}`, {group}: {reason}."
        for (store, group), reason in NOT_APPLICABLE.items()
        if store in stores and cell(store, group, stores[store]) == "n/a"
    ]
    lines += [f"- `{store}` was not run: {result.skipped}" for store, result in stores.items() if result.skipped]
    return [*lines, "", "What is in a group:", "", *(_contents(group) for group in GROUPS)]


def _store_label(store: str) -> str:
    try:
        return f"`{store}` {version(PACKAGES[store])}"
    except (KeyError, PackageNotFoundError):
        return f"`{store}`"


def _contents(group: str) -> str:
    return f"- {group}: {'; '.join(check.replace('_', ' ') for check in GROUPS[group])}."


def main() -> int:
    """Run the suite, print and write the page; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, metavar="N", help="number of additional cases for random properties")
    parser.add_argument("--stores", nargs="+", default=[], help="test only these stores")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "conformance.md")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    flags = ["-q", "-p", "no:cacheprovider", "--timeout=1800"] + (
        [f"--cases={arguments.cases}"] if arguments.cases else ["-m", "not slow"]
    )
    if arguments.stores:
        flags += ["-k", " or ".join(f"[{store}-" for store in arguments.stores)]
    recorder, start = Recorder(), time.monotonic()
    pytest.main([SUITE, *flags], plugins=[recorder])
    command = " ".join(
        ["python scripts/conformance_table.py", *([f"--cases {arguments.cases}"] if arguments.cases else [])]
    )
    lines = render_page(recorder.stores, command, time.monotonic() - start)
    arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    known = {check for checks in GROUPS.values() for check in checks}
    executed = {check for result in recorder.stores.values() for check in result.checks}
    if executed - known:
        print(f"in no group: {', '.join(sorted(executed - known))}", file=sys.stderr)
    cells = [cell(store, group, result) for store, result in recorder.stores.items() for group in GROUPS]
    return int(bool(executed - known) or not cells or any("failed" in text or text == "not run" for text in cells))


if __name__ == "__main__":
    raise SystemExit(main())
