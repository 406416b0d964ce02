"""Token counts as reported by a service, and an estimate without a tokenizer.

Vendor tokenizers are not used, since they download their tables.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tokens:
    """The usage that a service reported for one chat request."""

    prompt_tokens: int = 0
    """Tokens sent, including those read from the service's prompt cache."""
    completion_tokens: int = 0
    """Tokens received, including reasoning."""
    cached_tokens: int = 0
    """Those of `prompt_tokens` that the service read from its prompt cache."""
    cache_write_tokens: int = 0
    """Those of `prompt_tokens` that the service wrote to its prompt cache."""
    cost_usd: float | None = None
    """US dollars if the provider reports them (0.0 for a local model); None: use the price book."""

    @property
    def total(self) -> int:
        """Tokens sent and received."""
        return self.prompt_tokens + self.completion_tokens


ZERO_TOKENS = Tokens()
"""No usage reported."""


def estimate_tokens(text: str) -> int:
    """The estimated number of tokens: a quarter of the UTF-8 bytes, rounded up; 0 for an empty text.

    English prose has 4 to 5 bytes per token with common tokenizers, so the estimate tends to be high.
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return (size + 3) // 4
