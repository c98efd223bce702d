"""The log of a service: who did what, and what failed; for people, or a JSON object a line."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InvalidInput
from influential_bandits.live.events import encode

log = logging.getLogger("influential_bandits.live")
access = log.getChild("access")  # every request
audit = log.getChild("audit")  # what admins did, who logged in, and who was turned away

FORMS = ("text", "json")


class Lines(logging.Formatter):
    """A line for each entry: what happened, and the facts of it.

    Examples
    --------
    >>> entry = logging.makeLogRecord({"levelname": "INFO", "msg": "request", "created": 0.0})
    >>> entry.facts = {"path": "/v1/keys", "status": 200}
    >>> print(Lines("text").format(entry))
    1970-01-01T00:00:00Z INFO request path="/v1/keys" status=200
    """

    def __init__(self, form: str) -> None:
        super().__init__()
        self._is_json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        """Return an entry as a line; no text within can begin another one."""
        facts: dict[str, Any] = dict(getattr(record, "facts", {}))
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        head = {"at": at, "level": record.levelname, "message": record.getMessage()}
        if self._is_json:
            return encode(
                head | {"logger": record.name, "process": record.process} | facts
            ).decode()
        message = head["message"].replace("\n", "\\n")
        pairs = [f"{name}={encode(value).decode()}" for name, value in facts.items()]
        return " ".join([at, record.levelname, message, *pairs])


def set_up(form: str = "text", *, every_request: bool = False) -> None:
    """Have the log written to standard error."""
    if form not in FORMS:
        raise InvalidInput(f"log_format is one of {', '.join(FORMS)}, got {abbreviate(form)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(form))
    for logger, level in ((log, logging.INFO), (logging.getLogger("uvicorn"), logging.WARNING)):
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    access.setLevel(logging.INFO if every_request else logging.WARNING)
