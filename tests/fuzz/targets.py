"""Fuzz targets: functions of bytes that raise when an invariant is violated."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module

from ragkit.agent.providers.parser import ToolCallParser, text_before_call
from ragkit.embed.hashing import HashingEmbedder
from ragkit.embed.options import HashingOptions
from ragkit.errors import InvalidFilter, LoadError, PipelineError
from ragkit.load.router import Router
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document
from ragkit.split import SPLITTERS
from ragkit.split.base import Splitter, character_starts
from ragkit.split.chunks import build_chunks
from ragkit.split.options import SemanticOptions
from ragkit.split.semantic import SemanticSplitter
from ragkit.split.token_index import estimate_token_starts
from ragkit.store.filters.language import parse_filter
from ragkit.store.filters.where_syntax import parse_where
from tests.fuzz.reader import Reader
from tests.load.ole_files import message_file

SUFFIXES: Sequence[str] = (
    *(".txt", ".md", ".rst", ".html", ".csv", ".json", ".jsonl", ".eml", ".py", ".sql", ".toml", ".yaml"),
    *(".pdf", ".docx", ".xlsx", ".pptx", ".epub", ".bin"),
)
OTHER_SUFFIXES: Sequence[str] = (
    *(".rtf", ".odt", ".ods", ".odp", ".xls", ".xlsb", ".msg", ".doc", ".ppt", ".parquet", ".sqlite", ".png"),
    *(".ipynb", ".mbox", ".mhtml", ".vtt", ".srt", ".tex", ".adoc", ".tsv", ".xml"),
)
"""Those of the target `formats`: the target `loader` chooses by number, so that its inputs keep their meaning."""
FORMATS: Sequence[tuple[str, str]] = (("text", ""), ("markdown", ""), ("code", "python"), ("html", ""), ("csv", ""))
TOOLS = ("search_knowledge_base", "a")


@cache
def router() -> Router:
    """The loaders, created once."""
    return Router()


@cache
def get_splitter(number: int) -> Splitter:
    """A splitter and a chunk size, selected by a number."""
    names = SPLITTERS.names()
    name, size = names[number % len(names)], (4, 40, 200)[number // len(names) % 3]
    options = SPLITTERS.options_class(name)
    assert options is not None
    make: Callable[[object], Splitter] = SPLITTERS.find(name)
    if name == "semantic":
        return SemanticSplitter(
            SemanticOptions(chunk_size=size), HashingEmbedder(HashingOptions(dimension=16)).embed_texts
        )
    return make(options(chunk_size=size, chunk_overlap=size // 4))


def loader(data: bytes) -> None:
    """A file of a common format gives a document or a LoadError."""
    check_file(data, SUFFIXES)


def formats(data: bytes) -> None:
    """A file of any other format gives a document or a LoadError."""
    check_file(data, OTHER_SUFFIXES)


def check_file(data: bytes, suffixes: Sequence[str]) -> None:
    """The text of a file can be stored, and all offsets are inside it. The first byte chooses the suffix."""
    if not data:
        return
    source = f"/x/a{suffixes[data[0] % len(suffixes)]}"
    try:
        _, document = router().load(data[1:], source)
    except LoadError as error:
        assert error.reason and "\n" not in error.reason, error.reason
        return
    for part in (document, *document.parts):
        check_document(part)


def check_document(document: Document) -> None:
    """Its text can be stored, all offsets are inside it, and its chunks cover it."""
    text = document.text
    assert "\0" not in text
    text.encode("utf-8")
    json.dumps([dict(document.metadata), document.title], allow_nan=True).encode("utf-8")
    assert all(0 <= heading.start <= len(text) for heading in document.headings)
    starts = [heading.start for heading in document.headings]
    assert starts == sorted(starts), starts
    assert list(document.page_starts) == sorted(document.page_starts)
    assert all(0 <= place.start <= len(text) for place in document.places)
    check_chunks(document, get_splitter(0))


def split(data: bytes) -> None:
    """Every chunk equals the text at its offsets; no visible character is lost."""
    if len(data) < 2:
        return
    kind, language = FORMATS[data[0] % len(FORMATS)]
    text = data[2:].decode("utf-8", "replace").replace("\0", "\ufffd")
    check_chunks(Document(text, format=kind, language=language, source="/x/a"), get_splitter(data[1]))


def check_chunks(document: Document, splitter: Splitter) -> None:
    """Split a document and check the chunks."""
    starts = character_starts if len(document.text) % 2 else estimate_token_starts
    chunks = build_chunks(document, splitter, starts, "fingerprint")
    text, covered, last = document.text, 0, -1
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.strip()
        assert chunk.start > last
        assert not text[covered : chunk.start].strip(), (covered, chunk.start)
        covered, last = max(covered, chunk.end), chunk.start
        assert 1 <= chunk.start_line <= chunk.end_line
    assert not text[covered:].strip()
    assert len({chunk.id for chunk in chunks}) == len(chunks)


def where(data: bytes) -> None:
    """A condition gives a filter or an InvalidFilter; the filter can be parsed again."""
    try:
        result = parse_where(data.decode("utf-8", "surrogateescape"))
    except InvalidFilter as error:
        assert str(error)
        return
    parse_filter(result)


def pipeline(data: bytes) -> None:
    """A text gives a pipeline or a PipelineError; a pipeline round-trips through YAML."""
    try:
        result = Pipeline.from_yaml(data.decode("utf-8", "surrogateescape"), {"NAME": "value"})
    except PipelineError as error:
        assert str(error)
        return
    copy = Pipeline.from_yaml(result.to_yaml(), {"NAME": "value"})
    assert copy.to_yaml() == result.to_yaml()


def calls(data: bytes) -> None:
    """Any model output gives tool calls that can be serialized to JSON."""
    text = data.decode("utf-8", "surrogateescape")
    parser = ToolCallParser()
    result = parser.parse_all(text, TOOLS)
    for call in result:
        assert isinstance(call.name, str)
        json.dumps(dict(call.arguments))
    assert parser.parse(text, TOOLS) == (result[0] if result else None)
    for _, piece in parser.find_calls(text, TOOLS):
        assert text.startswith(text_before_call(text, piece))


def rtf(data: bytes) -> None:
    """A text in RTF."""
    check_file(b"\0" + b"{\\rtf1" + data, [".rtf"])


MESSAGE_PARTS = ("0037", "1000", "0C1A", "0E04", "007D", "3707", "1013", "0065")
"""Numbers of the properties: subject, body, sender, recipients, headers, file name, HTML, address."""


def msg(data: bytes) -> None:
    """An Outlook message of any properties, attachments and streams, in a valid or a damaged file."""
    reader = Reader(data)
    texts = {reader.choice(MESSAGE_PARTS): reader.text() for _ in range(reader.number(8))}
    attached = [(reader.text(), reader.bytes(reader.number(200))) for _ in range(reader.number(3))]
    streams = {f"__substg1.0_{reader.choice(MESSAGE_PARTS)}{reader.choice(('0102', '001E', '0003'))}": reader.bytes(200)
               for _ in range(reader.number(4))}  # fmt: skip
    file = bytearray(message_file(texts, attached, streams))
    while reader.left > 2:
        file[reader.number(1 << 16) % len(file)] = reader.number(256)
    check_file(b"\0" + bytes(file), [".msg"])


def imported(module: str, name: str) -> Callable[[bytes], None]:
    """A target of another module, which is imported when it runs: what a target does not use needs no instruments."""

    def target(data: bytes) -> None:
        find()(data)

    @cache
    def find() -> Callable[[bytes], None]:
        found: Callable[[bytes], None] = getattr(import_module(f"tests.fuzz.{module}"), name)
        return found

    return target


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "calls": calls,
    "filters": imported("data_targets", "filters"),
    "formats": formats,
    "layout": imported("page_targets", "layout"),
    "loader": loader,
    "msg": msg,
    "ocr": imported("page_targets", "ocr"),
    "options": imported("pipeline_target", "options"),
    "pipeline": pipeline,
    "records": imported("data_targets", "records"),
    "rtf": rtf,
    "split": split,
    "support": imported("data_targets", "support"),
    "uploads": imported("upload_target", "uploads"),
    "where": where,
}
"""Each has a folder of seeds and findings in tests/fuzz/corpus."""
