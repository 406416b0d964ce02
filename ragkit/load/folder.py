"""The default loader: loads each file with the loader of its format.

`walk` selects the files of a folder; both use the same options.
"""

from __future__ import annotations

from ragkit.load.files.walk import FolderOptions
from ragkit.load.options import LOADER_VERSIONS
from ragkit.load.router import Router
from ragkit.records import Document


class FolderLoader:
    """Selects the loader by content, then by file name."""

    version = LOADER_VERSIONS["folder"]

    def __init__(self, options: FolderOptions | None = None) -> None:
        self.options = options or FolderOptions()
        self._router = Router()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError."""
        return self._router.load(data, source)[1]
