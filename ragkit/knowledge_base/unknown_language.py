"""Say that most of the text is in a language that the embedder was not trained on, and what to do."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from ragkit.distribution import install_command
from ragkit.embed.base import EmbeddingProvider, MonolingualEmbedder
from ragkit.lexical.languages import ENGLISH, find_main_language

MAX_SAMPLED = 200
"""Chunks whose language is detected, evenly spaced."""


def describe_unknown_language(connection: sqlite3.Connection, keys: Sequence[int], embedder: EmbeddingProvider) -> str:
    """One line, or nothing: for a knowledge base whose embedder knows English only. `keys` are those of its chunks."""
    if not isinstance(embedder, MonolingualEmbedder) or embedder.language != "en":
        return ""
    sample = [int(key) for key in keys[:: -(-len(keys) // MAX_SAMPLED) or 1]]
    query = "SELECT text FROM chunks WHERE key IN (SELECT value FROM json_each(?))"
    language = find_main_language(text for (text,) in connection.execute(query, (json.dumps(sample),)))
    if language in ("", ENGLISH):
        return ""
    name = getattr(embedder, "model", "")
    return (
        f"most of the text is in {language}, and the embedder {name} was trained on English: "
        f"{install_command('multilingual')} && ragkit index --rebuild --set embed.name=multilingual"
    )
