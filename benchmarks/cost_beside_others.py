"""Compare the costs that LangChain, LlamaIndex, Haystack, selectools and ragkit report for the same job.

The job: index 20 short texts, then ask one question, which the model answers after one call of a search tool. All
systems use a local server with OpenAI's protocol that counts every token; the table compares the reported numbers with
the server's. Each system runs in a separate process.

    python -m benchmarks.cost_beside_others --others PYTHON [--only NAME ...] [--write]

The other packages can be installed in other environments (`--others`); selectools needs one of its own, since it wants
an older `openai`:

    pip install langchain langchain-openai langchain-community langchain-text-splitters llama-index-core \\
        llama-index-llms-openai llama-index-embeddings-openai haystack-ai
    pip install selectools

txtai is not here: it returns texts of a model, without its counts. `--write` puts the figures of the systems that ran
into `docs/comparison.json` and writes the tables of the page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CHAT, EMBEDDER = "gpt-4o-mini", "text-embedding-3-small"
USD_IN, USD_OUT, USD_EMBED = 0.15e-6, 0.60e-6, 0.02e-6
"""OpenAI's prices of the two models in US dollars per token."""
TEXTS = [
    f"Boiler {number} takes {number} minutes to warm up, and its filter is cleaned on Mondays." for number in range(20)
]
QUESTION = "How long does boiler 7 take to warm up?"
Report = dict[str, Any]
"""prompt, completion, llm_usd, index_tokens, question_tokens, embedding_usd, total_usd; None: not reported."""


def langchain() -> Report:
    """create_agent, an in-memory vector store, and the cost callback of langchain-community."""
    from langchain.agents import create_agent
    from langchain_community.callbacks import get_openai_callback
    from langchain_core.tools import tool
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    with get_openai_callback() as counted:
        # check_embedding_ctx_length=False avoids the download of a tokenizer
        store = InMemoryVectorStore(OpenAIEmbeddings(model=EMBEDDER, check_embedding_ctx_length=False))
        store.add_texts(TEXTS)

        @tool
        def search_documents(query: str) -> str:
            """Search the documents."""
            return "\n".join(document.page_content for document in store.similarity_search(query, k=4))

        agent = create_agent(ChatOpenAI(model=CHAT), [search_documents])
        agent.invoke({"messages": [{"role": "user", "content": QUESTION}]})
    return {
        "version": version("langchain"),
        "prompt": counted.prompt_tokens,
        "completion": counted.completion_tokens,
        "llm_usd": counted.total_cost,
        "total_usd": counted.total_cost,
    }


def llamaindex() -> Report:
    """VectorStoreIndex, FunctionAgent with a retriever as its tool, and TokenCountingHandler."""
    from llama_index.core import Document, Settings, VectorStoreIndex
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
    from llama_index.core.tools import FunctionTool
    from llama_index.embeddings.openai import OpenAIEmbedding
    from llama_index.llms.openai import OpenAI

    # the default tokenizer would be downloaded; this one counts like the server
    counter = TokenCountingHandler(tokenizer=lambda text: [0] * -(-len(text) // 4))
    Settings.callback_manager = CallbackManager([counter])
    Settings.tokenizer = counter.tokenizer
    Settings.embed_model = OpenAIEmbedding(model=EMBEDDER)
    Settings.llm = OpenAI(model=CHAT)
    index = VectorStoreIndex.from_documents([Document(text=text) for text in TEXTS])
    indexed = counter.total_embedding_token_count
    retriever = index.as_retriever(similarity_top_k=4)

    def search_documents(query: str) -> str:
        """Search the documents."""
        return "\n".join(node.get_content() for node in retriever.retrieve(query))

    async def run() -> None:
        await FunctionAgent(tools=[FunctionTool.from_defaults(search_documents)], llm=Settings.llm).run(QUESTION)

    asyncio.run(run())
    return {
        "version": version("llama-index-core"),
        "prompt": counter.prompt_llm_token_count,
        "completion": counter.completion_llm_token_count,
        "index_tokens": indexed,
        "question_tokens": counter.total_embedding_token_count - indexed,
    }


def haystack() -> Report:
    """A pipeline that embeds and writes, and an Agent with a pipeline that embeds and retrieves as its tool."""
    from haystack import Document, Pipeline
    from haystack.components.agents import Agent
    from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.components.retrievers import InMemoryEmbeddingRetriever
    from haystack.components.writers import DocumentWriter
    from haystack.dataclasses import ChatMessage
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from haystack.tools import create_tool_from_function

    store = InMemoryDocumentStore()
    indexing = Pipeline()
    indexing.add_component("embed", OpenAIDocumentEmbedder(model=EMBEDDER, progress_bar=False))
    indexing.add_component("write", DocumentWriter(store))
    indexing.connect("embed.documents", "write.documents")
    indexed = indexing.run({"embed": {"documents": [Document(content=text) for text in TEXTS]}})
    embedder, retriever = OpenAITextEmbedder(model=EMBEDDER), InMemoryEmbeddingRetriever(store, top_k=4)
    asked: list[int] = []

    def search_documents(query: str) -> str:
        """Search the documents."""
        row = embedder.run(query)
        asked.append(row["meta"]["usage"]["prompt_tokens"])
        found = retriever.run(query_embedding=row["embedding"])
        return "\n".join(document.content for document in found["documents"])

    search_documents.__annotations__ = {"query": str, "return": str}  # Haystack reads types, and these are strings
    agent = Agent(chat_generator=OpenAIChatGenerator(model=CHAT), tools=[create_tool_from_function(search_documents)])
    usage = agent.run(messages=[ChatMessage.from_user(QUESTION)])["token_usage"]
    return {
        "version": version("haystack-ai"),
        "prompt": usage["prompt_tokens"],
        "completion": usage["completion_tokens"],
        "index_tokens": indexed["embed"]["meta"]["usage"]["prompt_tokens"],
        "question_tokens": sum(asked),
    }


def selectools() -> Report:
    """RAGAgent with an in-memory store, and the usage of its agent."""
    from selectools import OpenAIProvider
    from selectools.embeddings import OpenAIEmbeddingProvider
    from selectools.rag import Document, RAGAgent, VectorStore

    store = VectorStore.create("memory", embedder=OpenAIEmbeddingProvider(model=EMBEDDER))
    agent = RAGAgent.from_documents([Document(text=text) for text in TEXTS], OpenAIProvider(default_model=CHAT), store)
    usage = agent.run(QUESTION).usage
    return {
        "version": version("selectools"),
        "prompt": usage.total_prompt_tokens,
        "completion": usage.total_completion_tokens,
        "llm_usd": usage.total_cost_usd,
        "question_tokens": usage.total_embedding_tokens,
        "embedding_usd": usage.total_embedding_cost_usd,
        "total_usd": usage.total_cost_usd + usage.total_embedding_cost_usd,
    }


def ragkit() -> Report:
    """KnowledgeBase.index and KnowledgeBase.ask, and the usage of both."""
    import ragkit as package
    from ragkit import KnowledgeBase, Pipeline

    with tempfile.TemporaryDirectory() as folder:
        documents = Path(folder) / "docs"
        documents.mkdir()
        for number, text in enumerate(TEXTS):
            (documents / f"{number:02}.txt").write_text(text, encoding="utf-8")
        pipeline = Pipeline.from_yaml(f"extends: default\nembed: {{name: openai, model: {EMBEDDER}, dimensions: 16}}\n")
        with KnowledgeBase.open(Path(folder) / "kb", pipeline) as kb:
            indexed = kb.index(documents).usage
            answered = kb.ask(QUESTION, model=f"openai:{CHAT}").usage.to_dict()
    return {
        "version": package.__version__,
        "prompt": answered["prompt_tokens"],
        "completion": answered["completion_tokens"],
        "llm_usd": answered["llm_cost_usd"],
        "index_tokens": indexed["embedding_tokens"],
        "question_tokens": answered["embedding_tokens"],
        "embedding_usd": indexed["embedding_cost_usd"] + answered["embedding_cost_usd"],
        "total_usd": indexed["total_cost_usd"] + answered["total_cost_usd"],
    }


SYSTEMS: dict[str, Callable[[], Report]] = {
    "ragkit": ragkit,
    "LangChain": langchain,
    "LlamaIndex": llamaindex,
    "Haystack": haystack,
    "selectools": selectools,
}


def run(name: str, python: str) -> tuple[Report, Report]:
    """(the numbers that a system reports, the numbers that the server counted for it)."""
    from tests.cost.wire import serving

    with serving() as wire:
        env = {**os.environ, "OPENAI_BASE_URL": wire.url, "OPENAI_API_BASE": wire.url, "OPENAI_API_KEY": "test"}
        command = [python, "-m", "benchmarks.cost_beside_others", "--run", name]
        process = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        if process.returncode:
            raise SystemExit(f"{name} failed:\n{process.stderr[-3000:]}")
        reported: Report = json.loads(process.stdout.splitlines()[-1])
        _, prompt, completion = wire.total("/chat/completions")
        _, embedded, _ = wire.total("/embeddings")
    llm, embedding = prompt * USD_IN + completion * USD_OUT, embedded * USD_EMBED
    counted = {"prompt": prompt, "completion": completion, "llm_usd": llm, "embedded": embedded}
    return reported, {**counted, "embedding_usd": embedding, "total_usd": llm + embedding}


def main() -> None:
    """Run the systems and print the table: reported / counted by the server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--others", default=sys.executable, help="the Python with the other packages")
    parser.add_argument("--only", nargs="+", choices=list(SYSTEMS), help="run only these")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/comparison.json and the page")
    parser.add_argument("--run", choices=list(SYSTEMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(SYSTEMS[options.run]()))
        return
    from benchmarks import comparison

    figures: dict[str, Any] = {}
    for name in options.only or SYSTEMS:
        reported, counted = run(name, sys.executable if name == "ragkit" else options.others)
        figures[name] = {"reported": reported, "counted": counted}
        if options.write:
            comparison.add("cost", name, figures[name])
    print(comparison.TABLES["cost"]({"cost": figures}))


if __name__ == "__main__":
    main()
