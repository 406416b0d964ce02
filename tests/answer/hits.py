"""Hand-written hits for tests without an index."""

from __future__ import annotations

from ragkit.records import Chunk, Hit, content_id


def hit(
    text: str, *, source: str = "/a.txt", start: int = 0, title: str = "", dense: float | None = None, bm25: float = 0.0
) -> Hit:
    """A passage at offset `start` of its document."""
    chunk = Chunk(
        id=content_id(source, str(start)),
        document_id=content_id(source),
        source=source,
        text=text,
        start=start,
        end=start + len(text),
        start_line=1,
        end_line=1 + text.count("\n"),
        title=title,
        heading=(title,) if title else (),
    )
    scores = {"lexical": bm25} if dense is None else {"dense": dense, "lexical": bm25}
    return Hit(chunk, bm25 if dense is None else dense, scores)
