"""Fuzz one target, or all: python -m tests.fuzz.run [TARGET ...] [CPU MINUTES] [--jobs N] [--json FILE --table FILE]

Needs `atheris`. Findings are written to build/fuzz/; copy them to tests/fuzz/corpus/TARGET/ as regression tests. The
corpus of a target grows in build/fuzz/TARGET/corpus, so that later runs go on where earlier ones stopped. Minutes of
several runs on one version are added up in the file, and targets that are furthest from 20 minutes are first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).with_name("corpus")
FINDINGS = Path("build/fuzz")
MINUTES = 20.0
LEAKING = ["ragkit.load.pages.ocr.rules"]
"""Modules that are run without instrumentation: atheris 3.0 never frees the array that a comparison of an array with a
number gives, here a byte for each pixel of a page."""
COUNTS = "counts.json"
"""In the folder of a target: what its last run did."""
Results = dict[str, dict[str, dict[str, Any]]]
"""Version -> target -> inputs, minutes, found."""


def fuzz(name: str, minutes: float) -> None:
    """Run one target in this process until the time limit, then exit."""
    import atheris

    with atheris.instrument_imports(include=["ragkit"], exclude=LEAKING):
        from tests.fuzz.targets import TARGETS

        TARGETS[name](b"")  # which imports what it needs

    target, count = TARGETS[name], 0
    output = FINDINGS / name
    (output / "corpus").mkdir(parents=True, exist_ok=True)
    started_at = time.process_time()

    def note() -> None:
        used = (time.process_time() - started_at) / 60
        (output / COUNTS).write_text(json.dumps({"inputs": count, "minutes": used}))

    def run_input(data: bytes) -> None:
        nonlocal count
        count += 1
        if count % 500 == 1:
            note()  # a process that crashes has counts too
        target(data)
        if time.process_time() - started_at > 60 * minutes:
            note()
            os._exit(0)

    limits = ["-max_len=16384", "-timeout=60", "-rss_limit_mb=3000", "-print_final_stats=0", "-verbosity=0"]
    seeds = [str(CORPUS / name)] if (CORPUS / name).is_dir() else []
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={output}/", str(output / "corpus"), *seeds], run_input)
    atheris.Fuzz()


def run_target(name: str, minutes: float) -> dict[str, Any]:
    """Run a target in a new process; returns its inputs, CPU minutes, and the number of findings (0 or 1)."""
    (FINDINGS / name).mkdir(parents=True, exist_ok=True)
    (FINDINGS / name / COUNTS).unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.fuzz.run", "--in-this-process", name, str(minutes)]
    log = FINDINGS / name / "log.txt"
    with log.open("wb") as stream:
        code = subprocess.run(command, check=False, stdout=stream, stderr=subprocess.STDOUT).returncode
    counts = FINDINGS / name / COUNTS
    result = json.loads(counts.read_text()) if counts.exists() else {"inputs": 0, "minutes": 0.0}
    result["found"] = int(code != 0)
    outcome = f"failed, see {log} and the inputs beside it" if code else "nothing found"
    print(f"{name}: {result['inputs']:,} inputs in {result['minutes']:.1f} CPU minutes, {outcome}", flush=True)  # noqa: T201
    return result


def add_result(results: Results, version: str, name: str, new: Mapping[str, Any]) -> None:
    """Add a run of a target to its counts."""
    counts = results.setdefault(version, {}).setdefault(name, {"inputs": 0, "minutes": 0.0, "found": 0})
    for key in counts:
        counts[key] = round(counts[key] + new[key], 2)


def table(results: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> str:
    """A Markdown table of the targets: minutes, inputs and findings on one version."""
    lines = ["| target | CPU minutes | inputs | found |", "| --- | --: | --: | --: |"]
    none = {"inputs": 0, "minutes": 0.0, "found": 0}
    for name in names:
        own = results.get(name, none)
        lines.append(f"| {name} | {own['minutes']:.1f} | {own['inputs']:,} | {own['found']} |")
    return "\n".join(lines)


def run_all(names: Sequence[str], minutes: float, options: argparse.Namespace) -> int:
    """Run targets, several at once; those with the fewest minutes on this version first. Returns 1 if one failed."""
    from tests.torture.scoreboard import commit_name, tree_name

    version = tree_name()
    stored: dict[str, Any] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    results: Results = stored.setdefault("fuzz", {})
    before = results.get(version, {})
    spent = {name: before.get(name, {"minutes": 0.0})["minutes"] for name in names}
    failed = False
    with ThreadPoolExecutor(options.jobs) as pool:
        order = sorted(names, key=lambda name: spent[name])
        # with a file, a target that has its minutes is done
        left = {
            name: minutes if options.json is None else min(minutes, max(0.0, MINUTES - spent[name])) for name in order
        }
        tasks = [(name, pool.submit(run_target, name, left[name])) for name in order if left[name] > 0]
        for name, task in tasks:
            result = task.result()
            failed = failed or bool(result["found"])
            add_result(results, version, name, result)
            if options.json:  # after each target: a run takes hours, and may be ended
                options.json.write_text(json.dumps(stored, indent=1) + "\n")
            if options.table:
                head = f"ragkit {version}, commit {commit_name()}, {datetime.now(UTC):%Y-%m-%d}"
                options.table.write_text(f"{head}\n\n{table(results[version], corpus_names())}\n")
    return 1 if failed else 0


def corpus_names() -> list[str]:
    """All targets."""
    return sorted(path.name for path in CORPUS.iterdir() if path.is_dir())


def main(arguments: list[str]) -> int:
    """Run the named targets, or all, each in a new process."""
    if arguments and arguments[0] == "--in-this-process":
        fuzz(arguments[1], float(arguments[2]))
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", help="targets, and at most one number: CPU minutes of each, else 20")
    parser.add_argument("--jobs", type=int, default=1, help="targets that run at once")
    parser.add_argument("--json", type=Path, help="add the counts to this file")
    parser.add_argument("--table", type=Path, help="write the table to this Markdown file")
    options = parser.parse_args(arguments)
    names = [word for word in options.targets if not word.replace(".", "").isdigit()]
    minutes = next((float(word) for word in options.targets if word.replace(".", "").isdigit()), MINUTES)
    if unknown := set(names) - set(corpus_names()):
        parser.error(f"unknown targets: {', '.join(sorted(unknown))}; there are {', '.join(corpus_names())}")
    return run_all(names or corpus_names(), minutes, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
