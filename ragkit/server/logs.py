"""Structured logs: one JSON object a line, with the id of the request that a line belongs to."""

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
    """A record as JSON: time, level, logger, message, request id, whatever was given as `extra`, and the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        found: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        if request := REQUEST_ID.get():
            found["request_id"] = request
        found |= {key: value for key, value in vars(record).items() if key not in _STANDARD_ATTRIBUTES}
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return mask_secrets(json.dumps(found, ensure_ascii=False, default=str))


def log_to_stderr(level: str = "INFO") -> None:
    """Let the logs of ragkit and of uvicorn go to stderr as JSON."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of each word for a client that has left
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("ragkit", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level)
        logger.propagate = False
