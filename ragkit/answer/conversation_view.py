"""The passages of a conversation as the model sees them: each one once, in prompts that fit the model's window."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ragkit.agent.loop.context_window import leave_out_results, with_content
from ragkit.agent.messages import Message, Role
from ragkit.answer.extractive.answer import searched_for
from ragkit.answer.passages import RetrievedPassages

LEFT_OUT = "These passages are left out to save room; search again to read them:"


def show_passages(messages: Sequence[Message], left_out: Collection[int]) -> list[Message]:
    """The messages of a conversation as the model sees them: each passage stands in it once, where it comes first.

    Later results name its number only, unless they show other extracts of it. A result to leave out names its passages,
    whose texts then stand in the next result that has them. Texts are only taken out, so that what a guardrail has
    changed stays changed.
    """
    shown: set[int] = set()
    result = leave_out_results(messages, left_out)
    for index, message in enumerate(messages):
        data = message.data
        if message.role is not Role.TOOL or not isinstance(data, RetrievedPassages) or not data.blocks:
            continue
        if index in left_out:
            names = (block.partition("\n")[0] for block in data.blocks.values())
            result[index] = with_content(message, "\n".join([LEFT_OUT, *names]))
            continue
        content = message.content
        for n, block in data.blocks.items():
            if n in shown and block in content and not data.are_extracts:
                content = content.replace(block, f"[{n}] (shown above)", 1)
            if not data.are_extracts:
                shown.add(n)
        if content is not message.content:
            result[index] = with_content(message, content)
    return result


def show_extracts(messages: Sequence[Message], left_out: Collection[int]) -> list[Message]:
    """The messages of a conversation as a model on this machine sees them.

    Small models answer from passages of earlier questions as if they were those of the last one. What the first
    searches of earlier questions have found is left out, and below a question that refers to them stands what was
    searched for in its place.
    """
    result = leave_out_results(messages, left_out)
    last = max((i for i, message in enumerate(messages) if message.role is Role.USER), default=0)
    found = {call.id for message in messages[:last] if message.is_opening for call in message.tool_calls}
    for index, message in enumerate(messages[:last]):
        if message.role is Role.TOOL and message.tool_call_id in found:
            result[index] = with_content(message, "")
    opening = messages[last + 1] if last + 1 < len(messages) else None
    is_follow_up = any(message.role is Role.USER for message in messages[:last])
    if is_follow_up and opening is not None and opening.is_opening:
        question = result[last].content
        query = searched_for(str(opening.tool_calls[0].arguments.get("query", "")), question)
        result[last] = with_content(result[last], f"{question}\n({query})" if query else question)
    return result
