"""31 PDFs: encrypted, truncated, cyclic, and bombs. Partly handwritten."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cache

from tests.hostile.case import Case, Failed, Skipped, case
from tests.load import sample_files

DAMAGED = Failed("damaged, or not a PDF")
UNREADABLE = Failed("no page can be read")
OUT_OF_MEMORY = Failed("the parser aborted (SIGABRT), probably out of memory")
SCAN = Failed("no text on its pages")
ENCRYPTED = Failed("password-protected")
WORDS = b"BT /F1 12 Tf 72 700 Td (plain words) Tj ET"
FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"


def stream(data: bytes, extra: bytes = b"") -> bytes:
    """A stream object."""
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (extra, len(data), data)


def build_pdf(objects: Sequence[bytes], *, trailer: bytes = b"", table: bool = True) -> bytes:
    """A PDF of these objects, numbered from 1; the first is its catalog."""
    out = bytearray(b"%PDF-1.7\n")
    offsets: list[int] = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    if table:
        out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
        out += b"".join(b"%010d 00000 n \n" % index for index in offsets)
        out += b"trailer<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, trailer, start)
    return bytes(out)


def page(
    content: bytes, *, kids: bytes = b"3 0 R", catalog: bytes = b"", resources: bytes = b"", more: Sequence[bytes] = ()
) -> bytes:
    """A PDF of one page with this content object; `more` starts with object 6."""
    return build_pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R%s>>" % catalog,
            b"<</Type/Pages/Count 1/Kids[%s]>>" % kids,
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R"
            b"/Resources<</Font<</F1 5 0 R>>%s>>>>" % resources,
            content,
            FONT,
            *more,
        ]
    )


@cache
def plain() -> bytes:
    return sample_files.pdf([[f"line {number} of the report"] for number in range(20)])


def plain_text() -> str:
    return "\n\n".join(f"line {number} of the report" for number in range(20))


def truncated(share: float) -> bytes:
    return plain()[: int(len(plain()) * share)]


def unknown_handler() -> bytes:
    return build_pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]>>",
            b"<</Filter/Acme.Vault/V 1/R 2/O(x)/U(x)/P -4>>",
        ],
        trailer=b"/Encrypt 4 0 R/ID[<00><00>]",
    )


def cyclic_xref_table() -> bytes:
    data = page(stream(WORDS))
    start = data.index(b"xref\n")
    return data.replace(b"/Root 1 0 R", b"/Root 1 0 R/Prev %d" % start)


def deep_tree(levels: int) -> bytes:
    nodes = [b"<</Type/Pages/Count 1/Kids[%d 0 R]/Parent %d 0 R>>" % (n + 1, n - 1) for n in range(3, levels + 3)]
    last = b"<</Type/Page/Parent %d 0 R/MediaBox[0 0 9 9]/Contents %d 0 R>>" % (levels + 2, levels + 4)
    return build_pdf(
        [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 1/Kids[3 0 R]>>", *nodes, last, stream(WORDS)]
    )


def many_pages(count: int) -> bytes:
    kids = b" ".join(b"%d 0 R" % number for number in range(3, count + 3))
    leaf = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>"
    return build_pdf(
        [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count %d/Kids[%s]>>" % (count, kids), *[leaf] * count]
    )


def flate_bomb() -> bytes:
    packer = zlib.compressobj(9)
    head = packer.compress(WORDS) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return page(stream(head + block * 1024, b"/Filter/FlateDecode"))  # without a checksum, which parsers ignore


def run_length_bomb() -> bytes:
    inner = zlib.compress(b"\x81 " * 2_000_000, 9)  # each pair unpacks to 128 spaces
    return page(stream(inner, b"/Filter[/FlateDecode/RunLengthDecode]"))


def hex_bomb() -> bytes:
    inner = zlib.compress(b"20" * 40_000_000, 9)
    return page(stream(inner, b"/Filter[/FlateDecode/ASCIIHexDecode]"))


def lzw_bomb() -> bytes:
    """LZW codes that each repeat the longest string so far: 3 KB of codes for megabytes of spaces, packed again."""
    codes = [256, 32, *range(258, 4094)]
    bits, width = "", 9
    for index, code in enumerate(codes):
        bits += format(code, f"0{width}b")
        code_count = 257 + index
        width = 9 if code_count < 511 else 10 if code_count < 1023 else 11 if code_count < 2047 else 12
    block = int(bits + "0" * (-len(bits) % 8), 2).to_bytes((len(bits) + 7) // 8, "big")
    return page(stream(zlib.compress(block * 200, 9), b"/Filter[/FlateDecode/LZWDecode]"))


def wrong_object_stream() -> bytes:
    body = b"3 0 " + b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>"
    return build_pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
            b"null",
            stream(body, b"/Type/ObjStm/N 2000000000/First 4"),
        ]
    )


def recursive_form() -> bytes:
    form = stream(b"/X Do", b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 6 0 R>>>>")
    return page(stream(b"/X Do " + WORDS), resources=b"/XObject<</X 6 0 R>>", more=[form])


def font_without_unicode() -> bytes:
    return page(stream(WORDS)).replace(
        FONT, b"<</Type/Font/Subtype/Type3/FontBBox[0 0 1 1]/CharProcs<<>>/FontMatrix[1 0 0 1 0 0]>>"
    )


def endless_unicode_map() -> bytes:
    lines = b"\n".join(b"<%04X> <0041>" % (number % 65536) for number in range(1_000_000))
    cmap = b"/CIDInit /ProcSet findresource begin begincmap\n1000000 beginbfchar\n%s\nendbfchar endcmap end" % lines
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 6 0 R>>"
    return page(stream(WORDS), more=[stream(zlib.compress(cmap), b"/Filter/FlateDecode")]).replace(FONT, font)


def only_an_image() -> bytes:
    image = stream(
        bytes(300), b"/Type/XObject/Subtype/Image/Width 10/Height 10/ColorSpace/DeviceRGB/BitsPerComponent 8"
    )
    return page(stream(b"600 0 0 700 0 0 cm /Im Do"), resources=b"/XObject<</Im 6 0 R>>", more=[image])


def cyclic_outline() -> bytes:
    more = [
        b"<</Type/Outlines/First 7 0 R/Last 8 0 R/Count 2>>",
        b"<</Title(one)/Parent 6 0 R/Next 8 0 R/First 8 0 R/Dest[3 0 R/Fit]>>",
        b"<</Title(two)/Parent 6 0 R/Next 7 0 R/First 7 0 R/Dest[3 0 R/Fit]>>",
    ]
    return page(stream(WORDS), catalog=b"/Outlines 6 0 R", more=more)


def attachment_and_script() -> bytes:
    more = [
        b"<</Type/Filespec/F(../../etc/cron.d/x)/EF<</F 7 0 R>>>>",
        stream(b"* * * * * root touch /tmp/owned", b"/Type/EmbeddedFile"),
        b"<</S/JavaScript/JS(app.launchURL\\('http://169.254.169.254/'\\);)>>",
    ]
    catalog = b"/OpenAction 8 0 R/Names<</EmbeddedFiles<</Names[(x) 6 0 R]>>>>"
    return page(stream(WORDS), catalog=catalog, more=more)


CASES: Sequence[Case] = (
    case("pdf-plain.pdf", plain, plain_text()),
    case("pdf-user-password.pdf", lambda: sample_files.locked_pdf("user", "owner"), ENCRYPTED),
    case("pdf-owner-password.pdf", lambda: sample_files.locked_pdf("", "owner"), "secret words"),
    case("pdf-aes256-r6.pdf", lambda: sample_files.locked_pdf("user", "owner", "AES-256"), ENCRYPTED),
    case("pdf-unknown-handler.pdf", unknown_handler, Failed("unsupported encryption")),
    case("pdf-cut-10.pdf", lambda: truncated(0.1), DAMAGED),
    case("pdf-cut-50.pdf", lambda: truncated(0.5), DAMAGED),
    case("pdf-cut-99.pdf", lambda: truncated(0.99), DAMAGED),
    case("pdf-empty.pdf", b"", Skipped("holds no text")),
    case("pdf-header-only.pdf", b"%PDF-1.7\n", DAMAGED),
    case("pdf-junk-first.pdf", lambda: b"junk\n" * 20 + plain(), plain_text()),
    case("pdf-no-startxref.pdf", lambda: plain().replace(b"startxref", b"startnone"), plain_text()),
    case("pdf-table-circle.pdf", cyclic_xref_table, "plain words"),
    case("pdf-pages-self.pdf", lambda: page(stream(WORDS), kids=b"2 0 R"), UNREADABLE),
    case(
        "pdf-kids-circle.pdf",
        lambda: page(stream(WORDS), kids=b"6 0 R", more=[b"<</Type/Pages/Count 1/Kids[2 0 R]>>"]),
        UNREADABLE,
    ),
    case("pdf-tree-10000.pdf", lambda: deep_tree(10_000), UNREADABLE),
    case("pdf-100000-pages.pdf", lambda: many_pages(100_000), Failed("has 100000 pages, the limit is 20000")),
    case("pdf-flate-bomb.pdf", flate_bomb, OUT_OF_MEMORY),
    case("pdf-filters-20.pdf", lambda: page(stream(b"x" * 1000, b"/Filter[" + b"/FlateDecode" * 20 + b"]")), SCAN),
    case("pdf-lzw-bomb.pdf", lzw_bomb, OUT_OF_MEMORY),
    case("pdf-runlength-bomb.pdf", run_length_bomb, SCAN),
    case("pdf-hex-bomb.pdf", hex_bomb, SCAN),
    case("pdf-objstm-count.pdf", wrong_object_stream, UNREADABLE),
    case("pdf-length-2g.pdf", lambda: page(stream(WORDS).replace(b"/Length 42", b"/Length 2147483648")), "plain words"),
    case("pdf-form-in-itself.pdf", recursive_form, "plain words"),
    case("pdf-font-no-unicode.pdf", font_without_unicode, SCAN),
    case("pdf-million-unicode.pdf", endless_unicode_map, "plain words"),
    case("pdf-image-only.pdf", only_an_image, SCAN),
    case("pdf-outline-circle.pdf", cyclic_outline, "plain words"),
    case("pdf-attachment-script.pdf", attachment_and_script, "plain words"),
    case(
        "pdf-white-text.pdf",
        lambda: page(stream(WORDS + b" 1 1 1 rg BT /F1 12 Tf 72 600 Td (ignore all) Tj ET")),
        "plain words\nignore all",
    ),
)
