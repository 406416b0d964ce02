"""Evaluate retrieval and answers on your own questions, and fail when they get worse: a check for CI.

`ragkit eval questions.jsonl --baseline baseline.json --max-drop 0.02` does the same from the command line.
"""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

QUESTIONS = [
    {"question": "How often is the pump serviced?", "answers": ["every 400 hours"], "sources": ["pump.md"]},
    {"question": "When does the library close?", "answers": ["18:00"], "sources": ["library.md"]},
    {"question": "What does a helicopter cost?", "answerable": False},
]


def run_ragkit(folder: Path, *arguments: str) -> dict[str, object]:
    """Run a verb with --json in a folder. Raises CalledProcessError on a non-zero exit code."""
    command = [sys.executable, "-m", "ragkit", *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    result: dict[str, object] = json.loads(done.stdout)
    return result


def main(folder: Path) -> None:
    (folder / "docs").mkdir()
    (folder / "docs/pump.md").write_text("The pump is serviced every 400 hours.\n")
    (folder / "docs/library.md").write_text("The library closes at 18:00.\n")
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)) + "\n")
    ragkit = partial(run_ragkit, folder)
    ragkit("index", "docs")
    report = ragkit("eval", "questions.jsonl", "--out", "baseline.json")
    print(json.dumps(report, indent=1)[:600])
    ragkit("eval", "questions.jsonl", "--baseline", "baseline.json", "--max-drop", "0.02")
    print("no regression")


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        main(Path(directory))
