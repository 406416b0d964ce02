"""The analyzer: terms of texts and questions."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.lexical.analyzer import MAX_TERM_CHARS, extract_terms
from ragkit.lexical.stopwords import STOP_WORDS


def test_english_words_are_stemmed_and_stop_words_left_out() -> None:
    assert extract_terms("The engines were running in the hangars.") == ["engin", "run", "hangar"]


def test_the_past_of_find_is_no_form_of_founding() -> None:
    assert extract_terms("found") == extract_terms("finding") != extract_terms("founded") == extract_terms("founds")


def test_a_text_of_stop_words_only_keeps_them() -> None:
    assert extract_terms("To be, or not to be") == ["to", "be", "or", "not", "to", "be"]


@pytest.mark.parametrize("text", ["", " \n\t", "...", "___", "--", "!?", "\u200b", "\N{PILE OF POO}"])
def test_a_text_without_words_has_no_terms(text: str) -> None:
    assert extract_terms(text) == []


def test_repeated_words_are_repeated_terms() -> None:
    assert extract_terms("wing wings WING") == ["wing", "wing", "wing"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("foo_bar", ["foobar", "foo", "bar"]),
        ("fooBar", ["foobar", "foo", "bar"]),
        ("foo-bar", ["foobar", "foo", "bar"]),
        ("FOO_BAR", ["foobar", "foo", "bar"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("foo.bar()", ["foo.bar", "foo", "bar"]),
        ("__init__.py", ["init.py", "init", "py"]),
        ("--no-color", ["nocolor", "color"]),
        ("v1.2", ["v1.2", "1.2", "v1"]),
        ("1980s", ["1980s", "1980"]),
        ("2018-06-17", ["20180617", "2018", "201806"]),
        ("2018-06", ["201806", "2018", "06"]),
        ("the 90s and 5s", ["90s", "90", "5s"]),
        ("python3.11", ["python3.11", "3.11", "python3", "python", "11"]),
        ("C++", ["c++"]),
        ("C#", ["c#"]),
        ("-s", ["-s"]),
        ("-L and -l", ["-L", "l", "-l", "l"]),
        ("[-a]", ["-a"]),
        ("see `-s`, --small", ["see", "-s", "small"]),
        ("a - b, x-s, -5 and -ab", ["b", "xs", "5", "ab"]),
        ("g++", ["g++"]),
        ("AT&T", ["at&t"]),
        ("U.S.A.", ["usa"]),
        ("Node.js", ["node.js", "node", "js"]),
        ("jane.doe@example.com", ["jane.doe@example.com", "jane", "doe", "exampl", "com"]),
        ("report_2024.pdf", ["report2024.pdf", "report", "2024", "pdf"]),
        ("deep-known", ["deepknown", "deep", "known"]),
        ("utf-8", ["utf8", "utf"]),
        ("UTF8", ["utf8", "utf"]),
        ("PDFs", ["pdf"]),
    ],
)
def test_terms_of_an_identifier_are_itself_and_its_parts(text: str, expected: list[str]) -> None:
    assert extract_terms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,234,567", ["1234567"]),
        ("1,234.5", ["1234.5", "1234"]),
        ("3.14", ["3.14", "14"]),
        ("2024-01-15", ["20240115", "2024", "202401"]),
        ("12:30", ["12:30", "12", "30"]),
        ("10.0.0.7", ["10.0.0.7", "10"]),
        ("1, 2", ["1", "2"]),
        ("a1,234", ["a1234"]),
    ],
)
def test_terms_of_numbers_with_separators(text: str, expected: list[str]) -> None:
    assert extract_terms(text) == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("Rollo's", "Rollo"),
        ("Rollo\u2019s", "Rollo"),
        ("the dogs' bowls", "dog bowl"),
        ("O\u2019Brien", "O'Brien"),
        ("caf\u00e9", "cafe"),
        ("cafe\u0301", "cafe"),
        ("Stra\u00dfe", "STRASSE"),
        ("\u0141\u00f3d\u017a", "Lodz"),
        ("\u00c6r\u00f8", "aero"),
        ("\ufb01sh", "fish"),
        ("\uff21\uff22\uff23\uff11", "ABC1"),
        ("co\u00adoperate", "cooperate"),
        ("non\u2011stop", "non-stop"),
        ("\u0130stanbul", "istanbul"),
        ("x\u00b2", "x2"),
    ],
)
def test_spellings_of_one_word_give_the_same_terms(text: str, same: str) -> None:
    assert extract_terms(text) == extract_terms(same) != []


@pytest.mark.parametrize("text", ["don't", "isn\u2019t", "we'll", "they've", "can't", "won't", "I'd"])
def test_contractions_are_stop_words(text: str) -> None:
    assert extract_terms(f"{text} fly") == ["fli"]


def test_upper_case_names_are_not_stop_words() -> None:
    assert extract_terms("the IT of the US") == ["it", "us"]
    assert extract_terms("it helps us") == ["help"]


@pytest.mark.parametrize(
    ("document", "question"),
    [
        ("我们在北京大学学习计算机科学。", "北京大学在哪里"),
        ("東京都の人口は増えています", "東京の人口"),
        ("カタカナのテキスト", "ﾃｷｽﾄ"),
        ("한국어를 공부합니다", "한국어"),
        ("ภาษาไทยเป็นภาษาที่สวยงาม", "ภาษาไทย"),
        ("ភាសាខ្មែរពិរោះ", "ភាសាខ្មែរ"),
        ("ພາສາລາວງາມ", "ພາສາລາວ"),
        ("မြန်မာဘာသာ", "မြန်မာ"),
        ("قرأتُ الكِتابَ في المكتبة", "الكتاب"),
        ("مكتبة", "مكتبه"),
        ("В крупных городах России", "город"),
        ("Ёлка стоит", "елка"),
        ("Η Αθήνα είναι πρωτεύουσα", "ΑΘΗΝΑ"),
        ("किताबें मेज़ पर हैं", "किताब"),
        ("ספר הַתּוֹרָה", "התורה"),
        ("Đà Nẵng là thành phố", "Da Nang"),
    ],
)
def test_questions_in_any_script_match_documents(document: str, question: str) -> None:
    assert set(extract_terms(question)) & set(extract_terms(document))


def test_unspaced_scripts_become_pairs_of_characters_and_single_characters_stay() -> None:
    assert extract_terms("東京都 水") == ["東京", "京都", "水"]
    assert extract_terms("東京東京") == ["東京", "京東", "東京"]
    assert extract_terms("Python3入門") == ["python3", "python", "入門"]


def test_russian_endings_with_the_short_i_are_stemmed() -> None:
    assert extract_terms("новый новая") == ["нов", "нов"]


def test_long_words_are_truncated() -> None:
    assert extract_terms("x" * 1000) == ["x" * MAX_TERM_CHARS]
    assert extract_terms("_".join(["part"] * 1000)) == ["part"]


def test_stop_words_are_lower_case_ascii_letters() -> None:
    assert {word for word in STOP_WORDS if not (word.isascii() and word.isalpha() and word.islower())} == set()


@given(st.text())
def test_terms_are_short_not_empty_and_without_white_space(text: str) -> None:
    assert [term for term in extract_terms(text) if not 0 < len(term) <= MAX_TERM_CHARS or term.split() != [term]] == []


@given(st.text(), st.text())
def test_the_terms_of_a_line_do_not_depend_on_other_lines(first: str, second: str) -> None:
    both = extract_terms(f"wing {first}\nwing {second}")
    assert both == extract_terms(f"wing {first}") + extract_terms(f"wing {second}")


@given(st.from_regex(r"[a-z]{3,12}([._-][a-z]{3,12}){1,3}", fullmatch=True))
def test_each_part_of_an_identifier_matches_it(identifier: str) -> None:
    parts = [part for part in identifier.replace(".", "_").replace("-", "_").split("_") if part not in STOP_WORDS]
    assert {term for part in parts for term in extract_terms(part)} <= set(extract_terms(f"{identifier} wing"))


@pytest.mark.parametrize(
    "unit", ["a.", "aB1", "'s", "n't", "1,111", "1:", "a+", "\u6c34", "e\u0301", "\u0301\u0316", "\ufdfa", "_", "-a"]
)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    started_at = time.process_time()
    extract_terms("a" + unit * 100_000)
    assert time.process_time() - started_at < 5  # quadratic time would be minutes
