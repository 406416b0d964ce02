"""Token counts: what a service reported, and an estimate where nothing has been reported yet.

No vendor tokenizer is used here: they download their tables.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a model's service reported for one chat request."""

    prompt_tokens: int = 0
    """Tokens sent, those read from the service's own prompt cache included."""
    completion_tokens: int = 0
    """Tokens received, reasoning included."""
    cached_tokens: int = 0
    """The part of `prompt_tokens` that the service read from its prompt cache."""
    cache_write_tokens: int = 0
    """The part of `prompt_tokens` that the service wrote into its prompt cache."""
    cost_usd: float | None = None
    """US dollars where the provider knows them (0.0 for a local model); None lets the price book say."""

    @property
    def total(self) -> int:
        """Tokens sent and received."""
        return self.prompt_tokens + self.completion_tokens


ZERO_TOKENS = Tokens()
"""Nothing reported."""


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` has: a quarter of its UTF-8 bytes, rounded up; 0 for an empty text.

    English prose has 4 to 5 bytes a token with the tokenizers in use, so the estimate errs on the high side.
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return (size + 3) // 4
