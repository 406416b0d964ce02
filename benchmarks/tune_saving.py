"""What `ragkit tune` saves: one run over a grid against a run for each of its settings, each in a folder of its own.

    python benchmarks/tune_saving.py GRID.yaml [--separate N] [--json]
    python benchmarks/tune_saving.py --questions FOLDER|FILE [--documents DIR] [--sample N]

Without a file the grid is twelve settings: three chunk sizes, with and without overlap, two weights of the cosines.
All questions choose (no half is held out), so that both sides do the same work, and both must come to the same
figures. With `--separate N` only every N-th setting is run by itself, and the sum is scaled up. CPU seconds are those
of this process and of its workers; they tell more than the clock on a machine that does other things as well.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ragkit.records import JSON
from ragkit.tune.grid import Grid, read_grid
from ragkit.tune.search import GridSearch, TuneResult

TWELVE = """
questions: {questions}
{documents}
metric: ndcg@10
{sample}
grid:
  split.chunk_size: [100, 200, 400]
  split.chunk_overlap: [0, 40]
  retrieve.dense_weight: [0.3, 0.55]
"""


def the_grid(options: argparse.Namespace, scratch: Path) -> Grid:
    """The grid that was named, or the twelve settings."""
    path = options.grid
    if path is None:
        path = scratch / "twelve.yaml"
        documents = f"documents: {json.dumps(str(options.documents.absolute()))}" if options.documents else ""
        sample = f"sample: {options.sample}" if options.sample else ""
        questions = json.dumps(str(options.questions.absolute()))
        path.write_text(TWELVE.format(questions=questions, documents=documents, sample=sample), "utf-8")
    grid = read_grid(path)
    return replace(grid, options=replace(grid.options, holdout=0.0))


def measure(grid: Grid, every: int, scratch: Path) -> dict[str, JSON]:
    """One run over all, then runs for single settings."""
    together = GridSearch(grid, scratch / "together").run()
    print(line("one run", together), file=sys.stderr)
    chosen = grid.trials[::every]
    alone: list[TuneResult] = []
    for trial in chosen:
        alone.append(GridSearch(replace(grid, trials=(trial,)), scratch / f"alone-{trial.number}").run())
        print(line(trial.label, alone[-1]), file=sys.stderr)
    both = [(one.trial_results[0], together.trial_results[one.trial_results[0].trial.number - 1]) for one in alone]
    scale = len(grid.trials) / len(chosen)
    texts = sum(one.counts["embedded"] for one in alone) * scale
    return {
        "settings": len(grid.trials),
        "questions": together.selection_questions,
        "metric": grid.options.metric,
        "same_figures": all(
            [row.value for row in first.rows] == [row.value for row in second.rows] for first, second in both
        ),
        "together": {**together.counts, "seconds": together.seconds, "cpu_seconds": together.cpu_seconds},
        "separate": {
            "runs": len(chosen),
            "embedded": texts,
            "seconds": sum(one.seconds for one in alone) * scale,
            "cpu_seconds": sum(one.cpu_seconds for one in alone) * scale,
        },
    }


def line(name: str, one: TuneResult) -> str:
    """A run in words."""
    c = one.counts
    return (
        f"{name}: {one.seconds:.1f} s, {one.cpu_seconds:.1f} CPU s, {c['embedded']:,} texts embedded, "
        f"{c['distinct']:,} distinct, {c['taken']:,} taken over"
    )


def main(arguments: Sequence[str]) -> None:
    """Print the figures; exit 1 when a text was embedded twice, or the figures differ."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("grid", nargs="?", type=Path, metavar="GRID.yaml")
    parser.add_argument("--questions", type=Path, help="a file of questions or a BEIR folder, for the twelve settings")
    parser.add_argument("--documents", type=Path, help="what is indexed, for a file of questions")
    parser.add_argument("--sample", type=int, help="use so many questions")
    parser.add_argument("--separate", type=int, default=1, metavar="N", help="run every N-th setting by itself")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if (options.grid is None) == (options.questions is None):
        parser.error("a grid file or --questions is wanted")
    with TemporaryDirectory(prefix="ragkit-tune-") as scratch:
        found = measure(the_grid(options, Path(scratch)), options.separate, Path(scratch))
    together, separate = found["together"], found["separate"]
    assert isinstance(together, dict)
    assert isinstance(separate, dict)
    if options.json:
        print(json.dumps(found))
    else:
        print(f"{found['settings']} settings, {found['questions']} questions, {found['metric']}")
        for name, row in (("one run", together), ("separate runs", separate)):
            times = f"{row['seconds']:>9.1f} s{row['cpu_seconds']:>9.1f} CPU s"
            print(f"{name:<14}{times}{row['embedded']:>10,.0f} texts embedded")
        saved = [1 - float(together[key]) / float(separate[key]) for key in ("seconds", "cpu_seconds", "embedded")]
        print(f"saved: {saved[0]:.0%} of the time, {saved[1]:.0%} of the CPU time, {saved[2]:.0%} of the embedding")
        print(f"texts embedded {together['embedded']:,}, distinct (text, embedder) {together['distinct']:,}")
        print("the same figures" if found["same_figures"] else "THE FIGURES DIFFER")
    sys.exit(0 if found["same_figures"] and together["embedded"] == together["distinct"] else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
