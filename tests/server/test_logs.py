"""Lines of the log for people at a terminal."""

from __future__ import annotations

import logging
import re
import sys

import pytest

from ragkit.server.logs import REQUEST_ID, JsonFormatter, TextFormatter, log_to_stderr


def record(message: str, level: int = logging.INFO, **fields: object) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, "levelno": level, "levelname": logging.getLevelName(level), **fields})


def test_a_line_for_people_has_time_message_and_fields() -> None:
    token = REQUEST_ID.set("r1")
    line = TextFormatter().format(record("request", method="GET", path="/a b", status=200))
    REQUEST_ID.reset(token)
    assert re.fullmatch(r'\d\d:\d\d:\d\d request: request_id=r1 method=GET path="/a b" status=200', line)


def test_other_levels_are_named_and_tracebacks_stand_below() -> None:
    try:
        raise ValueError("no room")
    except ValueError:
        line = TextFormatter().format(record("failed", logging.ERROR, exc_info=sys.exc_info()))
    first, *trace = line.splitlines()
    assert first.endswith(" error failed")
    assert trace[-1] == "ValueError: no room"


def test_clients_write_no_control_characters_to_the_terminal() -> None:
    line = TextFormatter().format(record("a\x1b[2Jb\nc", path="/\x1b]0;x\x07\n12:00:00 error forged"))
    assert line.isprintable()
    assert line.count("\n") == 0


def test_what_packages_add_to_every_record_is_left_out() -> None:
    assert TextFormatter().format(record("request", _stamp=1)).endswith(" request")


def test_secrets_are_masked() -> None:
    line = TextFormatter().format(record("sent", address="postgresql://anna:hunter22@host/db"))
    assert "postgresql://anna:(hidden)@host/db" in line


def test_fields_that_the_message_has_are_not_repeated() -> None:
    line = TextFormatter().format(record("GET / 200", method="GET", path="/", status=200, seconds=0.1))
    assert line.endswith(" GET / 200: seconds=0.1")


@pytest.mark.parametrize(("is_terminal", "kind"), [(True, TextFormatter), (False, JsonFormatter)])
def test_the_log_is_text_on_a_terminal_and_json_elsewhere(
    is_terminal: bool, kind: type[logging.Formatter], monkeypatch: pytest.MonkeyPatch
) -> None:
    loggers = [logging.getLogger(name) for name in ("ragkit", "uvicorn", "asyncio")]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    log_to_stderr()
    (handler,) = loggers[0].handlers
    assert type(handler.formatter) is kind
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)
