"""Who answers: from `provider:model` to the provider."""

from __future__ import annotations

from ragkit.agent.providers import PROVIDERS
from ragkit.agent.providers.base import Provider
from ragkit.answer.base import Searcher
from ragkit.answer.extractive import ExtractiveProvider
from ragkit.errors import UnknownName

AUTO, EXTRACTIVE = "auto", "extractive"


def provider_for(name: str, searcher: Searcher) -> Provider:
    """The provider of `provider:model` or `provider`.

    `auto` is the answerer that needs no model. Raises UnknownName, MissingExtra.
    """
    kind = name.partition(":")[0]
    if kind in {AUTO, EXTRACTIVE}:
        return ExtractiveProvider(searcher)
    if kind not in PROVIDERS.names():
        raise UnknownName("provider", kind, (AUTO, EXTRACTIVE, *PROVIDERS.names()))
    return PROVIDERS.find(kind)()


def model_name(name: str) -> str:
    """The model in `provider:model`; empty for the provider's own choice."""
    return name.partition(":")[2]
