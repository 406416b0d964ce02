"""Measure the gate, print its figures, and store them: `python -m tests.answer.gate`."""

from __future__ import annotations

import json
import sys

from tests.answer.gate import RECORDED, measure, table, to_json


def main() -> None:
    """Store the figures in `recorded.json`."""
    figures = measure()
    sys.stdout.write("\n".join([*table(figures), ""]))
    RECORDED.write_text(json.dumps(to_json(figures), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
