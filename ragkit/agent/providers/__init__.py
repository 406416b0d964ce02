"""Chat models, by the name of their service."""

from __future__ import annotations

from ragkit.agent.providers.base import Provider
from ragkit.registry import Place, Registry

PROVIDERS: Registry[Provider] = Registry(
    "provider",
    "providers",
    {
        "echo": Place("ragkit.agent.providers.scripted:EchoProvider"),
        "local": Place("ragkit.agent.providers.scripted:LocalProvider"),
    },
)
