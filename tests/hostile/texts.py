"""23 plain texts: encodings, invalid bytes, very long lines."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from tests.hostile.case import Case, Long, Skipped, case

GERMAN = "Die Straße führt über die Brücke, und die Äpfel sind süß."
JAPANESE = "これは日本語の文章です。文字コードはシフトジスです。" * 4
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore")


CASES: Sequence[Case] = (
    case("txt-empty.txt", b"", Skipped("holds no text")),
    case("txt-only-mark.txt", codecs.BOM_UTF8, Skipped("holds no text")),
    case("txt-utf8-mark.txt", codecs.BOM_UTF8 + GERMAN.encode(), GERMAN),
    case("txt-utf16.txt", GERMAN.encode("utf-16"), GERMAN),
    case("txt-utf32.txt", GERMAN.encode("utf-32"), GERMAN),
    case("txt-latin1.txt", GERMAN.encode("latin-1"), GERMAN),
    case("txt-cp1252.txt", f"“{GERMAN}” – 5 €".encode("cp1252"), f"“{GERMAN}” – 5 €"),
    case("txt-shift-jis.txt", JAPANESE.encode("shift_jis"), JAPANESE),
    case("txt-bad-start.txt", b"\xff\xe9" + GERMAN.encode() * 3, "��" + GERMAN * 3),
    case("txt-bad-middle.txt", GERMAN.encode() * 3 + b"\xff" + GERMAN.encode(), GERMAN * 3 + "�" + GERMAN),
    case("txt-bad-end.txt", GERMAN.encode() * 3 + b"\xc3", GERMAN * 3 + "�"),
    case("txt-nul.txt", b"before\0after and some more words", "before�after and some more words"),
    case("txt-cr.txt", b"one\rtwo\rthree", "one\rtwo\rthree"),
    case("txt-crlf.txt", b"one\r\ntwo\r\n", "one\r\ntwo"),
    case("txt-mixed.txt", b"one\r\ntwo\nthree\rfour", "one\r\ntwo\nthree\rfour"),
    case("txt-u2028.txt", "one\u2028two\u2029three".encode(), "one\u2028two\u2029three"),
    case("txt-surrogate.txt", b"a\xed\xa0\x80b and words", "a���b and words"),
    case("txt-families.txt", (FAMILY * 400).encode(), Long(2800, FAMILY, FAMILY)),
    case("txt-bidi.txt", "invoice \u202e exe.fdp \u202c end".encode(), "invoice \u202e exe.fdp \u202c end"),
    case("txt-zero-width.txt", f"pay\u200bment {TAGS} due".encode(), f"pay\u200bment {TAGS} due"),
    case("txt-blank-lines.txt", b"\n" * 1_000_000 + b"end", "end"),
    case("txt-binary.txt", bytes(range(256)) * 40, Skipped("binary file")),
)
"""The 23rd case, one line of a gigabyte, is in `places`."""
