"""kill -9 or Ctrl-C at a random moment of a command: an index run, a first build, a rebuild, `rm`, `clear` or a repair.

One command in twenty that is killed is started cold, as `python -m ragkit`, so that imports are interrupted as well.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.torture.bench import Bench, Operation, TrialResult, pick_operation, seeds

COLD = 0.05
"""Share of the commands that are started cold."""
COLD_SECONDS = 1.5
"""Approximate maximum seconds of the imports."""
INTERRUPTED = 130, "interrupted; completed work is kept\n"
"""Exit code and output of a command that Ctrl-C ended."""
BEFORE_OR_AFTER = 130, ""
"""Those of a command that was not at work yet, or no longer."""


class Kills:
    """Kills at random moments."""

    name = "kill -9"

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """A seed each."""
        return seeds(count, chance)

    def trial(self, bench: Bench, key: str) -> TrialResult:
        """Kill one command."""
        chance = random.Random(key)
        operation, span = pick_operation(bench, chance)
        share = chance.random()
        reached = _cold(bench, operation, share) if chance.random() < COLD else _warm(bench, operation, span * share)
        oracle = bench.oracle()
        bench.check(operation, oracle)
        return TrialResult(tuple(oracle.faults), reached)


class Interrupts:
    """Ctrl-C at random moments: the command says so in its one line, and what it leaves is as after a kill."""

    name = "Ctrl-C"

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """A seed each."""
        return seeds(count, chance)

    def trial(self, bench: Bench, key: str) -> TrialResult:
        """Interrupt one command."""
        chance = random.Random(key)
        operation, span = pick_operation(bench, chance)
        oracle = bench.oracle()
        victim = bench.start(operation, interruptible=True)
        if not victim.has_ended(span * chance.random()):
            victim.interrupt()
        ended = victim.wait()
        said = ended.code, ended.err.lstrip("\n")  # a new line after the ^C of the terminal
        if ended.code is None:
            oracle.fault("hung", ended.summary())
        elif ended.code != 0 and said not in {BEFORE_OR_AFTER, INTERRUPTED}:
            oracle.fault("unclear", ended.summary())
        bench.check(operation, oracle)
        return TrialResult(tuple(oracle.faults), said == INTERRUPTED)


def _warm(bench: Bench, operation: Operation, seconds: float) -> bool:
    victim = bench.start(operation)
    if not victim.has_ended(seconds):
        victim.kill()
    return victim.wait().code == -9


def _cold(bench: Bench, operation: Operation, share: float) -> bool:
    victim = subprocess.Popen(
        [sys.executable, "-m", "ragkit", *operation.arguments, *bench.kb_options],
        cwd=bench.root,
        env={**bench.commands.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(share * COLD_SECONDS)
    victim.kill()
    return victim.wait() == -9
