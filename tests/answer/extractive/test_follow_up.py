"""Follow-up questions, completed from the one before."""

from __future__ import annotations

import pytest

from ragkit.answer.extractive.follow_up import Reference, find_reference, rewrite_follow_up


@pytest.mark.parametrize(
    ("previous", "question", "rewritten"),
    [
        ("When was Debian Stretch released?", "And Bullseye?", "When was Debian Bullseye released?"),
        ("When was Jimi Hendrix born?", "And Elvis Presley?", "When was Elvis Presley born?"),
        ("Was macht die Option -u von Anacron?", "Und was macht -f?", "Was macht die Option -f von Anacron?"),
        (
            "What does the timeout setting do?",
            "And that of tcp-keepalive?",
            "What does the timeout setting do (tcp-keepalive)?",
        ),
        (
            "What is etckeeper's default VCS?",
            "How do I get rid of it?",
            "How do I get rid of it (etckeeper default VCS)?",
        ),
        ("Who founded Debian?", "When?", "When (founded Debian)?"),
        ("Which award did he receive?", "In which year?", "In which year (award he receive)?"),
        (
            "Wie hoch ist das Kindergeld?",
            "Und ab dem dritten Kind?",
            "Wie hoch ist das Kindergeld (ab dem dritten Kind)?",
        ),
        (
            "Wie viele Urlaubstage stehen mir zu?",
            "Und bei Krankheit?",
            "Wie viele Urlaubstage stehen mir zu (bei Krankheit)?",
        ),
        ("Quel est le prix du billet ?", "Et pour les enfants ?", "Quel est le prix du billet (pour les enfants)?"),
        ("¿Cuánto cuesta la entrada?", "¿Y para los niños?", "¿Cuánto cuesta la entrada (para los niños)?"),
        ("How heavy is it (full dewar)?", "And the lid?", "How heavy is it (the lid)?"),
        ("Qu'est-ce que le PATCH d'une version ?", "Et le MINOR ?", "Qu'est-ce que le MINOR d'une version ?"),
        ("¿Qué es un entorno virtual?", "¿Tengo que activarlo?", "¿Tengo que activarlo (entorno virtual)?"),
    ],
)
def test_a_follow_up_gets_what_it_leaves_out(previous: str, question: str, rewritten: str) -> None:
    assert rewrite_follow_up(question, previous) == rewritten


@pytest.mark.parametrize("question", ["How do I start bisecting?", "Which class knows herbs and simples?", ""])
def test_a_question_that_stands_alone_is_unchanged(question: str) -> None:
    assert rewrite_follow_up(question, "What is the goal of the player?") == question


def test_the_first_question_is_unchanged() -> None:
    assert rewrite_follow_up("What is it?", "") == "What is it?"


@pytest.mark.parametrize(
    "question",
    [
        "How many telescopes are there?",
        "Is there a car park?",
        "Does it rain often in May?",
        "Is it allowed to bring dogs?",
        "Where does logrotate keep its state file by default?",
        "How do I force logrotate to rotate even if it isn't due?",
        "Which compression does Borg use unless told otherwise?",
        "Gibt es eine Probezeit?",
        "Wie alt war Manning, als er im Super Bowl spielte?",
        "Y a-t-il un parking ?",
        "Est-ce que Docker est nécessaire ?",
        "Comment la mémoire est-elle gérée ?",
        "What does Brisk do when it reports B-09?",
        "What do I get if it was cloudy all evening?",
        "停车场在哪里？",
        "吉他有几根弦？",
        "その他の設定はどこですか？",
    ],
)
def test_words_that_refer_to_nothing_before_the_question_are_no_references(question: str) -> None:
    assert find_reference(question) is Reference.NONE


@pytest.mark.parametrize(
    ("question", "reference"),
    [
        ("What is HERON?", Reference.POSSIBLE),
        ("Was ist Mord?", Reference.POSSIBLE),
        ("And how do I send my own cookies?", Reference.POSSIBLE),
        ("How heavy is it?", Reference.PRONOUN),
        ("Can I lose log lines with it?", Reference.PRONOUN),
        ("Which value is returned then?", Reference.PRONOUN),
        ("Who is the treasurer of that project?", Reference.PRONOUN),
        ("How do I get there by bus?", Reference.LIKELY),
        ("Gilt das auch für Jugendliche?", Reference.PRONOUN),
        ("Wie ist das bei Minijobs?", Reference.PRONOUN),
        ("它有多重？", Reference.PRONOUN),
        ("それはいくらですか？", Reference.PRONOUN),
        ("Wie installiere ich es?", Reference.PRONOUN),
        ("¿Quién puede leerla?", Reference.PRONOUN),
        ("¿Cómo lo instalo?", Reference.PRONOUN),
        ("Comment l'installer ?", Reference.PRONOUN),
        ("Comment le configurer ?", Reference.PRONOUN),
        ("What happens when it fails?", Reference.PRONOUN),
        ("What share of its turnover does the shop hand over as rent?", Reference.POSSIBLE),
        ("Why?", Reference.CERTAIN),
        ("And Bullseye?", Reference.CERTAIN),
        ("How do I define my own?", Reference.PRONOUN),
        ("How do I define my own file types?", Reference.NONE),
    ],
)
def test_a_question_says_how_much_it_needs_the_one_before(question: str, reference: Reference) -> None:
    assert find_reference(question) is reference
