"""What a PDF says arrives: nothing but page numbers and repeated heads leaves, and nothing is dealt out in pieces."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NumberObject, RectangleObject
from reportlab.pdfgen import canvas

from tests.load.pages.test_layout import draw, load, paragraph, table

WORDS = ["amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heron", "indigo", "jasper", "kelp", "lotus"]


def pages(count: int, lines: Callable[[int], list[str]], *, body: int = 0, top: float = 780) -> list[str]:
    """The text of each page of a file; `lines` stand at the top of each page, above `body` lines of text."""

    def page(sheet: canvas.Canvas, number: int) -> None:
        sheet.setFont("Helvetica", 11)
        for at, line in enumerate(lines(number)):
            for place, part in enumerate(line.split("\t")):
                sheet.drawString(72 + 380 * place, top - 16 * at, part)
        paragraph(sheet, 72, 640, body, " ".join(WORDS[number % 5 :]))

    document = load(draw(*(lambda sheet, number=number: page(sheet, number) for number in range(count))))
    starts = [*document.page_starts, len(document.text)]
    return [document.text[a:b].strip() for a, b in pairwise(starts)]


@pytest.mark.parametrize(
    "line",
    [
        lambda n: f"Invoice No. {4711 + 3 * n} Customer {9001 + 17 * n}",
        lambda n: f"Invoice No. {4711 + n}",
        lambda n: f"EXHIBIT 31.{n + 1}",
        lambda n: f"Sum due: {140 + 7 * n} marks",
        lambda n: f"Statement of {n + 3} May 2031",
        lambda n: f"Case {17 * n + 5} - {WORDS[n]}",
    ],
)
def test_lines_that_differ_in_numbers_stay_at_the_top_of_each_page(line: Callable[[int], str]) -> None:
    found = pages(5, lambda n: [line(n)], body=12)
    assert [text.split("\n")[0] for text in found] == [line(n) for n in range(5)]


@pytest.mark.parametrize(
    "line",
    [
        lambda n: f"The Pump Manual\t{n + 17}",
        lambda n: f"The Pump Manual | {n + 17}",
        lambda n: f"The Pump Manual - Page {n + 17} of 40",
        lambda n: f"{n + 17} | The Pump Manual",
        lambda n: f"The Pump Manual\t{n + 47699}",
        lambda n: f"Ann Bell (Works) The Pump Manual May 12, 2031 {n + 17} / 40",
        lambda n: f"The Pump Manual 2031 {n + 17} of 40",
    ],
)
def test_a_head_with_the_number_of_its_page_leaves_all_pages_but_the_first(line: Callable[[int], str]) -> None:
    found = pages(6, lambda n: [line(n)], body=12)
    assert "Pump Manual" in found[0]
    assert not any("Pump Manual" in text or str(n + 17) in text for n, text in enumerate(found[1:], 1))


def test_what_repeats_between_lines_that_stay_is_no_running_head() -> None:
    found = pages(5, lambda n: [f"Letter to {WORDS[n]}", "Pay within thirty days, please.", f"Sum {91 * n}"])
    assert all("Pay within thirty days, please." in text for text in found)


@pytest.mark.parametrize("line", [lambda n: f"The Pump Manual {n + 17} / 40 sold", lambda n: f"Pumps: {3 * n} / 40"])
def test_a_share_that_is_no_page_number_stays(line: Callable[[int], str]) -> None:
    found = pages(6, lambda n: [line(n)], body=12)
    assert all(line(n) in text for n, text in enumerate(found))


@pytest.mark.parametrize("line", ["The seal of pump {} was found sound.", "Page {}", "Nothing was found."])
def test_no_page_is_emptied(line: str) -> None:
    assert pages(4, lambda n: [line.format(n + 1)]) == [line.format(n + 1) for n in range(4)]


def test_a_head_of_two_pages_that_stands_nowhere_else_stays_once() -> None:
    found = pages(6, lambda n: ["Rules for visitors"] if n in (2, 3) else [], body=12)
    assert [text.count("Rules for visitors") for text in found] == [0, 0, 1, 0, 0, 0]


def test_a_number_at_the_bottom_of_a_page_that_counts_nothing_stays() -> None:
    assert pages(2, lambda n: [""] * 46 + [str(1984 - 7 * n)], body=12)[1].endswith("1977")


def stamp(sheet: canvas.Canvas, text: str, x: float, y: float, angle: float) -> None:
    sheet.saveState()
    sheet.translate(x, y)
    sheet.rotate(angle)
    sheet.drawString(0, 0, text)
    sheet.restoreState()


@pytest.mark.parametrize("angle", [90, 270, 45, 180])
@pytest.mark.parametrize("is_first", [True, False])
def test_words_turned_against_the_page_are_a_line_of_their_own(angle: float, is_first: bool) -> None:
    text = "arXiv:1234.56789v2 [cs.XY] 21 Jun 2031"

    def page(sheet: canvas.Canvas) -> None:
        if is_first:
            stamp(sheet, text, 300, 400, angle)
        paragraph(sheet, 72, 700, 30, "The pump of the north hall was re-")
        if not is_first:
            stamp(sheet, text, 300, 400, angle)

    lines = load(draw(page)).text.split("\n")
    assert lines[-1] == text
    assert [line for line in lines[:-2] if not line.startswith("The pump of the north hall")] == []


def test_upright_names_stand_in_their_columns() -> None:
    def page(sheet: canvas.Canvas) -> None:
        table(sheet, [("", "", ""), ("Austria", "59", "54"), ("Denmark", "58", "51")], 700, ruled=False)
        for x in (75, 195, 315, 435):
            sheet.line(x, 654, x, 790)
        for y in (790, 694, 674, 654):
            sheet.line(75, y, 435, y)
        for column, name in enumerate(["Country", "Year of start", "Count"]):
            stamp(sheet, name, 100 + 120 * column, 718, 90)

    assert load(draw(page)).text == "Country | Year of start | Count\nAustria | 59 | 54\nDenmark | 58 | 51"


def test_a_stamp_of_each_page_stays_on_the_first_one() -> None:
    def page(sheet: canvas.Canvas) -> None:
        stamp(sheet, "Internal use only", 30, 300, 90)
        paragraph(sheet, 72, 700, 20)

    assert load(draw(page, page, page)).text.count("Internal use only") == 1


@pytest.mark.parametrize("left", [-36.0, -1.0, 0.0])
def test_frames_and_marks_around_a_page_are_no_table(left: float) -> None:
    def page(sheet: canvas.Canvas) -> None:
        sheet.rect(left, left, 595 - 2 * left, 842 - 2 * left)
        for x in (100, 300, 500):
            sheet.line(x, left - 20, x, left)
            sheet.line(left - 20, x, left, x)
        paragraph(sheet, 120, 790, 8, " ".join(WORDS), 60)
        table(sheet, top=600, ruled=True)
        paragraph(sheet, 120, 400, 8, " ".join(WORDS), 60)

    text = load(draw(page)).text
    assert "Country | 2019 | 2020\nAustria | 59 | 54\n" in text
    assert text.count(" | ") == 8
    assert max(map(len, text.split("\n"))) < 80


@pytest.mark.parametrize("box", [(0, 0, 300, 842), (0, 421, 595, 842), (100, 100, 300, 842)])
def test_only_what_is_inside_the_crop_box_is_read(box: tuple[float, float, float, float]) -> None:

    def page(sheet: canvas.Canvas) -> None:
        for number in range(30):
            sheet.drawString(110, 800 - 25 * number, f"left {800 - 25 * number}")
            sheet.drawString(400, 800 - 25 * number, f"right {800 - 25 * number}")

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(draw(page))))
    writer.pages[0].cropbox = RectangleObject(box)
    out = io.BytesIO()
    writer.write(out)
    text = load(out.getvalue()).text
    heights = [int(number) for number in re.findall(r"\d+", text)]
    assert min(heights) >= box[1]
    assert max(heights) <= box[3]
    assert ("right" in text) == (box[2] > 400)
    assert Counter(re.findall(r"left \d+", text)).total() == sum(box[1] <= 800 - 25 * n + 4 for n in range(30))


def ruled(rows: Sequence[Sequence[tuple[float, str]]], names: list[str], width: float = 120, step: float = 13) -> str:
    """The text of a table with lines around it, below its names and between its columns, but not between its rows.

    `rows`: for each line of text its (column, text).
    """

    def page(sheet: canvas.Canvas) -> None:
        sheet.setFont("Helvetica", 10)
        right, bottom = 70 + width * len(names), 680 - step * len(rows) - 6
        for column in range(len(names) + 1):
            sheet.line(70 + width * column, bottom, 70 + width * column, 700)
        for y in (700, 682, bottom):
            sheet.line(70, y, right, y)
        for column, name in enumerate(names):
            sheet.drawString(75 + width * column, 687, name)
        for number, row in enumerate(rows):
            for place, text in row:
                sheet.drawString(75 + width * int(place), 668 - step * number + (4 if place % 1 else 0), text)

    return load(draw(page)).text


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        ("Task Person Place", ["Filter Ann Cellar", "Valve Bob Roof", "Seal Cem Yard"]),
        ("Country Capital", ["Peru Lima", "Chile Santiago", "Cuba Havana", "Kenya Nairobi"]),
        ("Code Colour Shape Stock", ["A7 red round yes", "B2 blue square no", "C9 green oval no"]),
        ("Street Warden Since", ["Elm Dora 2019", "Oak Emil 2021", "Ash Finn 1998", "Fir Gerd 2004", "Yew Hans 2011"]),
    ],
)
def test_rows_of_words_without_lines_between_them_are_rows(names: str, rows: list[str]) -> None:
    shown = ruled([list(enumerate(row.split())) for row in rows], names.split())
    assert shown.split("\n")[1:] == [" | ".join(row.split()) for row in rows]


@pytest.mark.parametrize(
    ("names", "records"),
    [
        ("No. Payee Amount", [("D1", ["City Bank", "Fare"], "920.68"), ("D2", ["Post Office", "Stamps"], "12.50")]),
        ("Lot Seller Price", [("7", ["Miller and Sons", "chairs"], "40"), ("8", ["Abbey Farm", "a plough"], "310")]),
        ("Id Order Total", [("A", ["Pump", "hose", "seal"], "99.00"), ("B", ["Fan", "in white", "and grey"], "18.20")]),
        ("Ref Work Hours", [(f"R{n}", ["Repair of", f"the gate {n}"], f"{n}.5") for n in range(1, 6)]),
    ],
)  # fmt: skip
def test_a_record_of_several_lines_is_one_row(names: str, records: list[tuple[str, list[str], str]]) -> None:
    rows: list[list[tuple[int, str]]] = []
    for key, texts, value in records:
        rows += [[(0, key), (1, texts[0]), (2, value)], *([(1, text)] for text in texts[1:])]
    wanted = [f"{key} | {' '.join(texts)} | {value}" for key, texts, value in records]
    assert ruled(rows, names.split()).split("\n")[1:] == wanted


@pytest.mark.parametrize(
    ("label", "values_in"),
    [
        (["Damage to vehicles", "and trailers"], 1),
        (["Damage to vehicles", "and trailers"], 0),
        (["Fraud in shops and", "by post"], 1),
        (["Robbery of persons", "on the road"], 0),
        (["Robbery of shops,", "of kiosks and", "of stations"], 2),
    ],
)
def test_a_label_of_several_lines_is_one_label(label: list[str], values_in: int) -> None:
    rows = [[(0, "Theft"), (1, "412"), (2, "398")]]
    rows += [[(0, text), *([(1, "55"), (2, "61")] if number == values_in else [])] for number, text in enumerate(label)]
    rows += [[(0, "Arson"), (1, "9"), (2, "12")]]
    assert ruled(rows, ["Offence", "2021", "2022"]).split("\n")[1:] == [
        "Theft | 412 | 398",
        f"{' '.join(label)} | 55 | 61",
        "Arson | 9 | 12",
    ]


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        ("Layers Language Score Time", {"6": ["A 0.965 2.73", "B 0.969 5.39"], "4": ["A 0.938 1.97", "B 0.952 3.77"]}),
        ("Hall Shift Units", {"North": ["early 41", "late 39", "night 7", "out 2"], "South": ["early 23", "late 24"]}),
        ("Port Day Tons", {"Elm": ["Mon 1,200", "Tue 1,310", "Wed 980"], "Oak": ["Mon 410", "Tue 390", "Wed 400"]}),
        ("Year Term Rate", {f"{year}": ["spring 4.1", "autumn 4.4"] for year in range(2031, 2036)}),
    ],
)
def test_a_label_in_the_middle_of_several_rows_is_that_of_each(names: str, groups: dict[str, list[str]]) -> None:
    """Lines part the groups, but not the rows of a group."""

    def page(sheet: canvas.Canvas) -> None:
        sheet.setFont("Helvetica", 10)
        xs = [60 + 80 * column for column in range(len(names.split()) + 1)]
        ys = [720.0, 706.0]
        for x, name in zip(xs, names.split(), strict=False):
            sheet.drawString(x + 4, 710, name)
        for label, rows in groups.items():
            top = ys[-1] - 11
            sheet.drawString(xs[0] + 4, top - 13 * (len(rows) - 1) / 2, label)
            for number, row in enumerate(rows):
                for x, text in zip(xs[1:], row.split(), strict=False):
                    sheet.drawString(x + 4, top - 13 * number, text)
            ys.append(ys[-1] - 13 * len(rows) - 2)
        for y in ys:
            sheet.line(xs[0], y, xs[-1], y)
        for x in xs:
            sheet.line(x, ys[0], x, ys[-1])

    wanted = [" | ".join([label, *row.split()]) for label, rows in groups.items() for row in rows]
    assert load(draw(page)).text.split("\n")[1:] == wanted


def test_a_label_a_little_above_its_figures_is_on_their_row() -> None:
    rows = [[(0.5, f"Offence {WORDS[n]}"), (1, str(3 * n + 1)), (2, str(9 * n))] for n in range(8)]
    assert ruled(rows, ["Offence", "North", "South"]).split("\n")[1:] == [
        f"Offence {WORDS[n]} | {3 * n + 1} | {9 * n}" for n in range(8)
    ]


def test_a_cell_of_several_lines_in_a_ruled_row_is_no_row() -> None:
    rows = [[(0, "Filter"), (1, "The filter of the pump"), (2, "Ann")], [(1, "is changed in spring")]]
    assert (
        ruled(rows, ["Part", "Care", "By"]).split("\n")[1]
        == "Filter | The filter of the pump is changed in spring | Ann"
    )


@pytest.mark.parametrize(("start", "step"), [(0, 2), (10, 5), (2005, 5)])
def test_a_column_in_equal_steps_beside_values_is_no_axis(start: int, step: int) -> None:

    def page(sheet: canvas.Canvas) -> None:
        table(
            sheet, [("Dose", "Loss", "Rate"), *((str(start + step * n), f"{n * 7}.3", f"0.{n}4") for n in range(1, 7))]
        )

    lines = load(draw(page)).text.split("\n")
    assert lines[:2] == ["Dose | Loss | Rate", f"{start + step} | 7.3 | 0.14"]
    assert len(lines) == 7


LEFT = "We read the meters of the north hall every Monday before noon and write the figures into the grey book here"
RIGHT = "The south hall has no meters so its use is taken from the invoice of the supplier which comes by post later"


def wrapped(sheet: canvas.Canvas, text: str, x: float, top: float) -> None:
    words = text.split()
    for number in range(0, len(words), 4):
        sheet.drawString(x, top - 3.5 * number, " ".join(words[number : number + 4]))


@pytest.mark.parametrize("late", ["Yearly report of the works", "Notes of the halls"])
@pytest.mark.parametrize("gap", [200, 250])
def test_what_the_file_writes_late_does_not_shuffle_the_columns(late: str, gap: float) -> None:
    def page(sheet: canvas.Canvas) -> None:
        wrapped(sheet, LEFT, 72, 700)
        wrapped(sheet, RIGHT, 72 + gap, 700)
        table(sheet, [tuple("abcd"), *(tuple(str(n * k) for k in (3, 7, 11, 13)) for n in range(1, 9))], 560)
        sheet.drawString(72, 740, late)

    text = " ".join(load(draw(page)).text.split())
    assert text.startswith(late)
    assert LEFT in text
    assert RIGHT in text
    assert "3 | 7 | 11 | 13" in text


@pytest.mark.parametrize(
    "lines",
    [
        ["המשאבה במרתף נבדקת פעמיים בשנה", "המסנן מוחלף כל שלושה חודשים"],
        ["יש לנתק את החשמל ולהודיע מיד", "במקרה של תקלה"],
        ["הדוח נשלח למנהל", "אין להפעיל את המשאבה ללא מים במיכל"],
    ],
)
def test_lines_from_right_to_left_stay_lines(lines: list[str]) -> None:
    def page(sheet: canvas.Canvas) -> None:
        sheet.setFont("Helvetica", 12)
        for number, line in enumerate(lines):
            draw_hebrew(sheet, line, 520, 700 - 18 * number)

    assert load(in_hebrew(draw(page))).text.split("\n") == lines


def draw_hebrew(sheet: canvas.Canvas, line: str, right: float, y: float) -> None:
    """Words from right to left; those of digits as they are."""
    for word in line.split():
        shown = word if word.isdigit() else "".join(chr(ord(letter) - 0x5D0 + 65) for letter in reversed(word))
        right -= sheet.stringWidth(word) if word.isdigit() else 3.336 * len(word)  # of a glyph that the font lacks
        sheet.drawString(right, y, shown)
        right -= 4


def in_hebrew(data: bytes) -> bytes:
    """The file with Hebrew letters for A, B, C and so on."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    letters = [NameObject(f"/afii{57664 + number}") for number in range(27)]
    encoding = {NameObject("/Differences"): ArrayObject([NumberObject(65), *letters])}
    for font in writer.pages[0]["/Resources"]["/Font"].values():  # type: ignore[index]
        font.get_object()[NameObject("/Encoding")] = DictionaryObject(encoding)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("large", "title"),
    [(["The pump manual"], "The pump manual"), (["Care of", "north pumps"], "Care of north pumps"), ([], "")],
)
def test_the_largest_lines_of_the_first_page_are_the_title(large: list[str], title: str) -> None:
    def page(sheet: canvas.Canvas) -> None:
        sheet.setFont("Helvetica", 20)
        for number, line in enumerate(large):
            sheet.drawString(72, 780 - 24 * number, line)
        sheet.setFont("Helvetica", 10)
        paragraph(sheet, 72, 700, 20)

    assert load(draw(page)).title == title


@pytest.mark.parametrize(
    ("before", "mark", "behind", "text"),
    [
        ("The pump was built in Spain", "3", ", and it runs.", "The pump was built in Spain3, and it runs."),
        ("It was sealed", "12", ". Nobody came.", "It was sealed12. Nobody came."),
        ("The hall (as the plan says", "a", ") is closed.", "The hall (as the plan saysa) is closed."),
        ("It holds 40 m", "3", "of water.", "It holds 40 m3 of water."),
    ],
)
def test_a_raised_mark_does_not_end_its_line(before: str, mark: str, behind: str, text: str) -> None:
    def page(sheet: canvas.Canvas) -> None:
        paragraph(sheet, 60, 720, 8)
        sheet.setFont("Helvetica", 10)
        sheet.drawString(60, 560, before)
        end = 60 + sheet.stringWidth(before)
        sheet.setFont("Helvetica", 6)
        sheet.drawString(end, 565, mark)
        end += sheet.stringWidth(mark)
        sheet.setFont("Helvetica", 10)
        sheet.drawString(end + (2.8 if behind[0].isalpha() else 0.7), 560, behind)
        paragraph(sheet, 60, 540, 6)

    assert text in load(draw(page)).text.split("\n")


@pytest.mark.parametrize("rows", [3, 6, 12])
@pytest.mark.parametrize("column", [0, 2])
def test_the_text_of_a_cell_beside_many_rows_stands_once(rows: int, column: int) -> None:
    tall = ["Chart of prices in the halls of the works", "2.60", "2.40", "2.20"]
    x = [60, 180, 260] if column else [260, 380, 60]

    def page(sheet: canvas.Canvas) -> None:
        for row in range(rows):
            sheet.drawString(x[0] + 4, 710 - 16 * row, WORDS[row])
            sheet.drawString(x[1] + 4, 710 - 16 * row, f"1.{35 + row}")
        for row, line in enumerate(tall[: min(4, rows)]):
            sheet.drawString(x[2] + 4, 710 - 16 * row, line if row else line[:36])
        right = x[1] + 80
        for row in range(rows + 1):
            sheet.line(x[0], 722 - 16 * row, right, 722 - 16 * row)
        for y in (722, 722 - 16 * rows):
            sheet.line(min(x), y, max(right, x[2] + 200), y)
        for at in {*x, right, x[2] + 200}:
            sheet.line(at, 722, at, 722 - 16 * rows)

    lines = load(draw(page)).text.split("\n")
    assert sum("Chart of prices" in line for line in lines) == 1
    assert sum("2.40" in line for line in lines) == 1
    assert all(any(WORDS[row] in line and f"1.{35 + row}" in line for line in lines) for row in range(rows))


@pytest.mark.parametrize(
    "rows",
    [
        [("משאבת מים ראשית", "שם התקן"), ("ספטמבר הבא", "תאריך קבלת המסמך"), ("436", "מספר ישיבה")],
        [("חברת הצפון הגדולה", "יועץ הקבלה"), ("כל שלושה חודשים", "המסנן מוחלף"), ("פעמיים בשנה", "המשאבה נבדקת")],
        [("12", "דוח", "משאבה ראשית"), ("17", "הודעה דחופה", "מסנן"), ("9", "תקלה", "לוח חשמל ראשי")],
        [("לפי הוראות היצרן", "לא ידוע כלל"), ("ביום הראשון", "מנהל התחזוקה")],
    ],
)
def test_words_of_cells_from_right_to_left_keep_their_order(rows: list[tuple[str, ...]]) -> None:
    def page(sheet: canvas.Canvas) -> None:
        sheet.setFont("Helvetica", 12)
        for number, row in enumerate(rows):
            for column, text in enumerate(row):
                draw_hebrew(sheet, text, 200 + 150 * column, 700 - 20 * number)
        for number in range(len(rows) + 1):
            sheet.line(60, 714 - 20 * number, 60 + 150 * len(rows[0]), 714 - 20 * number)
        for column in range(len(rows[0]) + 1):
            sheet.line(60 + 150 * column, 714, 60 + 150 * column, 714 - 20 * len(rows))

    assert load(in_hebrew(draw(page))).text.split("\n") == [" | ".join(row) for row in rows]
