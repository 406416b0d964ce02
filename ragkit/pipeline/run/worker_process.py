"""A worker process of a local run, and how it is spoken to. `main` is what runs in it.

Frames are pickles in both directions: both ends are ours. What comes from a parser of foreign files comes through
the parsing processes, which each worker has for itself, and is checked there.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from contextlib import closing, suppress
from typing import TYPE_CHECKING, BinaryIO

from ragkit.errors import RagkitError, WorkerError
from ragkit.index.build_runner import PreparedFile
from ragkit.load.parse_worker import exit_with_parent
from ragkit.load.parsing import ParseFailure, ParseTask

if TYPE_CHECKING:
    from ragkit.pipeline.settings import Pipeline

_BOOTSTRAP = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from ragkit.pipeline.run.worker_process import worker_main; worker_main()"
)


class WorkerExited(Exception):
    """A worker process is no more; `said` is the last line that it wrote to its standard error."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(code, said)
        self.exit_code, self.last_line = code, said


class WorkerProcess:
    """One worker process. Used by one thread at a time; `kill` may be called from any."""

    def __init__(self, pipeline: Pipeline) -> None:
        """Starts it. Raises WorkerError when it cannot be started, Ended when it is killed before it is ready."""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `stop`
        flags = ["-P", *(["-B"] if sys.dont_write_bytecode else [])]  # -P: a json.py in this folder is not ours
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, *flags, "-c", _BOOTSTRAP, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,  # Ctrl-C on the terminal reaches the parent alone
        )
        try:
            self._request((pipeline, os.getpid()))
        except WorkerExited as end:
            self.stop()
            if end.exit_code < 0:
                raise
            raise WorkerError(f"a worker process cannot start ({end.last_line}): run `ragkit doctor`") from end

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def prepare(self, task: ParseTask) -> PreparedFile | ParseFailure:
        """What becomes of a file. Raises Ended when the process dies, and what its parts raise."""
        answer = self._request(task)
        if isinstance(answer, RagkitError):
            raise answer
        if not isinstance(answer, PreparedFile | ParseFailure):
            raise WorkerError(f"a worker process answered with a {type(answer).__name__}: start the run again")
        return answer

    def kill(self) -> None:
        """End it at once; its parsers end with it."""
        self._process.kill()

    def stop(self) -> None:
        """End it and let go of everything that it held."""
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
            return pickle.load(replies)  # noqa: S301 - written by `main` below
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            self._process.kill()
            raise WorkerExited(self._process.wait(), self._last_error_line()) from error

    def _last_error_line(self) -> str:
        if self._stderr.closed:
            return "it was stopped"
        self._stderr.seek(0)
        lines = self._stderr.read(100_000).decode("utf-8", "replace").split("\n")
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "it said nothing")


def worker_main() -> None:
    """Prepare the files that are asked for until the parent closes its end."""
    # here, not at the head: who only speaks to a worker needs none of the parts
    from ragkit.pipeline.assemble import PipelineComponents  # noqa: PLC0415
    from ragkit.pipeline.run.index_worker import IndexWorker  # noqa: PLC0415

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # what a part prints must not get between the frames
    pipeline, parent = pickle.load(requests)  # noqa: S301 - written by `WorkerProcess`
    exit_with_parent(parent)
    with closing(IndexWorker(PipelineComponents(pipeline))) as stage:
        _send(replies, "ready")
        with suppress(EOFError):
            while True:
                task = pickle.load(requests)  # noqa: S301 - as above
                try:
                    [answer] = stage.prepare([task])
                except RagkitError as error:
                    _send(replies, error)
                else:
                    _send(replies, answer)


def _send(replies: BinaryIO, answer: object) -> None:
    pickle.dump(answer, replies, pickle.HIGHEST_PROTOCOL)
    replies.flush()
