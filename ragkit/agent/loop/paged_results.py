"""Long tool results: the model gets the first page and a tool that returns the others."""

from __future__ import annotations

from collections import OrderedDict

from ragkit.agent.tools.base import Tool
from ragkit.errors import RagkitError

READ_TOOL = "read_tool_result"
MAX_PAGED_CHARS = 2_000_000
"""Characters of all long results of a run together: the oldest results are dropped first, a longer one is cut off."""


class PageNotFound(RagkitError):
    """There is no such result or page. The message is for the model."""


class PagedResults:
    """The long tool results of one run, in memory, at most MAX_PAGED_CHARS characters."""

    def __init__(self, page_chars: int) -> None:
        self._page_chars = page_chars
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._count = 0
        self.tool = Tool.from_function(self.read_tool_result)
        """Offered to the model as soon as there is a long result."""

    def add(self, text: str, chars: int) -> str:
        """Keep a text, whose original has `chars` characters. Returns its first page."""
        self._count += 1
        result_id = f"result_{self._count}"
        self._texts[result_id] = text
        while sum(map(len, self._texts.values())) > MAX_PAGED_CHARS:
            self._texts.popitem(last=False)
        return self._read_page(result_id, 1, chars)

    def read_tool_result(self, result_id: str, page: int) -> str:
        """Read another page of a tool result that is too long for one message.

        Args:
            result_id: the id that the first page names.
            page: counted from 1.
        """
        if result_id not in self._texts:
            known = ", ".join(self._texts) or "none"
            raise PageNotFound(f"unknown result {result_id!r} (known: {known}): call its tool again")
        return self._read_page(result_id, page, len(self._texts[result_id]))

    def _read_page(self, result_id: str, page: int, chars: int) -> str:
        text = self._texts[result_id]
        pages = -(-len(text) // self._page_chars)
        if not 1 <= page <= pages:
            raise PageNotFound(f"page must be between 1 and {pages} (got {page})")
        start = (page - 1) * self._page_chars
        cut = f", the first {len(text)} are kept" if chars > len(text) else ""
        more = f"; for other pages call {READ_TOOL} with result_id {result_id!r}" if pages > 1 else ""
        return f"{text[start : start + self._page_chars]}\n[page {page} of {pages}, {chars} characters{cut}{more}]"
