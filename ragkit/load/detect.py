"""Detect the loader of a file by its content, then by its name.

The content decides: a `.pdf` that contains a web page goes to `html`, a binary `.txt` is not supported.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8

from ragkit.errors import LoadError, UnsupportedFormat
from ragkit.load.encoding import BYTE_ORDER_MARKS, guess_utf16_or_utf32
from ragkit.load.file_types import LANGUAGE_BY_FILE_NAME, LOADER_BY_SUFFIX, detect_language, file_name, file_suffix
from ragkit.load.options import ZipOptions
from ragkit.load.zip_archive import SAVE_AGAIN_HINT, ZipArchive

SAMPLE_BYTES = 65_536
"""Bytes that are read to distinguish text from binary."""

BINARY_FORMATS = frozenset({"pdf", "docx", "pptx", "xlsx", "epub"})
"""Loaders of binary formats."""

SIGNATURES = (
    (b"\x89PNG\r\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"II*\x00", "TIFF image"),
    (b"MM\x00*", "TIFF image"),
    (b"\x7fELF", "executable"),
    (b"MZ\x90\x00", "Windows executable"),
    (b"\xcf\xfa\xed\xfe", "executable"),
    (b"\x00asm", "WebAssembly module"),
    (b"\xca\xfe\xba\xbe", "executable"),
    (b"\x1f\x8b\x08", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"Rar!\x1a\x07", "RAR archive"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"OggS\x00", "Ogg audio"),
    (b"ID3\x03", "MP3 audio"),
    (b"ID3\x04", "MP3 audio"),
    (b"fLaC\x00", "FLAC audio"),
    (b"wOFF", "font"),
    (b"wOF2", "font"),
    (b"PAR1", "Parquet table"),
    (b"\x93NUMPY", "NumPy array"),
    (b"\x80\x04\x95", "Python pickle"),
)
"""First bytes -> description of the file type."""

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
        source: its path or URL; only the file name matters.

    Raises:
        UnsupportedFormat: no loader supports the format; the reason names it.
        LoadError: the file is encrypted or damaged.
    """
    expected = _loader_by_name(source)
    if not data.strip():
        return "text" if expected in BINARY_FORMATS else expected
    if data.startswith(b"%PDF-") or (expected == "pdf" and b"%PDF-" in data[:1024]):
        return "pdf"
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _detect_zip_format(data, source)
    if data.startswith(_OLE_SIGNATURE):
        raise _legacy_office_error(data, source)
    _reject_binary(data, source)
    if expected in BINARY_FORMATS | {"text"} and _HTML_START.match(data[:4096].removeprefix(BOM_UTF8).lstrip()):
        return "html"
    if expected in BINARY_FORMATS:
        reason = f"has the suffix {file_suffix(source)} but contains plain text"
        raise UnsupportedFormat(source, reason, "rename it to .txt")
    if not file_suffix(source) and detect_language(source, data[:200].decode("latin-1")):
        return "code"
    return expected


def _loader_by_name(source: str) -> str:
    """The loader by name alone; `text` for an unknown suffix."""
    if file_name(source).lower() in LANGUAGE_BY_FILE_NAME:
        return "code"
    return LOADER_BY_SUFFIX.get(file_suffix(source), "text")


def _reject_binary(data: bytes, source: str) -> None:
    for signature, description in SIGNATURES:
        if data.startswith(signature):
            raise UnsupportedFormat(source, f"binary file ({description})")
    if data.startswith(b"RIFF") and data[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        raise UnsupportedFormat(source, "binary file (image, audio or video)")
    if data[4:8] == b"ftyp":
        raise UnsupportedFormat(source, "binary file (video)")
    if data.startswith(b"{\\rtf"):
        raise UnsupportedFormat(source, "RTF is not supported", "save it as .docx or .txt")
    if data.startswith(b"%!PS"):
        raise UnsupportedFormat(source, "PostScript is not supported", "convert it to PDF, for example with `ps2pdf`")
    if is_binary(data):
        raise UnsupportedFormat(source, "binary file")


def is_binary(data: bytes) -> bool:
    """Whether `data` is not text in any encoding: more than 5% control characters, and not UTF-16 or UTF-32."""
    sample = data[:SAMPLE_BYTES]
    if sample.startswith(tuple(mark for mark, _ in BYTE_ORDER_MARKS)) or guess_utf16_or_utf32(sample):
        return False
    control = len(sample) - len(sample.translate(None, _CONTROL_BYTES))
    return control > max(1, 0.05 * len(sample))


def _detect_zip_format(data: bytes, source: str) -> str:
    """The loader of a zip file, by the names of its entries."""
    archive = ZipArchive(data, source, ZipOptions(max_expanded_mb=1 << 40, max_ratio=1 << 40, max_entries=100_000))
    if "mimetype" in archive:
        media_type = archive.read("mimetype", 100).decode("latin-1").strip()
        if media_type == "application/epub+zip":
            return "epub"
        if media_type.startswith("application/vnd.oasis.opendocument"):
            raise UnsupportedFormat(source, "OpenDocument is not supported", "save it as .docx, .xlsx, .pptx or PDF")
    if "META-INF/container.xml" in archive:
        return "epub"
    for folder, loader in _OFFICE_FOLDERS.items():
        if any(name.startswith(folder) for name in archive.names):
            if "[Content_Types].xml" not in archive:
                raise LoadError(source, "part '[Content_Types].xml' is missing", SAVE_AGAIN_HINT)
            return loader
    raise UnsupportedFormat(source, "zip archives are not supported", "unpack it and index the folder")


def _legacy_office_error(data: bytes, source: str) -> LoadError:
    """The error for an OLE file: an encrypted Office file, a legacy Office file or an Outlook message."""
    if "EncryptedPackage".encode("utf-16-le") in data or "EncryptionInfo".encode("utf-16-le") in data:
        return LoadError(source, "password-protected", "save it without a password")
    if "__substg1.0_".encode("utf-16-le") in data:
        return UnsupportedFormat(source, "Outlook messages are not supported", "save it as .eml")
    kinds = (("WordDocument", ".docx"), ("Workbook", ".xlsx"), ("PowerPoint Document", ".pptx"))
    for stream, suffix in kinds:
        if stream.encode("utf-16-le") in data:
            return UnsupportedFormat(source, f"legacy format {suffix[:-1]} is not supported", f"save it as {suffix}")
    return UnsupportedFormat(source, "legacy Office format is not supported", "save it in a newer format")
