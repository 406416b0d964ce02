"""Run `ragkit` without root's file permissions, and change files after the scan.

Root can read all files, so the two capabilities that allow it are dropped before the program starts.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

PR_CAPBSET_DROP = 24
DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2
DROPPED_VARIABLE = "RAGKIT_TEST_DROPPED"


def main() -> None:
    """Drop the capabilities, restart, and run the command line."""
    if DROPPED_VARIABLE not in os.environ:
        for capability in (DAC_OVERRIDE, DAC_READ_SEARCH):
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, DROPPED_VARIABLE: "1"})
    from ragkit.cli import main as ragkit
    from ragkit.knowledge_base.sources import source_files
    from ragkit.load.files.walk import FolderOptions, FoundFile, SkippedPath, walk_files
    from tests.hostile.places import change

    def walk_and_change(source: Path, options: FolderOptions | None = None) -> Iterator[FoundFile | SkippedPath]:
        for item in walk_files(source, options):
            if isinstance(item, FoundFile):
                change(item.path)
            yield item

    source_files.walk_files = walk_and_change  # type: ignore[attr-defined]
    ragkit(sys.argv[1:])


if __name__ == "__main__":
    main()
