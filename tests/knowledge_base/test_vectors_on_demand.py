"""Documents are searchable before they are embedded; searches and later runs embed them."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from ragkit import Document
from ragkit.embed.base import Rows
from ragkit.embed.minilm import MiniLM
from ragkit.errors import KnowledgeBaseError
from ragkit.index import fill
from ragkit.index.catalog.directory import open_catalog
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.kept_vectors import KEPT_FILE, KeptVectors
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline
from ragkit.records import SearchMode

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
FOLDERS = ("handbook", "incidents", "manuals", "minutes", "policies", "visitors")
FILES = ("contracts/mirror-coating.docx",)
"""What the questions are about, and what is like it; the whole sample would take too long to embed."""
SEARCHABLE = IndexOptions(searchable_first=True, wait=False)
QUESTIONS = (
    "How long does filling the dewar take?",
    "Who repairs the mirror when its coating is worn?",
    "What may a guest spend on meals?",
)
SMALL = {
    "owl.txt": "The owl of the observatory sleeps in the dome and eats mice.",
    "dome.txt": "The dome is closed when the wind is stronger than fifteen metres per second.",
    "tea.txt": "Tea is served at four in the library, with biscuits on Sundays.",
    "key.txt": "The key of the cellar hangs on hook fifteen, beside the lantern.",
}


class CountingMiniLM(MiniLM):
    """`minilm` that counts the texts it embeds, without questions."""

    texts = 0

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        self.texts += len(texts) if len(texts) > 1 else 0
        return super().embed_texts(texts)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    for name in FOLDERS:
        shutil.copytree(SAMPLE / name, folder / name)
    for name in FILES:
        shutil.copy2(SAMPLE / name, folder)
    return folder


@pytest.fixture(scope="module")
def embedded(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    """The sample, embedded while it was read."""
    with KnowledgeBase.open(tmp_path_factory.mktemp("embedded") / "kb") as kb:
        kb.index(sample)
        yield kb


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[tuple[KnowledgeBase, CountingMiniLM]]:
    """A searchable knowledge base of four notes, and its embedder."""
    embedder = CountingMiniLM()
    pipeline = Pipeline.default()
    with KnowledgeBase(tmp_path / "kb", pipeline, PipelineComponents(pipeline, embedder)) as kb:
        add(kb, SMALL)
        yield kb, embedder


def add(kb: KnowledgeBase, notes: dict[str, str], options: IndexOptions = SEARCHABLE) -> None:
    kb.add([Document(text, {"source": name}) for name, text in notes.items()], options)


def found(kb: KnowledgeBase, mode: SearchMode | None = None, top_k: int = 8) -> list[list[tuple[str, float]]]:
    return [[(hit.chunk.id, hit.score) for hit in kb.search(question, top_k, mode=mode)] for question in QUESTIONS]


def embedded_of_all(kb: KnowledgeBase) -> tuple[int, int]:
    status = kb.status()
    return status.embedded, status.chunks


def test_documents_are_searchable_before_they_are_embedded(
    tmp_path: Path, sample: Path, embedded: KnowledgeBase
) -> None:
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        report = kb.index(sample, options=SEARCHABLE)
        assert (report.embedded, report.unembedded) == (0, report.chunks["added"])
        assert [hits[0][0] for hits in found(kb)] == [hits[0][0] for hits in found(embedded)]
        assert kb.verify().is_sound
        assert embedded_of_all(kb) == (0, report.unembedded)


def test_results_approach_those_of_a_run_that_embeds_first(
    tmp_path: Path, sample: Path, embedded: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each hit of a dense search has its final score at once: only chunks that get vectors move."""
    monkeypatch.setattr(fill, "FILL_BATCH_SIZE", 30)
    final = [dict(hits) for hits in found(embedded, "dense", 1000)]
    best = [hits[0][0] for hits in found(embedded)]
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        kb.index(sample, options=SEARCHABLE)
        left = [len(final[0])]
        while left[-1]:
            for hits, scores in zip(found(kb, "dense"), final, strict=True):
                assert [score for _, score in hits] == pytest.approx([scores[chunk] for chunk, _ in hits], abs=1e-6)
            assert [hits[0][0] for hits in found(kb)] == best
            asked = count()
            left.append(kb.embed_remaining(lambda asked=asked: next(asked) > 0))  # type: ignore[misc]
            assert kb.verify().is_sound
        assert left == sorted(left, reverse=True) and len(left) >= 3
        for mode in (None, "dense", "lexical"):
            assert found(kb, mode) == found(embedded, mode)


def test_the_command_that_publishes_goes_on_to_embed(tmp_path: Path, sample: Path, embedded: KnowledgeBase) -> None:
    events: list[object] = []
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        report = kb.index(sample, options=IndexOptions(searchable_first=True, on_event=events.append))
        assert (report.embedded, report.unembedded) == (report.chunks["added"], 0)
        assert found(kb) == found(embedded)
        assert not list(kb.path.glob("vectors-*.f32"))[1:]  # the static vectors are gone
    names = [type(event).__name__ for event in events]
    assert names.index("SearchReady") < names.index("TextsEmbedded")


def test_what_a_search_embedded_is_not_embedded_again(
    counted: tuple[KnowledgeBase, CountingMiniLM], tmp_path: Path
) -> None:
    kb, embedder = counted
    assert kb.search("Where does the owl sleep?")[0].source == "owl.txt"
    assert embedder.texts == len(SMALL)
    kb.close()
    with KnowledgeBase(kb.path, kb.pipeline, PipelineComponents(kb.pipeline, embedder)) as again:
        assert again.search("Where does the owl sleep?")[0].source == "owl.txt"
        assert again.embed_remaining() == 0
    assert embedder.texts == len(SMALL) + 16  # sentences of the calibration
    assert kb.verify().is_sound and embedded_of_all(kb) == (4, 4)


def test_a_search_keeps_vectors_in_memory_where_it_cannot_write(counted: tuple[KnowledgeBase, CountingMiniLM]) -> None:
    kb, embedder = counted
    (kb.path / KEPT_FILE).mkdir()
    for _ in range(2):
        assert kb.search("When is tea served?")[0].source == "tea.txt"
    assert embedder.texts == len(SMALL)


def test_a_search_does_not_wait_for_one_that_writes(counted: tuple[KnowledgeBase, CountingMiniLM]) -> None:
    kb, embedder = counted
    handle = os.open(kb.path / KEPT_FILE, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    kb.search("When is tea served?")
    assert os.fstat(handle).st_size == 0
    os.close(handle)
    kb.search("When is tea served?")
    assert embedder.texts == len(SMALL)
    kept = kb._read_side.reader(kb.principal).kept_vectors
    assert kept is not None
    kept.add([bytes(16)], embedder.embed_texts(["another text"]))  # writes what could not be written before
    with kb.session() as session, session.snapshot() as snapshot:
        hashes = list(snapshot.text_hashes(snapshot.arrays.chunk_keys.tolist()).values())
    assert len(KeptVectors(kb.path, embedder.fingerprint, 384).find(hashes)) == len(SMALL)


def test_a_session_reads_one_state_while_chunks_get_vectors(counted: tuple[KnowledgeBase, CountingMiniLM]) -> None:
    kb, _ = counted
    question = "What happens in strong wind?"
    with kb.session() as session:
        before = session.search(question)
        assert KnowledgeBase(kb.location.reopen(), kb.pipeline, kb.components).embed_remaining() == 0
        assert session.search(question) == before
    assert embedded_of_all(kb) == (4, 4)


def test_new_documents_are_found_beside_embedded_ones(counted: tuple[KnowledgeBase, CountingMiniLM]) -> None:
    kb, _embedder = counted
    kb.embed_remaining()
    add(kb, {"cat.txt": "The cat of the observatory is called Kepler."})
    assert embedded_of_all(kb) == (4, 5)
    assert kb.search("What is the cat called?")[0].source == "cat.txt"
    assert kb.search("When is tea served?")[0].source == "tea.txt"
    add(kb, {"dog.txt": "No dog may enter the dome."}, IndexOptions())  # embeds what is left, too
    assert embedded_of_all(kb) == (6, 6) and kb.verify().is_sound


def test_a_user_embeds_only_what_may_be_read(counted: tuple[KnowledgeBase, CountingMiniLM]) -> None:
    kb, embedder = counted
    hidden = {f"secret-{n}.txt": f"Secret {n}: the owl is a spy of the {n} kings." for n in range(9)}
    kb.add([Document(text, {"source": name, "access": ["boss"]}) for name, text in hidden.items()], SEARCHABLE)
    hits = kb.as_user("guest").search("What is the owl?")
    assert {hit.source for hit in hits} == set(SMALL)
    assert embedder.texts == len(SMALL)


def test_removed_and_cleared_documents_leave_no_vectors(counted: tuple[KnowledgeBase, CountingMiniLM]) -> None:
    kb, _embedder = counted
    kb.search("When is tea served?")
    assert kb.remove("tea.txt") == 1
    assert kb.verify().is_sound and kb.search("When is tea served?")[0].source != "tea.txt"
    assert kb.embed_remaining() == 0 and embedded_of_all(kb) == (3, 3)
    kb.clear()
    assert kb.verify().is_sound and not (kb.path / KEPT_FILE).stat().st_size
    add(kb, SMALL)
    assert kb.search("When is tea served?")[0].source == "tea.txt"


def test_a_copy_has_all_vectors(counted: tuple[KnowledgeBase, CountingMiniLM], tmp_path: Path) -> None:
    kb, _ = counted
    kb.copy_to(tmp_path / "other")
    with KnowledgeBase.open(tmp_path / "other") as other:
        assert embedded_of_all(other) == (4, 4) and other.verify().is_sound


def test_another_store_gets_chunks_with_their_vectors(
    counted: tuple[KnowledgeBase, CountingMiniLM], tmp_path: Path
) -> None:
    kb, _ = counted
    pipeline = Pipeline.from_yaml(f"store: {{name: sqlite, path: {tmp_path / 'store'}}}\n")
    with KnowledgeBase.open(kb.path, pipeline) as moved:
        assert moved.copy().copied == 4
        add(moved, {"cat.txt": "The cat of the observatory is called Kepler."})
        assert embedded_of_all(moved) == (5, 5) and moved.verify().is_sound


def test_a_repair_embeds_what_lacked_vectors(counted: tuple[KnowledgeBase, CountingMiniLM]) -> None:
    kb, _ = counted
    kb.close()
    with closing(open_catalog(kb.path)) as connection:
        static = Catalog(connection).static_embedder()
        assert static is not None
    with (kb.path / static.file).open("r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(b"\xff\xff")
    assert not kb.verify().is_sound
    assert kb.verify(repair=True).is_sound and embedded_of_all(kb) == (4, 4)


def test_the_setting_index_embeds_before_publishing(tmp_path: Path) -> None:
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("embed: {name: minilm, when: index}\n")) as kb:
        add(kb, SMALL)
        assert embedded_of_all(kb) == (4, 4)


def test_vectors_are_required_where_nothing_can_embed(counted: tuple[KnowledgeBase, CountingMiniLM]) -> None:
    kb, _ = counted
    with (
        kb.session() as session,
        session.snapshot() as snapshot,
        pytest.raises(KnowledgeBaseError, match=r"4 chunks have no vectors yet: run"),
    ):
        snapshot.embeddings(snapshot.arrays.chunk_keys.tolist())


KILLED = """
import os, signal, sys
from ragkit.index import fill, on_demand
from ragkit.index.catalog.sqlite import Catalog
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.store.native.vector_file import VectorFile
fill.FILL_BATCH_SIZE, on_demand.MAX_EMBEDDED, left = 2, 1, int(sys.argv[2])
def killing(function):
    def call(*arguments, **options):
        global left
        result, left = function(*arguments, **options), left - 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call
for owner, name in ((VectorFile, "sync"), (Catalog, "set_vectors")):
    setattr(owner, name, killing(getattr(owner, name)))
kb = KnowledgeBase.open(sys.argv[1])
kb.search("When is tea served?", 1)
kb.embed_remaining()
"""


@pytest.mark.slow
def test_a_killed_process_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Killed at each step of embedding what is left; the next process continues."""
    with KnowledgeBase.open(tmp_path / "full") as kb:
        add(kb, SMALL, IndexOptions())
        expected = found(kb)
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        add(kb, SMALL)
        for step in range(1, 30):
            (kb.path / KEPT_FILE).unlink(missing_ok=True)
            kb.close()
            process = subprocess.run([sys.executable, "-c", KILLED, str(kb.path), str(step)], check=False)
            assert process.returncode in {0, -signal.SIGKILL}
            assert kb.verify().is_sound
            if process.returncode == 0:
                break
        assert step > 2
        assert embedded_of_all(kb) == (4, 4) and found(kb) == expected
