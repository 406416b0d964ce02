"""The commands of `ragkit chat`, such as `/help`."""

from __future__ import annotations

import re
from enum import Enum, auto

HELP = """\
Ask a question about the documents. A further question may refer to the one before: "And how do I undo that?"
  /help          this text
  /exit, /quit   end the conversation; exit, quit, an empty line and Ctrl-D do too"""
_COMMAND = re.compile(r"/([\w?-]*)(?:\s|$)")
_HELP_WORDS = ("help", "?", "")
_END_WORDS = ("exit", "quit")


class ChatAction(Enum):
    """What a line of a conversation asks for."""

    ASK = auto()
    CONTINUE = auto()
    END = auto()


def read_command(line: str) -> tuple[ChatAction, str]:
    """What to do after a line, and what to print first ('' for nothing)."""
    if line.lower() in _END_WORDS:
        return ChatAction.END, ""
    command = _COMMAND.match(line)
    if command is None:  # a path such as /etc/hosts begins a question
        return ChatAction.ASK, ""
    name = command[1].lower()
    if name in _END_WORDS:
        return ChatAction.END, ""
    if name in _HELP_WORDS:
        return ChatAction.CONTINUE, HELP
    return ChatAction.CONTINUE, f"unknown command /{command[1]}: the commands are /help, /exit and /quit"
