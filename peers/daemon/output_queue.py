"""Standard error, or standard output, of a process whose event loop never waits for a reader.

```
log, print, tracebacks ── write ──▶ queue of `limit_bytes` ──▶ thread of a `QueueListener` ──▶ pipe, file, terminal
```

`write` never blocks and never raises because of the descriptor. Lines keep their order and are written whole. Without
room, lines are dropped and counted until half of the room is free; one line at their place tells how many. A line that
cannot be written is tried again once a second. `end` waits `END_S` for the last lines. A worker has queues of its own.
"""

from __future__ import annotations

import atexit
import io
import os
import select
import sys
import threading
from collections.abc import Callable
from logging.handlers import QueueListener
from queue import SimpleQueue
from typing import Any, Final, TextIO

from peers.server.server import LogStatistics

# How long a process waits for its last lines to be written: less than the core lets a worker take to end
END_S: Final = 1.0

_AGAIN_S: Final = 1.0  # When a failed write is tried again

_UNSET_BYTES: Final = 1024 * 1024  # The limit until there are settings

_PIECE_CHARACTERS: Final = 64 * 1024  # A line that is written in pieces is put together up to here


class _Listener(QueueListener):
    def __init__(self, lines: SimpleQueue[Any], handle: Callable[[bytes], None]) -> None:
        super().__init__(lines)
        self.handle = handle  # type: ignore[assignment,method-assign]


class OutputQueue(io.TextIOBase):
    """A text stream that never waits. Any thread may write.

    Args:
        stream: Where the lines go; it must have a descriptor, and is not written to by itself any more.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._descriptor = stream.fileno()
        self._limit_bytes = _UNSET_BYTES
        self._tell: Callable[[int], str] = "{} lines were dropped: nobody read them".format
        # Guards all that follows. A thread may take it twice: garbage collection may print.
        self._changed = threading.Condition(threading.RLock())
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        # Size of the lines in the queue and of the one that is being written.
        self._queued_bytes = 0
        # The beginning of a line whose end has not come yet.
        self._begun = ""
        self._dropped_lines = 0
        # Dropped lines that no line has told of yet.
        self._untold_lines = 0
        # The last error of the descriptor; empty after a successful write.
        self._failure = ""
        # Set by `end`: a failed write is not tried again.
        self._is_ending = False
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
        """Set the limit, and the function that makes the line about missing lines."""
        with self._changed:
            self._limit_bytes, self._tell = limit_bytes, tell

    def write(self, text: str) -> int:
        """Queue whole lines; keep the beginning of a line until its end comes."""
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
                trouble = "nobody reads the log"
            return LogStatistics(self._queued_bytes, self._limit_bytes, self._dropped_lines, trouble=trouble)

    def end(self) -> bool:
        """Wait until all is written, `END_S` at most; return whether nothing is left."""
        with self._changed:
            self._is_ending = True
            if self._begun:
                self.write("\n")
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._queued_bytes, END_S)

    def _put(self, line: bytes) -> None:
        self._queued_bytes += len(line)
        self._lines.put(line)

    # The thread.

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
        """Write all of it, however long that takes; give it up if the process ends and it cannot be written."""
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
    """Replace standard output and error of this process by queues, to its end; return that of standard error."""
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
