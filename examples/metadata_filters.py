"""Search with metadata filters: front matter and file properties are fields, and stores apply them exactly."""

from pathlib import Path
from tempfile import TemporaryDirectory

from ragkit import KnowledgeBase

NOTES = {
    "pump-2023.md": "---\nyear: 2023\nteam: operations\n---\nThe pump is serviced every 500 hours.\n",
    "pump-2025.md": "---\nyear: 2025\nteam: operations\n---\nThe pump is serviced every 400 hours.\n",
    "menu.md": "---\nyear: 2025\nteam: canteen\n---\nThe soup of the day is pumpkin.\n",
}


def main(directory: Path) -> None:
    folder = directory / "notes"
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / name).write_text(text, encoding="utf-8")
    with KnowledgeBase.open(directory / "kb") as kb:
        kb.index(folder)
        for hit in kb.search(
            "How often is the pump serviced?",
            where={"year": {"$gte": 2024}, "team": {"$in": ["operations", "maintenance"]}},
        ):
            print(Path(hit.chunk.source).name, hit.chunk.text)


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        main(Path(temporary))
