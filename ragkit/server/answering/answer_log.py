"""The audit line of each answer: who asked, the id of its trace, and the documents that it cites."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ragkit.server.concurrency import PRINCIPAL
from ragkit.server.principals import CURRENT

LOG = logging.getLogger("ragkit.server.audit")


def log_answer(trace: str, sources: Sequence[str]) -> None:
    """Log one answer."""
    principal = CURRENT.get()
    who = principal.name if principal is not None and principal.name != "local" else PRINCIPAL.get() or "local"
    documents = list(dict.fromkeys(sources))
    extra = {"user": who, "trace": trace, "documents": documents}
    LOG.info("answered %s for %s from %s", trace, who, ", ".join(documents) or "no document", extra=extra)
