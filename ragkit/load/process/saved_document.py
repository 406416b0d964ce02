"""A Document as a file, so that a document of a program is kept and indexed like any other file."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from ragkit.errors import LoadError
from ragkit.records import Document, Heading

SAVED_DOCUMENT_SUFFIX = ".ragkit-document"
LOADER_NAME = "document"
"""The loader of saved documents, in fingerprints. No pipeline names it."""


def dump_document(document: Document) -> bytes:
    """All fields of a document, as JSON. Raises TypeError or ValueError for metadata that JSON cannot represent."""
    fields = {**asdict(replace(document, metadata={})), "metadata": dict(document.metadata)}
    return json.dumps(fields, allow_nan=False, sort_keys=True).encode("ascii")


def load_document(data: bytes, source: str) -> Document:
    """The document of `dump_document`. Raises LoadError."""
    try:
        fields = json.loads(data)
        fields["headings"] = tuple(Heading(**heading) for heading in fields["headings"])
        fields["page_starts"] = tuple(fields["page_starts"])
        return Document(**fields)
    except (ValueError, TypeError, KeyError) as error:
        raise LoadError(source, "is not a saved document", "add the document again with KnowledgeBase.add") from error
