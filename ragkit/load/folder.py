"""The loader behind `load: {name: folder}`: each file through the loader that fits it.

Which files of the folder are read is `walk`'s part; both take the same options.
"""

from __future__ import annotations

from ragkit.load.options import LOADER_VERSIONS
from ragkit.load.router import Router
from ragkit.load.walk import FolderOptions
from ragkit.records import Document


class FolderLoader:
    """Chooses by content, then by name."""

    version = LOADER_VERSIONS["folder"]

    def __init__(self, options: FolderOptions | None = None) -> None:
        self.options = options or FolderOptions()
        self._router = Router()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`, through the loader of its format. Raises LoadError."""
        return self._router.load(data, source)[1]
