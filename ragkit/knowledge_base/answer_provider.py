"""The provider that answers from a knowledge base: from `provider:model` to the provider."""

from __future__ import annotations

from difflib import get_close_matches

from ragkit.agent.providers import PROVIDERS
from ragkit.agent.providers.base import METHODS, Provider
from ragkit.agent.providers.lookup import detect_provider, get_provider
from ragkit.answer.base import Searchable
from ragkit.answer.extractive.provider import ExtractiveProvider
from ragkit.errors import InvalidOption, UnknownName

AUTO, EXTRACTIVE = "auto", "extractive"


def resolve_answer_provider(name: str | Provider, documents: Searchable) -> Provider:
    """The provider of `provider:model` or `provider`; one of the program as it is.

    `auto` is the first service with an API key, in the order of `ragkit.agent.providers.credentials.KEY_VARIABLES`, and
    without any key the extractive provider, which needs no model.

    Raises:
        UnknownName, MissingExtra, AuthenticationFailed.
        InvalidOption: `name` is neither a name nor a provider.
    """
    if not isinstance(name, str):
        if not any(callable(getattr(name, method, None)) for method in (*METHODS, "chat")):
            raise InvalidOption("model", type(name).__name__, "`provider:model`, or a Provider")
        return name
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


def model_name(name: str | Provider) -> str:
    """The model in `provider:model`; '' for the default model of the provider."""
    return name.partition(":")[2] if isinstance(name, str) else ""
