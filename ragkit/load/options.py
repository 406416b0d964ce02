"""Options and versions of the built-in loaders, importable without any vendor package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar

from ragkit.errors import InvalidOption
from ragkit.load.ocr_options import OcrOptions
from ragkit.load.option_checks import require_positive

LOADER_VERSIONS: Mapping[str, str] = {
    "archive": "1",
    "choose": "3",
    "code": "4",
    "doc": "2",
    "csv": "7",
    "data": "3",
    "docx": "6",
    "eml": "7",
    "epub": "6",
    "folder": "1",
    "html": "6",
    "image": "4",
    "json": "5",
    "jsonl": "4",
    "markdown": "5",
    "mbox": "3",
    "mhtml": "5",
    "msg": "2",
    "notebook": "3",
    "odp": "2",
    "ods": "5",
    "odt": "2",
    "parquet": "2",
    "pdf": "11",
    "ppt": "2",
    "pptx": "4",
    "pypdf": "1",
    "rtf": "4",
    "sqlite": "2",
    "subtitles": "2",
    "text": "8",
    "unstructured": "2",
    "xls": "6",
    "xlsx": "9",
    "xml": "2",
}
"""Loader -> version of its output. Increase it when equal bytes give a different Document.

Kept here, not in the loaders, so that a fingerprint needs no import of a vendor package.
"""


@dataclass(frozen=True)
class TextOptions:
    """Options of the loaders `text` and `subtitles`."""

    encoding: str = ""
    """A codec of Python such as `shift_jis`; empty: detected from the bytes."""


@dataclass(frozen=True)
class MarkdownOptions:
    """Options of the loader `markdown`."""

    encoding: str = ""
    """A codec of Python; empty: detected from the bytes."""
    front_matter: bool = True
    """Read metadata and title from YAML (`---`) or TOML (`+++`) front matter."""


@dataclass(frozen=True)
class CodeOptions:
    """Options of the loader `code`."""

    encoding: str = ""
    """A codec of Python; empty: detected from the bytes."""
    headings: bool = True
    """Use classes and functions as headings."""


@dataclass(frozen=True)
class HtmlOptions:
    """Options of the loaders `html` and `mhtml`."""

    navigation: bool = False
    """Keep menus, sidebars, page headers and footers."""


@dataclass(frozen=True)
class LimitOptions:
    """Options whose limits, `max_...`, are positive."""

    def __post_init__(self) -> None:
        for item in fields(self):
            if item.name.startswith("max_"):
                require_positive(item.name, getattr(self, item.name))


@dataclass(frozen=True)
class PypdfOptions(LimitOptions):
    """Options of the loader `pypdf`."""

    max_pages: int = 20_000
    """A file with more pages fails."""
    join_hyphens: bool = True
    """Join words that are hyphenated at the end of a line."""


@dataclass(frozen=True)
class PdfOptions(PypdfOptions):
    """Options of the loader `pdf`."""

    layout: bool = True
    """Find headings and captions, and take running heads and page numbers out of the text."""
    tables: bool = True
    """Find tables: a row becomes one line, below the names of its columns."""
    annotations: bool = True
    """Read the values of form fields, text boxes and comments; they stand at the end of their page. Keep the addresses
    of links in the metadata."""
    ocr: OcrOptions | None = field(default_factory=OcrOptions)
    """How pages without usable text are read, if the extra `ocr` is installed; null: they are left out."""


@dataclass(frozen=True)
class ImageOptions(LimitOptions):
    """Options of the loader `image`."""

    max_pages: int = 20_000
    """A file with more pages fails."""
    ocr: OcrOptions = field(default_factory=OcrOptions)
    """How pages are read."""


@dataclass(frozen=True)
class RecordOptions:
    """Which fields of a row make its document."""

    text: tuple[str, ...] = ()
    """The columns of the text; empty: all."""
    title: str = ""
    """The column of the title; empty: none."""
    metadata: tuple[str, ...] = ()
    """The columns that filters can use; empty: all. `access` is kept in any case."""
    empty_access: str = ""
    """What an empty cell of a column `access` means: `closed`, for owners only, or `open`; empty: closed, and reported
    as a failure."""

    def __post_init__(self) -> None:
        if self.empty_access not in ("", "closed", "open"):
            raise InvalidOption("empty_access", self.empty_access, "closed, open or empty")


@dataclass(frozen=True, kw_only=True)
class TableOptions(LimitOptions):
    """Options of the formats that hold tables."""

    records: RecordOptions | None = None
    """Load each row as a document of its own, whose fields are metadata; {}: all fields are text and metadata."""


@dataclass(frozen=True, kw_only=True)
class SheetOptions(TableOptions):
    """Options of the formats that hold sheets."""

    max_cells: int = 5_000_000
    """Cells with a value in all sheets; a file with more fails."""


@dataclass(frozen=True, kw_only=True)
class RowOptions(TableOptions):
    """Options of the formats that hold tables of a database."""

    max_rows: int = 1_000_000
    """A file with more rows fails."""


@dataclass(frozen=True)
class ZipOptions(LimitOptions):
    """Limits of the formats that are zip files."""

    max_expanded_mb: int = 512
    """Total unpacked size, in MB."""
    max_ratio: int = 200
    """Unpacked size divided by packed size, for files that unpack to more than 16 MB."""
    max_entries: int = 10_000
    """Entries of the zip file."""


@dataclass(frozen=True)
class DocxOptions(ZipOptions):
    """Options of the loader `docx`."""

    footnotes: bool = True
    """Append footnotes and endnotes, one per line."""
    comments: bool = True
    """Add each comment below its paragraph."""
    page_headers: bool = True
    """Start with the text of page headers, and end with that of page footers."""


@dataclass(frozen=True)
class PptxOptions(ZipOptions):
    """Options of the loader `pptx`."""

    notes: bool = True
    """Add the speaker notes below each slide."""
    comments: bool = True
    """Add the comments below each slide."""


@dataclass(frozen=True)
class XlsxOptions(ZipOptions, SheetOptions):
    """Options of the loader `xlsx`."""

    hidden: bool = False
    """Include hidden sheets."""
    comments: bool = True
    """Add the comments below each sheet."""


@dataclass(frozen=True)
class CsvOptions(TableOptions):
    """Options of the loader `csv`."""

    delimiter: str = ""
    """One character; empty: detected from the first lines."""
    encoding: str = ""
    """A codec of Python; empty: detected from the bytes."""

    def __post_init__(self) -> None:
        if len(self.delimiter) > 1 or self.delimiter in ('"', "\n", "\r"):
            raise InvalidOption("delimiter", self.delimiter, "one character other than a quote or a line break")


@dataclass(frozen=True)
class JsonOptions(LimitOptions):
    """Options of the loaders `json` and `jsonl`."""

    max_depth: int = 200
    """A file with deeper nesting fails."""
    max_values: int = 1_000_000
    """A file with more values (strings, numbers, booleans, nulls) fails."""
    records: RecordOptions | None = None
    """Load each object as a document of its own, whose fields are metadata; {}: all fields are text and metadata."""


@dataclass(frozen=True)
class DataOptions(LimitOptions):
    """Options of the loader `data`: YAML, TOML and XML files as records."""

    at: str = ""
    """Where the records stand: `items`, `shop.items`; empty: the longest list of objects of the file."""
    records: RecordOptions = field(default_factory=RecordOptions)
    """Which fields make the text, title and metadata of a record; {}: all fields are text and metadata."""
    max_values: int = 1_000_000
    """A file with more values fails."""


@dataclass(frozen=True)
class EmlOptions:
    """Options of the loaders `eml`, `mbox` and `msg`."""

    headers: bool = True
    """Start the text with From, To, Cc, Date, Subject and the names of attachments."""
    attachments: bool = True
    """Load attachments as documents of their own, with the mail as `parent` in their metadata."""


@dataclass(frozen=True)
class OdpOptions(ZipOptions):
    """Options of the loader `odp`."""

    notes: bool = True
    """Add the speaker notes below each slide."""


@dataclass(frozen=True)
class OdsOptions(ZipOptions, SheetOptions):
    """Options of the loader `ods`."""


@dataclass(frozen=True)
class XlsOptions(SheetOptions):
    """Options of the loader `xls`."""

    hidden: bool = False
    """Include hidden sheets."""


@dataclass(frozen=True)
class SqliteTableOptions(RowOptions):
    """Options of the loader `sqlite`."""

    tables: tuple[str, ...] = ()
    """The tables that are read; empty: all."""


@dataclass(frozen=True)
class PptOptions:
    """Options of the loader `ppt`."""

    notes: bool = True
    """Add the speaker notes below each slide."""


@dataclass(frozen=True)
class NotebookOptions:
    """Options of the loader `notebook`."""

    outputs: bool = True
    """Include the text of outputs."""


@dataclass(frozen=True)
class UnstructuredOptions:
    """Options of the loader `unstructured`."""

    MAPPED_MB: ClassVar[int] = 8192
    """Added to `max_memory_mb`: its packages map 3.4 to 4.4 GB of address space, of which 0.7 to 1.0 GB are used."""

    strategy: str = "fast"
    """A strategy of the package: fast, hi_res, ocr_only or auto."""
