"""What was found out about the statements of an answer, as its citations say it.

Apart from the checks themselves (`support`), which only the answer of a model needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragkit.answer.base import Statement, Support
from ragkit.records import Citation

NOT_SUPPORTED = "not supported"
PARTLY_SUPPORTED = "partly supported"
NOT_CHECKED = "not checked"
"""`Citation.support` without a statement that cites it."""


def with_support(citations: Sequence[Citation], statements: Sequence[Statement]) -> tuple[Citation, ...]:
    """The citations with what was checked of the statements that cite them, in plain words."""
    return tuple(replace(citation, support=_citation_support(citation.n, statements)) for citation in citations)


def _citation_support(n: int, statements: Sequence[Statement]) -> str:
    citing = [statement for statement in statements if n in statement.citations]
    if not citing:
        return NOT_CHECKED
    if any(statement.support is Support.NOT_FOUND for statement in citing):
        return NOT_SUPPORTED
    checks = list(dict.fromkeys(check for statement in citing for check in statement.checks))
    if any(statement.support is Support.PARTLY for statement in citing):
        return ", ".join([PARTLY_SUPPORTED, *(check for check in checks if check != "wording matches")])
    return ", ".join(checks)


def quoted_statements(quotes: Sequence[tuple[str, Citation]]) -> tuple[Statement, ...]:
    """The statements of an answer that consists of quotes: supported where the quote stands in the indexed text."""
    return tuple(
        Statement(" ".join(text.split()), (citation.n,), Support.SUPPORTED, ("quote found",))
        if citation.verified
        else Statement(" ".join(text.split()), (citation.n,), Support.NOT_FOUND, (), "the quote is not in the document")
        for text, citation in quotes
    )
