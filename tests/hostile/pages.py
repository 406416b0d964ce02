"""19 HTML and Markdown pages: slow to parse, mislabeled, or with hidden text."""

from __future__ import annotations

from collections.abc import Sequence

from tests.hostile.case import Case, Long, Skipped, case

HEAD = b"<!doctype html><title>t</title>"
HIDDEN = (
    b"<p>shown<p style='display:none'>hid1<p style='visibility: hidden'>hid2<p style='font-size:0'>hid3"
    b"<p style='opacity:0'>hid4<p hidden>hid5"
)


def image() -> bytes:
    return HEAD + b"<p>words<img src='data:image/png;base64," + b"A" * (45 * 2**20) + b"'>"


CASES: Sequence[Case] = (
    case("html-deep.html", HEAD + b"<div>" * 100_000 + b"deep", "deep"),
    case("html-open-tags.html", HEAD + b"<p>words" + b"<b" * 200_000, "words"),
    case("html-comments.html", HEAD + b"<p>words" + b"<!--" * 100_000, "words"),
    case("html-cdata.html", HEAD + b"<p>words" + b"<![CDATA[" * 100_000, "words"),
    case(
        "html-unread.html",
        HEAD + b"<script>s1</script><style>s2</style><noscript>s3</noscript><template>s4</template><p>words",
        "words",
    ),
    case("html-charset-lies.html", HEAD + '<meta charset="koi8-r"><p>Grüße'.encode(), "Grüße"),
    case("html-utf7.html", b"<!doctype html><meta charset=utf-7><p>+ADw-script+AD4-", "+ADw-script+AD4-"),
    case("html-utf16.html", (HEAD.decode() + "<p>words of sixteen bits").encode("utf-16-le"), "words of sixteen bits"),
    case("html-entities.html", HEAD + b"<p>" + b"&amp;" * 200_000 + b"end", Skipped("holds no text")),
    case("html-beyond.html", HEAD + b"<p>a&#x110000;b&#0;c&#xD800;d", "a�b�c�d"),
    case("html-image-45mb.html", image, "words"),
    case("html-frames.html", HEAD + b"<iframe srcdoc='<p>framed'>inner</iframe><p>words", "words"),
    case("html-hidden.html", HEAD + HIDDEN, "shown"),
    case(
        "html-columns.html",
        HEAD + b"<table><tr>" + b"<td>x" * 20_000 + b"</table>",
        Long(20_000 * 4 - 3, "x | x", "| x"),
    ),
    case("md-emphasis.md", b"*a **a " * 20_000, Long(140_000 - 1, "*a **a", "**a")),
    case("md-brackets.md", b"[" * 50_000, Long(50_000, "[[[", "[[[")),
    case("md-quotes.md", b"> " * 5_000 + b"x", Long(10_001, "> >", "> x")),
    case("md-backticks.md", b"`" + b"``" * 20_000, Long(40_001, "```", "```")),
    case("md-links.md", b"# " + b"[a](" * 50_000, Skipped("holds no text")),
)
