"""Keep the files that a cost estimate read and split, so that the run after it does not read them again."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from tempfile import TemporaryFile
from typing import TypeAlias

from ragkit.index.build_runner import BuildRunner, PreparedFile, RunnerAround
from ragkit.index.plan import FileTask
from ragkit.load.files.file_io import FileStat
from ragkit.load.process.parsing import ParseFailure
from ragkit.pipeline.assemble import PipelineComponents

RunnerFactory: TypeAlias = Callable[[PipelineComponents, int], BuildRunner]
Outcome: TypeAlias = PreparedFile | ParseFailure


class PreparedFiles:
    """Prepared files in a temporary file, by source and version. Close it, or use it as a context manager."""

    def __init__(self) -> None:
        self._file = TemporaryFile(prefix="ragkit-")  # noqa: SIM115 - closed by `close`
        self._offsets: dict[tuple[str, FileStat], int] = {}

    def __enter__(self) -> PreparedFiles:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the temporary file."""
        self._file.close()

    def __contains__(self, task: FileTask) -> bool:
        return (task.source, task.stat) in self._offsets

    def add(self, task: FileTask, outcome: Outcome) -> None:
        """Append the outcome of a task."""
        self._offsets[task.source, task.stat] = self._file.seek(0, 2)
        pickle.dump(outcome, self._file, pickle.HIGHEST_PROTOCOL)

    def read(self, task: FileTask) -> Outcome:
        """The outcome of a task that was added."""
        self._file.seek(self._offsets[task.source, task.stat])
        outcome: Outcome = pickle.load(self._file)  # noqa: S301 - written by this process
        return outcome

    def wrap(self, factory: RunnerFactory) -> RunnerFactory:
        """A factory of runners that take files from here, and add those that they read themselves."""
        return lambda components, jobs: _ReusingRunner(factory(components, jobs), self)


class _ReusingRunner(RunnerAround):
    """Keeps the files that it reads, and gives those that are kept, if they are the same version."""

    def __init__(self, inner: BuildRunner, prepared: PreparedFiles) -> None:
        super().__init__(inner)
        self._prepared = prepared

    def prepare_files(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, Outcome]]:
        """The outcome of each task, in order."""
        kept = [task in self._prepared for task in work]
        fresh = self._inner.prepare_files([task for task, known in zip(work, kept, strict=True) if not known])
        for task, known in zip(work, kept, strict=True):
            if known:
                yield task, self._prepared.read(task)
            else:
                _, outcome = next(fresh)
                self._prepared.add(task, outcome)
                yield task, outcome
