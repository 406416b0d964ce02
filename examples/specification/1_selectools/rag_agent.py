"""RAGAgent High-Level API"""

# --- Head: names that the snippet leaves out ---
from pathlib import Path

Path("docs").mkdir(exist_ok=True)
Path("docs/garden.md").write_text("# Garden\n\nThe hedge is cut in August.\n")
Path("docs/house.md").write_text("# House\n\nThe boiler is swept in May.\n")
question = "When is the hedge cut?"

from ragkit import DocumentLoader, RAGAgent, ScriptedProvider, ToolCall, VectorStore

search = ToolCall("search_knowledge_base", {"query": question})
provider = ScriptedProvider([search, "It is cut in August [1]."] * 3)
docs = DocumentLoader.from_directory("docs")
path, paths = "docs", ["docs/garden.md", "docs/house.md"]

# --- The snippet ---
agents = [
    RAGAgent.from_documents(docs, provider, VectorStore.create("memory")),
    RAGAgent.from_directory(path, provider, VectorStore.create("memory")),
    RAGAgent.from_files(paths, provider, VectorStore.create("memory")),
]

# --- Tail: a use of the snippet ---
answers = [agent.ask(question) for agent in agents]
