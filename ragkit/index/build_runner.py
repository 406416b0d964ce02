"""The protocol between a build and its workers: in-process, local processes, or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

if TYPE_CHECKING:  # the table of runners imports this module, and `ragkit status` the table
    from ragkit.embed.base import Rows
    from ragkit.index.plan import FileTask
    from ragkit.load.files.file_io import FileStat
    from ragkit.load.process.parsing import ParseFailure
    from ragkit.records import Chunk, Document


@dataclass(frozen=True, slots=True)
class PreparedFile:
    """A file that was read, parsed and split. Depends on no index."""

    document: Document
    content_hash: str
    """blake2b of the file's bytes, 32 hex digits."""
    stat: FileStat
    """Size and times when the file was read."""
    loader: str
    """Name of the loader that parsed it."""
    chunks: tuple[Chunk, ...]
    """By start offset; empty for a document without text."""
    texts: tuple[str, ...]
    """Text to embed of each chunk: header and text."""
    terms: tuple[tuple[str, ...], ...]
    """Terms of each chunk, for the lexical index."""
    load_seconds: float = 0.0
    """Wall clock time of reading and parsing; 0 if unknown."""
    split_seconds: float = 0.0
    """Wall clock time of splitting and of extracting headers and terms."""
    split_tokens: int = 0
    """Tokens of the sentences that the splitter would embed, in a cost estimate; otherwise 0."""
    parts: tuple[PreparedFile, ...] = ()
    """The documents inside this one, at any depth."""


class EmbeddedTexts(NamedTuple):
    """The vectors of one batch of texts."""

    rows: Rows
    """(n, dimension), in the order of the texts."""
    seconds: float
    """Wall clock time of the embedder."""


PendingEmbedding: TypeAlias = Callable[[], EmbeddedTexts]
"""A running embedding: the call waits for its result. Raises what the embedder raises."""


class BuildRunner(Protocol):
    """Runs the workers of one build. A context manager; exit stops all running work."""

    @property
    def max_parallel_batches(self) -> int:
        """Number of batches embedded in parallel, >= 1."""

    def prepare_files(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        """Yield the result of each task, in order, each exactly once. Prefetches a bounded number of files.

        Raises:
            WorkerError: workers cannot be started, or die repeatedly.
        """

    def start_embedding(self, texts: Sequence[str]) -> PendingEmbedding:
        """Start to embed texts; returns immediately."""

    def __enter__(self) -> BuildRunner: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class RunnerAround:
    """The base of runners that do something beside another one."""

    def __init__(self, inner: BuildRunner) -> None:
        self._inner = inner

    @property
    def max_parallel_batches(self) -> int:
        """As the inner runner."""
        return self._inner.max_parallel_batches

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inner.__exit__(kind, error, trace)

    def prepare_files(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        """As the inner runner."""
        return self._inner.prepare_files(work)

    def start_embedding(self, texts: Sequence[str]) -> PendingEmbedding:
        """As the inner runner."""
        return self._inner.start_embedding(texts)


@runtime_checkable
class EmbeddingSharer(Protocol):
    """A runner that may give texts to workers of other machines."""

    def share(self, texts: Sequence[str]) -> PendingEmbedding | None:
        """Give texts to workers; None if there are none."""
