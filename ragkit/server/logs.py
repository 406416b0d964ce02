"""Structured logs with the request id: one JSON object per line, or plain text on a terminal."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections import OrderedDict
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType

from ragkit.masking import mask_secrets

LOG = logging.getLogger("ragkit.server")
REQUEST_ID: ContextVar[str] = ContextVar("ragkit_request_id", default="")
_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


LINES_PER_MINUTE = 1200
"""Maximum lines in the log for the requests of one client."""
WARNINGS_PER_MINUTE = 20
"""Maximum lines of one other message for one client."""
MAX_KEYS = 1000
"""Messages and clients whose lines are counted."""
MAX_FIELD_CHARS = 8_000
"""Longer messages lose their end, and longer tracebacks their beginning."""


class RateLimit(logging.Filter):
    """Bounds the log: of one message for one client, a limited number of lines per minute is written.

    The next line of the same message and client has the number of those that were dropped, as `dropped`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._counts: OrderedDict[tuple[str, str, str], list[float]] = OrderedDict()
        """Logger, message and client -> the minute, its lines, and the dropped lines of earlier minutes."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Count a record. False: drop it."""
        key = (record.name, str(record.msg), str(getattr(record, "client", "")))
        is_request = record.levelno <= logging.INFO
        minute = record.created // 60
        count = self._counts.setdefault(key, [minute, 0, 0])
        if count[0] != minute:
            count[:2] = [minute, 0]
        self._counts.move_to_end(key)
        if len(self._counts) > MAX_KEYS:
            self._counts.popitem(last=False)
        if count[1] >= (LINES_PER_MINUTE if is_request else WARNINGS_PER_MINUTE):
            count[2] += 1
            return False
        count[1] += 1
        if count[2]:
            record.dropped = int(count[2])
            count[2] = 0
        return True


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON: time, level, logger, message, request id, `extra` fields and traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON, with secrets masked."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:MAX_FIELD_CHARS],
            "pid": record.process,
        } | _own_fields(record)
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)[-MAX_FIELD_CHARS:]
        return mask_secrets(json.dumps(fields, ensure_ascii=False, default=str))


class TextFormatter(logging.Formatter):
    """Formats a record for a person at a terminal: `14:03:39 request: method=GET path=/ status=200`."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, with secrets masked, and its traceback below."""
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f" {record.levelname.lower()}"
        message = "".join(c if c.isprintable() else "\ufffd" for c in record.getMessage()[:MAX_FIELD_CHARS])
        own = {key: _quoted(value) for key, value in _own_fields(record).items() if str(value) not in message.split()}
        fields = " ".join(f"{key}={value}" for key, value in own.items())
        trace = f"\n{self.formatException(record.exc_info)[-MAX_FIELD_CHARS:]}" if record.exc_info else ""
        return mask_secrets(f"{time}{level} {message}{': ' if fields else ''}{fields}{trace}")


def _own_fields(record: logging.LogRecord) -> dict[str, object]:
    """The request id, and the `extra` fields of a record; not those that packages add to every record."""
    request = {"request_id": REQUEST_ID.get()} if REQUEST_ID.get() else {}
    own = {key: value for key, value in vars(record).items() if key not in _STANDARD_ATTRIBUTES and key[:1] != "_"}
    return request | own


def _quoted(value: object) -> str:
    """A value, in quotes if it has blanks, `=`, quotes or control characters."""
    text = str(value)
    is_plain = text and text.isprintable() and not any(c in text for c in ' ="')
    return text if is_plain else json.dumps(text)


def log_to_stderr(level: str = "INFO") -> None:
    """Send the logs of ragkit, uvicorn and asyncio to stderr, bounded by RateLimit: as JSON, on a terminal as text."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if sys.stderr.isatty() else JsonFormatter())
    handler.addFilter(RateLimit())
    for name in ("ragkit", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        # asyncio warns about every write to a closed connection
        logger.setLevel("ERROR" if name == "asyncio" else level)
        logger.propagate = False


def log_everything(level: str = "INFO") -> None:
    """As `log_to_stderr`; also warnings of other packages, and exceptions that nothing handles, of all threads."""
    log_to_stderr(level)
    root = logging.getLogger()
    root.handlers[:] = logging.getLogger("ragkit").handlers
    root.setLevel("WARNING")
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda args: _log_uncaught(args.exc_type, args.exc_value, args.exc_traceback)


def _log_uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if error is not None and not isinstance(error, SystemExit):
        LOG.error("an exception was not handled", exc_info=(kind, error, trace))
