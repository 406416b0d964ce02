"""Documents in a store that holds others too."""

from __future__ import annotations

from ragkit.answer.document_searcher import DocumentSearcher
from ragkit.embed.hashing import HashingEmbedder
from ragkit.records import Document
from ragkit.store.backends.memory import MemoryStore


def test_other_documents_of_the_store_do_not_displace_hits() -> None:
    embedder, store = HashingEmbedder(), MemoryStore()
    others = [Document(f"The hedge is cut in August, says note {n}.", id=f"other{n}") for n in range(40)]
    store.add_documents(others, embedder.embed_texts([document.text for document in others]))
    own = [Document("The hedge is cut.", source="a.md"), Document("The boiler is swept in May.", source="b.md")]
    searcher = DocumentSearcher(own, store, embedder, top_k=2)
    hits = searcher.search("When is the hedge cut in August?")
    assert {hit.chunk.source: "dense" in hit.scores for hit in hits} == {"a.md": True, "b.md": True}
    assert store.count() == 42


def test_without_documents_nothing_is_found() -> None:
    store = MemoryStore()
    store.add_documents([Document("a", id="x")], HashingEmbedder().embed_texts(["a"]))
    assert DocumentSearcher([], store, HashingEmbedder()).search("a") == []
