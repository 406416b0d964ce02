"""Web pages: visible text in reading order."""

from __future__ import annotations

import re
import time

import pytest

from ragkit.load.html.html import HtmlLoader
from ragkit.load.options import HtmlOptions
from ragkit.records import Document


def load(page: str | bytes, options: HtmlOptions | None = None) -> Document:
    return HtmlLoader(options).load(page if isinstance(page, bytes) else page.encode(), "/x/a.html")


def text(page: str | bytes) -> str:
    return load(page).text


def test_blocks_are_separated_and_white_space_is_collapsed() -> None:
    assert text("<h1>A  B</h1><p>one\n two<p>three<br>four<div>five <b>si</b>x</div>") == (
        "A B\n\none two\n\nthree\nfour\n\nfive six"
    )


def test_headings_point_into_the_text() -> None:
    document = load("<title>T</title><h1>One ¶</h1><p>x</p><h3><a href=#>Two</a></h3>")
    assert [(h.start, h.level, h.text) for h in document.headings] == [(0, 1, "One"), (8, 3, "Two")]
    assert document.text[8:] == "Two"
    assert document.title == "T"


def test_the_title_defaults_to_the_first_heading() -> None:
    assert load("<h2>Minor</h2><h1>Major</h1>").title == "Major"


def test_the_title_of_an_svg_image_is_ignored() -> None:
    assert load("<body><svg><title>icon</title></svg><h1>Page</h1>").title == "Page"


def test_lists_keep_their_bullets_and_depth() -> None:
    page = "<ul><li>one<li><p>two<p>more<ol><li>deep</ol></ul><p>end"
    assert text(page) == "- one\n- two\n  more\n  1. deep\n\nend"


def test_definitions_follow_their_terms() -> None:
    assert text("<dl><dt>a<dd>first<dt>b<dd>second</dl>") == "a\nfirst\n\nb\nsecond"


def test_a_table_has_one_line_per_row() -> None:
    page = "<table><caption>Ages</caption><tr><th>name<th>age<tr><td>Ann <p>Lee<td>7<tr><td><td></table>after"
    assert text(page) == "Ages\n\nname | age\nAnn Lee | 7\n\nafter"


def test_a_layout_table_is_read_as_blocks() -> None:
    page = "<table><tr><td>menu<td><h1>Page</h1><p>words</p><table><tr><td>a<td>b</table></table>"
    assert text(page) == "menu\n\nPage\n\nwords\n\na | b"


def test_code_is_kept_verbatim_without_line_numbers() -> None:
    page = "<p>see<table><tr><td class=linenos><pre>1\n2</pre><td><pre>\nif x:\n    y  = 1\n</pre></table>"
    assert text(page) == "see\n\nif x:\n    y  = 1"


@pytest.mark.parametrize(
    "piece",
    [
        "<script>no</script>",
        "<style>no</style>",
        "<template><p>no</template>",
        "<noscript><p>no</noscript>",
        "<svg><text>no</text></svg>",
        "<iframe srcdoc='no'>no</iframe>",
        "<select><option>no</select>",
        "<button>no</button>",
        "<p hidden>no</p>",
        "<p style='color:red; display : NONE'>no</p>",
        "<div style='visibility:hidden'><p>no</p></div>",
        "<span style='font-size:0px'>no</span>",
        "<span style='opacity:0.0'>no</span>",
        "<a class='headerlink' href='#x'>no</a>",
        "<!-- no -->",
    ],
)
def test_hidden_elements_are_excluded(piece: str) -> None:
    assert text(f"<p>before</p>{piece}<p>after</p>") == "before\n\nafter"


@pytest.mark.parametrize("style", ["opacity:0.5", "font-size:0.8em", "display:block", "opacity:.9"])
def test_visible_styled_elements_are_kept(style: str) -> None:
    assert text(f"<p style='{style}'>yes</p>") == "yes"


@pytest.mark.parametrize(
    "menu",
    [
        "<nav>menu</nav>",
        "<header>menu</header>",
        "<footer>menu</footer>",
        "<aside>menu</aside>",
        "<div role='navigation'>menu</div>",
        "<div class='x sphinxsidebar'><ul><li>menu</ul></div>",
        "<div class='related'>menu</div>",
        "<div id='breadcrumbs'>menu</div>",
        "<a class='skip-link'>menu</a>",
    ],
)
def test_menus_and_footers_are_excluded(menu: str) -> None:
    page = f"<body>{menu}<div><h1>Page</h1><p>words</p></div>{menu}</body>"
    assert text(page) == "Page\n\nwords"
    assert load(page, HtmlOptions(navigation=True)).text.startswith("menu" if "<ul>" not in menu else "- menu")


def test_a_page_with_nothing_but_a_menu_is_kept() -> None:
    assert text("<nav><ul><li>one<li>two</ul></nav>") == "- one\n- two"


def test_the_main_element_is_the_text() -> None:
    page = "<div>login</div><main><header><h1>Page</h1></header><p>words</p><nav>toc</nav></main><div>legal</div>"
    assert text(page) == "Page\n\nwords"


def test_a_nearly_empty_main_element_is_ignored() -> None:
    page = f"<main>x</main><div>{'words ' * 100}</div>"
    assert text(page).startswith("x\n\nwords words")


def test_an_article_is_the_text_without_a_main_element() -> None:
    assert text("<div>ad</div><article><header><h1>News</h1></header><p>words</article>") == "News\n\nwords"


def test_metadata_comes_from_the_meta_elements() -> None:
    page = '<html lang="de"><meta name="Author" content="Ada"><meta name=description content=" a  b "><p>x'
    assert load(page).metadata == {
        "author": "Ada",
        "description": "a b",
        "lang": "de",
        "format": "html",
        "name": "a.html",
        "suffix": ".html",
    }


@pytest.mark.parametrize(
    "page",
    [
        "<p>café".encode(),
        "<meta charset=utf-8><p>café".encode(),
        "<meta charset=iso-8859-1><p>café".encode("latin-1"),
        '<meta http-equiv=Content-Type content="text/html; charset=windows-1252"><p>café'.encode("cp1252"),
        '<?xml version="1.0" encoding="ISO-8859-1"?><html><p>café</p></html>'.encode("latin-1"),
        "\ufeff<p>café".encode("utf-16"),
        "<p>café".encode("utf-16-le"),
        "<p>café".encode("latin-1"),
        "<meta charset=iso-8859-1><p>café".encode(),
        "<meta charset=utf-8><p>café".encode("latin-1"),
        "<meta charset=utf-16><p>café".encode(),
        "<meta charset=klingon><p>café".encode(),
    ],
    ids=["none", "utf8", "latin", "http", "xml", "mark", "wide", "bare", "lie1", "lie2", "lie3", "lie4"],
)
def test_a_wrong_encoding_declaration_is_ignored(page: bytes) -> None:
    assert text(page) == "café"


def test_a_declaration_of_utf7_is_ignored() -> None:
    assert text(b"<meta charset=utf-7><p>+ADw-script+AD4-") == "+ADw-script+AD4-"


def test_entities_are_resolved_and_invalid_ones_are_kept() -> None:
    assert text("<p>a&amp;b &eacute; &#x41; &nosuch; x&nbsp;y &#x110000;z&shy;&#8203;!") == (
        "a&b é A &nosuch; x y \ufffdz!"
    )


HANG = {
    "nested": (b"<div>" * 100_000 + b"deep", "deep"),
    "nested inline": (b"<b>" * 100_000 + b"deep", "deep"),
    "nested lists": (b"<ul><li>" * 20_000 + b"deep", "deep"),
    "open tags": (b"words" + b"<b" * 200_000, "words"),
    "comments": (b"words" + b"<!--" * 100_000, "words"),
    "cdata": (b"words" + b"<![CDATA[" * 100_000, "words"),
    "entities": (b"&amp;" * 200_000 + b"end", "&end"),
    "cells": (b"<table><tr>" + b"<td>x" * 20_000 + b"</table>", "x | x"),
    "tables": (b"<table><tr><td>" * 3_000 + b"deep", "deep"),
    "image": (b"<img src='data:image/png;base64," + b"A" * 20_000_000 + b"'>words", "words"),
    "attributes": (b"<a " + b" ".join(b"x%d=1" % n for n in range(50_000)) + b">words", "words"),
    "classes": (b"<p class='" + b"x " * 500_000 + b"'>words", "words"),
    "line": (b"<p>" + b"word " * 2_000_000, "word"),
}


@pytest.mark.rotating
@pytest.mark.parametrize("name", HANG)
def test_malicious_pages_are_parsed_quickly(name: str) -> None:
    page, part = HANG[name]
    started = time.process_time()
    assert part in text(page)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("page", ["", "   ", "<html></html>", "<p hidden>x", "\ufeff"])
def test_an_empty_page_is_a_document_without_text(page: str) -> None:
    assert text(page) == ""


TEXT = "<p>" + "The pump in the cellar is checked twice a year by two people. " * 12 + "</p>"
LINKS = "".join(f'<li><a href="/{n}">Another story number {n}</a></li>' for n in range(5))


@pytest.mark.parametrize(
    "beside",
    [
        '<div class="related-posts"><p>You may like our stories</p></div>',
        '<div id="cookie-consent-bar"><p>We use cookies to improve this site</p></div>',
        '<section class="comments wrapper"><p>First!</p></section>',
        '<div class="post-share"><p>Share this</p></div>',
        f"<h3>More</h3><ul>{LINKS}</ul>",
        '<div class="author-bio main"><p>Ann writes about pumps</p></div>',
        "<article><footer><p>Filed under pumps</p></footer></article>",
        '<form action="/ask"><p>Your question</p></form>',
        "<h2>Related articles</h2><p>Teaser of another story</p><h2>End</h2>",
        "<h2>You might also like:</h2><h3>Valves</h3><p>Teaser of another story</p><h2>End</h2>",
        "".join(f'<h2><a href="/{n}">Story {n}</a></h2><p>Teaser</p>' for n in range(3)) + "<h2>End</h2>",
        "".join(f'<article><h2><a href="/{n}">Story</a></h2><p>Teaser</p></article>' for n in range(3)),
    ],
)
def test_what_stands_beside_the_text_is_left_out(beside: str) -> None:
    page = f"<body><h1>Pumps</h1>{TEXT}{beside}<p>The end of the text.</p></body>"
    end = "<h2>End</h2>" if beside.endswith("<h2>End</h2>") else ""
    assert load(page).text == load(f"<body><h1>Pumps</h1>{TEXT}{end}<p>The end of the text.</p></body>").text
    everything = load(page, HtmlOptions(navigation=True)).text
    assert all(piece in everything for piece in re.findall(r">([^<]+)<", beside))


@pytest.mark.parametrize(
    "markup",
    [
        '<div class="comments"><p>All that this page holds.</p></div><p>x</p>',
        f"<h1>Index</h1><ul>{LINKS}</ul><p>Short.</p>",
        f'<div class="main-content has-sidebar">{TEXT}</div>',
        f"<form><h1>Pumps</h1>{TEXT}</form>",
        f"<h2>Related articles</h2>{TEXT}",
        f"{TEXT}<h2>About the author</h2>{TEXT}",
        f"{TEXT}<blockquote>Check it.<footer>Ann</footer></blockquote>",
        f"<article><h2>Question</h2>{TEXT}</article><article><p>Close the valve.</p></article>",
        "".join(f'<h2><a href="#s{n}">Section {n}</a></h2><p>Short.</p>' for n in range(40)),
        "".join(f'<article><h2><a href="/{n}">News {n}</a></h2><p>Short.</p></article>' for n in range(40)),
        f"{TEXT}<ul><li>See <a href='/a'>the manual</a> of the pump first.</li><li><a href='/b'>Two</a></li></ul>",
    ],
)
def test_text_is_kept_where_a_page_has_little_else(markup: str) -> None:
    assert load(markup).text == load(markup, HtmlOptions(navigation=True)).text


@pytest.mark.parametrize(
    "body",
    [
        "<p>see <a href=x>the manual</a> first</p>",
        "<p>see <code><a href=x>the\nmanual</a></code> first",
        "see <a>the</a> manual first",
    ],
)
def test_a_link_stands_in_its_line(body: str) -> None:
    assert load(body).text == "see the manual first"


@pytest.mark.parametrize(
    "start", ['<section id="cookies">', '<section id="tags-for-backup">', '<div class="section" id="sharing">']
)
def test_a_section_is_text_although_its_heading_names_what_stands_beside_text(start: str) -> None:
    filler = "<p>" + "words of the page " * 50 + "</p>"
    end = start.partition(" ")[0].replace("<", "</") + ">"
    assert load(f'{filler}{start}<h3 id="cookies">Cookies</h3><p>They are kept.</p>{end}').text.endswith(
        "\n\nCookies\n\nThey are kept."
    )


def test_elements_of_one_class_differ_by_their_other_attributes() -> None:
    page = """<div class="note">one</div><div class="note" hidden>two</div>
    <div class="note" style="display:none">three</div><div class="note" role="navigation">four</div>
    <div class="note" id="breadcrumbs">five</div><div class="note">six</div>
    <div class="navbar">seven</div><div class="note">eight <a class="note" href="/x">link</a></div>"""
    assert text(page) == "one\n\nsix\n\neight link"
    assert text(page.replace("note", "x" * 300)) == text(page)  # too long to be kept
