"""Logs: readable, coloured lines on a terminal, one JSON object a line anywhere else.

Purpose: set up structlog and the standard library's logging once, so that the hub's own lines and those of its
libraries (asyncio, websockets) pass the same filter and have the same form.

```
log.info("connected", peer=...)  --structlog-->  logging  --RateLimit-->  one handler  --form-->  OutputQueue --> stderr
asyncio, websockets ...          ------------->     ^
```

Owner of the state: the process; `configure` may be called again (SIGHUP) and replaces what it set.

Invariants: what a far side sends cannot forge a line or steer a terminal: in text, whatever does not print is escaped
and tracebacks are indented; JSON is ASCII. A value is bounded, and so is the number of lines a second of each event.
Lines dropped for that are counted and told.

Cost: about 40 µs a line, 12 µs one that the limit drops, 3 µs one below the level; whoever may log a million times a
second asks `RateLimit.admit` first.

Not here: how many lines are too many (`peers.daemon.rate_limit`), how values are bounded (`peers.daemon.log_values`),
what becomes of lines that nobody reads (`peers.daemon.output_queue`), files and rotation (the service manager's
business).
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

import structlog
from structlog.dev import Column, ConsoleRenderer, KeyValueColumnFormatter, LogLevelColumnFormatter
from structlog.stdlib import BoundLogger, LoggerFactory, ProcessorFormatter, filter_by_level
from structlog.typing import EventDict, Processor, WrappedLogger

from hub.settings.log import LogSettings
from peers.daemon.log_values import VALUE_CHARACTERS, bounded, escaped, shortened
from peers.daemon.output_queue import OutputQueue
from peers.daemon.rate_limit import RateLimit
from peers.node.log_statistics import LogStatistics

__all__ = ["configure", "log_statistics", "report_suppressed"]

_HANDLER_NAME = "topichub"

_OWN_LOGGERS = ("hub", "peers")

_TALKATIVE_LOGGERS = ("websockets",)
"""Libraries whose lines of level debug hold whole requests and messages, and so tokens and `Authorization`."""

_NAME_CHARACTERS = 200
"""How much of an event tells it from others."""

_TRACEBACK_CHARACTERS = 32_768
"""How much of a traceback is shown."""


def configure(
    settings: LogSettings,
    stream: TextIO | None = None,
    limit: RateLimit | None = None,
    clock: Callable[[], float] = time.monotonic,
    environ: Mapping[str, str] | None = None,
) -> RateLimit:
    """Send all logs of this process to `stream`, in the form and from the level that the settings say.

    Libraries are heard from "warning" up, unless the level is "debug"; what a client has sent is not shown even then,
    because it may hold secrets. Lines of level debug are not limited in rate: whoever asks for them wants all of them.

    Args:
        settings: Level and form, and how much a queue holds.
        stream: Where the lines go; None for standard error. A queue tells in the same form what it drops.
        limit: The limit to obey; None for one of the usual size. At a reload it is the one in force, else what that has
            counted is not told.
        clock: Returns seconds, and never goes back.
        environ: NO_COLOR in it turns colours off (no-color.org); the environment of the process if None.

    Returns:
        The limit in force, for `report_suppressed`.
    """
    stream = sys.stderr if stream is None else stream
    limit = RateLimit() if limit is None else limit
    environ = os.environ if environ is None else environ
    terminal = stream.isatty()
    text = settings.format == "text" or (settings.format == "auto" and terminal)
    handler = logging.StreamHandler(stream)
    handler.set_name(_HANDLER_NAME)
    handler.addFilter(_rate_filter(limit, clock))
    handler.setFormatter(_text_form(colours=terminal and not environ.get("NO_COLOR")) if text else _json_form())
    if isinstance(stream, OutputQueue):
        stream.adopt(settings.queue_bytes, lambda lines: handler.format(_dropped(lines)))
    _install(handler, logging.getLevelNamesMapping()[settings.level.upper()])
    structlog.configure(
        processors=[
            filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.processors.StackInfoRenderer(),
            ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=LoggerFactory(),
        wrapper_class=BoundLogger,
        cache_logger_on_first_use=True,  # safe: level and form sit behind it, in `logging`, and may change
    )
    return limit


def report_suppressed(limit: RateLimit, now_s: float) -> None:
    """Log how many lines were dropped and not told yet, if any: one line for all events.

    For the daemon to call every few seconds, and last of all when it stops.
    """
    if told := limit.take_suppressed(now_s):
        log: BoundLogger = structlog.stdlib.get_logger(__name__)
        log.warning("log lines suppressed", lines=sum(told.values()), events=told)


def log_statistics(queue: OutputQueue, limit: RateLimit) -> LogStatistics:
    """Return how the log of a process does: what waits, what there was no room for, and what was left out."""
    return queue.statistics()._replace(suppressed_lines_total=limit.suppressed_lines)


def _dropped(lines: int) -> logging.LogRecord:
    """Return what is told where lines are missing, as structlog hands its own to `ProcessorFormatter`.

    It is no line that is logged: it must be there whatever the level is, and stand where it belongs.
    """
    event = {"event": "log lines dropped: nobody read them", "lines": lines}
    level = {"levelno": logging.WARNING, "levelname": "WARNING", "created": time.time()}
    return logging.makeLogRecord(level | {"name": __name__, "msg": event, "_logger": None, "_name": "warning"})


def _install(handler: logging.Handler, level: int) -> None:
    """Put our handler in the place of the one we put there before; leave those of others alone."""
    root = logging.getLogger()
    for old in [old for old in root.handlers if old.get_name() == _HANDLER_NAME]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level if level <= logging.DEBUG else max(level, logging.WARNING))
    for name in _OWN_LOGGERS:
        logging.getLogger(name).setLevel(level)
    for name in _TALKATIVE_LOGGERS:
        logging.getLogger(name).setLevel(max(level, logging.INFO))


def _rate_filter(limit: RateLimit, clock: Callable[[], float]) -> Callable[[logging.LogRecord], bool]:
    """Make the filter of the handler; it leaves the number of dropped lines in the record."""

    def admits(record: logging.LogRecord) -> bool:
        if record.levelno <= logging.DEBUG:
            return True
        # A library's format, not its text: the text may be different each time.
        event = record.msg.get("event", "") if isinstance(record.msg, dict) else record.msg
        suppressed = limit.admit(str(event)[:_NAME_CHARACTERS], clock())
        record.suppressed = suppressed
        return suppressed is not None

    return admits


def _text_form(*, colours: bool) -> logging.Formatter:
    """Make the form for people."""
    styles = ConsoleRenderer.get_default_column_styles(colors=colours)
    levels = ConsoleRenderer.get_default_level_styles(colors=colours)

    def column(style: str, shown: Callable[[object], str], *, key_style: str | None = None, width: int = 0) -> Any:
        return KeyValueColumnFormatter(key_style, style, styles.reset, shown, width)

    columns = [
        Column("timestamp", column(styles.timestamp, str)),
        Column("level", LogLevelColumnFormatter(levels, styles.reset, width=7)),
        Column("event", column(styles.bright, _sentence, width=24)),
        Column("", column(styles.kv_value, _shown, key_style=styles.kv_key)),
    ]
    # The traceback is rendered before, so the renderer's own way (which wants the values of variables) is not used.
    renderer = ConsoleRenderer(columns=columns, exception_formatter=structlog.dev.plain_traceback, sort_keys=False)
    processors: list[Processor] = [
        _common_fields("%Y-%m-%d %H:%M:%S"),
        structlog.processors.format_exc_info,
        _indent_traceback,
        _escape_keys,
        renderer,
    ]
    return ProcessorFormatter(processors=processors)


def _json_form() -> logging.Formatter:
    """Make the form for programs."""
    renderer = structlog.processors.JSONRenderer(serializer=json.dumps, allow_nan=False)
    return ProcessorFormatter(
        processors=[_common_fields(None), structlog.processors.format_exc_info, _plain_fields, renderer]
    )


def _common_fields(time_format: str | None) -> Processor:
    """Make the processor that begins each line: time (UTC and RFC 3339 without a format), level, event, logger."""

    def fields(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
        record: logging.LogRecord = line.pop("_record")
        line.pop("_from_structlog")
        if time_format is None:
            timestamp = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        else:
            timestamp = datetime.fromtimestamp(record.created).astimezone().strftime(time_format)
        level = record.levelname.lower()
        begin = {"timestamp": timestamp, "level": level, "event": line.pop("event", ""), "logger": record.name}
        if isinstance(line.get("stack_info"), str):  # of the standard library; structlog's own is called "stack"
            line["stack"] = line.pop("stack_info")
        suppressed = getattr(record, "suppressed", 0)
        return {**begin, **line, **({"suppressed": suppressed} if suppressed else {})}

    return fields


def _indent_traceback(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    """Indent lines that are not the first, and escape them: an exception's text may come from a far side."""
    for field in ("exception", "stack"):
        if field in line:
            parts = shortened(str(line[field]), _TRACEBACK_CHARACTERS).split("\n")
            line[field] = "\n".join("    " + escaped(part) for part in parts)
    return line


def _escape_keys(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    """Escape the names of fields; values are escaped by the columns."""
    return {escaped(key): value for key, value in line.items()}


def _plain_fields(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    """Turn values into what JSON has; JSON itself escapes control characters and all that is not ASCII."""
    return {
        escaped(field): shortened(str(value), _TRACEBACK_CHARACTERS)
        if field in {"exception", "stack"}
        else bounded(value)
        for field, value in line.items()
    }


def _sentence(value: object) -> str:
    """Write the event: words, not quoted."""
    return escaped(shortened(str(value), VALUE_CHARACTERS))


def _shown(value: object) -> str:
    """Write a value behind its key: as it is if that is clear, else quoted."""
    plain = bounded(value)
    if not isinstance(plain, str):
        return escaped(str(plain))
    clear = plain and plain.isprintable() and not set(plain) & set(" ='\"\\")
    return plain if clear else repr(plain)
