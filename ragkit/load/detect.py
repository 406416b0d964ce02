"""Detect the loader of a file by its content, then by its name.

The content decides: a `.pdf` that contains a web page goes to `html`, a binary `.txt` is not supported.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections import Counter

from ragkit.errors import LoadError, UnsupportedFormat
from ragkit.load.file_types import LANGUAGE_BY_FILE_NAME, LOADER_BY_SUFFIX, detect_language, file_name, file_suffix
from ragkit.load.options import ZipOptions
from ragkit.load.shared.encoding import BYTE_ORDER_MARKS, guess_encoding, guess_utf16_or_utf32
from ragkit.load.shared.zip_archive import SAVE_AGAIN_HINT, ZipArchive

SAMPLE_BYTES = 65_536
"""Bytes that are read to distinguish text from binary."""

BINARY_FORMATS = frozenset(
    {"pdf", "docx", "pptx", "xlsx", "epub", "odt", "odp", "ods", "doc", "ppt", "xls", "msg", "rtf", "parquet", "image"}
)
"""Loaders of binary formats."""

ARCHIVE_HINT = "unpack it and index the folder, or add the loader `archive`"

MIN_NOISE_BYTES = 256
"""Shorter files are never taken for noise by their most frequent byte."""

SIGNATURES = (
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
    (b"\x93NUMPY", "NumPy array"),
    (b"\xd7\xcd\xc6\x9a", "WMF image"),
    (b"\x01\x00\x09\x00\x00\x03", "WMF image"),
    (b"SIMPLE  =", "FITS image"),
    (b"\x80\x04\x95", "Python pickle"),
)
"""First bytes -> description of the file type."""

_IMAGE_STARTS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*")
_ARCHIVE_STARTS = (b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b\x08", b"BZh", b"\xfd7zXZ\x00")
_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_HTML_START = re.compile(
    rb"(?:<\?xml[^>]{0,200}\?>\s*)?(?:(?><!--.{0,2000}?-->)\s*+){0,5}+<(?:!doctype\s+html|html)\b",
    re.IGNORECASE | re.DOTALL,
)
_ELEMENT = re.compile(rb"<(?:[\w.-]{1,40}:)?([A-Za-z]\w{0,40})[\s/>]")
_OFFICE_ROOTS = {
    b"Workbook": ("xlsx", b"urn:schemas-microsoft-com:office:spreadsheet"),
    b"package": ("docx", b"http://schemas.microsoft.com/office/2006/xmlPackage"),
    b"wordDocument": ("docx", b"http://schemas.microsoft.com/office/word/2003/wordml"),
}
"""The first element of an Office file that is one XML file -> its loader and namespace."""
_PKCS_7 = bytes.fromhex("06092a864886f70d0107")
"""The object identifier 1.2.840.113549.1.7 in DER."""
_CONTROL_BYTES = bytes(code for code in range(32) if code not in b"\t\n\x0b\x0c\r\x08\x1b") + b"\x7f"
_OFFICE_FOLDERS = {"word/": "docx", "ppt/": "pptx", "xl/": "xlsx"}
_OPEN_DOCUMENTS = {"text": "odt", "presentation": "odp", "spreadsheet": "ods"}
_OTHER_ZIP_FORMATS = (
    ("Index/Document.iwa", "Apple iWork (Pages, Numbers, Keynote)"),
    ("index.apxl", "Apple Keynote"),
    ("index.xml", "Apple iWork (Pages, Numbers, Keynote)"),
    ("visio/document.xml", "Visio drawing"),
    ("META-INF/MANIFEST.MF", "Java archive"),
    ("AndroidManifest.xml", "Android application"),
)
"""An entry of a zip file -> what the file is."""
_OLE_STREAMS = (("__substg1.0_", "msg"), ("WordDocument", "doc"), ("PowerPoint Document", "ppt"), ("Workbook", "xls"))
"""A stream of an OLE file -> its loader; a message first, which can hold files of the other formats."""
_MAIL_HEADER = re.compile(rb"[A-Za-z][\w-]{1,80}:")
_MAIL_FIELDS = frozenset({b"message-id", b"mime-version", b"received", b"return-path"})
"""Headers that programs write and people do not."""
MIN_TABBED_LINES, MAX_TABBED_LINES = 3, 50
"""Lines that are looked at for a table with tabs."""
_MAX_BYTE_SHARE = 0.25
"""Of one byte of 128 or above that follows itself, in text that is not Unicode: no language repeats a letter so."""


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
    if binary := _detect_binary_format(data, source, expected):
        return binary
    _reject_binary(data, source)
    if expected in BINARY_FORMATS | {"text", "xml"} and (markup := _detect_markup(data)):
        return markup
    if expected == "text" and (found := _detect_text(data, file_suffix(source))):
        return found
    if expected in BINARY_FORMATS:
        reason = f"has the suffix {file_suffix(source)} but contains plain text"
        raise UnsupportedFormat(source, reason, "rename it to .txt")
    if not file_suffix(source) and detect_language(source, data[:200].decode("latin-1")):
        return "code"
    return expected


def _detect_markup(data: bytes) -> str:
    """The loader of an HTML or XML file by its first element; '' for any other text."""
    head = data[:4096].removeprefix(BOM_UTF8).lstrip()
    if _HTML_START.match(head):
        return "html"
    if not head.startswith(b"<") or (root := _ELEMENT.search(head)) is None:
        return ""
    loader, namespace = _OFFICE_ROOTS.get(root[1], ("", b""))
    if loader and namespace in head:
        return "pptx" if b"PowerPoint.Show" in head else loader
    return "xml" if head.startswith(b"<?xml") else ""


def _detect_text(data: bytes, suffix: str) -> str:
    """The loader of a text that is a table or, without a known suffix, a mail; '' for any other."""
    if suffix == ".txt":
        return "csv" if _is_tabbed(data[:SAMPLE_BYTES]) else ""
    return "" if suffix in LOADER_BY_SUFFIX else _detect_mail(data)


def _detect_mail(data: bytes) -> str:
    """The loader of a mail or mailbox by its headers, as mail programs store them; '' for any other text."""
    head = data[:SAMPLE_BYTES].replace(b"\r\n", b"\n").lstrip(b"\n").partition(b"\n\n")[0]
    first, _, others = head.partition(b"\n")
    is_mailbox = first.startswith(b"From ")
    lines = [line for line in (others if is_mailbox else head).split(b"\n") if line[:1].strip()]
    names = {line.partition(b":")[0].lower() for line in lines if _MAIL_HEADER.match(line)}
    if b"from" not in names or names.isdisjoint(_MAIL_FIELDS) or not all(map(_MAIL_HEADER.match, lines)):
        return ""
    return "mbox" if is_mailbox else "eml"


def _is_tabbed(sample: bytes) -> bool:
    """Whether all lines of a text have the same number of tabs, two or more: the export of a table."""
    lines = [line for line in sample.split(b"\n")[:MAX_TABBED_LINES] if line.strip()]
    counts = {line.count(b"\t") for line in lines}
    return len(lines) >= MIN_TABBED_LINES and len(counts) == 1 and min(counts) >= 2


def _detect_binary_format(data: bytes, source: str, expected: str) -> str:
    """The loader of a file that its first bytes identify; '' for any other file."""
    if data.startswith(b"%PDF-") or (expected == "pdf" and b"%PDF-" in data[:1024]):
        return "pdf"
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _detect_zip_format(data, source)
    if data.startswith(_OLE_SIGNATURE):
        return _detect_ole_format(data, source)
    if data.startswith((b"PAR1", b"ARROW1\x00\x00")):
        return "parquet"
    if data.startswith(_IMAGE_STARTS) or (data.startswith(b"RIFF") and data[8:12] == b"WEBP") or _is_heic(data):
        return "image"
    return "rtf" if data.startswith(b"{\\rtf") else ""


def _is_heic(data: bytes) -> bool:
    return data[4:8] == b"ftyp" and data[8:12] in {b"heic", b"heix", b"mif1", b"avif"}


def _loader_by_name(source: str) -> str:
    """The loader by name alone; `text` for an unknown suffix."""
    if file_name(source).lower() in LANGUAGE_BY_FILE_NAME:
        return "code"
    return LOADER_BY_SUFFIX.get(file_suffix(source), "text")


def _reject_binary(data: bytes, source: str) -> None:
    for signature, description in SIGNATURES:
        if data.startswith(signature):
            raise UnsupportedFormat(source, f"binary file ({description})")
    if data.startswith(b"0") and _PKCS_7 in data[:32]:
        raise UnsupportedFormat(source, "binary file (signed or encrypted, PKCS #7)")
    if data.startswith(b"RIFF") and data[8:12] in (b"WAVE", b"AVI "):
        raise UnsupportedFormat(source, "binary file (audio or video)")
    if data[4:8] == b"ftyp":
        raise UnsupportedFormat(source, "binary file (video)")
    if data[40:44] == b" EMF":
        raise UnsupportedFormat(source, "binary file (EMF image)")
    if data[257:262] == b"ustar":
        raise UnsupportedFormat(source, "tar archives are not supported", ARCHIVE_HINT)
    if data.startswith(b"%!PS"):
        raise UnsupportedFormat(source, "PostScript is not supported", "convert it to PDF, for example with `ps2pdf`")
    if is_binary(data):
        raise UnsupportedFormat(source, "binary file")


def is_archive(data: bytes) -> bool:
    """Whether `data`, which has no loader of its own, starts as a file that the loader `archive` reads."""
    return data.startswith(_ARCHIVE_STARTS) or data[257:262] == b"ustar"


def is_binary(data: bytes) -> bool:
    """Whether `data` is not text in any encoding: neither UTF-16 nor UTF-32, and with more than 5% control characters,
    or one other byte so often that it is no letter."""
    sample = data[:SAMPLE_BYTES]
    if sample.startswith(tuple(mark for mark, _ in BYTE_ORDER_MARKS)) or guess_utf16_or_utf32(sample):
        return False
    control = len(sample) - len(sample.translate(None, _CONTROL_BYTES))
    return control > max(1, 0.05 * len(sample)) or _repeats_one_byte(sample)


def _repeats_one_byte(sample: bytes) -> bool:
    if sample.isascii() or len(sample) < MIN_NOISE_BYTES:
        return False
    counts = Counter(sample)
    byte, count = max(counts.items(), key=lambda item: item[1] if item[0] >= 128 else 0)
    if byte < 128 or count <= _MAX_BYTE_SHARE * len(sample) or guess_encoding(sample) == "utf-8":
        return False
    # in Shift JIS and EUC, the first byte of most letters is the same, but never follows itself
    return 2 * sample.count(bytes([byte, byte])) > _MAX_BYTE_SHARE * len(sample)


def _detect_zip_format(data: bytes, source: str) -> str:
    """The loader of a zip file, by the names of its entries."""
    archive = ZipArchive(data, source, ZipOptions(max_expanded_mb=1 << 40, max_ratio=1 << 40, max_entries=100_000))
    if "mimetype" in archive:
        media_type = archive.read("mimetype", 100).decode("latin-1").strip()
        if media_type == "application/epub+zip":
            return "epub"
        kind = media_type.removeprefix("application/vnd.oasis.opendocument.").removesuffix("-template")
        if kind in _OPEN_DOCUMENTS:
            return _OPEN_DOCUMENTS[kind]
        if kind != media_type:
            raise UnsupportedFormat(source, f"OpenDocument {kind[:40]} is not supported", "export it as PDF")
    if "META-INF/container.xml" in archive:
        return "epub"
    for folder, loader in _OFFICE_FOLDERS.items():
        if any(name.startswith(folder) for name in archive.names):
            if "[Content_Types].xml" not in archive:
                raise LoadError(source, "part '[Content_Types].xml' is missing", SAVE_AGAIN_HINT)
            return "xls" if "xl/workbook.bin" in archive else loader
    for name, description in _OTHER_ZIP_FORMATS:
        if name in archive:
            raise UnsupportedFormat(source, f"{description} is not supported", "export it as PDF")
    raise UnsupportedFormat(source, "zip archives are not supported", ARCHIVE_HINT)


def _detect_ole_format(data: bytes, source: str) -> str:
    """The loader of an OLE file. Raises LoadError for an encrypted Office file, and UnsupportedFormat."""
    if "EncryptedPackage".encode("utf-16-le") in data or "EncryptionInfo".encode("utf-16-le") in data:
        raise LoadError(source, "password-protected", "save it without a password")
    found = [loader for stream, loader in _OLE_STREAMS if stream.encode("utf-16-le") in data]
    expected = _loader_by_name(source)
    # Excel 5 names its stream "Book", some write "worddocument"; a file can hold files of the other formats
    if expected in found or (not found and expected in ("doc", "ppt", "xls")):
        return expected
    if found:
        return found[0]
    raise UnsupportedFormat(source, "legacy Office format is not supported", "save it in a newer format")
