"""The options and the version of every loader of ours, importable without any vendor package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragkit.errors import InvalidOption

LOADER_VERSIONS: Mapping[str, str] = {
    "choose": "1",
    "code": "1",
    "csv": "2",
    "docx": "2",
    "eml": "1",
    "epub": "1",
    "folder": "1",
    "html": "1",
    "json": "1",
    "jsonl": "1",
    "markdown": "1",
    "pdf": "1",
    "pptx": "1",
    "pypdf": "1",
    "text": "1",
    "unstructured": "1",
    "xlsx": "2",
}
"""Loader -> the version of its text. Raise it when equal bytes give another Document.

It stands here, and not in the classes, so that a fingerprint costs no import of a vendor package.
"""


def require_positive(name: str, value: float) -> None:
    """Raises InvalidOption unless `value` is above 0."""
    if not value > 0:
        raise InvalidOption(name, value, "> 0")


@dataclass(frozen=True)
class TextOptions:
    """How plain text is read."""

    encoding: str = ""
    """A codec of Python such as `shift_jis`; empty: found from the bytes."""


@dataclass(frozen=True)
class MarkdownOptions:
    """How Markdown is read."""

    encoding: str = ""
    """A codec of Python; empty: found from the bytes."""
    front_matter: bool = True
    """Take metadata and title from a YAML (`---`) or TOML (`+++`) head."""


@dataclass(frozen=True)
class CodeOptions:
    """How source code is read."""

    encoding: str = ""
    """A codec of Python; empty: found from the bytes."""
    headings: bool = True
    """Take classes and functions as headings."""


@dataclass(frozen=True)
class HtmlOptions:
    """How HTML is read."""

    navigation: bool = False
    """Keep menus, side bars, page headers and footers."""


@dataclass(frozen=True)
class PdfOptions:
    """How PDF is read through PDFium."""

    max_pages: int = 20_000
    """More pages than this are a LoadLimitExceeded."""
    join_hyphens: bool = True
    """Join a word that was cut with a hyphen at the end of a line."""

    def __post_init__(self) -> None:
        require_positive("max_pages", self.max_pages)


@dataclass(frozen=True)
class PypdfOptions:
    """How PDF is read through pypdf."""

    max_pages: int = 20_000
    """More pages than this are a LoadLimitExceeded."""
    join_hyphens: bool = True
    """Join a word that was cut with a hyphen at the end of a line."""

    def __post_init__(self) -> None:
        require_positive("max_pages", self.max_pages)


@dataclass(frozen=True)
class ZipOptions:
    """The limits that every format packed as a zip file shares."""

    max_expanded_mb: int = 512
    """All parts together, unpacked."""
    max_ratio: int = 200
    """Unpacked size over packed size, for files that unpack to more than 16 MB."""
    max_entries: int = 10_000
    """Parts in the file."""

    def __post_init__(self) -> None:
        for name in ("max_expanded_mb", "max_ratio", "max_entries"):
            require_positive(name, getattr(self, name))


@dataclass(frozen=True)
class DocxOptions(ZipOptions):
    """How Word files are read."""

    footnotes: bool = True
    """Append footnotes and endnotes, one line each."""


@dataclass(frozen=True)
class PptxOptions(ZipOptions):
    """How PowerPoint files are read."""

    notes: bool = True
    """Add the speaker's notes below each slide."""


@dataclass(frozen=True)
class XlsxOptions(ZipOptions):
    """How Excel files are read."""

    max_cells: int = 5_000_000
    """Cells with a value, all sheets together; more are a LoadLimitExceeded."""
    hidden: bool = False
    """Read hidden sheets too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("max_cells", self.max_cells)


@dataclass(frozen=True)
class EpubOptions(ZipOptions):
    """How EPUB books are read."""


@dataclass(frozen=True)
class CsvOptions:
    """How tables in text form are read."""

    delimiter: str = ""
    """One character; empty: found from the first lines."""
    encoding: str = ""
    """A codec of Python; empty: found from the bytes."""

    def __post_init__(self) -> None:
        if len(self.delimiter) > 1 or self.delimiter in ('"', "\n", "\r"):
            raise InvalidOption("delimiter", self.delimiter, "one character, no quote and no line end,")


@dataclass(frozen=True)
class JsonOptions:
    """How JSON is read."""

    max_depth: int = 200
    """Deeper nesting is a LoadLimitExceeded."""
    max_values: int = 1_000_000
    """More strings, numbers and the like are a LoadLimitExceeded."""

    def __post_init__(self) -> None:
        require_positive("max_depth", self.max_depth)
        require_positive("max_values", self.max_values)


@dataclass(frozen=True)
class JsonlOptions(JsonOptions):
    """How JSON Lines are read."""


@dataclass(frozen=True)
class EmlOptions:
    """How e-mail is read."""

    headers: bool = True
    """Begin the text with From, To, Date and Subject."""


@dataclass(frozen=True)
class UnstructuredOptions:
    """How the `unstructured` package is called."""

    strategy: str = "fast"
    """As the package names it: fast, hi_res, ocr_only or auto."""
