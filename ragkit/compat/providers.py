"""The documented call of a provider: `complete(model, system_prompt, messages, tools, ...)`.

`ragkit.agent.providers.base` imports this module when a provider is called so. `ragkit.agent.providers.adapter` adapts
providers that are defined so.
"""

from __future__ import annotations

from ragkit.agent.messages import Message
from ragkit.agent.providers.base import ModelRequest, ModelSettings
from ragkit.agent.tools.base import Tool


def to_request(  # noqa: PLR0913 - the documented signature
    model: str,
    system_prompt: str = "",
    messages: tuple[Message, ...] | list[Message] = (),
    tools: tuple[Tool, ...] | list[Tool] = (),
    *,
    temperature: float = 0.7,
    max_tokens: int = 2048,
    timeout: float | None = None,
) -> ModelRequest:
    """The request of the documented arguments."""
    system = (Message.system(system_prompt),) if system_prompt else ()
    settings = ModelSettings(temperature, max_tokens=max_tokens, timeout_s=timeout)
    return ModelRequest(model, (*system, *messages), tuple(tools or ()), settings)
