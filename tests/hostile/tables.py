"""13 CSV, JSON and similar files: ragged, very long, deeply nested, or with formulas."""

from __future__ import annotations

from collections.abc import Sequence

from tests.hostile.case import Case, Failed, Long, case

BOMB = "a: &a [lol, lol]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 9)}]\n" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)
PYTHON = "x: !!python/object/apply:os.system ['touch /tmp/ragkit-owned']\n"


CASES: Sequence[Case] = (
    case("csv-ragged.csv", b"name,age\nAnn,7,extra\nBob\n", "name: Ann; age: 7; column 3: extra\nname: Bob"),
    case("csv-field-1mb.csv", b"a,b\n1," + b"x" * 2**20, Long(2**20 + 9, "a: 1; b: xxx", "xxx")),
    case(
        "csv-columns.csv",
        b",".join(b"c%d" % n for n in range(10_000)) + b"\n" + b",".join([b"1"] * 10_000),
        Long(99_746, "c0: 1; c1: 1; ", "; c9999: 1"),
    ),
    case("csv-quote-open.csv", b'a,b\n1,"never closed\n2,3\n', "a: 1; b: never closed 2,3"),
    case(
        "csv-formula.csv",
        b'name,total\nAnn,=HYPERLINK("x")\nBob,=1+1\n',
        'name: Ann; total: =HYPERLINK("x")\nname: Bob; total: =1+1',
    ),
    case("json-nan.json", b'{"a": NaN, "b": -Infinity}', "a: NaN\nb: -Infinity"),
    case("json-twice.json", b'{"a": 1, "a": 2}', "a: 2"),
    case("json-deep.json", b"[" * 100_000 + b"]" * 100_000, Failed("nested too deeply")),
    case("json-digits.json", b'{"n": ' + b"9" * 1_000_000 + b"}", Long(1_000_003, "n: 999", "999")),
    case("jsonl-cut.jsonl", b'{"a": 1}\n{"a": 2}\n{"a": ', 'a: 1\n\na: 2\n\n{"a":'),
    case("json-several.json", b'{"a": 1}\n{"a": 2}', "a: 1\n\na: 2"),
    case("yaml-bomb.yaml", BOMB.encode(), BOMB.strip()),
    case("yaml-python.yaml", PYTHON.encode(), PYTHON.strip()),
)
