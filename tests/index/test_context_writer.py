"""What a model gets to write the context of a chunk, and what becomes of its answer."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ragkit.errors import BudgetExceeded, KnowledgeBaseDamaged, PipelineError
from ragkit.index.catalog.write_session import WriteSession
from ragkit.index.context_writer import _Spending, create_request, excerpt_document
from ragkit.knowledge_base import indexing
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Chunk, Document, Heading
from ragkit.split import SPLITTERS
from ragkit.split.options import ChunkContextOptions
from ragkit.usage.meter import Meter, use_meter
from ragkit.usage.tokens import estimate_tokens
from tests import reads

OPTIONS = ChunkContextOptions("openai:gpt-4.1-mini", document_tokens=200)
ECHO = 'context: {model: "echo:echo", max_tokens: 12}'
"""A model of this process, which answers with the chunk."""
TEXT = "\n\n".join(f"## Part {n}\n\n" + " ".join(f"Word{n} and word{i}." for i in range(40)) for n in range(8))


def chunk_of(document: Document, start: int, end: int) -> Chunk:
    path = document.heading_path_at(start)
    text = document.text[start:end]
    return Chunk("c", document.id, document.source, text, start, end, 1, 1, None, path, document.title)


def test_a_short_document_is_sent_whole_and_a_long_one_around_the_chunk_with_its_headings() -> None:
    short = Document("One. Two. Three.", title="Numbers")
    assert excerpt_document(short, chunk_of(short, 5, 9), 200) == "Title: Numbers\n\nOne. Two. Three."
    words = " ".join(f"w{n:04}" for n in range(2000))
    long = Document(words, title="Words", headings=(Heading(0, 1, "Start"), Heading(6000, 2, "Middle")))
    start = words.index("w1000")
    excerpt = excerpt_document(long, chunk_of(long, start, start + 60), 200)
    assert excerpt.startswith("Title: Words\n\nHeadings:\nStart\n  Middle\n\nText around the chunk:\n")
    assert "w1000 w1001" in excerpt
    assert "w0950" in excerpt and "w1060" in excerpt
    assert 190 <= estimate_tokens(excerpt) <= 215
    for place in (0, len(words) - 60):  # at the edges the window keeps its size
        assert 190 <= estimate_tokens(excerpt_document(long, chunk_of(long, place, place + 60), 200)) <= 215


def test_many_headings_take_at_most_a_quarter() -> None:
    headings = tuple(Heading(n, 1, f"A heading about subject number {n}") for n in range(500))
    document = Document("x y " * 4000, headings=headings)
    excerpt = excerpt_document(document, chunk_of(document, 8000, 8100), 400)
    outline, _, around = excerpt.partition("Text around the chunk:\n")
    assert len(outline) <= 400 + 20
    assert len(around) >= 1150


def test_the_key_depends_on_model_document_and_chunk_but_not_on_the_name_of_the_file() -> None:
    document = Document("One. Two. Three.", source="/a/b.txt")
    chunk = chunk_of(document, 5, 9)
    key = create_request(document, chunk, OPTIONS).key
    moved = replace(document, source="/c/d.txt", id="")
    assert create_request(moved, replace(chunk, source="/c/d.txt"), OPTIONS).key == key
    others = [
        create_request(replace(document, text="One. Two. Four."), chunk, OPTIONS),
        create_request(document, chunk_of(document, 0, 4), OPTIONS),
        create_request(document, chunk, replace(OPTIONS, model="openai:gpt-4.1")),
        create_request(document, chunk, replace(OPTIONS, max_tokens=81)),
    ]
    assert len({key, *(request.key for request in others)}) == 5
    assert create_request(document, chunk, replace(OPTIONS, concurrency=9)).key == key


@pytest.mark.rotating
@pytest.mark.parametrize("splitter", sorted(SPLITTERS.specs))
def test_chunks_of_every_splitter_have_contexts_and_fit_into_the_embedder(tmp_path: Path, splitter: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(TEXT)
    split = f"split: {{name: {splitter}, {ECHO}}}\n"
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(split)) as kb:
        report = kb.index(tmp_path / "docs")
        chunks = list(reads.chunks(kb))
        components = PipelineComponents(Pipeline.from_yaml(split))
        assert report.contexts == len(chunks) > 4
        for chunk in chunks:
            assert TEXT[chunk.start : chunk.end] == chunk.text
            assert chunk.context.endswith("</chunk>")
            [text] = components.embedding_texts([chunk])
            assert text.endswith(f"\n{chunk.text}")
            assert components._count_tokens([text]) < 256
            assert len(components._token_starts(text)) - len(components._token_starts(chunk.text)) <= 40 + 12
        assert kb.verify().is_sound


def test_a_splitter_without_the_option_has_no_contexts_beside_one_that_has(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("a.md", "b.txt", "c.md"):
        (tmp_path / "docs" / name).write_text(f"The file {name}.\n")
    (tmp_path / "docs" / "copy of c.md").write_text("The file c.md.\n")
    split = f"split: [{{name: markdown, only: [.md], header: false, {ECHO}}}, {{name: recursive}}]\n"
    pipeline = Pipeline.from_yaml(split + "embed: {name: hashing}\n")
    assert PipelineComponents(pipeline).build_fingerprint.split["0.context.model"] == "echo:echo"
    with KnowledgeBase.open(tmp_path / "kb", pipeline) as kb:
        assert kb.index(tmp_path / "docs", options=IndexOptions(dry_run=True)).contexts == 2
        report = kb.index(tmp_path / "docs", options=IndexOptions(max_cost_usd=0.0))  # without a service, no cost
        assert report.contexts == 2  # equal chunks of equal documents are one request
        contexts = {Path(chunk.source).name: chunk.context for chunk in reads.chunks(kb)}
    shown = "<chunk> The file c.md. </chunk>"
    assert contexts == {
        "a.md": "<chunk> The file a.md. </chunk>", "b.txt": "", "c.md": shown, "copy of c.md": shown,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("context", "says"),
    [
        ("{model: gpt-4.1-mini}", "1:42: model must be provider:model, such as openai:gpt-4.1-mini (got 'gpt"),
        ("{model: 'auto:x'}", "1:42: model must be provider:model"),
        ("{model: 'openai:x', max_tokens: 3}", "1:66: max_tokens must be an integer >= 10 (got 3)"),
        ("{model: 'openai:x', max_tokens: many}", "1:66: max_tokens must be an integer (got "),
        ("{model: 'openai:x', max_token: 90}", "1:54: unknown option 'max_token' (did you mean 'max_tokens'?)"),
        ("{max_tokens: 90}", "1:34: missing option 'model' (a string)"),
        ("true", "1:34: context must be "),
    ],
)
def test_mistakes_are_reported_with_their_place(context: str, says: str) -> None:
    with pytest.raises(PipelineError) as caught:
        Pipeline.from_yaml(f"split: {{name: sentence, context: {context}}}\n")
    assert f"pipeline:{says}" in str(caught.value)


def test_the_validation_names_an_unknown_provider_and_a_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for model, says in (("opanai:x", "did you mean 'openai'"), ("openai:x", "OPENAI_API_KEY")):
        pipeline = Pipeline.from_yaml(f'split: {{name: fixed, context: {{model: "{model}"}}}}\n')
        with pytest.raises(PipelineError, match=rf"pipeline:1:\d+: context\.model: .*{says}"):
            pipeline.validate()


def test_requests_wait_for_the_first_cost_and_then_for_the_budget() -> None:
    spending, admitted = _Spending(), threading.Semaphore(0)
    meter = Meter(budget_usd=1.0)

    def reserve() -> None:
        with use_meter(meter):
            spending.reserve(0.3)
        admitted.release()

    with use_meter(meter):
        first = spending.reserve(0.3)
        other = threading.Thread(target=reserve)
        other.start()
        assert not admitted.acquire(timeout=0.1)
        spending.release(first, 0.3, 0.6)  # twice the estimate
        assert admitted.acquire(timeout=10)
        other.join()
        assert (spending.reserved_usd, spending.running) == (0.6, 1)
        spending.release(0.6, 0.3, 0.6)
        with pytest.raises(BudgetExceeded, match="budget of 1 USD exceeded"):
            spending.reserve(0.6)


def test_unused_contexts_are_deleted_when_they_are_many_and_damaged_ones_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "MIN_UNUSED_VECTORS", 3)
    (tmp_path / "docs").mkdir()
    pipeline = Pipeline.from_yaml(f"split: {{name: fixed, {ECHO}}}\nembed: {{name: hashing}}\n")

    def kept() -> int:
        with WriteSession(tmp_path / "kb") as session:
            return len(list(session.catalog.iter_contexts()))

    with KnowledgeBase.open(tmp_path / "kb", pipeline) as kb:
        counts: list[int] = []
        for edition in range(6):
            (tmp_path / "docs" / "a.txt").write_text(f"Edition {edition} of the file.\n")
            kb.index(tmp_path / "docs")
            counts.append(kept())
        assert counts == [1, 2, 3, 4, 1, 2]  # more than three unused ones are deleted
        assert kb.verify().is_sound
        with WriteSession(tmp_path / "kb") as session, session.catalog.transaction():
            for table in ("chunk_contexts", "contexts"):
                session.catalog.connection.execute(f"UPDATE {table} SET sentence = 'Forged.'")
        messages = {problem.message for problem in kb.verify().problems}
        assert {f"a row of {table} has a checksum mismatch" for table in ("chunk_contexts", "contexts")} <= messages
        with pytest.raises(KnowledgeBaseDamaged, match="the context of chunk"):
            list(reads.chunks(kb))
        kb.verify(repair=True)
        assert [chunk.context for chunk in reads.chunks(kb)] == ["<chunk> Edition 5 of the file. </chunk>"]
