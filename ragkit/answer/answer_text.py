"""The text of a model's answer as people see it, whole and while it streams.

Taken out are the mark of an abstention, citation numbers that were never shown to the model, links that stand in no
passage, and lines that only mark the passages. A number before its statement, as small models write it, moves behind
it. Both ways give the same text: what may still become one of these is held back from a stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from ragkit.agent.events import (
    Event,
    IterationEnded,
    ModelCallStarted,
    Retrying,
    RunEnded,
    TextChunk,
    ToolEnded,
    ToolStarted,
)
from ragkit.agent.messages import Message
from ragkit.answer.link_sanitizer import sanitize_links
from ragkit.answer.outcome import NOT_FOUND_MARK, is_data_tag, may_become_not_found_mark, place_lines, without_mark
from ragkit.answer.passages import RetrievedPassages
from ragkit.records import Hit

_CITATION = re.compile(
    r"(?:(?<![ \t])[ \t]++)?(?:\[(\d{1,4}(?:\s{0,9}[,;]\s{0,9}\d{1,4}){0,99})\]|【(\d{1,4})[^】\n]{0,30}】)"
)
"""`[1]`, `[1, 2]`, or `【1】` and `【1†source】`, as some models write them; with the space before it."""
_LEADING_CITATION = re.compile(r"[ \t]{0,9}\[(\d{1,3})\][ \t]{1,9}(?=[^\s\[])")
"""A number before a statement that begins a line."""
_MAY_LEAD = re.compile(r"[ \t]{0,9}\[\d{1,3}\][ \t]{0,9}\Z")
_LATER_MARK = re.compile(rf"{re.escape(NOT_FOUND_MARK)}[.:]? ?", re.IGNORECASE)
_MAX_HELD_WORD = 20
"""Characters of a word that may begin a URL: a few more than the longest scheme; see `_HELD`."""
_MARKUP = re.compile(r"[:/<>\"'(=!\[\]【】]")
"""What citations, links and marks are made of."""
_HELD = re.compile(
    r"""(?:
      [<"'](?:[a-z][a-z0-9+.-]{0,15})?(?::(?:/(?:/[^<>"'\n]*[>"']?)?)?)?   # a quoted URL, which may hold spaces
    | [<"']/(?:/[^<>"'\n]*[>"']?)?
    | (?<![a-z0-9])[a-z][a-z0-9+.-]{0,19}+(?::[^\s<>]*+)?            # a bare one, or the word that may begin it
    | [(=](?:/[^\s<>]*+)?
    | (?<=\]):[ ]?(?:/[^\s<>]*+)?                                    # the definition of a link
    | [ \t]*!(?:\[(?:\d{1,3}\]?)?)?                                        # an image
    | [ \t]*!?\[[\d,;\s]*+ | [ \t]*【[^】\n]{0,33}                    # a citation
    | [ \t]*!?\[[a-z ]{0,17}(?:\][.:]?)?                             # the mark of an abstention
    | [ \t]+
    )\Z""",
    re.IGNORECASE | re.VERBOSE,
)
"""The end of a line that later characters may change."""
_OPEN_QUOTED_URL = re.compile(r"[<\"'][^<>\"']*//[^<>\"']*\Z")
_INSIDE_WORD = re.compile(r"[a-z0-9]{17}(?=[a-z0-9])", re.IGNORECASE)
"""A place where no URL can begin on one side and end on the other: its scheme has at most 16 characters."""
_MAX_PENDING_CHARS = 150
"""Characters of an unfinished line that are read again for each chunk; more are forgotten at a space."""
_MAX_LINE_CHARS = 4_096
"""More characters without such a space are divided within a word."""


class AnswerText:
    """Cleans the text of one answer, line by line.

    Args:
        known: texts whose links may be shown.
        numbers: the citation numbers that were shown; None: the text is data for a program, only links are cleaned.
        places: the lines above the passages that were shown.
    """

    def __init__(self, known: Iterable[str], numbers: Collection[int] | None, places: Collection[str] = ()) -> None:
        self._known, self._numbers, self._places = list(known), numbers, places
        self._at_start = numbers is not None
        self._is_code = False
        """Whether the line is in a block of code, or the answer is JSON: brackets are then no citations."""
        self._line = ""
        """The line so far, from its last settled place on."""
        self._has_open_backtick = False
        self._is_line_start = True
        self._leading = ""
        """The number that stood before the line, to be put behind it, with the space before it."""
        self._has_number = False
        """Whether a number stands within the line."""
        self._emitted = ""
        """The cleaned part of `_line` that was returned."""
        self.unknown: list[int] = []
        """The citation numbers that were taken out, in order."""

    def feed(self, text: str) -> str:
        """Add a chunk; returns the text to show now."""
        self._line += text
        if self._at_start and not self._skip_mark():
            return ""
        shown = ""
        self._take_leading_number()
        while "\n" in self._line:
            line, _, rest = self._line.partition("\n")
            if not self._is_mark(line):
                shown += self._end_line(line) + "\n"
            self._line, self._emitted, self._is_line_start, self._has_open_backtick = rest, "", True, False
            self._take_leading_number()
        settled = self._find_settled()
        cleaned = self._clean(self._line[:settled])[0]
        # a quote that ends a link may seem to begin another one: the text that is there must not change
        if cleaned.startswith(self._emitted) and self._clean(self._line)[0].startswith(cleaned):
            shown += cleaned[len(self._emitted) :]
            self._emitted = cleaned
            if len(self._line) > _MAX_PENDING_CHARS:
                self._forget(settled)
        if len(self._line) > _MAX_LINE_CHARS:
            shown += self._divide()
        return shown

    def flush(self) -> str:
        """The held text, at the end of the answer."""
        if self._at_start:
            self._at_start, self._line = False, without_mark(self._line)
            self._take_leading_number()
        shown = "" if self._is_mark(self._line) else self._end_line(self._line)
        self._line = self._emitted = ""
        return shown

    def _take_leading_number(self) -> None:
        """Take the number from the start of a line that has begun with one."""
        if self._is_line_start and not (self._leading or self._emitted or self._is_code or self._may_be_mark()):
            number = _LEADING_CITATION.match(self._line)
            if number and int(number[1]) in (self._numbers or ()):
                places = (place for place in self._places if self._line.startswith(place))
                self._leading = f" [{int(number[1])}]"
                self._line = self._line[len(next(places, number[0])) :].lstrip(" \t:")
                self._has_number = False

    def _is_mark(self, line: str) -> bool:
        """Whether a line only marks a passage that was shown: its place, or the end of all."""
        if self._numbers is None or self._is_code or not self._is_line_start:
            return False
        return line.strip() in self._places or is_data_tag(line)

    def _may_be_mark(self) -> bool:
        """Whether the line may become such a mark."""
        line = self._line.partition("\n")[0].strip()
        if self._is_code or self._numbers is None or line[:1] not in ("[", "<"):
            return False
        is_tag = line.startswith(("<data", "</data")) or "</data".startswith(line) or "<data".startswith(line)
        return is_tag or any(place.startswith(line) for place in self._places)

    def _end_line(self, line: str) -> str:
        """The rest of a line, with the number that stood before it if no other stands in it."""
        shown = self._finish_line(line)
        if self._leading and not self._has_number:
            shown = shown.rstrip(" \t") + self._leading
        self._leading, self._has_number = "", False
        return shown

    def _find_settled(self) -> int:
        """Length of the part of the line that later characters cannot change."""
        start = 0
        is_untouched = self._is_line_start and not (self._leading or self._emitted)
        if is_untouched and (_MAY_LEAD.match(self._line) or self._may_be_mark()):
            return 0
        if not _MARKUP.search(self._line):  # only its last word and the spaces after it can be held
            start = max(0, len(self._line.rstrip(" \t")) - 2 * _MAX_HELD_WORD)
        held = _HELD.search(self._line, start)
        return held.start() if held else len(self._line)

    def _skip_mark(self) -> bool:
        """Take the mark of an abstention from the start. Whether the answer has begun."""
        if may_become_not_found_mark(self._line):
            return False
        self._line, self._at_start = without_mark(self._line), False
        self._is_code = self._line.lstrip()[:1] == "{"
        return True

    def _finish_line(self, line: str) -> str:
        cleaned, unknown = self._clean(line)
        self.unknown += unknown
        if self._is_line_start and line.lstrip().startswith("```"):
            self._is_code = not self._is_code
        return cleaned[len(self._emitted) :]

    def _forget(self, settled: int) -> None:
        """Begin anew at the last space before `settled`, where neither a link nor a citation can be open."""
        place = self._line.rfind(" ", 0, settled)
        if (
            place <= 0
            or self._line[place - 1] in ": \t"
            or _OPEN_QUOTED_URL.search(self._line, max(0, place - _MAX_LINE_CHARS), place)
        ):
            return
        before, after = self._line[:place], self._line[place:]
        cleaned, unknown = self._clean(before)
        if not self._emitted.startswith(cleaned):
            return
        self.unknown += unknown
        self._has_open_backtick ^= before.count("`") % 2 == 1
        self._line, self._emitted, self._is_line_start = after, self._emitted[len(cleaned) :], False

    def _divide(self) -> str:
        """Settle a line that has no space to forget at; the text to show."""
        tail = max(0, len(self._line) - _MAX_LINE_CHARS // 2)
        places = [match.end() for match in _INSIDE_WORD.finditer(self._line, tail)]
        before, self._line = (self._line[: places[-1]], self._line[places[-1] :]) if places else (self._line, "")
        cleaned, unknown = self._clean(before)
        self.unknown += unknown
        shown = cleaned[len(self._emitted) :]
        self._has_open_backtick ^= before.count("`") % 2 == 1
        self._emitted, self._is_line_start = self._emitted[len(cleaned) :], False
        return shown

    def _clean(self, line: str) -> tuple[str, list[int]]:
        """A line, and the citation numbers that were taken out of it."""
        unknown: list[int] = []
        if self._numbers is not None and not self._is_code and ("[" in line or "【" in line):
            line = _CITATION.sub(lambda match: self._known_citations(match, unknown), _LATER_MARK.sub("", line))
        has_link = ":" in line or "//" in line or "![" in line
        return sanitize_links(line, self._known) if has_link else line, unknown

    def _known_citations(self, match: re.Match[str], unknown: list[int]) -> str:
        """A citation with its known numbers only; in inline code, as it is."""
        if (match.string.count("`", 0, match.start()) % 2 == 1) != self._has_open_backtick:
            return match[0]
        numbers = [int(number) for number in re.findall(r"\d+", match[1] or match[2])]
        shown = [number for number in numbers if number in (self._numbers or ())]
        unknown += [number for number in numbers if number not in shown]
        self._has_number |= bool(shown)
        space = match[0][: len(match[0]) - len(match[0].lstrip())]
        return f"{space}[{', '.join(map(str, shown))}]" if shown else ""


def clean_answer(
    text: str, known: Iterable[str], numbers: Collection[int] | None, places: Collection[str] = ()
) -> tuple[str, list[int]]:
    """The text of a whole answer, and the distinct citation numbers that were taken out; see AnswerText."""
    cleaner = AnswerText(known, numbers, places)
    cleaned = cleaner.feed(text) + cleaner.flush()
    return cleaned, list(dict.fromkeys(cleaner.unknown))


class AnswerStream:
    """The text of an answer while its run streams: each event gives the text to show now.

    Args:
        question: its links may be shown.
        earlier: messages of the conversation whose passages the model may cite.
        cleans: whether to clean at all: quotes of the documents are shown as they are.
        is_data: whether the answer is data for a program, with a `response_format`.
    """

    def __init__(
        self, question: str, earlier: Sequence[Message] = (), *, cleans: bool = True, is_data: bool = False
    ) -> None:
        self._known, self._numbers, self._places = [question], set[int](), set[str]()
        self._cleans, self._is_data = cleans, is_data
        self._text: AnswerText | None = None
        for message in earlier:
            self._add_passages(message.data)

    def add(self, event: Event) -> str:
        """The text to show after an event; often empty."""
        if isinstance(event, TextChunk):
            if not self._cleans:
                return event.text
            if self._text is None:
                numbers = None if self._is_data else frozenset(self._numbers)
                self._text = AnswerText(self._known, numbers, frozenset(self._places))
            return self._text.feed(event.text)
        if isinstance(event, Retrying) and event.discard_text:
            self._text = None
        elif isinstance(event, ToolEnded):
            self._add_passages(event.data)
        elif isinstance(event, ModelCallStarted | ToolStarted | IterationEnded | RunEnded) and self._text is not None:
            text, self._text = self._text.flush(), None
            return text
        return ""

    def _add_passages(self, data: object) -> None:
        if isinstance(data, RetrievedPassages):
            self._numbers.update(data.numbers)
            self._known += passage_texts(data.hits)
            self._places |= place_lines(data.blocks.values())


class RestartableOutput:
    """Passes on streamed text that may begin again, without repeating words that were passed on.

    Args:
        on_text: receives the text; None: nobody does.
        on_restart: called before the new text if it is not what was passed on.
    """

    def __init__(self, on_text: Callable[[str], None] | None, on_restart: Callable[[], None] | None) -> None:
        self._on_text, self._on_restart = on_text, on_restart
        self._shown = ""
        """The text of the current request to the model that was passed on."""
        self._repeated: str | None = None
        """The text since the restart while it repeats `_shown`; None: there was no restart."""

    def write(self, text: str) -> None:
        """Pass on a chunk."""
        if self._on_text is None or not text:
            return
        if self._repeated is not None:
            self._repeated += text
            if self._shown.startswith(self._repeated):
                return
            text = self._end_repetition(self._repeated)
        self._shown += text
        self._on_text(text)

    def restart(self) -> None:
        """The request is sent again: the chunks that follow begin it anew."""
        self._repeated = ""

    def end_part(self) -> None:
        """The request to the model has ended, and its text is complete."""
        if self._repeated is not None and self._on_text is not None and self._repeated != self._shown:
            self._on_text(self._end_repetition(self._repeated))
        self._shown, self._repeated = "", None

    def _end_repetition(self, text: str) -> str:
        """The part of the text since the restart that is to be passed on."""
        self._repeated = None
        if text.startswith(self._shown):
            return text[len(self._shown) :]
        if self._on_restart is not None:
            self._on_restart()
        self._shown = ""
        return text


def passage_texts(hits: Iterable[Hit]) -> list[str]:
    """The texts whose links an answer may repeat."""
    return [hit.chunk.text for hit in hits]
