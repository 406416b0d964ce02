"""What layout says and text must keep: numbers of lists, formulas, merged and inner cells, code, names of columns."""

from __future__ import annotations

import pytest

from ragkit.load.router import Router
from ragkit.load.shared.list_numbers import format_number
from ragkit.records import Document
from tests.load.odf_files import text as odt
from tests.load.sample_files import replaced, workbook, zipped

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
RELATIONSHIPS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def load(data: bytes | str, name: str) -> Document:
    return Router().load(data.encode() if isinstance(data, str) else data, name)[1]


def lines(data: bytes | str, name: str) -> list[str]:
    return [line for line in load(data, name).text.split("\n") if line.strip()]


def word(body: str, levels: str = "", styles: str = "") -> bytes:
    numbering = (
        f'<w:numbering {W}><w:abstractNum w:abstractNumId="0">{levels}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="0"/>'
        '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride></w:num></w:numbering>'
    )
    kinds = "".join(
        f'<Relationship Id="r{kind}" Type="{RELATIONSHIPS}/{kind}" Target="{kind}.xml"/>'
        for kind in ("numbering", "styles")
    )
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": f"<w:document {W} {M}><w:body>{body}</w:body></w:document>",
            "word/numbering.xml": numbering,
            "word/styles.xml": f"<w:styles {W}>{styles}</w:styles>",
            "word/_rels/document.xml.rels": f"<Relationships>{kinds}</Relationships>",
        }
    )


def paragraph(text: str, settings: str = "", run: str = "") -> str:
    return f'<w:p><w:pPr>{settings}</w:pPr><w:r>{run}<w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def item(text: str, depth: int = 0, number: int = 1) -> str:
    return paragraph(text, f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr>')


def level(depth: int, style: str, text: str, start: int = 1) -> str:
    return (
        f'<w:lvl w:ilvl="{depth}"><w:start w:val="{start}"/><w:numFmt w:val="{style}"/><w:lvlText w:val="{text}"/>'
        "</w:lvl>"
    )


CLAUSES = level(0, "decimal", "%1.") + level(1, "decimal", "%1.%2")


def test_clauses_of_a_contract_have_their_numbers() -> None:
    body = item("Term") + item("Five years.", 1) + item("It ends.", 1) + item("Price") + item("40 marks.", 1)
    assert lines(word(body, CLAUSES), "a.docx") == [
        "1. Term",
        "  1.1 Five years.",
        "  1.2 It ends.",
        "2. Price",
        "  2.1 40 marks.",
    ]


def test_letters_romans_bullets_and_starts_are_those_of_word() -> None:
    levels = level(0, "upperRoman", "Art. %1", 4) + level(1, "lowerLetter", "(%2)") + level(2, "bullet", "o")
    body = item("a") + item("b", 1) + item("c", 2) + item("d", 1) + item("e")
    assert lines(word(body, levels), "a.docx") == ["Art. IV a", "  (a) b", "    - c", "  (b) d", "Art. V e"]


def test_a_list_goes_on_behind_text_and_starts_again_where_word_says_so() -> None:
    body = item("a") + paragraph("text") + item("b") + item("c", number=2) + item("d", number=2)
    assert lines(word(body, CLAUSES), "a.docx") == ["1. a", "text", "2. b", "1. c", "2. d"]


def test_headings_numbered_by_their_style_have_their_numbers() -> None:
    numbered = '<w:pPr><w:numPr><w:ilvl w:val="{}"/><w:numId w:val="1"/></w:numPr></w:pPr>'
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="H{n}"><w:name w:val="heading {n}"/>{numbered.format(n - 1)}</w:style>'
        for n in (1, 2)
    )
    body = "".join(paragraph(f"T{n}", f'<w:pStyle w:val="H{n}"/>') for n in (1, 2, 2, 1, 2))
    document = load(word(body, CLAUSES, styles), "a.docx")
    assert [heading.text for heading in document.headings] == ["1. T1", "1.1 T2", "1.2 T2", "2. T1", "2.1 T2"]


@pytest.mark.parametrize(
    ("number", "style", "text"),
    [(3, "a", "c"), (27, "A", "AA"), (53, "a", "ba"), (1994, "I", "MCMXCIV"), (4, "lower-roman", "iv"), (7, "", "7"),
     (7, "decimalZero", "07"), (0, "a", "0"), (5000, "i", "5000")],
)  # fmt: skip
def test_numbers_are_written_as_their_style_says(number: int, style: str, text: str) -> None:
    assert format_number(number, style) == text


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<ol><li>a<li>b</ol>", ["1. a", "2. b"]),
        ('<ol start="4" type="a"><li>a<li>b</ol>', ["d. a", "e. b"]),
        ('<ol><li>a<ul><li>x</ul><li value="7">b<li>c</ol>', ["1. a", "  - x", "7. b", "8. c"]),
        ("<ol reversed start=3><li>a<li>b</ol>", ["3. a", "2. b"]),
        ('<ol style="list-style-type: upper-roman"><li>a<ol><li>x</ol></ol>', ["I. a", "  1. x"]),
        ("<ul><li>a</ul><ol><li>b</ol>", ["- a", "1. b"]),
    ],
)
def test_numbers_of_html_lists_are_those_of_a_browser(page: str, expected: list[str]) -> None:
    assert lines(f"<h1>T</h1>{page}", "a.html")[1:] == expected


def test_numbers_of_open_document_lists_are_kept() -> None:
    style = (
        '<text:list-style style:name="L1" xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0">'
        '<text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/>'
        '<text:list-level-style-number text:level="2" style:num-format="1" text:display-levels="2"/></text:list-style>'
    )
    inner = "<text:list><text:list-item><text:p>Deep</text:p></text:list-item></text:list>"
    body = (
        f'{style}<text:list text:style-name="L1"><text:list-item><text:p>One</text:p>{inner}</text:list-item>'
        "<text:list-item><text:p>Two</text:p><text:p>goes on</text:p></text:list-item></text:list><text:p>Text</text:p>"
        '<text:list text:style-name="L1" text:continue-numbering="true"><text:list-item><text:p>Three</text:p>'
        "</text:list-item></text:list><text:list><text:list-item><text:p>dot</text:p></text:list-item></text:list>"
    )
    assert [line.rstrip() for line in lines(odt(body), "a.odt")] == [
        "1. One", "  1.1 Deep", "2. Two", "  goes on", "Text", "3. Three", "- dot",
    ]  # fmt: skip


def run(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (f"{run('q=')}<m:f><m:num>{run('a+b')}</m:num><m:den>{run('2c')}</m:den></m:f>", "q=(a+b)/(2c)"),
        (f"<m:sSup><m:e>{run('x')}</m:e><m:sup>{run('12')}</m:sup></m:sSup>", "x^12"),
        (f"<m:sSubSup><m:e>{run('x')}</m:e><m:sub>{run('i')}</m:sub>"
         f"<m:sup>{run('n+1')}</m:sup></m:sSubSup>", "x_i^(n+1)"),
        (f"<m:rad><m:deg/><m:e>{run('b-4')}</m:e></m:rad>", "sqrt(b-4)"),
        (f"<m:rad><m:deg>{run('3')}</m:deg><m:e>{run('x')}</m:e></m:rad>", "root(3, x)"),
        (f'<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub>{run("i=1")}</m:sub>'
         f'<m:sup>{run("n")}</m:sup><m:e>{run("i")}</m:e></m:nary>', "∑_(i=1)^n i"),
        (f"<m:d><m:e>{run('x-c')}</m:e></m:d>", "(x-c)"),
        (f'<m:m><m:mr><m:e>{run("1")}</m:e><m:e>{run("2")}</m:e></m:mr>'
         f'<m:mr><m:e>{run("3")}</m:e><m:e>{run("4")}</m:e></m:mr></m:m>', "1, 2; 3, 4"),
    ],
)  # fmt: skip
def test_formulas_of_word_keep_their_structure(formula: str, text: str) -> None:
    body = f"<w:p><w:r><w:t>It is</w:t></w:r><m:oMath>{formula}</m:oMath><m:oMath>{run('c')}</m:oMath></w:p>"
    assert load(word(body), "a.docx").text == f"It is {text} c"


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("<mi>q</mi><mo>=</mo><mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mi>c</mi></mfrac>", "q=(a+b)/c"),
        ("<msup><mi>x</mi><mn>2</mn></msup><mo>+</mo><msub><mi>y</mi><mi>i</mi></msub>", "x^2+y_i"),
        ("<msqrt><mi>b</mi><mo>-</mo><mn>4</mn></msqrt><mroot><mi>x</mi><mn>3</mn></mroot>", "sqrt(b-4)root(3, x)"),
        ("<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover>", "∑_(i=1)^n"),
        ('<semantics><mi>x</mi><annotation encoding="application/x-tex">x</annotation></semantics>', "x"),
    ],
)
def test_formulas_of_web_pages_keep_their_structure(formula: str, text: str) -> None:
    assert load(f"<p>It is <math>{formula}</math> here.</p>", "a.html").text == f"It is {text} here."


def test_a_formula_that_is_never_closed_loses_no_text_before_it() -> None:
    assert load("<p>Words</p><math><mi>x", "a.html").text.startswith("Words")


def cell(text: str, settings: str = "") -> str:
    return f"<w:tc><w:tcPr>{settings}</w:tcPr>{text if text.startswith('<') else paragraph(text)}</w:tc>"


def table(*rows: list[str]) -> str:
    return "<w:tbl>" + "".join(f"<w:tr>{''.join(row)}</w:tr>" for row in rows) + "</w:tbl>"


def test_cells_merged_downwards_count_for_each_row() -> None:
    start, more = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"
    body = table(
        [cell("Plant"), cell("Year"), cell("Output")],
        [cell("North", start), cell("2030"), cell("411")],
        [cell("", more), cell("2031"), cell("425")],
        [cell("East and West", '<w:gridSpan w:val="2"/>'), cell("7", start)],
        [cell("a"), cell("b"), cell("", more)],
    )
    assert lines(word(body), "a.docx") == [
        "Plant | Year | Output", "North | 2030 | 411", "North | 2031 | 425", "East and West | 7", "a | b | 7",
    ]  # fmt: skip
    ods = (
        '<table:table><table:table-row><table:table-cell table:number-rows-spanned="2">'
        "<text:p>North</text:p></table:table-cell>"
        "<table:table-cell><text:p>2030</text:p></table:table-cell></table:table-row><table:table-row><table:covered-table-cell/>"
        "<table:table-cell><text:p>2031</text:p></table:table-cell></table:table-row></table:table>"
    )
    assert lines(odt(ods), "a.odt") == ["North | 2030", "North | 2031"]


def test_a_table_inside_a_cell_has_its_own_names() -> None:
    inner = table([cell("Part"), cell("Every")], [cell("Filter"), cell("3 months")], [cell("Seal"), cell("2 years")])
    body = table([cell("Pump"), cell("Checks")], [cell("Cellar"), cell(inner + paragraph("See below."))])
    assert (
        lines(word(body), "a.docx")[1]
        == "Cellar | Part: Filter, Every: 3 months; Part: Seal, Every: 2 years See below."
    )


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ([["Part", "Every"], ["Filter", "3 months"]], "Part: Filter, Every: 3 months"),
        ([["Day", "From", "To"], ["Mon", "8", "12"], ["Tue", "9", "11"]],
         "Day: Mon, From: 8, To: 12; Day: Tue, From: 9, To: 11"),
        ([["Only", "names"]], "Only, names"),
    ],
)  # fmt: skip
def test_tables_inside_cells_of_other_sizes(inner: list[list[str]], expected: str) -> None:
    nested = table(*([cell(text) for text in row] for row in inner))
    for below in ("", "Later."):
        body = table([cell("Pump"), cell("Checks")], [cell("Cellar"), cell(nested + paragraph(below))])
        assert lines(word(body), "a.docx")[1] == f"Cellar | {expected} {below}".strip()


@pytest.mark.parametrize(
    ("settings", "run_settings"),
    [
        ("", '<w:rPr><w:rFonts w:ascii="Courier New"/></w:rPr>'),
        ("", '<w:rPr><w:rFonts w:ascii="DejaVu Sans Mono"/></w:rPr>'),
        ("", '<w:rPr><w:rFonts w:ascii="Consolas"/></w:rPr>'),
        ('<w:pStyle w:val="C"/>', ""),
    ],
)
def test_code_keeps_its_lines_and_its_indentation(settings: str, run_settings: str) -> None:
    style = '<w:style w:type="paragraph" w:styleId="C"><w:name w:val="Source Code"/></w:style>'
    code = ["def f(n):", "    for i in n:", "        print(i)", "    return n"]
    body = paragraph("Run:") + "".join(paragraph(line, settings, run_settings) for line in code) + paragraph("Done.")
    assert load(word(body, styles=style), "a.docx").text == "Run:\n\n" + "\n".join(code) + "\n\nDone."


def test_a_font_with_a_similar_name_is_no_code() -> None:
    body = "".join(paragraph(text, "", '<w:rPr><w:rFonts w:ascii="Monotype Corsiva"/></w:rPr>') for text in ("a", "b"))
    assert load(word(body), "a.docx").text == "a\n\nb"


SPACED: list[list[object]] = [
    ["3.1 Segments"], [],
    ["In millions", None, None, None, "January-June 2031"], [None, "Sales", "Profit", None, "Write-offs"], [],
    ["Zone A", 120, 12, None, -3], ["Total", 350, 33, None, -7], [],
    ["In millions", None, None, None, "January-June 2030"], [None, "Sales", "Profit", None, "Write-offs"], [],
    ["Zone A", 110, 10, None, -2],
]  # fmt: skip


def test_names_above_an_empty_row_and_a_year_above_them_go_with_every_row() -> None:
    assert lines(workbook({"S": SPACED}), "a.xlsx")[2:] == [
        "January-June 2031; In millions: Zone A; Sales: 120; Profit: 12; Write-offs: -3",
        "January-June 2031; In millions: Total; Sales: 350; Profit: 33; Write-offs: -7",
        "January-June 2030; In millions: Zone A; Sales: 110; Profit: 10; Write-offs: -2",
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["Name", "Sales"], [], ["A", 1], ["B", 2]], ["Name: A; Sales: 1", "Name: B; Sales: 2"]),
        ([["Ann", "Bob"], [], ["Cem", "Dua"]], ["Ann | Bob", "Cem | Dua"]),
        ([["Year", None, "Ducks", "Geese"], [], [2031, None, 120, 7]], ["Year: 2031; Ducks: 120; Geese: 7"]),
        ([["Name", "Sales"], []], ["Name | Sales"]),
        ([["Name", "Age"], ["A", 3], [], ["B", 4]], ["Name: A; Age: 3", "Name: B; Age: 4"]),
    ],
)
def test_only_names_that_stand_above_numbers_are_names(rows: list[list[object]], expected: list[str]) -> None:
    assert lines(workbook({"S": rows}), "a.xlsx")[1:] == expected


def sheet_text(rows: list[list[object]]) -> str:
    """The text of a workbook of one sheet, without the name of the sheet."""
    return load(workbook({"S": rows}), "a.xlsx").text.removeprefix("S\n\n")


def test_the_tables_of_a_dashboard_are_read_one_by_one() -> None:
    """With captions above them, side by side or below each other without an empty row."""
    depots: list[list[object]] = [["Trams in service"], ["Depot", "Trams"], ["Harbour", 41], ["Hillside", 23]]
    costs: list[list[object]] = [["Costs"], ["Month", "Energy"], ["January", 12400], ["February", 11800]]
    rows = [[*left, *[None] * (4 - len(left)), *right] for left, right in zip(depots, costs, strict=True)]
    firms: list[list[object]] = [
        ["Company", "Town", "Phone"],
        ["Nordkabel", "Bergen", "5512"],
        ["Radwerk", "Kassel", "77"],
    ]
    rows += [[], ["Name", "Role"], ["Ada Lind", "Driver"], ["Bo Falk", "Mechanic"], ["Suppliers"], *firms]
    assert sheet_text(rows).split("\n\n") == [
        "Trams in service",
        "Depot: Harbour; Trams: 41\nDepot: Hillside; Trams: 23",
        "Costs",
        "Month: January; Energy: 12400\nMonth: February; Energy: 11800\nName: Ada Lind; Role: Driver\n"
        "Name: Bo Falk; Role: Mechanic",
        "Suppliers",
        "Company: Nordkabel; Town: Bergen; Phone: 5512\nCompany: Radwerk; Town: Kassel; Phone: 77",
    ]


def test_a_table_that_begins_behind_empty_columns_is_one() -> None:
    rows: list[list[object]] = [[None, "B3", "C3"], [None, "B4", "C4"], [None, "B5", "C5"]]
    assert sheet_text(rows) == "B3: B4; C3: C4\nB3: B5; C3: C5"


def test_two_columns_of_different_texts_beside_a_table_may_have_no_names() -> None:
    prices: list[list[object]] = [["Week", "Price"], ["First", 10], ["Second", 12]]
    meanings = [["RO", "no meals"], ["BB", "breakfast"], ["HB", "half board"]]
    text = sheet_text([[*left, None, *right] for left, right in zip(prices, meanings, strict=True)])
    assert "RO: BB" not in text and "no meals" in text


def test_groups_of_rows_and_columns_are_no_tables_of_their_own() -> None:
    grouped: list[list[object]] = [["Part", "Place"], ["Bolts"], ["M8", "Shelf A"], ["M9", "Shelf B"], ["Nuts"]]
    grouped += [["N8", "Shelf C"], ["N9", "Shelf D"], ["N10", "Shelf E"]]
    assert sheet_text(grouped).split("\n")[-3:] == [
        f"Part: N{n}; Place: Shelf {s}" for n, s in ((8, "C"), (9, "D"), (10, "E"))
    ]
    years: list[list[object]] = [["Town", "Plan", None, None, "Sold"], [None, "Q1", "Q2", None, "Q1", "Q2"]]
    text = sheet_text([*years, ["Lund", 1, 2, None, 3, 4], ["Ystad", 5, 6, None, 7, 8]])
    assert text.split("\n")[-1].startswith(("Town: Ystad", "Ystad")) and text.endswith("8")


def test_a_table_beside_another_one_has_its_own_names() -> None:
    beside: list[list[object]] = [["Filter", "Price"], ["F1", 4], ["F2", 5]]
    left: list[list[object]] = [["Pump", "Hours"], ["A", 10], ["C", 15], ["D", 18], ["E", 20]]
    both = [[*row, None, None, *other] for row, other in zip(left[2:], beside, strict=True)]
    rows: list[list[object]] = [*map(list, left[:2]), *both]
    document = load(workbook({"S": rows}), "a.xlsx")
    assert document.text.split("\n")[2:] == [
        "Pump: A; Hours: 10", "Pump: C; Hours: 15", "Pump: D; Hours: 18", "Pump: E; Hours: 20",
        "Filter: F1; Price: 4", "Filter: F2; Price: 5",
    ]  # fmt: skip
    assert [(place.number, place.columns) for place in document.places][-1] == (4, "E:F")


@pytest.mark.parametrize(
    "rows",
    [
        [["Zone", "Sales", None, "Profit", "Loss"], ["A", 1, None, 2, 3], ["B", 4, None, 5, 6], ["C", 7, None, 8, 9]],
        [["Zone", None, "Note"], ["A", None, "x"], ["B", None, "y"], ["C", None, "z"]],
    ],
)
def test_columns_that_an_empty_one_parts_are_one_table(rows: list[list[object]]) -> None:
    assert all(
        line.startswith("Zone: ") and line.count(": ") > 1 for line in lines(workbook({"S": rows}), "a.xlsx")[1:]
    )


def test_three_tables_side_by_side_are_three() -> None:
    rows: list[list[object]] = [["A", "N", None, "B", "N", None, "C", "N"]]
    rows += [[f"a{n}", n, None, f"b{n}", n, None, f"c{n}", n] for n in range(2)]
    assert lines(workbook({"S": rows}), "a.xlsx")[1:] == [
        f"{k.upper()}: {k}{n}; N: {n}" for k in "abc" for n in range(2)
    ]


def threaded(comments: str) -> bytes:
    data = workbook({"S": [["Year", "Ducks"], [2031, 120]]})
    kinds = '<Relationships><Relationship Id="r1" Type="http://x/{}" Target="{}"/></Relationships>'
    return replaced(
        data,
        {
            "xl/worksheets/_rels/sheet1.xml.rels": kinds.format("threadedComment", "../threadedComments/c.xml"),
            "xl/threadedComments/c.xml": f"<ThreadedComments>{comments}</ThreadedComments>",
            "xl/persons/person.xml": '<personList><person displayName="Ann Lee" id="{1}"/></personList>',
        },
    )


def test_threaded_comments_have_their_words_and_replies() -> None:
    comments = (
        '<threadedComment ref="B2" personId="{1}" id="a"><text>Counted twice</text></threadedComment>'
        '<threadedComment ref="B2" personId="{2}" id="b" parentId="a"><text>Mended</text></threadedComment>'
    )
    assert lines(threaded(comments), "a.xlsx")[-2:] == ["Comment on B2: Counted twice", "Comment on B2: Mended"]


@pytest.mark.parametrize(
    ("comments", "expected"),
    [
        ('<threadedComment ref="A1" personId="{1}" id="a"><text>Why\nso?</text></threadedComment>',
         ["Comment on A1: Why so?"]),
        ('<threadedComment ref="A2" id="a"><text>x</text></threadedComment>'
         '<threadedComment ref="B1" id="b"><text>y</text></threadedComment>', ["Comment on A2: x", "Comment on B1: y"]),
        ('<threadedComment ref="B2" id="a"/>', []),
    ],
)  # fmt: skip
def test_threaded_comments_of_other_cells(comments: str, expected: list[str]) -> None:
    shown = lines(threaded(comments), "a.xlsx")
    assert [line.replace(" by Ann Lee", "") for line in shown if line.startswith("Comment")] == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["Plant", "Year"], ["+North", "1"], ["", "2"], ["", "3"]], ["North | 1", "North | 2", "North | 3"]),
        ([["Plant", "Year"], ["+North", "1"], ["", "2"], ["+South", "3"], ["", "4"]],
         ["North | 1", "North | 2", "South | 3", "South | 4"]),
        ([["a", "b", "c"], ["1", "+x", "+y"], ["2", "", ""]], ["1 | x | y", "2 | x | y"]),
    ],
)  # fmt: skip
def test_merged_cells_in_other_places(rows: list[list[str]], expected: list[str]) -> None:
    def settings(text: str) -> str:
        return '<w:vMerge w:val="restart"/>' if text.startswith("+") else "" if text else "<w:vMerge/>"

    body = table(*([cell(text.removeprefix("+"), settings(text)) for text in row] for row in rows))
    assert lines(word(body), "a.docx")[1:] == expected


def test_a_long_row_goes_on_below_its_first_value() -> None:
    row = "pump 7;" + ";".join(f"value {n} " + "word " * 30 for n in range(8))
    text = "name;" + ";".join(f"c{n}" for n in range(8)) + f"\n{row}\npump 8;" + "x;" * 7 + "x\n"
    document = load(text, "a.csv")
    shown = document.text.split("\n")
    assert len(shown) > 2 and all(line.startswith("name: pump 7; c") and len(line) < 1000 for line in shown[:-1])
    assert shown[-1].startswith("name: pump 8; c0: x")
    assert [place.number for place in document.places][:2] == [2, 2]
    assert " ".join(shown).count("value ") == 8


@pytest.mark.parametrize(
    "row",
    [
        r"{{\pard\intbl\f0 %s\par}\cell}{{\pard\intbl %s\par}\cell}",
        r"\pard\intbl %s\cell\pard\intbl %s\cell",
        r"{\intbl %s\par\cell}{\intbl %s\par\cell}",
        r"{\pard\intbl {\b %s}\par}\cell {\pard\intbl %s\par}\cell",
    ],
)
def test_cells_of_rtf_tables_stand_in_their_row(row: str) -> None:
    rows = "\n".join(
        r"{\trowd\cellx4320\cellx8640 " + row % cells + r"\row}"
        for cells in [("Code", "Error"), ("3", "Missing"), ("4", "Full")]
    )
    assert lines(r"{\rtf1\ansi" + "\n" + rows + "\n" + r"\pard Words.\par}", "a.rtf") == [
        "Code | Error",
        "3 | Missing",
        "4 | Full",
        "Words.",
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_mail_in_utf_16_is_read(encoding: str) -> None:
    head = "From: Ann <ann@example.org>\r\nSubject: Pump\r\nMIME-Version: 1.0\r\n"
    mail = f"{head}Content-Type: text/plain; charset=utf-8\r\n\r\nIt runs.\r\n"
    document = load(mail.encode(encoding), "a.eml")
    assert document.title == "Pump" and document.text.endswith("It runs.")


@pytest.mark.parametrize(
    ("data", "name", "title"),
    [
        ("# Pump\n\nwords", "a.md", "Pump"),
        (word(paragraph("Scope", '<w:outlineLvl w:val="0"/>') + paragraph("words")), "a.docx", "Scope"),
        ("Subject: Pump\n\nIt runs.", "x-1.eml", "Pump"),
        ("<p>words</p><h2>Pump</h2><p>runs</p>", "https://example.org/docs/pump.html?x=1", "Pump"),
        ("words", "/x/Annual_report-2023.txt", ""),  # a renamed file is not embedded anew
    ],
)
def test_a_document_with_a_heading_has_a_title(data: bytes | str, name: str, title: str) -> None:
    assert load(data, name).title == title
