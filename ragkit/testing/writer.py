"""Write batches to a store in a separate process: `python -m ragkit.testing.writer NAME DIRECTORY BATCHES`.

Each batch has BATCH_SIZE documents, half of which replace documents of the batch before. Its number is printed when
the store has acknowledged it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ragkit.records import Document
from ragkit.store.base import Rows
from ragkit.testing.store_factory import open_store, unit_rows

BATCH_SIZE = 20


def make_batch(number: int) -> tuple[list[Document], Rows]:
    """Documents and vectors of one batch. Half of its ids are new, half are from the batch before."""
    first = number * BATCH_SIZE // 2
    ids = [f"{place:08}" for place in range(first, first + BATCH_SIZE)]
    documents = [Document(f"text of {name} in batch {number}", {"batch": number}, id=name) for name in ids]
    return documents, unit_rows(BATCH_SIZE, 8, seed=number)


def main() -> None:
    """Write batches, starting after the last one in the store."""
    name, directory, batches = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    store = open_store(name, directory)
    first = max((int(str(document.metadata["batch"])) for _, document, _ in store.scan()), default=-1) + 1
    for number in range(first, first + batches):
        store.add_documents(*make_batch(number))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
    store.close()


if __name__ == "__main__":
    main()
