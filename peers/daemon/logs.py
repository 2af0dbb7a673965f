"""Logs: readable, coloured lines on a terminal, one JSON object a line anywhere else; writing never blocks the loop.

```
log.info("connected", peer=...)  --structlog-->  logging  --RateLimit-->  one handler  --form-->  OutputQueue
asyncio, websockets ...          ------------->     ^          print, tracebacks ─ write ────────────▲   │
                                                pipe, file, terminal ◀── thread of a `QueueListener` ◀──┘
```

Values from a peer cannot forge a line or steer a terminal: in text, characters that do not print are escaped and
tracebacks are indented; JSON is ASCII. Values are bounded, and so are the lines a second of each event; suppressed
lines are counted and reported. About 40 µs a line.
"""

from __future__ import annotations

import atexit
import io
import json
import logging
import math
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import QueueListener
from queue import SimpleQueue
from typing import Any, Final, TextIO

import structlog
from structlog.dev import Column, ConsoleRenderer, KeyValueColumnFormatter, LogLevelColumnFormatter
from structlog.stdlib import BoundLogger, LoggerFactory, ProcessorFormatter, filter_by_level
from structlog.typing import EventDict, Processor, WrappedLogger

from hub.settings.settings import LogSettings
from peers.server.server import LogStatistics

_HANDLER_NAME = "topichub"
_OWN_LOGGERS = ("hub", "peers")
# Libraries whose debug lines hold whole requests and messages, and so tokens and `Authorization`
_TALKATIVE_LOGGERS = ("websockets",)
_NAME_CHARACTERS = 200  # Of an event, to compare it with others
_TRACEBACK_CHARACTERS = 32_768
_VALUE_CHARACTERS = 2048  # A topic of the greatest length and a URL are shown in full
_ITEMS = 32  # Most items shown of a list or map
_DEPTH = 3  # Shown levels of lists within lists
_LINES_PER_S = 10.0  # Of one event in the long run: more than a person reads, and less than fills a disk unnoticed
_BURST_LINES = 50  # Of one event after silence, so that a start with many listeners or a small storm is logged in full
_NAMES = 1024  # How many events are counted by name; the hub has tens, but a library may put variable text into its own
_OTHER_NAMES = "(other events)"
END_S: Final = 1.0  # Time to write the last lines: less than the core lets a worker take to end
_AGAIN_S: Final = 1.0  # When a failed write is tried again
_UNSET_BYTES: Final = 1024 * 1024  # The limit until there are settings
_PIECE_CHARACTERS: Final = 64 * 1024  # A line that is written in pieces is put together up to here


@dataclass(slots=True)
class _Bucket:
    lines: float  # That may be logged; each line takes one, and time brings them back
    filled_s: float
    suppressed: int = 0  # Dropped and not reported yet


class RateLimit:
    """Admits so many lines a second of each event; the others are counted instead of logged.

    Times are arguments, in seconds of a monotonic clock.
    """

    def __init__(self, lines_per_s: float = _LINES_PER_S, burst_lines: int = _BURST_LINES, names: int = _NAMES) -> None:
        self._lines_per_s = lines_per_s
        self._burst_lines = burst_lines
        self._names = names
        self._buckets: dict[str, _Bucket] = {}  # By event; `take_suppressed` forgets full ones
        self.suppressed_lines = 0  # Since the start

    def admit(self, event: str, now_s: float) -> int | None:
        """Return how many lines of this event were dropped since the last admitted or reported one; None to drop it."""
        bucket = self._buckets.get(event)
        if bucket is None:
            name = event if len(self._buckets) < self._names else _OTHER_NAMES
            bucket = self._buckets.setdefault(name, _Bucket(self._burst_lines, now_s))
        self._fill(bucket, now_s)
        if bucket.lines < 1:
            bucket.suppressed += 1
            self.suppressed_lines += 1
            return None
        bucket.lines -= 1
        suppressed, bucket.suppressed = bucket.suppressed, 0
        return suppressed

    def take_suppressed(self, now_s: float) -> dict[str, int]:
        """Return, and reset, the number of dropped lines for each event: the end of a storm is reported, too."""
        found = {event: bucket.suppressed for event, bucket in self._buckets.items() if bucket.suppressed}
        for event, bucket in list(self._buckets.items()):
            bucket.suppressed = 0
            self._fill(bucket, now_s)
            if bucket.lines >= self._burst_lines:
                del self._buckets[event]
        return found

    def _fill(self, bucket: _Bucket, now_s: float) -> None:
        passed_s = max(0.0, now_s - bucket.filled_s)
        bucket.lines = min(float(self._burst_lines), bucket.lines + passed_s * self._lines_per_s)
        bucket.filled_s = max(bucket.filled_s, now_s)


def configure(
    settings: LogSettings,
    stream: TextIO | None = None,
    limit: RateLimit | None = None,
    clock: Callable[[], float] = time.monotonic,
    environ: Mapping[str, str] | None = None,
) -> RateLimit:
    """Send all logs of this process to `stream`, in the form and from the level of the settings.

    Libraries are heard from "warning" up, unless the level is "debug"; what a client has sent is not shown even then,
    because it may hold secrets. Lines of level debug are not limited in rate.

    It may be called again (SIGHUP) and replaces what it set.

    Args:
        stream: None for standard error. A queue reports dropped lines in the same form.
        limit: The limit in force, at a reload; None for a new one.
        clock: A monotonic clock, seconds.
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
    level, root = logging.getLevelNamesMapping()[settings.level.upper()], logging.getLogger()
    for old in [old for old in root.handlers if old.get_name() == _HANDLER_NAME]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level if level <= logging.DEBUG else max(level, logging.WARNING))
    for name in _OWN_LOGGERS:
        logging.getLogger(name).setLevel(level)
    for name in _TALKATIVE_LOGGERS:
        logging.getLogger(name).setLevel(max(level, logging.INFO))
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
    """Log how many lines were dropped and not reported yet, if any: one line for all events."""
    if told := limit.take_suppressed(now_s):
        log: BoundLogger = structlog.stdlib.get_logger(__name__)
        log.warning("log lines suppressed", lines=sum(told.values()), events=told)


def log_statistics(queue: OutputQueue, limit: RateLimit) -> LogStatistics:
    return queue.statistics()._replace(suppressed_lines_total=limit.suppressed_lines)


def _dropped(lines: int) -> logging.LogRecord:
    # Made as structlog hands its own records to `ProcessorFormatter`: logging it would obey the level and the order.
    event = {"event": "log lines dropped: the log was not read", "lines": lines}
    level = {"levelno": logging.WARNING, "levelname": "WARNING", "created": time.time()}
    return logging.makeLogRecord(level | {"name": __name__, "msg": event, "_logger": None, "_name": "warning"})


def _rate_filter(limit: RateLimit, clock: Callable[[], float]) -> Callable[[logging.LogRecord], bool]:
    def admits(record: logging.LogRecord) -> bool:
        if record.levelno <= logging.DEBUG:
            return True
        # The format of a library's line, as its text may be different each time.
        event = record.msg.get("event", "") if isinstance(record.msg, dict) else record.msg
        suppressed = limit.admit(str(event)[:_NAME_CHARACTERS], clock())
        record.suppressed = suppressed
        return suppressed is not None

    return admits


def _text_form(*, colours: bool) -> logging.Formatter:
    styles = ConsoleRenderer.get_default_column_styles(colors=colours)
    levels = ConsoleRenderer.get_default_level_styles(colors=colours)

    def column(style: str, shown: Callable[[object], str], *, key_style: str | None = None, width: int = 0) -> Any:
        return KeyValueColumnFormatter(key_style, style, styles.reset, shown, width)

    columns = [
        Column("timestamp", column(styles.timestamp, str)),
        Column("level", LogLevelColumnFormatter(levels, styles.reset, width=7)),
        Column("event", column(styles.bright, lambda it: _escaped(_shortened(str(it), _VALUE_CHARACTERS)), width=24)),
        Column("", column(styles.kv_value, _shown, key_style=styles.kv_key)),
    ]
    # The traceback is rendered before, so the renderer's own (which shows the values of variables) is not used.
    renderer = ConsoleRenderer(columns=columns, exception_formatter=structlog.dev.plain_traceback, sort_keys=False)
    processors: list[Processor] = [
        _common_fields("%Y-%m-%d %H:%M:%S"),
        structlog.processors.format_exc_info,
        _indent_traceback,
        lambda _logger, _method, line: {_escaped(key): value for key, value in line.items()},
        renderer,
    ]
    return ProcessorFormatter(processors=processors)


def _json_form() -> logging.Formatter:
    renderer = structlog.processors.JSONRenderer(serializer=json.dumps, allow_nan=False)
    return ProcessorFormatter(
        processors=[_common_fields(None), structlog.processors.format_exc_info, _plain_fields, renderer]
    )


def _common_fields(time_format: str | None) -> Processor:
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
            parts = _shortened(str(line[field]), _TRACEBACK_CHARACTERS).split("\n")
            line[field] = "\n".join("    " + _escaped(part) for part in parts)
    return line


def _plain_fields(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    return {
        _escaped(field): _shortened(str(value), _TRACEBACK_CHARACTERS)
        if field in {"exception", "stack"}
        else _bounded(value)
        for field, value in line.items()
    }


def _shown(value: object) -> str:
    plain = _bounded(value)
    if not isinstance(plain, str):
        return _escaped(str(plain))
    clear = plain and plain.isprintable() and not set(plain) & set(" ='\"\\")
    return plain if clear else repr(plain)


def _bounded(value: object) -> Any:
    """Turn a value into plain JSON of bounded size; a list or map that is still too long becomes text."""
    plain = _plain(value, _DEPTH)
    if isinstance(plain, (dict, list)) and len(text := repr(plain)) > _VALUE_CHARACTERS:
        return _shortened(text, _VALUE_CHARACTERS)
    return plain


def _plain(value: object, depth: int) -> Any:
    if depth and isinstance(value, dict):
        shown = {_escaped(str(key)): _plain(item, depth - 1) for key, item in list(value.items())[:_ITEMS]}
        return shown if len(value) <= _ITEMS else {**shown, "...": f"{len(value) - _ITEMS} more"}
    if depth and isinstance(value, (list, tuple)):
        items = [_plain(item, depth - 1) for item in value[:_ITEMS]]
        return items if len(value) <= _ITEMS else [*items, f"... {len(value) - _ITEMS} more"]
    return _plain_scalar(value)


def _plain_scalar(value: object) -> Any:
    match value:
        case None | bool():
            return value
        case int() if value.bit_length() <= 64:
            return int(value)
        case float() if math.isfinite(value):
            return value
        case int():
            text = hex(value)
        case str():
            text = str.__str__(value)  # of an enumeration its value, not its name
        case dict() | list() | tuple():  # too deep to look into: it may hold millions
            text = f"... {len(value)} items"
        case bytes() | bytearray() if len(value) > _VALUE_CHARACTERS:
            text = f"{len(value)} bytes: {bytes(value[:_ITEMS])!r}..."
        case _:
            text = repr(value)
    return _shortened(text, _VALUE_CHARACTERS)


def _escaped(text: str) -> str:
    """Write each character that does not print (controls, line ends, direction marks, halves of pairs) as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _shortened(text: str, most_characters: int) -> str:
    if len(text) <= most_characters:
        return text
    half = most_characters // 2
    return f"{text[:half]}... {len(text) - 2 * half} characters left out ...{text[-half:]}"


class _Listener(QueueListener):
    def __init__(self, lines: SimpleQueue[Any], handle: Callable[[bytes], None]) -> None:
        super().__init__(lines)
        self.handle = handle  # type: ignore[assignment,method-assign]


class OutputQueue(io.TextIOBase):
    """A text stream over the descriptor of another one, which never blocks and never raises because of it.

    Lines keep their order and are written whole. Without room, lines are dropped and counted until half of the room is
    free; one line at their place has their number. A line that cannot be written is tried again once a second. Any
    thread may write. A worker has queues of its own.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._descriptor = stream.fileno()
        self._limit_bytes = _UNSET_BYTES
        self._tell: Callable[[int], str] = "{} lines were dropped: the log was not read".format
        # Guards all that follows. A thread may take it twice: garbage collection may print.
        self._changed = threading.Condition(threading.RLock())
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._queued_bytes = 0  # Size of the lines in the queue and of the one that is being written
        self._begun = ""  # An incomplete line
        self._dropped_lines = 0
        self._untold_lines = 0  # Dropped lines that are not reported yet
        self._failure = ""  # The last error of the descriptor; empty after a successful write
        self._is_ending = False  # Set by `end`: a failed write is not tried again
        _Listener(self._lines, self._handle).start()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    @property
    def errors(self) -> str:  # type: ignore[override]
        return "backslashreplace"

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    def adopt(self, limit_bytes: int, tell: Callable[[int], str]) -> None:
        with self._changed:
            self._limit_bytes, self._tell = limit_bytes, tell

    def write(self, text: str) -> int:
        with self._changed:
            whole = text
            if self._begun or not text.endswith("\n"):
                begun = self._begun + text
                end = len(begun) if len(begun) > _PIECE_CHARACTERS else begun.rfind("\n") + 1
                whole, self._begun = begun[:end], begun[end:]
            if whole:
                line = whole.encode(self.encoding, self.errors)
                if self._untold_lines or (self._queued_bytes and self._queued_bytes + len(line) > self._limit_bytes):
                    self._dropped_lines += 1
                    self._untold_lines += 1
                else:
                    self._put(line)
        return len(text)

    def statistics(self) -> LogStatistics:
        with self._changed:
            trouble = self._failure and f"the log cannot be written: {self._failure}"
            if self._untold_lines and not trouble:
                trouble = "the log is not read"
            return LogStatistics(self._queued_bytes, self._limit_bytes, self._dropped_lines, trouble=trouble)

    def end(self) -> bool:
        with self._changed:
            self._is_ending = True
            if self._begun:
                self.write("\n")
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._queued_bytes, END_S)

    def _put(self, line: bytes) -> None:
        self._queued_bytes += len(line)
        self._lines.put(line)

    def _handle(self, line: bytes) -> None:
        self._write(line)
        with self._changed:
            self._queued_bytes -= len(line)
            missing = self._untold_lines if self._queued_bytes <= self._limit_bytes // 2 else 0
            if not self._queued_bytes and not missing:
                self._changed.notify_all()
        if missing:
            told = (self._tell(missing) + "\n").encode(self.encoding, self.errors)  # without the lock: it may write
            with self._changed:
                self._untold_lines -= missing
                self._put(told)

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:  # another owner of this pipe or terminal has set O_NONBLOCK
                select.select((), (self._descriptor,), (), _AGAIN_S)
            except OSError as error:
                with self._changed:
                    self._failure = error.strerror or str(error)
                    if self._changed.wait_for(lambda: self._is_ending, 0 if self._is_ending else _AGAIN_S):
                        return
            else:
                self._failure = ""


def queue_output() -> OutputQueue:
    """Replace standard output and error of this process by queues; return that of standard error."""
    _queued("stdout")
    return _queued("stderr")


def _queued(name: str) -> OutputQueue:
    stream: TextIO = getattr(sys, name)
    queue = OutputQueue(stream)

    def end() -> None:
        if queue.end():  # the interpreter prints later messages to the stream itself
            setattr(sys, name, stream)

    setattr(sys, name, queue)
    atexit.register(end)
    return queue
