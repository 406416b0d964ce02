"""The table of mistakes, in the order in which a user meets them."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
from pathlib import Path

from pypdf import PdfWriter

from ragkit.index.catalog.checksums import read_checksums, write_checksums
from tests.load import sample_files
from tests.mistakes.stage import HASHING, Mistake, Prepare, Stage
from tests.wire.server import Fault

KEY = {"OPENAI_API_KEY": "test-key"}
ASK = "ask 'How often is a request sent again?' --model openai:gpt-4o-mini --no-stream"
NOBODY = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
"""Port 9 is `discard`: nobody listens there."""
QUESTION = "'How often is a request sent again?'"


def indexed(stage: Stage) -> None:
    """A knowledge base over one document."""
    stage.index()


def documents(stage: Stage) -> None:
    """Documents and no knowledge base yet."""
    stage.write("docs/guide.md", "# Retries\n\nTwice.\n")
    stage.write("ragkit.yaml", HASHING)


def pipeline(text: str) -> Prepare:
    """Documents beside a ragkit.yaml with these lines."""

    def prepare(stage: Stage) -> None:
        documents(stage)
        stage.write("ragkit.yaml", text)

    return prepare


def file(name: str, content: str | bytes) -> Prepare:
    """Documents, one of them with this content."""

    def prepare(stage: Stage) -> None:
        documents(stage)
        stage.write(name, content)

    return prepare


def beside(name: str, content: str) -> Prepare:
    """A knowledge base, and a file beside it."""

    def prepare(stage: Stage) -> None:
        stage.index()
        stage.write(name, content)

    return prepare


def changed(stage: Stage) -> None:
    """A knowledge base, and settings that are no longer those that it was built with."""
    stage.index()
    stage.write("ragkit.yaml", HASHING + "split: {name: recursive, chunk_size: 100}\n")


def newer(stage: Stage) -> None:
    """A knowledge base that a later version of ragkit made."""
    stage.index()
    with sqlite3.connect(".ragkit/index.sqlite") as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'format'")
    connection.close()
    write_checksums(Path(".ragkit"), read_checksums(Path(".ragkit")) or ())  # as that version would have


def overwritten(stage: Stage) -> None:
    """A knowledge base whose catalog something else has written over."""
    stage.index()
    Path(".ragkit/index.sqlite").write_bytes(b"not a database" * 100)


def vectors_gone(stage: Stage) -> None:
    """A knowledge base whose vectors are gone."""
    stage.index()
    for path in Path(".ragkit").glob("vectors-*.f32"):
        path.unlink()


def foreign(stage: Stage) -> None:
    """A folder that is no knowledge base where one is expected."""
    stage.write(".ragkit/notes.txt", "nothing")


def moved(stage: Stage) -> None:
    """A knowledge base whose documents have moved away."""
    stage.index()
    shutil.move("docs", "elsewhere")


def _encrypted() -> bytes:
    out = io.BytesIO()
    writer = PdfWriter(io.BytesIO(sample_files.pdf([["words"]])))
    writer.encrypt("open sesame", algorithm="AES-256")
    writer.write(out)
    return out.getvalue()


INDEX = (
    Mistake("Nothing named", "index"),
    Mistake("A folder that is not there", "index dcos", documents),
    Mistake("A folder without documents", "index empty", lambda stage: (stage.folder / "empty").mkdir()),
    Mistake("A verb with a slip", "idnex docs"),
    Mistake("An option with a slip", "index docs --dryrun", documents),
    Mistake("A file where the knowledge base should be", "index docs --kb notes.txt", file("notes.txt", "hello")),
    Mistake("A number of workers that is none", "index docs --jobs 0", documents),
    Mistake("A budget that is no number", "index docs --max-cost cheap", documents),
    Mistake("A budget below nothing", "index docs --max-cost -1", documents),
    Mistake("A page on a private address", "index http://127.0.0.1:9/", documents),
    Mistake("A page that nobody serves", "index http://127.0.0.1:9/ --set load.allow_private=true", documents),
    Mistake("A page without a network", "index https://example.org/", documents, env={"RAGKIT_OFFLINE": "1"}),
    Mistake("A URL that is no web page", "index ftp://example.org/file.txt", documents),
    Mistake("A file with a password", "index docs", file("docs/secret.pdf", _encrypted())),
    Mistake("A file that is cut short", "index docs", file("docs/report.pdf", sample_files.pdf([["words"]])[:120])),
    Mistake("A file of a kind that nobody reads", "index docs -v", file("docs/data.bin", bytes(range(256)) * 8)),
    Mistake("An empty file", "index docs", file("docs/empty.md", "")),
    Mistake("A file that holds keys", "index docs", file("docs/.env", "KEY=1")),
    Mistake(
        "A file that is too large",
        "index docs --set load.max_file_mb=0.001",
        file("docs/long.txt", "many words " * 1000),
    ),
)
SETTINGS = (
    Mistake("Other settings than it was built with", "index docs", changed),
    Mistake("Other settings in a question", f"search {QUESTION}", changed),
    Mistake("A pipeline with a slip", "index docs --pipeline defualt", documents),
    Mistake("A pipeline file that is not there", "index docs --pipeline mine.yaml", documents),
    Mistake("A section with a slip", "index docs", pipeline("splti: {name: recursive}\n")),
    Mistake("A part with a slip", "index docs", pipeline("store: {name: qdarnt}\n")),
    Mistake("An option with a slip", "index docs", pipeline("split:\n  name: recursive\n  chunk_szie: 100\n")),
    Mistake("A word where a number belongs", "index docs", pipeline("split: {name: recursive, chunk_size: ten}\n")),
    Mistake(
        "A value out of range", "index docs", pipeline("split: {name: recursive, chunk_size: 10, chunk_overlap: 20}\n")
    ),
    Mistake(
        "Several mistakes at once", "index docs", pipeline("splti: {}\nstore: {name: nowhere}\nretrieve: {top_k: -1}\n")
    ),
    Mistake("No YAML", "index docs", pipeline("split: {name: recursive\nstore: [\n")),
    Mistake("A tab in YAML", "index docs", pipeline("split:\n\tname: recursive\n")),
    Mistake("A key twice", "index docs", pipeline("split: {name: recursive}\nsplit: {name: fixed}\n")),
    Mistake("A variable that is not set", "index docs", pipeline("store: {name: pgvector, dsn: '${DATABASE}'}\n")),
    Mistake("A file that extends itself", "index docs", pipeline("extends: ragkit.yaml\n")),
    Mistake("--set without a value", "index docs --set split.chunk_size", documents),
    Mistake("--set of what is not there", "index docs --set split.size=100", documents),
    Mistake("--config that is not there", "index docs --config mine.yaml", documents),
    Mistake("A pipeline to show that is not there", "pipeline show fats"),
)
ASKING = (
    Mistake("No knowledge base yet", f"ask {QUESTION}"),
    Mistake("A folder that is none", f"search {QUESTION}", foreign),
    Mistake("RAGKIT_KB that leads nowhere", f"search {QUESTION}", indexed, env={"RAGKIT_KB": "elsewhere"}),
    Mistake("No question", "ask ''", indexed),
    Mistake("An empty pipe", "ask", indexed, stdin="\n"),
    Mistake("No hits wanted", f"search {QUESTION} -k 0", indexed),
    Mistake("A mode with a slip", f"search {QUESTION} --mode densse", indexed),
    Mistake("A condition that ends too early", f"search {QUESTION} --where 'format =='", indexed),
    Mistake("One equals sign", f"search {QUESTION} --where 'format = \"markdown\"'", indexed),
    Mistake("A number against a word", f"search {QUESTION} --where 'format >= 3 and'", indexed),
    Mistake("Nothing to be found", "ask 'Who won the cup in 1974?' --strict", indexed),
    Mistake("The documents have moved", f"search {QUESTION} -k 1", moved),
    Mistake("An id that is not there", "show 1234", indexed),
    Mistake("A source that is not in it", "rm docs/other.md", indexed),
    Mistake("Clearing without saying so twice", "clear", indexed),
    Mistake("A store with a slip", "copy --to sqlit", indexed),
)
MODELS = (
    Mistake("A model without its provider", f"ask {QUESTION} --model gpt-4o-mini", indexed),
    Mistake("A provider with a slip", f"ask {QUESTION} --model opneai:gpt-4o-mini", indexed),
    Mistake("No key", ASK, indexed),
    Mistake(
        "A wrong key",
        ASK,
        indexed,
        env=KEY,
        faults=(Fault(401, "Incorrect API key provided: test-key.", "invalid_api_key"),),
    ),
    Mistake(
        "A model that the service does not have",
        f"ask {QUESTION} --model openai:gtp-4o --no-stream",
        indexed,
        env=KEY,
        faults=(Fault(404, "The model `gtp-4o` does not exist", "model_not_found"),),
    ),
    Mistake("No network", ASK, indexed, env={**KEY, **NOBODY}),
    Mistake("Offline on purpose", ASK, indexed, env={**KEY, "RAGKIT_OFFLINE": "1"}),
    Mistake("A budget that is too small", f"{ASK} --max-cost 0.0000001", indexed, env=KEY),
    Mistake(
        "A budget for a model without a price",
        f"ask {QUESTION} --model openai:my-own --max-cost 0.01 --no-stream",
        indexed,
        env=KEY,
    ),
    Mistake("RAGKIT_MAX_COST that is no number", ASK, indexed, env={**KEY, "RAGKIT_MAX_COST": "much"}),
    Mistake("An embedder without its key", "index docs", pipeline("embed: {name: openai}\n")),
    Mistake(
        "A store without its server",
        "index docs",
        pipeline("embed: {name: hashing, dimension: 64}\nstore: {name: chroma, host: 127.0.0.1, port: 9}\n"),
    ),
    Mistake(
        "A store without its key",
        "index docs",
        pipeline("embed: {name: hashing, dimension: 64}\nstore: {name: pinecone}\n"),
    ),
    Mistake("A model that nobody knows", "models nosuchmodel"),
)
DAMAGE = (
    Mistake("Made by a newer version", f"search {QUESTION}", newer),
    Mistake("The catalog is written over", f"search {QUESTION}", overwritten),
    Mistake("The vectors are gone", f"search {QUESTION}", vectors_gone),
    Mistake("Checking what is damaged", "verify", overwritten),
)
FIGURES = (
    Mistake("Questions that are not there", "eval mine.jsonl", indexed),
    Mistake(
        "Questions that are no JSON", "eval mine.jsonl", beside("mine.jsonl", '{"question": "How?"}\nHow often?\n')
    ),
    Mistake(
        "Questions without answers and sources",
        "eval mine.jsonl",
        beside("mine.jsonl", json.dumps({"question": "How?"}) + "\n"),
    ),
    Mistake("A baseline that is not there", "eval --auto 2 --baseline before.json --retrieval-only", indexed),
    Mistake("A store with a slip in a benchmark", "bench --stores fais --generate 100 --dim 8"),
    Mistake("A passage that is not there", f"why {QUESTION} --expect docs/other.md", indexed),
    Mistake("No passage named", f"why {QUESTION}", indexed),
)
GROUPS = {
    "Indexing": INDEX,
    "Settings": SETTINGS,
    "Asking and searching": ASKING,
    "Models, services and money": MODELS,
    "Damage": DAMAGE,
    "Figures": FIGURES,
}
