"""Measure what `ragkit tune` saves: one run over a grid against a separate run for each of its settings.

    python benchmarks/tune_saving.py GRID.yaml [--separate N] [--json]
    python benchmarks/tune_saving.py --questions FOLDER|FILE [--documents DIR] [--sample N]

Without a file the grid has twelve settings: three chunk sizes, with and without overlap, and two weights of the
cosines. All questions are used for selection (none are held out), so that both sides do the same work; both must give
the same figures. `--separate N` runs only every N-th setting separately and scales the sum up. CPU seconds cover this
process and its workers; on a machine under other load they are more reliable than wall time.
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


def load_grid(options: argparse.Namespace, scratch: Path) -> Grid:
    """The grid of the file, or the twelve settings."""
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
    """Run the whole grid once, then single settings separately."""
    together = GridSearch(grid, scratch / "together").run()
    print(line("one run", together), file=sys.stderr)
    chosen = grid.trials[::every]
    alone: list[TuneResult] = []
    for trial in chosen:
        alone.append(GridSearch(replace(grid, trials=(trial,)), scratch / f"alone-{trial.number}").run())
        print(line(trial.label, alone[-1]), file=sys.stderr)
    pairs = [(run.trial_results[0], together.trial_results[run.trial_results[0].trial.number - 1]) for run in alone]
    scale = len(grid.trials) / len(chosen)
    texts = sum(run.counts["embedded"] for run in alone) * scale
    return {
        "settings": len(grid.trials),
        "questions": together.selection_questions,
        "metric": grid.options.metric,
        "same_figures": all(
            [row.value for row in first.rows] == [row.value for row in second.rows] for first, second in pairs
        ),
        "together": {**together.counts, "seconds": together.seconds, "cpu_seconds": together.cpu_seconds},
        "separate": {
            "runs": len(chosen),
            "embedded": texts,
            "seconds": sum(run.seconds for run in alone) * scale,
            "cpu_seconds": sum(run.cpu_seconds for run in alone) * scale,
        },
    }


def line(name: str, result: TuneResult) -> str:
    """One line about a run."""
    counts = result.counts
    return (
        f"{name}: {result.seconds:.1f} s, {result.cpu_seconds:.1f} CPU s, {counts['embedded']:,} texts embedded, "
        f"{counts['distinct']:,} distinct, {counts['taken']:,} reused"
    )


def main(arguments: Sequence[str]) -> None:
    """Print the figures; exit with 1 if a text was embedded twice or the figures differ."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("grid", nargs="?", type=Path, metavar="GRID.yaml")
    parser.add_argument("--questions", type=Path, help="a file of questions or a BEIR folder, for the twelve settings")
    parser.add_argument("--documents", type=Path, help="the folder to index, for a file of questions")
    parser.add_argument("--sample", type=int, help="number of questions to use")
    parser.add_argument("--separate", type=int, default=1, metavar="N", help="run only every N-th setting separately")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if (options.grid is None) == (options.questions is None):
        parser.error("give either a grid file or --questions")
    with TemporaryDirectory(prefix="ragkit-tune-") as scratch:
        figures = measure(load_grid(options, Path(scratch)), options.separate, Path(scratch))
    together, separate = figures["together"], figures["separate"]
    assert isinstance(together, dict)
    assert isinstance(separate, dict)
    if options.json:
        print(json.dumps(figures))
    else:
        print(f"{figures['settings']} settings, {figures['questions']} questions, {figures['metric']}")
        for name, row in (("one run", together), ("separate runs", separate)):
            times = f"{row['seconds']:>9.1f} s{row['cpu_seconds']:>9.1f} CPU s"
            print(f"{name:<14}{times}{row['embedded']:>10,.0f} texts embedded")
        saved = [1 - float(together[key]) / float(separate[key]) for key in ("seconds", "cpu_seconds", "embedded")]
        print(f"saved: {saved[0]:.0%} of the time, {saved[1]:.0%} of the CPU time, {saved[2]:.0%} of the embedding")
        print(f"texts embedded {together['embedded']:,}, distinct (text, embedder) {together['distinct']:,}")
        print("the figures agree" if figures["same_figures"] else "THE FIGURES DIFFER")
    sys.exit(0 if figures["same_figures"] and together["embedded"] == together["distinct"] else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
