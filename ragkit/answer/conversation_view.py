"""The passages of a conversation as the model sees them: each one once, in prompts that fit the model's window."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ragkit.agent.loop.context_window import leave_out_results, with_content
from ragkit.agent.messages import Message, Role
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
