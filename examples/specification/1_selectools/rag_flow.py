"""RAG-Enhanced Flow: setup and search"""

# --- Head: names that the snippet leaves out ---
from pathlib import Path

Path("docs").mkdir(exist_ok=True)
Path("docs/garden.md").write_text("# Garden\n\nThe hedge is cut in August.\n")
Path("docs/house.md").write_text("# House\n\nThe boiler is swept in May.\n")
question = "When is the hedge cut?"

from ragkit import DocumentLoader, RecursiveTextSplitter, VectorStore
from ragkit.embed import EMBEDDERS

TextSplitter = RecursiveTextSplitter()
EmbeddingProvider = EMBEDDERS.find("minilm")()
VectorStore = VectorStore.create("memory")

# --- The snippet ---
docs = DocumentLoader.from_directory("./docs")
chunks = TextSplitter.split_documents(docs)
embeddings = EmbeddingProvider.embed_texts([chunk.text for chunk in chunks])
VectorStore.add_documents(chunks, embeddings)

query_embedding = EmbeddingProvider.embed_query(question)
matches = VectorStore.search(query_embedding, top_k=3)
