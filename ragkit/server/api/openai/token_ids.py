"""Read token ids as text: some clients of the embeddings API send the tokens of OpenAI's models instead of texts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ragkit.errors import RagkitError

if TYPE_CHECKING:
    import tiktoken

VOCABULARY = "cl100k_base"
"""What clients use for models that they do not know, LangChain among them."""
_FILE_NAME = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
"""The name of the vocabulary in the cache of tiktoken: SHA-1 of its address."""


class UnknownTokens(RagkitError):
    """Token ids that cannot be read as text. The message says why."""


def decode_tokens(rows: Sequence[Sequence[int]]) -> list[str]:
    """The text of each row of token ids.

    Needs tiktoken, and its vocabulary in the folder TIKTOKEN_CACHE_DIR: a server downloads nothing. Raises
    UnknownTokens.
    """
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", "")
    if find_spec("tiktoken") is None or not folder or not (Path(folder) / _FILE_NAME).is_file():
        raise UnknownTokens(
            f"token ids need tiktoken and its vocabulary {VOCABULARY} in TIKTOKEN_CACHE_DIR on the server: send texts"
            " (LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False))"
        )
    encoding = _load_encoding()
    texts = []
    for number, row in enumerate(rows):
        try:
            texts.append(encoding.decode(list(row)))
        except (KeyError, OverflowError) as error:
            message = (
                f"input[{number}] has a token id that {VOCABULARY} does not have (0 to {encoding.max_token_value})"
            )
            raise UnknownTokens(message) from error
    return texts


@lru_cache(maxsize=1)
def _load_encoding() -> tiktoken.Encoding:
    import tiktoken  # noqa: PLC0415 # optional

    return tiktoken.get_encoding(VOCABULARY)
