"""Structured logs: one JSON object per line, with the request id."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

from ragkit.masking import mask_secrets

REQUEST_ID: ContextVar[str] = ContextVar("ragkit_request_id", default="")
_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON: time, level, logger, message, request id, `extra` fields and traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON, with secrets masked."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        if request := REQUEST_ID.get():
            fields["request_id"] = request
        fields |= {key: value for key, value in vars(record).items() if key not in _STANDARD_ATTRIBUTES}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return mask_secrets(json.dumps(fields, ensure_ascii=False, default=str))


def log_to_stderr(level: str = "INFO") -> None:
    """Send the logs of ragkit, uvicorn and asyncio to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("ragkit", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        # asyncio warns about every write to a closed connection
        logger.setLevel("ERROR" if name == "asyncio" else level)
        logger.propagate = False
