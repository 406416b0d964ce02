"""Who may read each document and why, and what an index run reports about a field `access` that is not understood."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ragkit.index.access.rules import AccessSettings, Grants
from ragkit.index.catalog.sqlite import Catalog
from ragkit.load.shared.access_field import PROBLEM
from ragkit.records import Document

ACCESS_HINT = "correct it and run `ragkit index` again"


@dataclass(frozen=True, slots=True)
class DocumentAccess:
    """Who may read a document: owners, and those who have a name of each condition."""

    source: str
    conditions: tuple[tuple[Grants, str], ...]
    """(names of which a reader must have one, `field`, `rule PATH` or `default`); empty: everyone reads it."""
    users: tuple[str, ...]
    """The known users who are no owners and may read it."""
    problem: str = ""
    """What of its field `access` was not understood."""


def audit_access(catalog: Catalog, settings: AccessSettings) -> Iterator[DocumentAccess]:
    """Who may read each document of a catalog, by source."""
    rows = catalog.connection.execute("SELECT source, metadata FROM documents WHERE live = 1 ORDER BY source")
    for source, text in rows:
        metadata = json.loads(text)
        conditions = tuple(settings.conditions(source, metadata))
        users = tuple(
            user.name
            for user in settings.users
            if user.grants is not None and all(user.grants & names for names, _ in conditions)
        )
        yield DocumentAccess(source, conditions, users, str(metadata.get(PROBLEM, "")))


def describe_problems(documents: Iterable[Document]) -> str:
    """The first problem of the documents of a file, and how many more there are; "" without any."""
    problems = [str(document.metadata[PROBLEM]) for document in documents if PROBLEM in document.metadata]
    more = f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else ""
    return problems[0] + more if problems else ""
