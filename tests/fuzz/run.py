"""Fuzz one target, or all: python -m tests.fuzz.run [TARGET] [CPU MINUTES]

Needs `atheris`. Findings are written to fuzz-found/; copy them to tests/fuzz/corpus/TARGET/ as regression tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")
FINDINGS = Path("fuzz-found")
MINUTES = 20.0


def fuzz(name: str, minutes: float) -> None:
    """Run one target in this process until the time limit, then exit."""
    import atheris

    with atheris.instrument_imports(include=["ragkit"]):
        from tests.fuzz.targets import TARGETS

    target, count = TARGETS[name], 0

    def run_input(data: bytes) -> None:
        nonlocal count
        count += 1
        target(data)
        if time.process_time() > 60 * minutes:
            print(f"{name}: {count} inputs in {time.process_time() / 60:.1f} CPU minutes, nothing found", flush=True)  # noqa: T201
            os._exit(0)

    output = FINDINGS / name
    (output / "corpus").mkdir(parents=True, exist_ok=True)
    limits = ["-max_len=16384", "-timeout=30", "-rss_limit_mb=3000", "-print_final_stats=0", "-verbosity=0"]
    seeds = [str(CORPUS / name)] if (CORPUS / name).is_dir() else []
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={output}/", str(output / "corpus"), *seeds], run_input)
    atheris.Fuzz()


def main(arguments: list[str]) -> int:
    """Run the named targets, or all, each in a new process."""
    if arguments and arguments[0] == "--in-this-process":
        fuzz(arguments[1], float(arguments[2]))
    names = [argument for argument in arguments if not argument.replace(".", "").isdigit()]
    minutes = next((float(argument) for argument in arguments if argument.replace(".", "").isdigit()), MINUTES)
    chosen = names or sorted(path.name for path in CORPUS.iterdir() if path.is_dir())
    command = [sys.executable, "-m", "tests.fuzz.run", "--in-this-process"]
    failed = [name for name in chosen if subprocess.run([*command, name, str(minutes)], check=False).returncode != 0]
    for name in failed:
        print(f"{name}: failed, see {FINDINGS / name}")  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
