"""Move a knowledge base to another vector store without embedding anything again."""

from pathlib import Path
from tempfile import TemporaryDirectory

from ragkit import KnowledgeBase, Pipeline


def main(directory: Path) -> None:
    docs = directory / "docs"
    docs.mkdir()
    for number in range(20):
        (docs / f"room{number}.md").write_text(f"# Room {number}\n\nThe key hangs on hook {number * 7 % 20}.\n")
    with KnowledgeBase.open(directory / "kb", "fast") as kb:
        kb.index(docs)
        before = [hit.chunk.id for hit in kb.search("Where is the key of room 3?", mode="dense")]
    # the same pipeline with another store; `ragkit copy --to sqlite --set store.path=vectors` does the same
    moved = Pipeline.load("fast", ["store.name=sqlite", f"store.path={directory / 'vectors'}"])
    with KnowledgeBase.open(directory / "kb", moved) as kb:
        report = kb.copy()
        print(f"{report.copied} chunks copied, {report.embedding_tokens} tokens embedded, problems: {report.problems}")
        after = [hit.chunk.id for hit in kb.search("Where is the key of room 3?", mode="dense")]
    print("same hits" if after == before else "other hits")


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        main(Path(temporary))
