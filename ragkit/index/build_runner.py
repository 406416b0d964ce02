"""Between a build and the workers that do its heavy part: what they are asked for, and what they give back.

Who the workers are (this process, others beside it, a cluster) is not known here, nor by the build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Protocol, TypeAlias

from ragkit.embed.base import Rows
from ragkit.index.plan import FileTask
from ragkit.load.file_io import FileStat
from ragkit.load.parsing import ParseFailure
from ragkit.records import Chunk, Document


@dataclass(frozen=True, slots=True)
class PreparedFile:
    """A file that was read, parsed and split: all that a build needs of it, and nothing that depends on an index."""

    document: Document
    content_hash: str
    """blake2b of the file's bytes, 32 hex digits."""
    stat: FileStat
    """The state in which the file was read."""
    loader: str
    """The name of the loader that took it."""
    chunks: tuple[Chunk, ...]
    """In order of start; empty for a document without text."""
    texts: tuple[str, ...]
    """What the embedder sees of each chunk: its header and its text."""
    terms: tuple[tuple[str, ...], ...]
    """The terms of each chunk for the lexical index."""
    load_seconds: float = 0.0
    """Wall clock time that reading and parsing took, where the worker knows it."""
    split_seconds: float = 0.0
    """The same for splitting, headers and terms."""


class EmbeddedTexts(NamedTuple):
    """The vectors of one window of texts."""

    rows: Rows
    """(n, dimension), in the order of the texts."""
    seconds: float
    """Wall clock time that the embedder took."""


PendingEmbedding: TypeAlias = Callable[[], EmbeddedTexts]
"""An embedding under way: the call waits for it. Raises what the embedder raises."""


class BuildRunner(Protocol):
    """Drives the workers of one build. Used as a context manager; leaving it stops whatever is under way."""

    @property
    def max_parallel_batches(self) -> int:
        """How many windows it embeds side by side, 1 or more."""

    def prepare_files(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        """What becomes of each file, in their order, each exactly once, ahead of the caller by a bounded amount.

        Raises:
            WorkerError: workers cannot be started, or are lost again and again.
        """

    def start_embedding(self, texts: Sequence[str]) -> PendingEmbedding:
        """Begin to embed some texts and return at once."""

    def __enter__(self) -> BuildRunner: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
