"""The tokenizer of the bundled models has the ids and offsets of the package `tokenizers`, for any text."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from ragkit.embed.base import replace_surrogates
from ragkit.embed.minilm import MODEL_FOLDER
from ragkit.embed.wordpiece import WordPieceTokenizer

SETTINGS = (MODEL_FOLDER / "tokenizer.json").read_bytes()
MAX_TOKENS = 256
SHORT, LONG = WordPieceTokenizer(SETTINGS, MAX_TOKENS), WordPieceTokenizer(SETTINGS, 10**9)
REFERENCE = Tokenizer.from_buffer(SETTINGS)
REFERENCE.encode_special_tokens = True

ORDERED_MARKS = re.compile(
    "[\u08d4-\u08e1\u1b44\u1baa\u1bf2\u1bf3\u1dfb\u302e\u302f\ua953\ua9c0\U000111c0\U00011235\U0001134d\U00011442"
    "\U00011446\U000116b6\U00011c3f\U0001d165\U0001d166\U0001d16d-\U0001d172\U0001e000-\U0001e006"
    "\U0001e008-\U0001e018\U0001e01b-\U0001e021\U0001e023\U0001e024\U0001e026-\U0001e02a\U0001e944-\U0001e94a]"
)
"""Marks that `tokenizers` sorts but does not remove: where a word begins with several marks, its start may differ."""
PRINTED = range(0x20000)
"""The planes of Unicode with the characters of living scripts, symbols and marks."""
NASTY = [
    "", " \n ", "[CLS] [SEP] a[MASK]b [PAD][UNK]", "a" * 40_000, "ab1-" * 20_000, "!" * 30_001, " " * 30_001 + "a",
    "q" * 99 + " " + "q" * 100 + " " + "q" * 101 + "\u0301" + "q" * 250, "ß" * 205, "각" * 120, "각나닭 한국어 " * 300,
    "a\x00b\x01c\x7fd\x85e\x1cf\x0bg", "\ud800 hi\udfff", "x\u200by\u200dz\ufeffw\u00adv", "\u00a0x\u2028y\u3000z",
    "e\u0301" * 20_000, "a" + "\u0301" * 20_000 + "b", "\u0301abc \u0301", "\u1100\u1161\u11a8", "สวัสดีครับผมชื่อ" * 500,
    "漢字かなカナ豈\U00020000\U0002f800" * 200, "İstanbul ıI ΣΊΣΥΦΟΣ ẞ ﬁ Ⅷ ①",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "≠ ; ` · ① “x” — y…", string.printable,
]  # fmt: skip
characters = st.characters(exclude_categories=())
in_scripts = st.one_of(*(
    st.characters(min_codepoint=first, max_codepoint=last)
    for first, last in [(0x20, 0x7E), (0, 0x24F), (0x300, 0x36F), (0x250, 0x1FFF), (0x2000, 0x33FF), (0xAC00, 0xD7A3)]
))  # fmt: skip


def assert_same(text: str) -> None:
    known = replace_surrogates(text)
    expected = REFERENCE.encode(known, add_special_tokens=False)
    whole = REFERENCE.encode(known[:30_000]).ids
    truncated = whole if len(whole) <= MAX_TOKENS else [*whole[: MAX_TOKENS - 1], whole[-1]]
    assert LONG.token_starts(text).tolist() == [start for start, _ in expected.offsets]
    assert SHORT.token_ids([text]) == [truncated]
    assert LONG.token_ids([text]) == [whole]


def assert_same_alone_and_in_words(codes: range) -> None:
    for block in batched_codes(codes):
        assert_same("\n".join(map(chr, block)))
        assert_same(" ".join(f"he{chr(code)}llo" for code in block))


def batched_codes(codes: range) -> list[range]:
    return [codes[start : start + 2_048] for start in range(0, len(codes), 2_048)]


@pytest.mark.slow
def test_every_printed_character_alone_and_in_words() -> None:
    assert_same_alone_and_in_words(PRINTED)


@pytest.mark.slow
def test_every_other_character_alone_and_in_words() -> None:
    assert_same_alone_and_in_words(range(PRINTED.stop, 0x110000))


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_nasty_texts(text: str) -> None:
    assert_same(text)


def test_the_files_of_the_project() -> None:
    root = Path(__file__).parents[2]
    files = [path for folder in ("data", "docs/how-to") for path in (root / folder).rglob("*")]
    texts = [path.read_text("utf-8") for path in files if path.suffix in {".md", ".html", ".txt", ".csv"}]
    assert len(texts) > 30
    for text in texts:
        assert_same(text)


@settings(max_examples=300)
@given(st.text(st.one_of(characters, in_scripts), max_size=300))
@example("a" * 101 + "\u0301" * 3 + "b")
def test_random_texts(text: str) -> None:
    assert_same(ORDERED_MARKS.sub("", text))


@settings(max_examples=100)
@given(st.text(st.one_of(in_scripts, st.characters(categories=["Mn", "Mc", "Me"])), max_size=100))
def test_marks_in_any_order_have_the_same_ids(text: str) -> None:
    assert LONG.token_ids([text]) == [REFERENCE.encode(text).ids]


def test_the_words_that_are_kept_are_bounded() -> None:
    tokenizer = WordPieceTokenizer(SETTINGS, MAX_TOKENS)
    for first in range(0, 100_000, 1_000):
        tokenizer.token_starts(" ".join(f"w{number}" for number in range(first, first + 1_000)) + " " + "x" * 1_000)
    assert 0 < len(tokenizer._words) <= 32_768
    assert max(map(len, tokenizer._words)) <= 48


def test_another_tokenizer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.json must be of an uncased BERT model"):
        WordPieceTokenizer(SETTINGS.replace(b'"lowercase":true', b'"lowercase":false'), MAX_TOKENS)
