"""Rule-based sentence segmentation in linear time, without a model.

A sentence ends at end punctuation, a blank line, or an intentional line break (list item, table row, heading); a line
break that wraps a long line does not end it. In a language without end punctuation, such as Thai, a paragraph is one
sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ragkit.split.base import CharSpan
from ragkit.split.lines import TextLine, iter_lines, skip_whitespace
from ragkit.split.text_boundaries import splits_grapheme

STOP = re.compile(  # begins with one class, which is looked for quickly
    r"[.!?…‼⁇⁈⁉。！？｡।॥۔؟።។៕]"
    r"(?:(?<=[.!?…‼⁇⁈⁉])[.!?…‼⁇⁈⁉]*[\"'”’»›)\]}*_`]*(?:\[\d{1,3}\])*"  # only before white space
    r"|(?<=[。！？｡])[。！？｡]*[」』”’）】》〉\"')]*"  # anywhere
    r"|(?<=[।॥۔؟።។៕])[।॥۔؟።។៕]*)"
)
_FULLWIDTH_STOPS = frozenset("。！？｡")
_TO_NEXT_WORD = re.compile(r"\s+[\"'“‘«‹(\[{¿¡*_`]*")
_WORD = re.compile(r"\w+")
_NON_WHITESPACE = re.compile(r"\S+")
_DOTTED_LETTERS = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")
_LETTER_AND_STOP = re.compile(r"[^\W\d_]\.")
_SPACED_LETTER = re.compile(r"(?:^|\s)[a-zäöü]\.\s*$")
_OPENING_PUNCTUATION = "\"'“‘«‹([{¿¡*_`"
_MAX_ABBREVIATION_CHARS = 24  # characters that are read before a full stop


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Never end a sentence.
_NON_FINAL_ABBREVIATIONS = _word_set(
    "dr mr mrs ms mx prof st sta ste rev hon gen col capt cmdr lt sgt maj adm gov sen rep pres messrs mme mlle "
    "hr fr dipl ing mag herrn e.g i.e eg ie cf viz vs v.s resp approx ca incl excl esp z.b d.h u.a p.ex i.d.r bzw "
    "vgl ggf evtl sog mt ft al.e bspw bzgl einschl entspr inkl exkl zzgl hrsg mio mrd z.t z.zt u.u v.a m.e s.o s.u "
    "buchst"
)
# Do not end a sentence before a number: "Fig. 3", "no. 7", "Jan. 12".
_NUMBER_ABBREVIATIONS = _word_set(
    "abs abschn anh anl beil buchst erw rn rdnr rz tz uabs unterabs nrn lit alin arts "
    "no nos nr fig figs tab sec sect eq eqs ch chap vol vols p pp art ref refs ex par para ver ed app col ln "
    "jan feb mar apr jun jul aug sep sept oct nov dec abb kap bd s ziff anm aufl str tel"
)
# End a sentence only before one of the words below.
_FINAL_ABBREVIATIONS = _word_set("etc inc ltd co corp jr sr al bros dept est univ assn ave blvd rd hrs min max usw chr")
_SENTENCE_STARTERS = _word_set(
    "a an the this that these those it its he she they we you i his her their our my in on at for from by with "
    "when while if as after before since although though because but and or so yet however then there here what "
    "who why how where no not all some many most each both such its one two also thus hence therefore "
    "der die das ein eine er sie es wir ich ihr und aber doch wenn als nach vor seit weil obwohl daher deshalb dann "
    "dort hier dieser diese dieses"
)
# German writes ordinals with a full stop: "am 3. Oktober", "der 20. Band". After these, or before a month.
_ORDINAL_LEADS = _word_set(
    "der die das dem den des am im vom zum zur beim ab bis seit ein eine einen einem einer jeder jede jedes jeden "
    "erst mein dein sein ihr unser und oder"
)
_MONTHS = _word_set("januar jänner februar märz april mai juni juli august september oktober november dezember")
_MAX_ORDINAL_DIGITS = 3
_MAX_UNKNOWN_ABBREVIATION_CHARS = 3  # letters: "abc. def" is one sentence, "abcd. efgh" is two

_BLOCK_MARKER = re.compile(
    r"[-*+•▪◦‣·–—]\s|\d{1,3}[.)]\s|[A-Za-z][.)]\s|#{1,6}\s|[>|]|`{3}|~{3}|={3}|-{3}|[^|]{1,80} \| "
)
"""The start of a list item, heading, quotation, fence or table row."""
_KEY_VALUE_LINE = re.compile(r"[\w .-]{1,30}:(?:\s|$)|[\w.\[\]-]{1,80}:\s")  # `name: value`
_MIN_WRAPPED_CHARS = 20  # shorter lines are never wrapped
_MIN_WRAPPED_SHARE = 0.4  # of the lines after a long one must continue in lower case
_MIN_WRAPPED_PAIRS = 8  # lines with a next one that tell whether a text is wrapped
_MIN_FILLED_SHARE = 0.9  # of them, in a wrapped text
_MIN_FULL_LINE_CHARS = 60  # a longer line without end punctuation may continue with "name:"
_SHORT_LINE_RATIO = 0.75  # of the usual width: a shorter line with room for the next word ended intentionally
_END_PUNCTUATION = frozenset(".!?…:;,-–—\"'”’)]")
_SENTENCE_END = frozenset(".!?")


def sentence_spans(text: str, width: int = 0) -> list[CharSpan]:
    """The spans of the sentences of `text`, in order.

    Spans are trimmed and do not overlap; every character that is not white space is in exactly one.
    Linear in the length of `text`.

    Args:
        text: any text.
        width: the `wrap_width` of the text that `text` is a part of. Where it is not known, lines are joined only if
            many continue in lower case, as those of German, with its nouns in upper case, may not.
    """
    sentences: list[CharSpan] = []
    for start, end in _text_runs(text, width):
        begin = start
        for stop in STOP.finditer(text, begin, end):
            first, last = stop.span()
            if first > begin and last < end and _ends_sentence(text, stop, begin, end):
                sentences.append((begin, last))
                begin = skip_whitespace(text, last, end)
        if begin < end:
            sentences.append((begin, end))
    return sentences


def _text_runs(text: str, width: int) -> Iterator[CharSpan]:
    """Spans of joined lines: a paragraph of wrapped lines, a list item, a table row."""
    paragraph: list[TextLine] = []
    for line in iter_lines(text):
        if line.after_blank and paragraph:
            yield from _join_wrapped_lines(text, paragraph, width)
            paragraph = []
        paragraph.append(line)
    if paragraph:
        yield from _join_wrapped_lines(text, paragraph, width)


def _join_wrapped_lines(text: str, lines: Sequence[TextLine], width: int) -> Iterator[CharSpan]:
    """The lines of one paragraph, with wrapped lines joined."""
    if len(lines) == 1:
        yield lines[0].text_start, lines[0].end
        return
    continues = _detect_wrapped_lines(text, lines, width)
    start = lines[0].text_start
    for (before, line), joined in zip(pairwise(lines), continues, strict=True):
        if not joined:
            yield start, before.end
            start = line.text_start
    yield start, lines[-1].end


def _detect_wrapped_lines(text: str, lines: Sequence[TextLine], width: int) -> list[bool]:
    """For each line except the first, whether it continues the previous one.

    All False unless many of the lines after a long one continue in lower case, or all are as long as `width` allows.
    """
    candidates = [_is_long(text, before) and not _begins_block(text, before, line) for before, line in pairwise(lines)]
    # the line after a full stop begins a sentence, and tells nothing
    following = [
        line
        for (before, line), is_candidate in zip(pairwise(lines), candidates, strict=True)
        if is_candidate and text[before.end - 1] not in _SENTENCE_END
    ]
    continuing = sum(_may_continue(text[line.text_start : line.end]) for line in following)
    is_wrapped = continuing >= _MIN_WRAPPED_SHARE * len(following) or _fills_width(text, lines, width)
    if not following or not is_wrapped:
        return [False] * len(candidates)
    usual = sorted(line.end - line.text_start for line in lines)[3 * len(lines) // 4]
    pairs = zip(pairwise(lines), candidates, strict=True)
    return [is_candidate and not _ended_early(text, before, line, usual) for (before, line), is_candidate in pairs]


def wrap_width(text: str, lines: Sequence[TextLine]) -> int:
    """The width in characters at which the lines of a text are wrapped; 0 if they are not, or are too few to tell.

    Lines of the most frequent indentation tell: others may be wrapped at a width of their own.
    """
    pairs = [
        (before, line)
        for before, line in pairwise(lines)
        if not line.after_blank and _is_long(text, before) and not _begins_block(text, before, line)
    ]
    indents = [(before.text_start - before.start, line.text_start - line.start) for before, line in pairs]
    [(usual, _), *_] = Counter(both for both in indents if both[0] == both[1]).most_common(1) or [((0, 0), 0)]
    pairs = [pair for pair, both in zip(pairs, indents, strict=True) if both == usual]
    if len(pairs) < _MIN_WRAPPED_PAIRS:
        return 0
    width = sorted(before.end - before.start for before, _ in pairs)[len(pairs) * 19 // 20]
    filled = sum(_is_filled(text, before, line, width) for before, line in pairs)
    return width if filled >= _MIN_FILLED_SHARE * len(pairs) else 0


def _is_filled(text: str, before: TextLine, line: TextLine, width: int) -> bool:
    """Whether a line had no room for the first word of the next one, and is no row of columns."""
    word = _NON_WHITESPACE.match(text, line.text_start, line.end)
    room = width - (line.text_start - line.start) - (before.end - before.text_start) - 1
    return word is not None and word.end() - word.start() > room and "   " not in text[before.text_start : before.end]


def _fills_width(text: str, lines: Sequence[TextLine], width: int) -> bool:
    """Whether all lines but the last are as long as the width allows."""
    return width > 0 and all(_is_filled(text, *pair, width) for pair in pairwise(lines))


def _begins_block(text: str, before: TextLine, line: TextLine) -> bool:
    """Whether a line starts a list item, heading, table row or `name: value` entry."""
    if _BLOCK_MARKER.match(text, line.text_start, line.end):
        return True
    if not _KEY_VALUE_LINE.match(text, line.text_start, line.end):
        return False
    # "... twice a day during observing / periods: before the night": a full line without end punctuation continues
    is_full = before.end - before.text_start >= _MIN_FULL_LINE_CHARS and text[before.end - 1] not in _END_PUNCTUATION
    continues = is_full and text[line.text_start].islower()
    return not continues or _KEY_VALUE_LINE.match(text, before.text_start, before.end) is not None


def _ended_early(text: str, before: TextLine, line: TextLine, width: int) -> bool:
    """Whether `before` is a heading: short, without end punctuation, before a capital letter."""
    head = text[line.text_start]
    if text[before.end - 1] in _END_PUNCTUATION or not (head.isupper() or head.isdecimal()):
        return False
    if text[before.text_start].islower():  # goes on from the line above
        return False
    word = _NON_WHITESPACE.match(text, line.text_start, line.end)
    room = before.end - before.text_start + 1 + (len(word.group()) if word else 0)
    return room < _SHORT_LINE_RATIO * width


def _is_long(text: str, line: TextLine) -> bool:
    """Whether a line is long enough to be wrapped, and not a heading."""
    return line.end - line.text_start >= _MIN_WRAPPED_CHARS and text[line.text_start] != "#"


def _may_continue(line: str) -> bool:
    """Whether a line begins with a lower-case letter, or one of a script without case, or is all in upper case."""
    return line[0].isalpha() and (not line[0].isupper() or line.isupper())


def _ends_sentence(text: str, stop: re.Match[str], begin: int, end: int) -> bool:
    """Whether a sentence that starts at `begin` ends with this punctuation; more text follows before `end`."""
    marks = stop.group()
    if marks[0] in _FULLWIDTH_STOPS:
        return not splits_grapheme(text, stop.end())
    gap = _TO_NEXT_WORD.match(text, stop.end(), end)
    if gap is None:
        return False
    if gap.end() == end:
        return True
    if marks != ".":
        return not text[gap.end()].islower()
    return _full_stop_ends_sentence(text, stop.start(), begin, gap.end())


def _full_stop_ends_sentence(text: str, stop: int, begin: int, following: int) -> bool:
    """`_ends_sentence` for a single full stop; `following` is the offset of the next letter or digit."""
    before = text[max(begin, stop - _MAX_ABBREVIATION_CHARS) : stop]
    if before[-1].isspace():  # "... slipstream . an experimental ...": tokenized text
        return True
    word = before.split()[-1].lstrip(_OPENING_PUNCTUATION)
    known = word.lower().replace("’", "'").rpartition("'")[2]
    head = text[following]
    at_line_start = stop - len(word) == begin
    if known in _NON_FINAL_ABBREVIATIONS or (at_line_start and (word.isdecimal() or len(word) == 1)):
        return False
    if (known in _NUMBER_ABBREVIATIONS and head.isdecimal()) or _is_ordinal(text, before, word, following):
        return False
    if _is_spaced_abbreviation(text, before, word, following):
        return False
    initial = len(word) == 1 and word.isupper()
    if initial or known in _FINAL_ABBREVIATIONS or _DOTTED_LETTERS.fullmatch(word):
        next_word = _WORD.match(text, following, following + _MAX_ABBREVIATION_CHARS)
        return head.isupper() and next_word is not None and next_word.group().lower() in _SENTENCE_STARTERS
    return not head.islower() or len(word) > _MAX_UNKNOWN_ABBREVIATION_CHARS


def _is_spaced_abbreviation(text: str, before: str, word: str, following: int) -> bool:
    """Whether a full stop stands in `z. B.` or `i. d. R.`, or at its end."""
    if len(word) != 1 or not word.isalpha():
        return False
    is_inside = word.islower() and _LETTER_AND_STOP.match(text, following) is not None
    return is_inside or _SPACED_LETTER.search(before[: -len(word)]) is not None


def _is_ordinal(text: str, before: str, word: str, following: int) -> bool:
    """Whether a number with a full stop is a German ordinal: `am 3. Oktober`."""
    next_word = _WORD.match(text, following, following + _MAX_ABBREVIATION_CHARS)
    if next_word is None or len(word) > _MAX_ORDINAL_DIGITS:
        return False
    if next_word.group().lower() in _MONTHS:
        return True
    words = before.split()
    return (
        len(words) > 1 and words[-2].lower() in _ORDINAL_LEADS and next_word.group().lower() not in _SENTENCE_STARTERS
    )
