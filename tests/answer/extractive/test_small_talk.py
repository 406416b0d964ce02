"""Replies to greetings, thanks, goodbyes and questions about ragkit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragkit.answer.extractive.small_talk import reply_to_small_talk


@pytest.mark.parametrize(
    ("messages", "reply"),
    [
        (("hello", "Hi!", "hey there", "Good morning, everyone", "HELLO???", "hi :-)"), "Hello. Ask a question"),
        (("hello, how are you?", "How are you doing?", "what's up"), "Ready to search."),
        (("thanks!", "Thank you so much for that.", "great, thanks a lot", "Hello and thanks"), "You are welcome."),
        (("bye", "See you later!", "thanks, goodbye", "that’s all, thank you"), "Goodbye."),
        (("ok", "got it", "No, thanks"), "Good."),
        (("Who are you?", "hi, what can you do?", "What's your name?", "help"), "I am ragkit. I answer"),
        (("Hallo zusammen", "Guten Tag!", "Grüß Gott"), "Hallo. Stellen Sie"),
        (("Danke schön!", "Vielen Dank für die Hilfe", "alles klar, danke"), "Gern geschehen."),
        (("Tschüss", "Danke, auf Wiedersehen"), "Auf Wiedersehen."),
        (("Wer bist du?", "Hallo, was können Sie?"), "Ich bin ragkit."),
        (("Bonjour !", "salut à tous"), "Bonjour. Posez"),
        (("Merci beaucoup pour votre aide",), "Avec plaisir."),
        (("Au revoir, et merci", "à bientôt"), "Au revoir."),
        (("Qui es-tu ?", "Qu'est-ce que tu peux faire ?", "Comment t’appelles-tu ?"), "Je suis ragkit."),
        (("¡Hola!", "Buenos días a todos"), "Hola. Haga"),
        (("Muchas gracias",), "De nada."),
        (("Gracias y hasta luego", "adiós"), "Adiós."),
        (("¿Quién eres?", "¿Qué puedes hacer?"), "Soy ragkit."),
    ],
)
def test_small_talk_is_answered_in_its_language(messages: tuple[str, ...], reply: str) -> None:
    for message in messages:
        assert str(reply_to_small_talk(message)).startswith(reply), message


@pytest.mark.parametrize(
    "question",
    [
        "hello world program?",
        "thanks to whom was the mill built?",
        "What is a goodbye message?",
        "Who are you allowed to call?",
        "What can you do with a Dynamo?",
        "How are you charged?",
        "Hello, what is Dynamo?",
        "Thanks. And who wrote it?",
        "hi-fi",
        "Good Morning America",
        "help option",
        "Can you help me install it?",
        "Is that all?",
        "and how often?",
        "there",
        "and then?",
        "Was kannst du über die Mühle sagen?",
        "Danke wem?",
        "Qui es-tu allé voir ?",
        "¿Qué puedes hacer con la rueda?",
        "ok " * 20,
        "",
        "?!",
    ],
)
def test_a_question_is_never_small_talk(question: str) -> None:
    assert reply_to_small_talk(question) is None


def test_no_question_of_the_sample_is_small_talk() -> None:
    lines = (Path(__file__).parents[3] / "data" / "questions.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    assert len(questions) > 50
    assert [question for question in questions if reply_to_small_talk(question)] == []
