"""One run of `ragkit index` over all cases; each file has its expected outcome."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.child_usage import MeasuredCommand
from tests.hostile import packed, pages, pdfs, places, tables, texts
from tests.hostile.case import Case, Failed, Long, Outcome, Skipped, Text

GROUPS = {"pdf": pdfs, "packed": packed, "pages": pages, "texts": texts, "tables": tables}
CASES: tuple[Case, ...] = tuple(case for group in GROUPS.values() for case in group.CASES)
OUTCOMES: Mapping[str, Outcome] = {**{case.name: case.outcome for case in CASES}, **places.OUTCOMES}
GOOD = 20
PIPELINE = """\
load: {name: folder, max_seconds: 20, max_memory_mb: 600}
embed: {name: hashing, dimension: 64}
"""
RUN = [sys.executable, str(Path(__file__).with_name("run_index.py"))]


@dataclass(frozen=True)
class Run:
    """The result of a run."""

    code: int
    report: Mapping[str, object]
    outcomes: Mapping[str, Outcome]
    """Name -> outcome; long documents are `Text` too."""
    seconds: float
    peak_mb: float
    """Of the largest process."""
    error: str


def ragkit(
    folder: Path, *arguments: str, seconds: float = 280, command: list[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `ragkit ...` in a new process, or another command that does so."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAGKIT_")}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), env.get("PYTHONPATH")]))
    command = command or [*RUN, *arguments]
    return subprocess.run(command, check=False, cwd=folder, env=env, capture_output=True, text=True, timeout=seconds)


def read_back(folder: Path, report: Mapping[str, object]) -> dict[str, Outcome]:
    """The outcome of every file, from the report and the index."""
    outcomes: dict[str, Outcome] = {}
    for failure in report["failures"]:  # type: ignore[attr-defined]
        outcomes[failure["source"]] = Failed(failure["error"])
    for skip in report["skipped"]:  # type: ignore[attr-defined]
        name = "docs/long" if skip["source"].startswith("docs/long/") else skip["source"]
        outcomes[name] = Skipped(skip["reason"])
    for line in ragkit(folder, "list", "--json").stdout.splitlines():
        source = json.loads(line)["source"]
        if source not in outcomes:
            outcomes[source] = Text("")
    ends: dict[str, int] = {}
    for line in ragkit(folder, "list", "--chunks", "--json").stdout.splitlines():
        chunk = json.loads(line)
        before = outcomes[chunk["source"]]
        assert isinstance(before, Text)
        gap = chunk["start"] - ends.get(chunk["source"], 0)
        new = chunk["text"][-gap:] if gap < 0 else ("\x1f" * gap if before.text else "") + chunk["text"]
        outcomes[chunk["source"]] = Text(before.text + new)
        ends[chunk["source"]] = chunk["end"]
    return {name.removeprefix("docs/"): outcome for name, outcome in outcomes.items()}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """One run over all cases and some valid files."""
    folder = tmp_path_factory.mktemp("hostile")
    docs = folder / "docs"
    docs.mkdir()
    (folder / "ragkit.yaml").write_text(PIPELINE)
    for case in CASES:
        (docs / case.name).write_bytes(case.make())
    for number in range(GOOD):
        (docs / f"good-{number:02}.txt").write_text(f"good words number {number}")
    places.make_places(docs, folder / "outside")
    started_at, measured = time.monotonic(), MeasuredCommand([*RUN, "index", "docs", "--json"], folder / "usage.json")
    process = ragkit(folder, command=measured.command)
    seconds, used = time.monotonic() - started_at, measured.usage()
    report = json.loads(process.stdout) if process.stdout else {}
    print(f"{seconds:.1f} s, {used.cpu_seconds:.1f} CPU s")  # noqa: T201
    assert report, process.stderr
    yield Run(process.returncode, report, read_back(folder, report), seconds, used.peak_mb, process.stderr)
    (docs / "closed").chmod(0o700)


def test_there_are_131_cases() -> None:
    own_runs = 2  # the other device, and 100,000 files
    other = {name for name in places.OUTCOMES if not name.startswith("txt-")}
    assert [len(group.CASES) for group in GROUPS.values()] == [31, 20, 19, 22, 13]
    assert len(OUTCOMES) + own_runs - places.EXTRA == 131
    assert len(other) + own_runs - places.EXTRA == 25


@pytest.mark.parametrize("name", sorted(OUTCOMES), ids=lambda name: re.sub(r"[^\x21-\x7e]", "?", name)[:40])
def test_each_file_has_its_expected_outcome(run: Run, name: str) -> None:
    outcome, expected = run.outcomes[name], OUTCOMES[name]
    if isinstance(expected, Long) and isinstance(outcome, Text):
        text = outcome.text
        assert (len(text), text[: len(expected.begins)], text[-len(expected.ends) :]) == (
            expected.length,
            expected.begins,
            expected.ends,
        )
    elif isinstance(expected, Failed) and isinstance(outcome, Failed) and expected.error.endswith("…"):
        assert outcome.error.startswith(expected.error[:-1])
    elif isinstance(expected, Text) and isinstance(outcome, Text):
        assert normalize_whitespace(outcome.text) == normalize_whitespace(expected.text)
    else:
        assert outcome == expected


def normalize_whitespace(text: str) -> str:
    """`text` with normalized white space, which chunks do not preserve."""
    return re.sub("[\x1f\n\r ]+", " ", text).strip()


def test_every_file_of_the_folder_is_in_the_report(run: Run) -> None:
    good = {f"good-{number:02}.txt" for number in range(GOOD)}
    assert set(run.outcomes) == set(OUTCOMES) | good
    files = run.report["files"]
    assert isinstance(files, dict)
    assert files["failed"] == sum(isinstance(outcome, Failed) for outcome in OUTCOMES.values())
    assert files["skipped"] == sum(isinstance(outcome, Skipped) for outcome in OUTCOMES.values())
    assert files["added"] == len(OUTCOMES) + GOOD - files["failed"] - files["skipped"]
    assert run.code == 7


def test_valid_files_are_all_indexed(run: Run) -> None:
    for number in range(GOOD):
        assert run.outcomes[f"good-{number:02}.txt"] == Text(f"good words number {number}")


def test_nothing_is_written_outside_the_knowledge_base(run: Run) -> None:
    assert not Path("/tmp/ragkit-owned").exists()
    assert "Traceback" not in run.error


def test_every_failure_has_a_hint(run: Run) -> None:
    failures = run.report["failures"]
    assert isinstance(failures, list)
    assert [failure for failure in failures if not failure["hint"]] == []


def test_a_folder_on_another_device_is_read_where_links_are_followed(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        Path(other, "far.txt").write_text("words of another device")
        assert Path(other).stat().st_dev != tmp_path.stat().st_dev
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs/far").symlink_to(other)
        (tmp_path / "ragkit.yaml").write_text(PIPELINE.replace("folder,", "folder, follow_links: true,"))
        report = json.loads(ragkit(tmp_path, "index", "docs", "--json").stdout)
        assert (report["files"]["added"], report["skipped"]) == (1, [])
        assert read_back(tmp_path, report) == {"far/far.txt": Text("words of another device")}


def test_limits_can_be_set_in_the_pipeline_file(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/long.txt").write_text("words " * 40_000)
    (tmp_path / "docs/bomb.pdf").write_bytes(pdfs.flate_bomb())
    (tmp_path / "docs/short.txt").write_text("words")
    settings = "max_text_mb: 0.1, max_memory_mb: 500, max_seconds: 30"
    (tmp_path / "ragkit.yaml").write_text(PIPELINE.replace("max_seconds: 20, max_memory_mb: 600", settings))
    report = json.loads(ragkit(tmp_path, "index", "docs", "--json").stdout)
    assert {failure["source"]: (failure["error"], failure["hint"]) for failure in report["failures"]} == {
        "docs/bomb.pdf": (pdfs.OUT_OF_MEMORY.error, "raise max_memory_mb, or exclude it"),
        "docs/long.txt": ("the text is longer than 0.1 million characters", "raise max_text_mb"),
    }
    assert report["files"]["added"] == 1


@pytest.mark.slow
def test_a_hundred_thousand_small_files_are_indexed_in_bounded_memory(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    for number in range(100_000):
        folder = docs / str(number // 1000)
        if number % 1000 == 0:
            folder.mkdir(parents=True)
        (folder / f"{number}.txt").write_text(f"note {number} of many")
    (tmp_path / "ragkit.yaml").write_text(PIPELINE)
    measured = MeasuredCommand([*RUN, "index", "docs", "--json"], tmp_path / "usage.json")
    process = ragkit(tmp_path, seconds=3000, command=measured.command)
    report, peak_mb = json.loads(process.stdout), measured.usage().peak_mb
    print(f"{report['seconds']:.0f} s, peak {peak_mb:.0f} MB")  # noqa: T201
    assert (process.returncode, report["files"]["added"], report["failures"]) == (0, 100_000, [])
    assert peak_mb < 1024
