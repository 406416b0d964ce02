"""Who answers: from `provider:model` to the provider."""

from __future__ import annotations

from ragkit.agent.providers import PROVIDERS
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.choose import automatic_provider, named_provider
from ragkit.answer.base import Searcher
from ragkit.answer.extractive import ExtractiveProvider
from ragkit.errors import UnknownName

AUTO, EXTRACTIVE = "auto", "extractive"


def provider_for(name: str, searcher: Searcher) -> Provider:
    """The provider of `provider:model` or `provider`.

    `auto` is the first service whose key is set, in the order of `ragkit.agent.providers.keys.KEYS`; without a key
    it is the answerer that needs no model, as `extractive` is in any case.

    Raises UnknownName, MissingExtra, AuthenticationFailed.
    """
    kind = name.partition(":")[0]
    if kind == EXTRACTIVE:
        return ExtractiveProvider(searcher)
    if kind == AUTO:
        return automatic_provider() or ExtractiveProvider(searcher)
    if kind not in PROVIDERS.names():
        raise UnknownName("provider", kind, (AUTO, EXTRACTIVE, *PROVIDERS.names()))
    return named_provider(name)


def model_name(name: str) -> str:
    """The model in `provider:model`; empty for the provider's own choice."""
    return name.partition(":")[2]
