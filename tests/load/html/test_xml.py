"""XML files: elements of text as a document, all others as fields and rows."""

from __future__ import annotations

import pytest

from ragkit.load.html.xml import XmlLoader
from ragkit.load.router import Router
from ragkit.records import Document
from tests.load.test_places import place_of


def load(text: str | bytes) -> Document:
    return XmlLoader().load(text if isinstance(text, bytes) else text.encode(), "/x/a.xml")


def test_elements_of_one_name_are_rows() -> None:
    items = (
        '<item id="7"><name>Pump</name><price>5</price></item>\n<item id="8"><name>Seal</name><price>2</price></item>'
    )
    document = load(f"<?xml version='1.0'?><!-- ours -->\n<shop><name>North</name><items>{items}</items></shop>")
    assert document.text == ("name: North\nitem.id: 7; name: Pump; price: 5\nitem.id: 8; name: Seal; price: 2")
    assert place_of(document, "Seal") == "line 3"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<a><b><c>1</c></b></a>", "b.c: 1"),
        ("<a><d><b><c>1</c></b></d></a>", "b.c: 1"),
        ("<a><n>x</n><n>y</n></a>", "n: x, y"),
        ("<a xmlns:q='u'><q:n q:kind='k'>x</q:n></a>", "n: x; kind: k"),
        ("<a xml:lang='en' mode='fast'/>", "a.mode: fast"),
        ("<a><o><n>A</n></o><r><s><n>B</n></s><t><n>C</n></t></r></a>", "o.n: A\ns.n: B\nt.n: C"),
        ("<a><r><s><n>B</n></s><t><n>C</n></t></r><r><s><n>D</n></s></r></a>", "s.n: B; t.n: C\ns.n: D"),
        ("<a><s name='hi'>Dear <b>you</b></s><s name='no'>No</s></a>", "Dear you\nno: No"),
        ("<a><g><add key='time' value='30'/><add key='url' value='x'/></g></a>", "g.time: 30\ng.url: x"),
        ("<a><u><name>time</name><value>30</value></u><u><name>url</name><value>x</value></u></a>", "time: 30\nurl: x"),
        ("<a><e name='x' value='1' unit='m'/><e name='y' value='2'/></a>", "e.name: x; value: 1; unit: m\ny: 2"),
        ("<a><e name='access' value='staff'/><e name='y'/></a>", "e.name: access; value: staff\ne.name: y"),
    ],
)  # fmt: skip
def test_a_value_has_the_names_that_lead_to_it(text: str, wanted: str) -> None:
    assert load(text).text.replace("\n\n", "\n") == wanted


DOCBOOK = """<article xmlns="http://docbook.org/ns/docbook" version="5.0"><title>Pumps</title>
<section xml:id="s"><title>Care</title><para>Oil the <emphasis>big</emphasis>
 pump <code>p1</code>.</para><itemizedlist><listitem><para>daily</para></listitem></itemizedlist>
<programlisting>run
  now</programlisting>
<informaltable><tgroup cols="2"><thead><row><entry>Part</entry><entry>Price</entry></row></thead>
<tbody><row><entry>Filter</entry><entry>4</entry></row>
<row><entry namest="c1" nameend="c2">none</entry></row></tbody></tgroup></informaltable>
</section></article>"""


def test_a_document_has_headings_lists_code_and_tables() -> None:
    document = load(DOCBOOK)
    assert document.text == (
        "Pumps\n\nCare\n\nOil the big pump p1.\n\n- daily\n\nrun\n  now\n\nPart | Price\nFilter | 4\nnone"
    )
    headings = [(heading.level, heading.text) for heading in document.headings]
    assert headings[:3] == [(1, "Pumps"), (2, "Care"), (100, "Part | Price")]
    assert [place_of(document, words) for words in ("Oil", "run", "Filter")] == ["line 2", "line 4", "line 7"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<topic id='t'><title>T</title><shortdesc>S</shortdesc><body><p>One<ul><li>a</li></ul></p></body></topic>",
         "T\n\nS\n\nOne\n\n- a"),
        ("<article article-type='x'><front><article-title>T</article-title><contrib-group><contrib>"
         "<surname>Lee</surname></contrib><contrib><surname>Ng</surname></contrib></contrib-group></front>"
         "<body><sec><title>S</title><p>Text <xref rid='b1'>1</xref></p></sec></body></article>",
         "T\n\ncontrib.surname: Lee\ncontrib.surname: Ng\n\nS\n\nText 1"),
        ("<TEI><text><body><div><head>H</head><lg><l>one</l><l>two</l></lg></div></body></text></TEI>",
         "H\n\none\n\ntwo"),
        ("<d><p>x <name><surname>Lee</surname><given>Ann</given></name></p></d>", "x Lee Ann"),
        ("<d><p><r>be</r><r>fore</r></p></d>", "before"),
        ("<d><table><row><cell>a</cell><cell>b</cell></row></table></d>", "a | b"),
        ("<d><table><row><id>1</id></row><row><id>2</id></row></table></d>", "row.id: 1\nrow.id: 2"),
        ("<!DOCTYPE d SYSTEM 'd.dtd'><d><p>a&nbsp;b</p></d>", "a b"),
        ("<rss><channel><title>News</title><item><title>A</title><description>&lt;p&gt;Big &lt;b&gt;news&lt;/b&gt;"
         "&lt;/p&gt;</description></item></channel></rss>", "News\n\nA\n\ndescription: Big news"),
    ],
)  # fmt: skip
def test_kinds_of_documents(text: str, wanted: str) -> None:
    assert load(text).text == wanted


@pytest.mark.parametrize("text", ["<a><b></a>", "<a>&who;", "no markup", ""])
def test_what_is_no_xml_is_kept(text: str) -> None:
    assert load(text).text == text


def test_an_entity_bomb_is_not_expanded() -> None:
    entities = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 10 if n else 'x' * 10}'>" for n in range(9))
    text = f"<!DOCTYPE a [{entities}]><a><p>ok &e8;</p></a>"
    assert load(text).text == text


def test_deep_files_are_read_or_kept() -> None:
    assert "end" in load("<a>" * 200 + "end" + "</a>" * 200).text
    assert "end" in load("<a>" * 5000 + "end" + "</a>" * 5000).text


@pytest.mark.parametrize(
    ("name", "data", "loader"),
    [
        ("a.xml", "<shop/>", "xml"),
        ("a.fb2", "<?xml version='1.0'?><FictionBook/>", "xml"),
        ("a.xls", "<?xml version='1.0'?><shop/>", "xml"),
        ("a.txt", "<shop> is a tag", "text"),
        ("a.xml", "<?xml version='1.0'?><html><body>x", "html"),
        ("a.xsd", "<?xml version='1.0'?><schema/>", "code"),
    ],
)
def test_xml_is_known_by_its_content(name: str, data: str, loader: str) -> None:
    assert Router().select_route(data.encode(), name).name == loader
