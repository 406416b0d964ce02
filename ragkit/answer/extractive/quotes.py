"""The quotes that an answer without a model consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragkit.answer.confidence import MIN_PASSAGES
from ragkit.answer.extractive.composition import AnswerPassage
from ragkit.answer.outcome import Outcome
from ragkit.records import Hit


@dataclass(frozen=True)
class Quote:
    """A passage of an answer and its citation number."""

    n: int
    hit: Hit
    passage: AnswerPassage


@dataclass(frozen=True)
class ExtractiveAnswer:
    """The quotes that an answer consists of."""

    quotes: tuple[Quote, ...]
    abstained: bool
    query: str = ""
    """The question as searched: completed by the previous one, its spelling corrected; '' if nothing was searched."""
    evidence: float = 0.0
    """Estimated probability that the answer is right, in [0, 1]; the mean over the parts of a question."""

    @property
    def outcome(self) -> Outcome:
        """An answer; or the closest passages, if they may hold one; or that the documents do not."""
        if not self.abstained:
            return Outcome.ANSWERED
        return Outcome.PASSAGES if self.quotes and self.evidence >= MIN_PASSAGES else Outcome.NOT_IN_DOCUMENTS


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The answer to a question about whole documents."""

    lines: tuple[tuple[str, int], ...]
    """Each line of the text, with the number of the quote that it ends with, from 1; 0 for none."""
    quoted: ExtractiveAnswer
    over_all: bool
    """Whether it counts or names documents that it does not quote."""

    def numbered(self, offset: int = 0) -> tuple[str, ExtractiveAnswer]:
        """The text and its quotes, numbered on from `offset`."""
        quotes = tuple(replace(quote, n=quote.n + offset) for quote in self.quoted.quotes)
        return self.text({quote.n - offset: quote.n for quote in quotes}), replace(self.quoted, quotes=quotes)

    def text(self, numbers: Mapping[int, int]) -> str:
        """The text, with these numbers for those of the quotes; a quote without one has no mark."""
        lines: list[str] = []
        for line, n in self.lines:
            if lines and lines[-1].startswith("- ") and not line.startswith("- "):
                lines.append("")  # Markdown reads a line below a list as part of its last item
            lines.append(f"{line} [{numbers[n]}]" if n in numbers else line)
        return "\n".join(lines)

    @property
    def hits(self) -> list[Hit]:
        """The passages of the quotes, each once."""
        return list({quote.hit.chunk.id: quote.hit for quote in self.quoted.quotes}.values())

    def tool_text(self, numbers: Mapping[str, int], blocks: Sequence[str]) -> str:
        """The result of a tool for a model: passages, then the text with their numbers.

        Args:
            numbers: the number of each passage that is shown, by the id of its chunk.
            blocks: these passages as text.
        """
        ids = ((quote.n, quote.hit.chunk.id) for quote in self.quoted.quotes)
        shown = {n: numbers[chunk_id] for n, chunk_id in ids if chunk_id in numbers}
        return "\n\n".join([*blocks, f"Looked up:\n{self.text(shown)}"])
