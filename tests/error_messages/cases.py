"""The mistakes, in the order in which users make them."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
from pathlib import Path

from pypdf import PdfWriter

from ragkit.index.catalog.checksums import read_checksums, write_checksums
from tests.error_messages.sandbox import HASHING, Mistake, Prepare, Sandbox
from tests.load import sample_files
from tests.wire.server import Fault

KEY = {"OPENAI_API_KEY": "test-key"}
ASK = "ask 'How often is a request sent again?' --model openai:gpt-4o-mini --no-stream"
UNREACHABLE = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
"""Port 9 (discard) is closed."""
QUESTION = "'How often is a request sent again?'"


def indexed(sandbox: Sandbox) -> None:
    """A knowledge base over one document."""
    sandbox.index()


def documents(sandbox: Sandbox) -> None:
    """Documents and no knowledge base yet."""
    sandbox.write("docs/guide.md", "# Retries\n\nTwice.\n")
    sandbox.write("ragkit.yaml", HASHING)


def documents_with_pipeline(text: str) -> Prepare:
    """Documents and a ragkit.yaml with this text."""

    def prepare(sandbox: Sandbox) -> None:
        documents(sandbox)
        sandbox.write("ragkit.yaml", text)

    return prepare


def documents_with_file(name: str, content: str | bytes) -> Prepare:
    """Documents, and a file with this content."""

    def prepare(sandbox: Sandbox) -> None:
        documents(sandbox)
        sandbox.write(name, content)

    return prepare


def indexed_with_file(name: str, content: str) -> Prepare:
    """A knowledge base, and a file with this content."""

    def prepare(sandbox: Sandbox) -> None:
        sandbox.index()
        sandbox.write(name, content)

    return prepare


def changed_settings(sandbox: Sandbox) -> None:
    """A knowledge base, and different settings."""
    sandbox.index()
    sandbox.write("ragkit.yaml", HASHING + "split: {name: recursive, chunk_size: 100}\n")


def newer_version(sandbox: Sandbox) -> None:
    """A knowledge base of a later version of ragkit."""
    sandbox.index()
    with sqlite3.connect(".ragkit/index.sqlite") as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'format'")
    connection.close()
    write_checksums(Path(".ragkit"), read_checksums(Path(".ragkit")) or ())  # as that version does


def overwritten_catalog(sandbox: Sandbox) -> None:
    """A knowledge base whose catalog is overwritten."""
    sandbox.index()
    Path(".ragkit/index.sqlite").write_bytes(b"not a database" * 100)


def missing_vectors(sandbox: Sandbox) -> None:
    """A knowledge base without its vector file."""
    sandbox.index()
    for path in Path(".ragkit").glob("vectors-*.f32"):
        path.unlink()


def foreign_directory(sandbox: Sandbox) -> None:
    """A directory that is not a knowledge base."""
    sandbox.write(".ragkit/notes.txt", "nothing")


def moved_documents(sandbox: Sandbox) -> None:
    """A knowledge base whose documents were moved."""
    sandbox.index()
    shutil.move("docs", "elsewhere")


def _encrypted() -> bytes:
    out = io.BytesIO()
    writer = PdfWriter(io.BytesIO(sample_files.pdf([["words"]])))
    writer.encrypt("open sesame", algorithm="AES-256")
    writer.write(out)
    return out.getvalue()


INDEX = (
    Mistake("No source", "index"),
    Mistake("A folder that does not exist", "index dcos", documents),
    Mistake("A folder without documents", "index empty", lambda sandbox: (sandbox.folder / "empty").mkdir()),
    Mistake("A typo in a command", "idnex docs"),
    Mistake("A typo in an option", "index docs --dryrun", documents),
    Mistake(
        "A file instead of a knowledge base", "index docs --kb notes.txt", documents_with_file("notes.txt", "hello")
    ),
    Mistake("An invalid number of workers", "index docs --jobs 0", documents),
    Mistake("A budget that is not a number", "index docs --max-cost cheap", documents),
    Mistake("A negative budget", "index docs --max-cost -1", documents),
    Mistake("A web page on a private address", "index http://127.0.0.1:9/", documents),
    Mistake(
        "A web page on a server that is down", "index http://127.0.0.1:9/ --set load.allow_private=true", documents
    ),
    Mistake("A web page while offline", "index https://example.org/", documents, env={"RAGKIT_OFFLINE": "1"}),
    Mistake("A URL that is not a web page", "index ftp://example.org/file.txt", documents),
    Mistake("An encrypted file", "index docs", documents_with_file("docs/secret.pdf", _encrypted())),
    Mistake(
        "A truncated file", "index docs", documents_with_file("docs/report.pdf", sample_files.pdf([["words"]])[:120])
    ),
    Mistake(
        "A file in an unsupported format", "index docs -v", documents_with_file("docs/data.bin", bytes(range(256)) * 8)
    ),
    Mistake("An empty file", "index docs", documents_with_file("docs/empty.md", "")),
    Mistake("A file with secrets", "index docs", documents_with_file("docs/.env", "KEY=1")),
    Mistake(
        "A file that is too large",
        "index docs --set load.max_file_mb=0.001",
        documents_with_file("docs/long.txt", "many words " * 1000),
    ),
)
SETTINGS = (
    Mistake("Changed settings while indexing", "index docs", changed_settings),
    Mistake("Changed settings while searching", f"search {QUESTION}", changed_settings),
    Mistake("A typo in the name of a pipeline", "index docs --pipeline defualt", documents),
    Mistake("A pipeline file that does not exist", "index docs --pipeline mine.yaml", documents),
    Mistake("A typo in a section", "index docs", documents_with_pipeline("splti: {name: recursive}\n")),
    Mistake("A typo in the name of a component", "index docs", documents_with_pipeline("store: {name: qdarnt}\n")),
    Mistake(
        "A typo in a component option",
        "index docs",
        documents_with_pipeline("split:\n  name: recursive\n  chunk_szie: 100\n"),
    ),
    Mistake(
        "Text instead of a number", "index docs", documents_with_pipeline("split: {name: recursive, chunk_size: ten}\n")
    ),
    Mistake(
        "A value out of range",
        "index docs",
        documents_with_pipeline("split: {name: recursive, chunk_size: 10, chunk_overlap: 20}\n"),
    ),
    Mistake(
        "Several mistakes at once",
        "index docs",
        documents_with_pipeline("splti: {}\nstore: {name: nowhere}\nretrieve: {top_k: -1}\n"),
    ),
    Mistake("Invalid YAML", "index docs", documents_with_pipeline("split: {name: recursive\nstore: [\n")),
    Mistake("A tab in YAML", "index docs", documents_with_pipeline("split:\n\tname: recursive\n")),
    Mistake(
        "A duplicate key", "index docs", documents_with_pipeline("split: {name: recursive}\nsplit: {name: fixed}\n")
    ),
    Mistake(
        "A variable that is not set",
        "index docs",
        documents_with_pipeline("store: {name: pgvector, dsn: '${DATABASE}'}\n"),
    ),
    Mistake("A file that extends itself", "index docs", documents_with_pipeline("extends: ragkit.yaml\n")),
    Mistake("--set without a value", "index docs --set split.chunk_size", documents),
    Mistake("--set of an unknown option", "index docs --set split.size=100", documents),
    Mistake("--config with a file that does not exist", "index docs --config mine.yaml", documents),
    Mistake("A pipeline to show that does not exist", "pipeline show fats"),
)
ASKING = (
    Mistake("No knowledge base yet", f"ask {QUESTION}"),
    Mistake("A directory that is not a knowledge base", f"search {QUESTION}", foreign_directory),
    Mistake(
        "RAGKIT_KB with a directory that does not exist", f"search {QUESTION}", indexed, env={"RAGKIT_KB": "elsewhere"}
    ),
    Mistake("No question", "ask ''", indexed),
    Mistake("Empty input from a pipe", "ask", indexed, stdin="\n"),
    Mistake("top_k of 0", f"search {QUESTION} -k 0", indexed),
    Mistake("A typo in a mode", f"search {QUESTION} --mode densse", indexed),
    Mistake("An incomplete filter", f"search {QUESTION} --where 'format =='", indexed),
    Mistake("One equals sign in a filter", f"search {QUESTION} --where 'format = \"markdown\"'", indexed),
    Mistake("A filter that ends with `and`", f"search {QUESTION} --where 'format >= 3 and'", indexed),
    Mistake("A question that the documents do not answer", "ask 'Who won the cup in 1974?' --strict", indexed),
    Mistake("Moved documents", f"search {QUESTION} -k 1", moved_documents),
    Mistake("An unknown id", "show 1234", indexed),
    Mistake("A source that is not indexed", "remove docs/other.md", indexed),
    Mistake("Clearing without --yes", "clear", indexed),
    Mistake("A typo in a store", "copy --to sqlit", indexed),
)
MODELS = (
    Mistake("A model without its provider", f"ask {QUESTION} --model gpt-4o-mini", indexed),
    Mistake("A typo in a provider", f"ask {QUESTION} --model opneai:gpt-4o-mini", indexed),
    Mistake("No key", ASK, indexed),
    Mistake(
        "A wrong key",
        ASK,
        indexed,
        env=KEY,
        faults=(Fault(401, "Incorrect API key provided: test-key.", "invalid_api_key"),),
    ),
    Mistake(
        "A model that the provider does not have",
        f"ask {QUESTION} --model openai:gtp-4o --no-stream",
        indexed,
        env=KEY,
        faults=(Fault(404, "The model `gtp-4o` does not exist", "model_not_found"),),
    ),
    Mistake("No network", ASK, indexed, env={**KEY, **UNREACHABLE}),
    Mistake("RAGKIT_OFFLINE", ASK, indexed, env={**KEY, "RAGKIT_OFFLINE": "1"}),
    Mistake("A budget that is too small", f"{ASK} --max-cost 0.0000001", indexed, env=KEY),
    Mistake(
        "A budget for a model with an unknown price",
        f"ask {QUESTION} --model openai:my-own --max-cost 0.01 --no-stream",
        indexed,
        env=KEY,
    ),
    Mistake("RAGKIT_MAX_COST that is not a number", ASK, indexed, env={**KEY, "RAGKIT_MAX_COST": "much"}),
    Mistake("An embedder without its key", "index docs", documents_with_pipeline("embed: {name: openai}\n")),
    Mistake(
        "A store without its server",
        "index docs",
        documents_with_pipeline(
            "embed: {name: hashing, dimension: 64}\nstore: {name: chroma, host: 127.0.0.1, port: 9}\n"
        ),
    ),
    Mistake(
        "A store without its key",
        "index docs",
        documents_with_pipeline("embed: {name: hashing, dimension: 64}\nstore: {name: pinecone}\n"),
    ),
    Mistake("An unknown model", "models nosuchmodel"),
)
DAMAGE = (
    Mistake("Built with a newer version", f"search {QUESTION}", newer_version),
    Mistake("An overwritten catalog", f"search {QUESTION}", overwritten_catalog),
    Mistake("A missing vector file", f"search {QUESTION}", missing_vectors),
    Mistake("Verifying a damaged knowledge base", "verify", overwritten_catalog),
)
EVALUATION = (
    Mistake("A file of questions that does not exist", "eval mine.jsonl", indexed),
    Mistake(
        "Questions that are not JSON",
        "eval mine.jsonl",
        indexed_with_file("mine.jsonl", '{"question": "How?"}\nHow often?\n'),
    ),
    Mistake(
        "Questions without answers and sources",
        "eval mine.jsonl",
        indexed_with_file("mine.jsonl", json.dumps({"question": "How?"}) + "\n"),
    ),
    Mistake("A baseline that does not exist", "eval --auto 2 --baseline before.json --retrieval-only", indexed),
    Mistake("A typo in a store of a benchmark", "bench --stores fais --generate 100 --dim 8"),
    Mistake(
        "Typos in the settings of a benchmark",
        "bench --settings mine.yaml",
        indexed_with_file(
            "mine.yaml", "rounds: 0\nstores:\n  - {name: faiss, options: {methd: flat}}\n  - {name: pgvektor}\n"
        ),
    ),
    Mistake("A passage that is not indexed", f"explain {QUESTION} --expect docs/other.md", indexed),
    Mistake("Neither --expect nor --text", f"explain {QUESTION}", indexed),
)
GROUPS = {
    "Indexing": INDEX,
    "Settings": SETTINGS,
    "Asking and searching": ASKING,
    "Models, providers and costs": MODELS,
    "Damage": DAMAGE,
    "Evaluation": EVALUATION,
}
