"""Evaluate retrieval and answers on your own questions, and fail when they get worse: a check for CI.

`ragkit eval questions.jsonl --baseline baseline.json --max-drop 0.02` does the same from the command line.
"""

import json
import subprocess
import sys
from pathlib import Path

QUESTIONS = [
    {"question": "How often is the pump serviced?", "answers": ["every 400 hours"], "sources": ["pump.md"]},
    {"question": "When does the library close?", "answers": ["18:00"], "sources": ["library.md"]},
    {"question": "What does a helicopter cost?", "answerable": False},
]


def ragkit(*arguments: str) -> dict[str, object]:
    """Run a verb with --json. Raises CalledProcessError on a non-zero exit code."""
    command = [sys.executable, "-m", "ragkit", *arguments, "--json"]
    result: dict[str, object] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result


if __name__ == "__main__":
    Path("docs").mkdir()
    Path("docs/pump.md").write_text("The pump is serviced every 400 hours.\n")
    Path("docs/library.md").write_text("The library closes at 18:00.\n")
    Path("questions.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)) + "\n")
    ragkit("index", "docs")
    report = ragkit("eval", "questions.jsonl", "--out", "baseline.json")
    print(json.dumps(report, indent=1)[:600])
    ragkit("eval", "questions.jsonl", "--baseline", "baseline.json", "--max-drop", "0.02")
    print("no regression")
