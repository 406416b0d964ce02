"""The options of an index run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ragkit.argument_types import check_types
from ragkit.embed.base import Row, Rows
from ragkit.index.build_runner import BuildRunner
from ragkit.index.report import IndexEvent
from ragkit.pipeline.assemble import PipelineComponents


@check_types()
@dataclass(frozen=True)
class IndexOptions:
    """Options of one index run."""

    dry_run: bool = False
    """Parse and split, count what would be embedded, and change nothing."""
    retry_failed: bool = False
    """Retry files that failed before, although they have not changed."""
    rebuild: bool = False
    """Accept settings that differ from those of the last build, and index everything again."""
    include: tuple[str, ...] = ()
    """Only files that match, in this run; empty: the patterns of the pipeline."""
    exclude: tuple[str, ...] = ()
    """Patterns to exclude in this run, in addition to those of the pipeline."""
    jobs: int = 0
    """Processes that parse and split files; 0: the setting of the pipeline."""
    max_cost_usd: float | None = None
    """Limit in USD for embedding and for contexts of chunks. A run with a higher estimate does not start, and a run
    that reaches the limit stops; what was paid for is kept, and the next run continues from there."""
    on_event: Callable[[IndexEvent], None] = lambda event: None
    """Called with every event of the run."""
    runner_factory: Callable[[PipelineComponents, int], BuildRunner] = PipelineComponents.create_runner
    """Creates the runner that parses, splits and embeds; the default follows the pipeline and `jobs`."""
    find_known_vectors: Callable[[Sequence[bytes]], Mapping[bytes, Row]] | None = None
    """Text hashes -> vectors of the same embedder that exist elsewhere; these are copied instead of computed."""
    save_vectors: Callable[[Sequence[bytes], Rows], None] | None = None
    """Called with each new vector and the hash of its text, before the knowledge base records it."""
    searchable_first: bool = False
    """With `embed: {when: question}`: publish with static vectors first, and embed afterwards. False: embed while files
    are read, and publish chunks with their vectors."""
    wait: bool = True
    """With `searchable_first`: embed everything before returning. False: leave that to searches and later runs."""
    accept_deletions: bool = False
    """Remove documents of configured sources although they are more than a third of a source."""
    keep_patterns: bool = False
    """Use the include and exclude patterns of each source's last run."""
    again: tuple[str, ...] = ()
    """Sources of files to index although they have not changed."""
