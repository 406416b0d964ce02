"""Decode bytes: detect the encoding, and replace invalid bytes.

Offsets are preserved: only the byte order mark is removed.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from ragkit.errors import InvalidOption

SAMPLE_BYTES = 65_536
"""Bytes that are read to detect an encoding."""

MIN_GUESSED_BYTES = 64
"""With fewer non-ASCII bytes, the statistical detection is less reliable than the most common encoding."""

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is a prefix of it
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_INVALID_CHARS = re.compile("[\x00\ud800-\udfff]")
_NON_ASCII = re.compile(rb"[\x80-\xff]")
_UTF8_SEQUENCE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")


@dataclass(frozen=True, slots=True)
class DecodedText:
    """Text, and the codec that decoded it."""

    text: str
    encoding: str

    @property
    def legacy_encoding(self) -> str:
        """The codec for the metadata of a document; '' for UTF-8."""
        return "" if self.encoding == "utf-8" else self.encoding


def replace_invalid_chars(text: str) -> str:
    """`text` with NUL and lone surrogates replaced by U+FFFD, because stores reject them."""
    return _INVALID_CHARS.sub("\ufffd", text) if _INVALID_CHARS.search(text) else text


def decode_bytes(data: bytes, encoding: str = "") -> DecodedText:
    """Decode `data`; invalid bytes become U+FFFD.

    Args:
        data: the whole file.
        encoding: the codec, unless there is a byte order mark; empty: UTF-8 if valid, else a guess.

    Raises:
        InvalidOption: `encoding` is not a text codec of Python.
    """
    for mark, name in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return DecodedText(replace_invalid_chars(data[len(mark) :].decode(name, "replace")), name)
    name = normalize_codec(encoding) if encoding else guess_encoding(data)
    return DecodedText(replace_invalid_chars(data.decode(name, "replace")), name)


def normalize_codec(name: str) -> str:
    """The canonical name of a codec. Raises InvalidOption unless it is a text codec of Python."""
    try:
        info = codecs.lookup(name)
        b"a".decode(info.name, "replace")
    except (LookupError, ValueError, AssertionError) as error:  # codecs such as idna assert
        raise InvalidOption("encoding", name, "a text encoding of Python, such as utf-8 or cp1252") from error
    return info.name


def guess_encoding(data: bytes) -> str:
    """The codec of text without a byte order mark."""
    encoding = guess_utf16_or_utf32(data[:SAMPLE_BYTES])
    if encoding:
        return encoding
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return _guess_legacy_encoding(data)
    return "utf-8"


def guess_utf16_or_utf32(sample: bytes) -> str:
    """UTF-16 or UTF-32 by the positions of the zero bytes, or ''. Needs some Latin letters in the text."""
    sample = sample[: len(sample) // 4 * 4]
    if len(sample) < 4 or 0 not in sample:
        return ""
    share = [sample[place::4].count(0) / (len(sample) // 4) for place in range(4)]
    if share[0] < 0.05 and share[2] > 0.9 and share[3] > 0.9:
        return "utf-32-le"
    if share[3] < 0.05 and share[1] > 0.9 and share[0] > 0.9:
        return "utf-32-be"
    even, odd = (share[0] + share[2]) / 2, (share[1] + share[3]) / 2
    if odd > 0.4 and even < 0.05:
        return "utf-16-le"
    return "utf-16-be" if even > 0.4 and odd < 0.05 else ""


def _guess_legacy_encoding(data: bytes) -> str:
    high = _NON_ASCII.search(data)
    start = high.start() if high else 0
    sample = data[max(0, start - 1024) : start + SAMPLE_BYTES]
    high_count = len(_NON_ASCII.findall(sample))
    valid_count = sum(len(found) for found in _UTF8_SEQUENCE.findall(sample))
    if valid_count > 0.8 * high_count:
        return "utf-8"  # with some invalid bytes
    if high_count < MIN_GUESSED_BYTES and high_count < 0.3 * len(sample):
        return "cp1252"
    from charset_normalizer import from_bytes  # noqa: PLC0415 - slow to import, and most files are UTF-8

    best = from_bytes(sample).best()
    return codecs.lookup(best.encoding).name if best else "cp1252"
