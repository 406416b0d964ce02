"""Which loader takes a file: what its bytes are, then what its name says.

A file is named for what it is: a `.pdf` that holds a web page goes to `html`, a `.txt` full of zero bytes to nobody.
"""

from __future__ import annotations

import re

from ragkit.errors import LoadError, UnsupportedFormat
from ragkit.load.encoding import BYTE_ORDER_MARKS, guess_utf16_or_utf32
from ragkit.load.file_types import LANGUAGE_BY_FILE_NAME, LOADER_BY_SUFFIX, detect_language, file_name, file_suffix
from ragkit.load.options import ZipOptions
from ragkit.load.zip_archive import ZipArchive

SAMPLE_BYTES = 65_536
"""Bytes that are looked at to tell text from binary."""

BINARY_FORMATS = frozenset({"pdf", "docx", "pptx", "xlsx", "epub"})
"""Loaders whose formats are never plain text."""

SIGNATURES = (
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90\x00", "a Windows program"),
    (b"\xcf\xfa\xed\xfe", "a program"),
    (b"\x00asm", "a WebAssembly program"),
    (b"\xca\xfe\xba\xbe", "a program"),
    (b"\x1f\x8b\x08", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"OggS\x00", "an Ogg recording"),
    (b"ID3\x03", "an MP3 recording"),
    (b"ID3\x04", "an MP3 recording"),
    (b"fLaC\x00", "a FLAC recording"),
    (b"wOFF", "a font"),
    (b"wOF2", "a font"),
    (b"PAR1", "a Parquet table"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x80\x04\x95", "a Python pickle"),
)
"""First bytes -> what the file is, in words."""

_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_HTML_START = re.compile(
    rb"(?:<\?xml[^>]{0,200}\?>\s*)?(?:(?><!--.{0,2000}?-->)\s*+){0,5}+<(?:!doctype\s+html|html)\b",
    re.IGNORECASE | re.DOTALL,
)
_CONTROL_BYTES = bytes(code for code in range(32) if code not in b"\t\n\x0b\x0c\r\x08\x1b") + b"\x7f"
_OFFICE_FOLDERS = {"word/": "docx", "ppt/": "pptx", "xl/": "xlsx"}


def detect_loader(data: bytes, source: str) -> str:
    """The name of the loader for a file.

    Args:
        data: the whole file.
        source: its path or URL; only its last part is looked at.

    Raises:
        UnsupportedFormat: no loader takes what it is; the reason says what that is.
        LoadError: it is locked, or damaged beyond telling.
    """
    named = _loader_by_name(source)
    if not data.strip():
        return "text" if named in BINARY_FORMATS else named
    if data.startswith(b"%PDF-") or (named == "pdf" and b"%PDF-" in data[:1024]):
        return "pdf"
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _detect_zip_format(data, source)
    if data.startswith(_OLE_SIGNATURE):
        raise _legacy_office_error(data, source)
    _reject_binary(data, source)
    if named in BINARY_FORMATS | {"text"} and _HTML_START.match(_strip_utf8_bom(data[:4096]).lstrip()):
        return "html"
    if named in BINARY_FORMATS:
        reason = f"is named {file_suffix(source)} but holds plain text"
        raise UnsupportedFormat(source, reason, "give it the suffix .txt to have it read")
    if not file_suffix(source) and detect_language(source, data[:200].decode("latin-1")):
        return "code"
    return named


def _loader_by_name(source: str) -> str:
    """The loader by name alone; text for a suffix that is not known."""
    if file_name(source).lower() in LANGUAGE_BY_FILE_NAME:
        return "code"
    return LOADER_BY_SUFFIX.get(file_suffix(source), "text")


def _strip_utf8_bom(data: bytes) -> bytes:
    return data.removeprefix(BYTE_ORDER_MARKS[0][0])


def _reject_binary(data: bytes, source: str) -> None:
    for signature, what in SIGNATURES:
        if data.startswith(signature):
            raise UnsupportedFormat(source, f"binary file ({what})")
    if data.startswith(b"RIFF") and data[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        raise UnsupportedFormat(source, "binary file (an image or recording)")
    if data[4:8] == b"ftyp":
        raise UnsupportedFormat(source, "binary file (a video)")
    if data.startswith(b"{\\rtf"):
        raise UnsupportedFormat(source, "an RTF file", "save it as .docx or .txt")
    if data.startswith(b"%!PS"):
        raise UnsupportedFormat(source, "a PostScript file", "convert it to PDF, for example with `ps2pdf`")
    if is_binary(data):
        raise UnsupportedFormat(source, "binary file")


def is_binary(data: bytes) -> bool:
    """Whether `data` is no text in any encoding: more than 5 % control characters, UTF-16 and UTF-32 apart."""
    sample = data[:SAMPLE_BYTES]
    if sample.startswith(tuple(mark for mark, _ in BYTE_ORDER_MARKS)) or guess_utf16_or_utf32(sample):
        return False
    control = len(sample) - len(sample.translate(None, _CONTROL_BYTES))
    return control > max(1, 0.05 * len(sample))


def _detect_zip_format(data: bytes, source: str) -> str:
    """What a zip file is, by the names of its parts."""
    archive = ZipArchive(data, source, ZipOptions(max_expanded_mb=1 << 40, max_ratio=1 << 40, max_entries=100_000))
    if "mimetype" in archive:
        kind = archive.read("mimetype", 100).decode("latin-1").strip()
        if kind == "application/epub+zip":
            return "epub"
        if kind.startswith("application/vnd.oasis.opendocument"):
            raise UnsupportedFormat(source, "an OpenDocument file", "save it as .docx, .xlsx, .pptx or PDF")
    if "META-INF/container.xml" in archive:
        return "epub"
    for folder, loader in _OFFICE_FOLDERS.items():
        if any(name.startswith(folder) for name in archive.names):
            if "[Content_Types].xml" not in archive:
                raise LoadError(source, "damaged: its part '[Content_Types].xml' is missing", "save it again")
            return loader
    raise UnsupportedFormat(source, "a zip archive", "unpack it and index the folder")


def _legacy_office_error(data: bytes, source: str) -> LoadError:
    """The error for a compound file: a locked Office file, an old Office file or an Outlook message."""
    if "EncryptedPackage".encode("utf-16-le") in data or "EncryptionInfo".encode("utf-16-le") in data:
        return LoadError(source, "password-protected", "save it without a password")
    if "__substg1.0_".encode("utf-16-le") in data:
        return UnsupportedFormat(source, "an Outlook message", "save it as .eml")
    kinds = (("WordDocument", ".docx"), ("Workbook", ".xlsx"), ("PowerPoint Document", ".pptx"))
    for stream, suffix in kinds:
        if stream.encode("utf-16-le") in data:
            return UnsupportedFormat(source, f"an Office file from before 2007 ({suffix[:-1]})", f"save it as {suffix}")
    return UnsupportedFormat(source, "binary file (an old Office format)", "save it in a newer format")
