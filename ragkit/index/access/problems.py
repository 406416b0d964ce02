"""What an index run reports about documents whose field `access` was not understood."""

from __future__ import annotations

from collections.abc import Iterable

from ragkit.load.shared.access_field import PROBLEM
from ragkit.records import Document

ACCESS_HINT = "correct it and run `ragkit index` again"


def describe_problems(documents: Iterable[Document]) -> str:
    """The first problem of the documents of a file, and how many more there are; "" without any."""
    problems = [str(document.metadata[PROBLEM]) for document in documents if PROBLEM in document.metadata]
    more = f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else ""
    return problems[0] + more if problems else ""
