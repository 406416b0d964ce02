"""Documents in a store that holds others too."""

from __future__ import annotations

from ragkit.answer.searchers.document_searcher import DocumentSearcher
from ragkit.embed.hashing import HashingEmbedder
from ragkit.records import Document
from ragkit.store.backends.memory import MemoryStore


def test_the_documents_of_the_store_and_those_that_are_added_are_found_alike() -> None:
    embedder, store = HashingEmbedder(), MemoryStore()
    others = [Document(f"The hedge is cut in August, says note {n}.", id=f"other{n}") for n in range(40)]
    store.add_documents(others, embedder.embed_texts([document.text for document in others]))
    own = [Document("The hedge is cut.", source="a.md"), Document("The boiler is swept in May.", source="b.md")]
    searcher = DocumentSearcher(own, store, embedder, top_k=2)
    hits = searcher.search("When is the boiler swept in May?")
    assert hits[0].source == "b.md"
    [hit] = searcher.search("note 7", top_k=1)
    assert (hit.source, "dense" in hit.scores) == ("other7", True)
    assert store.count() == 42


def test_in_an_empty_store_nothing_is_found() -> None:
    assert DocumentSearcher([], MemoryStore(), HashingEmbedder()).search("a") == []
