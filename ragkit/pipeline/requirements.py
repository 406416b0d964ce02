"""Check the requirements of a component's stages when a pipeline is validated, before they run."""

from __future__ import annotations

from collections.abc import Iterator

from ragkit.errors import InvalidOption, ProviderError, UnknownName
from ragkit.pipeline.sections import describe_import_error
from ragkit.retrieve import RERANKERS
from ragkit.retrieve.options import SearchOptions
from ragkit.split.options import ChunkContextOptions


def missing_requirements(options: object) -> Iterator[tuple[str, str]]:
    """(option, message) for each stage that cannot run on this machine."""
    context = getattr(options, "context", None)
    if isinstance(context, ChunkContextOptions):
        # a local import: reading pipeline files must not import the agent
        from ragkit.agent.providers.lookup import get_provider  # noqa: PLC0415

        try:
            get_provider(context.model)
        except (UnknownName, ProviderError, ImportError) as error:
            yield "context", f"context.model: {error}"
    if not isinstance(options, SearchOptions):
        return
    if options.rewrite is not None:
        # a local import: reading pipeline files must not import the agent
        from ragkit.retrieve.query_rewriting import resolve_provider  # noqa: PLC0415

        try:
            resolve_provider(options.rewrite)
        except InvalidOption as error:
            yield "rewrite", f"rewrite.provider must be {error.expected} (got {error.value!r})"
        except (UnknownName, ProviderError, ImportError) as error:
            yield "rewrite", f"rewrite: {error}"
    if options.rerank is not None:
        message = describe_import_error(RERANKERS, options.rerank.name, RERANKERS.find)
        if message:
            yield "rerank", message
