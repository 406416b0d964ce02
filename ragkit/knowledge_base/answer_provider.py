"""The provider that answers from a knowledge base: from `provider:model` to the provider."""

from __future__ import annotations

from difflib import get_close_matches

from ragkit.agent.providers import PROVIDERS
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.lookup import detect_provider, get_provider
from ragkit.answer.base import Searchable
from ragkit.answer.extractive.provider import ExtractiveProvider
from ragkit.errors import InvalidOption, UnknownName

AUTO, EXTRACTIVE = "auto", "extractive"


def resolve_answer_provider(name: str, documents: Searchable) -> Provider:
    """The provider of `provider:model` or `provider`.

    `auto` is the first service with an API key, in the order of `ragkit.agent.providers.credentials.KEY_VARIABLES`, and
    without any key the extractive provider, which needs no model.

    Raises:
        UnknownName, MissingExtra, AuthenticationFailed.
    """
    kind = name.partition(":")[0]
    if kind == EXTRACTIVE:
        return ExtractiveProvider(documents)
    if kind == AUTO:
        return detect_provider() or ExtractiveProvider(documents)
    # plugins are looked up for other names only: that reads the metadata of every installed package
    if kind not in PROVIDERS.specs:
        known = (AUTO, EXTRACTIVE, *PROVIDERS.names())
        if kind == name and not get_close_matches(name, known, n=1):
            raise InvalidOption("model", name, f"provider:model, such as openai:{name}")
        if kind not in known:
            raise UnknownName("provider", kind, known)
    return get_provider(name)


def model_name(name: str) -> str:
    """The model in `provider:model`; '' for the default model of the provider."""
    return name.partition(":")[2]
