"""Vector Store Abstraction"""

# --- Head: names that the snippet leaves out ---
import numpy as np

from ragkit import Document, VectorStore

documents = [Document("The hedge.", {"year": 2024}, id="a"), Document("The boiler.", {"year": 2019}, id="b")]
embeddings = np.array([[1, 0], [0, 1]], np.float32)
query_embedding, top_k, filter = embeddings[0], 3, {"year": 2024}
stores = [VectorStore.create("memory"), VectorStore.create("sqlite", path="store.db")]

# --- The snippet ---
found = []
for store in stores:
    ids = store.add_documents(documents, embeddings)
    found.append(store.search(query_embedding, top_k, filter))
    store.delete(ids[:1])
    store.clear()

# --- Tail: a use of the snippet ---
counts = [store.count() for store in stores]
for store in stores:
    store.close()
