"""Tells providers with our signatures from those with the documented ones, which need an adapter."""

from __future__ import annotations

from ragkit.agent.providers.base import METHODS, Provider, takes_messages
from ragkit.errors import InvalidType

DOCUMENTED = "complete(model, system_prompt, messages)"


def adapt_provider(provider: Provider) -> Provider:
    """The provider itself if its methods take a ModelRequest, else an adapter for it.

    Raises:
        InvalidType: its methods take a request, and it does not derive from Provider.
        InvalidOption: it has none of the known methods, or one of them has a parameter without a known meaning.
    """
    kind = type(provider)
    own = [name for name in METHODS if getattr(kind, name, None) not in (None, getattr(Provider, name))]
    assigned = [name for name in METHODS if name in getattr(provider, "__dict__", ()) and name not in own]
    is_ours = kind.__module__.startswith("ragkit.") and Provider in kind.__mro__
    if is_ours or (own and not any(takes_messages(getattr(kind, name)) for name in own)):
        if not hasattr(provider, "native_tools"):
            raise InvalidType("provider", provider, f"a subclass of Provider, or an object with {DOCUMENTED}")
        return provider
    from ragkit.agent.providers.adapter import AdaptedProvider

    # what it inherits from a provider of ours takes a request, and calls the documented methods with one
    return AdaptedProvider(provider, [*(name for name in own if not _is_from_ragkit(getattr(kind, name))), *assigned])


def _is_from_ragkit(method: object) -> bool:
    return (getattr(method, "__module__", None) or "").startswith("ragkit.")
