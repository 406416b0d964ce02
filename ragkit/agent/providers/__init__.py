"""Chat models, by the name of their service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragkit.registry import Place, Registry

if TYPE_CHECKING:
    from ragkit.agent.providers.base import Provider

PROVIDERS: Registry[Provider] = Registry(
    "provider",
    "providers",
    {
        "echo": Place("ragkit.agent.providers.scripted:EchoProvider"),
        "local": Place("ragkit.agent.providers.scripted:LocalProvider"),
    },
)
