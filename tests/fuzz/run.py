"""Fuzz one target, or all: python -m tests.fuzz.run [TARGET] [CPU MINUTES]

Needs `atheris`. What is found is written to fuzz-found/; put it into tests/fuzz/corpus/TARGET/, where a test runs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")
FOUND = Path("fuzz-found")
MINUTES = 20.0


def fuzz(name: str, minutes: float) -> None:
    """Run one target in this process until its time is up; ends the process."""
    import atheris

    with atheris.instrument_imports(include=["ragkit"]):
        from tests.fuzz.targets import TARGETS

    target, count = TARGETS[name], 0

    def once(data: bytes) -> None:
        nonlocal count
        count += 1
        target(data)
        if time.process_time() > 60 * minutes:
            print(f"{name}: {count} inputs in {time.process_time() / 60:.1f} CPU minutes, nothing found", flush=True)  # noqa: T201
            os._exit(0)

    own = FOUND / name
    (own / "corpus").mkdir(parents=True, exist_ok=True)
    limits = ["-max_len=4096", "-timeout=30", "-rss_limit_mb=3000", "-print_final_stats=0", "-verbosity=0"]
    seeds = [str(CORPUS / name)] if (CORPUS / name).is_dir() else []
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={own}/", str(own / "corpus"), *seeds], once)
    atheris.Fuzz()


def main(arguments: list[str]) -> int:
    """All targets one after the other, each in a process of its own; or the one that is named."""
    if arguments and arguments[0] == "--in-this-process":
        fuzz(arguments[1], float(arguments[2]))
    names = [one for one in arguments if not one.replace(".", "").isdigit()]
    minutes = next((float(one) for one in arguments if one.replace(".", "").isdigit()), MINUTES)
    chosen = names or sorted(path.name for path in CORPUS.iterdir() if path.is_dir())
    own = [sys.executable, "-m", "tests.fuzz.run", "--in-this-process"]
    failed = [name for name in chosen if subprocess.run([*own, name, str(minutes)], check=False).returncode != 0]
    for name in failed:
        print(f"{name}: something was found, see {FOUND / name}")  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
