"""The search before the first request to a model: an answer over documents begins with what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragkit.agent.messages import Message, ToolCall
from ragkit.answer.base import Searchable
from ragkit.answer.extractive.provider import plan_search
from ragkit.answer.extractive.small_talk import reply_to_small_talk
from ragkit.records import Where


@dataclass(frozen=True, slots=True)
class FirstSearch:
    """The opening of an agent over documents: a search for the last question, made standalone."""

    documents: Searchable
    where: Where = None
    """The filter of the searches."""

    def __call__(self, messages: Sequence[Message]) -> list[ToolCall]:
        """The call of `search_knowledge_base`; none for greetings and thanks, and without a question.

        Raises:
            KnowledgeBaseError: the documents cannot be searched.
        """
        question = messages[-1].content
        if not question.strip() or reply_to_small_talk(question):
            return []
        with self.documents.session() as searcher:
            planned = plan_search(messages, searcher, self.where)
        return [planned.call(planned.query)]
