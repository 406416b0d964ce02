"""A worker process of a local build: `WorkerProcess` in the parent, `worker_main` in the child.

Both directions use pickle, because both ends are trusted. Files are parsed in separate processes, whose results are
validated.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from ragkit.errors import RagkitError, WorkerError
from ragkit.index.build_runner import PreparedFile
from ragkit.load.process.parse_worker import exit_with_parent
from ragkit.load.process.parser_state import reduce_gc
from ragkit.load.process.parsing import ParseFailure, ParseTask

if TYPE_CHECKING:
    from ragkit.pipeline.run.index_worker import IndexWorker
    from ragkit.pipeline.settings import Pipeline

_BOOTSTRAP = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from ragkit.pipeline.run.worker_process import worker_main; worker_main()"
)


Answer: TypeAlias = PreparedFile | ParseFailure | RagkitError
"""The result for a file, or the error of a component, which ends the run."""


class WorkerExited(Exception):
    """A worker process exited; `last_line` is the last line of its standard error."""

    def __init__(self, code: int, last_line: str) -> None:
        super().__init__(code, last_line)
        self.exit_code, self.last_line = code, last_line


class WorkerProcess:
    """A worker process. Not thread-safe, except for `kill`."""

    def __init__(self, pipeline: Pipeline) -> None:
        """Raises WorkerError if the process cannot start, WorkerExited if it is killed before it is ready."""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `stop`
        # -P: do not import a json.py of the working directory
        flags = ["-P", *(["-B"] if sys.dont_write_bytecode else [])]
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter and package
            [sys.executable, *flags, "-c", _BOOTSTRAP, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,  # Ctrl-C reaches only the parent
        )
        try:
            self._request((pipeline, os.getpid()))
        except WorkerExited as error:
            self.stop()
            if error.exit_code < 0:
                raise
            raise WorkerError(f"cannot start a worker process ({error.last_line}): run `ragkit doctor`") from error

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def prepare(self, tasks: Sequence[ParseTask]) -> list[Answer]:
        """The results for files, up to the first error of a component. Raises WorkerExited if the process exits."""
        answers = self._request(tasks)
        if not isinstance(answers, list):
            raise WorkerError(f"unexpected {type(answers).__name__} from a worker process: run the command again")
        return answers

    def kill(self) -> None:
        """Kill the process; its parsers exit with it."""
        self._process.kill()

    def stop(self) -> None:
        """Kill the process and close its pipes."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def _request(self, question: object) -> object:
        requests, replies = self._process.stdin, self._process.stdout
        assert requests is not None and replies is not None  # noqa: S101 - both are pipes
        try:
            pickle.dump(question, requests, pickle.HIGHEST_PROTOCOL)
            requests.flush()
            return pickle.load(replies)  # noqa: S301 - written by `worker_main`
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            self._process.kill()
            raise WorkerExited(self._process.wait(), self._last_error_line()) from error

    def _last_error_line(self) -> str:
        if self._stderr.closed:
            return "stopped"
        self._stderr.seek(0)
        lines = self._stderr.read(100_000).decode("utf-8", "replace").split("\n")
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "no error output")


def worker_main() -> None:
    """Prepare files until the parent closes the pipe."""
    # local imports: the parent does not need the components
    from ragkit.pipeline.assemble import PipelineComponents  # noqa: PLC0415
    from ragkit.pipeline.run.index_worker import IndexWorker  # noqa: PLC0415

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # output of a component must not mix with replies
    pipeline, parent = pickle.load(requests)  # noqa: S301 - written by `WorkerProcess`
    exit_with_parent(parent)
    reduce_gc()
    with closing(IndexWorker(PipelineComponents(pipeline))) as worker:
        _send(replies, "ready")
        with suppress(EOFError):
            while True:
                _send(replies, _prepare(worker, pickle.load(requests)))  # noqa: S301 - as above


def _prepare(worker: IndexWorker, tasks: Sequence[ParseTask]) -> list[Answer]:
    answers: list[Answer] = []
    try:
        for answer in worker.prepare_group(tasks):
            answers.append(answer)  # an error must not drop them
    except RagkitError as error:
        answers.append(error)
    return answers


def _send(replies: BinaryIO, answer: object) -> None:
    pickle.dump(answer, replies, pickle.HIGHEST_PROTOCOL)
    replies.flush()
