"""The process that one store has to itself: `python -m ragkit.bench.worker JOB.json`.

It reads a request a line, `{"do": "round", "with": {...}}`, and answers each with a line of figures. An error ends it:
what it says last on its standard error is the reason.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ragkit.bench.measure import BenchJob, StoreBench, operations


def main(job: Path) -> None:
    """Serve until the standard input ends."""
    # Packages print to standard output as they like: answers go to where it pointed before.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    known = dict(operations(StoreBench(BenchJob(**json.loads(job.read_text("utf-8"))))))
    for line in sys.stdin:
        asked = json.loads(line)
        figures = known[asked["do"]](**asked["with"])
        answers.write(json.dumps(figures) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
