"""The process that measures one store: `python -m ragkit.bench.worker JOB.json`.

It reads one request per line, `{"do": "measure_queries", "with": {...}}`, and answers each with one line of metrics.
An error ends the process; the last line on standard error is the reason.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ragkit.bench.measure import BenchJob, StoreBench


def main(job: Path) -> None:
    """Serve requests until standard input ends."""
    # Libraries may print to standard output, so it is redirected to standard error.
    responses = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    bench = StoreBench(BenchJob(**json.loads(job.read_text("utf-8"))))
    for line in sys.stdin:
        request = json.loads(line)
        metrics = getattr(bench, request["do"])(**request["with"])
        responses.write(json.dumps(metrics) + "\n")
        responses.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
