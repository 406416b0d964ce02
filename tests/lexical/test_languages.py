"""The language of a text, by script and frequent words."""

from __future__ import annotations

import pytest

from ragkit.lexical.languages import detect_language, find_main_language

GERMAN = (
    "Der Urlaub beträgt jährlich mindestens 24 Werktage. Als Werktage gelten alle Kalendertage, die nicht Sonn- oder "
    "gesetzliche Feiertage sind. Der volle Anspruch wird nach sechs Monaten des Bestehens erworben."
)
ENGLISH = (
    "The leave is at least 24 working days in each year. All days of the calendar that are not Sundays or public "
    "holidays count as working days. It is due to you after six months with the employer."
)
TEXTS = {
    "German": GERMAN,
    "English": ENGLISH,
    "French": "Le contrat de travail est rompu par une lettre recommandée, dans les huit jours qui suivent la décision "
    "des parties; il ne peut pas être prolongé avec un accord du tribunal.",
    "Spanish": "El contrato se termina con una carta certificada en los ocho días que siguen a la decisión de las "
    "partes, y no puede prolongarse más que con un acuerdo por escrito.",
    "Dutch": "De huurder moet het gehuurde bij het einde van de huur weer in goede staat opleveren, en hij kan niet "
    "zonder toestemming van de verhuurder aan derden onderverhuren.",
    "Polish": "Umowa jest zawarta na czas określony i nie może być przedłużona, chyba że strony się na to zgodzą do "
    "dnia, w którym została ona podpisana przez obie strony lub sąd.",
    "Cyrillic script": "Столица страны была основана в девятом веке.",
    "Chinese": "图书馆每天早上八点开门，晚上九点关门。",
    "Japanese": "図書館は毎日朝八時に開きます。",
    "Korean": "도서관은 매일 아침 여덟 시에 엽니다.",
    "Greek": "Η βιβλιοθήκη ανοίγει κάθε μέρα στις οκτώ.",
    "Arabic script": "تفتح المكتبة كل يوم في الثامنة صباحا.",
    "a script of India": "पुस्तकालय सुबह आठ बजे खुलता है।",
}


@pytest.mark.parametrize("language", TEXTS)
def test_a_text_has_its_language(language: str) -> None:
    assert detect_language(TEXTS[language]) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Kündigungsfrist",
        "Price | Q1 | Q2\n" * 40,
        "for (int i = 0; i < n; i++) { a[i] = b[i]; }\n" * 20,
        "1 2 3 " * 90,
    ],
)
def test_tables_code_and_single_words_have_none(text: str) -> None:
    assert detect_language(text) == ""


def test_an_english_text_with_a_name_in_another_script_is_english() -> None:
    assert detect_language(f"{ENGLISH} The name is 北京市.") == "English"


def test_the_main_language_is_that_of_most_texts() -> None:
    assert find_main_language([GERMAN, GERMAN, ENGLISH, "x = 1"]) == "German"
    assert find_main_language([GERMAN, ENGLISH]) == "English"
    assert find_main_language(["x = 1", ""]) == ""


def test_several_other_languages_together_outweigh_english() -> None:
    assert find_main_language([TEXTS["French"], GERMAN, GERMAN, ENGLISH, ENGLISH]) == "German"
