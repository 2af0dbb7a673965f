"""`OutputQueue`: standard error, or standard output, of a process whose event loop must never wait for a reader.

```
log, print, tracebacks ── write ──▶ lines, `limit_bytes` at most ── a thread ──▶ descriptor 2: pipe, file, terminal
                                          │
                                          └─ no room: dropped, counted, and told at that place once there is room again
```

A pipe that nobody reads takes 64 KiB on Linux, and then lets whoever writes wait; a terminal may be stopped, a disk
full. Here the thread waits, and nobody else.

Owner: the process, which has one for each stream, from its start to its end. All that Python itself prints goes the
same way, as `sys.stderr` is replaced: warnings, and the traceback that a process ends with. Any thread may write.

Invariants: `write` waits for no reader, and raises nothing for what the descriptor refuses. Lines keep their order and
are written whole, those of up to 4 KiB at once, so that they do not mix with those of workers in the same pipe. What is
dropped is a stretch of lines: from the first one that has no room to when half of the room is free. Where it was, one
line says how many. What cannot be written (no room on the disk, nobody at the other end) stays in the queue and is
tried again once a second, from the byte on at which it stopped. At the end of the process (`end`) the last lines have
`END_S` to be written; SIGKILL loses what is queued, which is nothing where somebody reads.

Processes: a thread does not survive a fork. This hub starts others by a new interpreter alone, never by a fork that
goes on; workers have queues of their own, and readers and copiers of the journal, which have no loop that
others wait for, write as they are: the hub ends those that do not end.

Cost: for whoever writes about what writing itself cost; for the thread 40 µs of CPU to wake up and write a lone line,
1 µs a line where many come. Bound: `limit_bytes`, and one line more. The standard library's `QueueHandler` is not
used: it bounds lines and not bytes, what is printed beside the log does not pass it, and the end of the process would
wait for its thread for ever.

Not here: what a line looks like, and how many there may be of each event (`peers.daemon.logs`).
"""

from __future__ import annotations

import atexit
import io
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TextIO

from peers.node.log_statistics import LogStatistics

__all__ = ["END_S", "OutputQueue", "queue_output"]

END_S: Final = 1.0
"""How long a process waits for its last lines to be written, seconds: less than the core lets a worker take to end."""

_AGAIN_S: Final = 1.0
"""When something is tried again that could not be written, seconds."""

_UNSET_BYTES: Final = 1024 * 1024
"""The limit until there are settings."""

_PIECE_CHARACTERS: Final = 64 * 1024
"""A line that is written in pieces is put together up to here; what is longer goes on as it is."""


def _plainly(lines: int) -> str:
    """Say how many lines are missing, before there is a form for that."""
    return f"{lines} lines were dropped: nobody read them"


class OutputQueue(io.TextIOBase):
    """A text stream that never waits.

    Args:
        stream: Where the lines go; it must have a descriptor, and is not written to by itself any more.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._descriptor = stream.fileno()
        self._limit_bytes = _UNSET_BYTES
        # Says how many lines are missing, without the end of that line.
        self._tell: Callable[[int], str] = _plainly
        # Guards all that follows. It may be taken twice by a thread: what is collected as garbage may print something.
        self._changed = threading.Condition(threading.RLock())
        # What is to be written, and how much that is with what is being written, bytes.
        self._lines: deque[bytes] = deque()
        self._queued_bytes = 0
        # The beginning of a line whose end has not come yet.
        self._begun = ""
        # How many lines were dropped, since the start and since that was told last.
        self._dropped_lines = 0
        self._untold_lines = 0
        # Why nothing can be written; empty if the descriptor has not refused anything since it last took something.
        self._failure = ""
        # Set by `end`: what cannot be written is not tried again.
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """As the stream has it."""
        return self._stream.encoding

    @property
    def errors(self) -> str:  # type: ignore[override]
        """No text is refused."""
        return "backslashreplace"

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._stream.isatty()

    def writable(self) -> bool:
        """It is."""
        return True

    def adopt(self, limit_bytes: int, tell: Callable[[int], str]) -> None:
        """Have another limit, and another way to say how many lines are missing."""
        with self._changed:
            self._limit_bytes, self._tell = limit_bytes, tell

    def write(self, text: str) -> int:
        """Queue whole lines; keep what has no end yet until that comes."""
        with self._changed:
            whole = text
            if self._begun or not text.endswith("\n"):
                begun = self._begun + text
                end = len(begun) if len(begun) > _PIECE_CHARACTERS else begun.rfind("\n") + 1
                whole, self._begun = begun[:end], begun[end:]
            if whole:
                self._put(whole.encode(self.encoding, self.errors))
        return len(text)

    def statistics(self) -> LogStatistics:
        """Return how much waits, how much was dropped, and why."""
        with self._changed:
            trouble = self._failure and f"the log cannot be written: {self._failure}"
            if self._untold_lines and not trouble:
                trouble = "nobody reads the log"
            return LogStatistics(self._queued_bytes, self._limit_bytes, self._dropped_lines, trouble=trouble)

    def end(self) -> bool:
        """Wait until all is written, `END_S` at most; what cannot be written is given up.

        Returns:
            Whether nothing is left.
        """
        with self._changed:
            self._is_ending = True
            if self._begun:
                self.write("\n")
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._queued_bytes, END_S)

    def _put(self, line: bytes) -> None:
        queued = self._queued_bytes
        if self._untold_lines or (queued and queued + len(line) > self._limit_bytes):
            self._dropped_lines += 1
            self._untold_lines += 1
            return
        self._lines.append(line)
        self._queued_bytes = queued + len(line)
        if not queued:
            self._changed.notify_all()

    # The thread.

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                chunk = self._take()
            self._write(chunk)
            with self._changed:
                self._queued_bytes -= len(chunk)
                has_room = self._queued_bytes <= self._limit_bytes // 2
                missing = self._untold_lines if has_room else 0
                if not self._queued_bytes and not missing:
                    self._changed.notify_all()
            if missing:
                self._tell_missing(missing)

    def _take(self) -> bytes:
        """Take lines that a pipe takes together without mixing them with those of others; or one that is longer."""
        lines, chunk = self._lines, [self._lines.popleft()]
        size_bytes = len(chunk[0])
        while lines and size_bytes + len(lines[0]) <= select.PIPE_BUF:
            size_bytes += len(lines[0])
            chunk.append(lines.popleft())
        return b"".join(chunk)

    def _write(self, chunk: bytes) -> None:
        """Write all of it, however long that takes; or give it up if the process ends and it cannot be written."""
        left = memoryview(chunk)
        while left:
            try:
                written = os.write(self._descriptor, left)
            except BlockingIOError:  # somebody else who has this pipe or terminal wants not to wait
                select.select((), (self._descriptor,), (), _AGAIN_S)
                continue
            except OSError as error:
                if not self._may_try_again(error):
                    return
                continue
            self._failure = ""
            left = left[written:]

    def _may_try_again(self, error: OSError) -> bool:
        """Wait, and return whether it is worth a try; the end of the process ends the wait."""
        with self._changed:
            self._failure = error.strerror or str(error)
            if self._is_ending:
                return False
            self._changed.wait_for(lambda: self._is_ending, _AGAIN_S)
            return True

    def _tell_missing(self, missing: int) -> None:
        """Say at this place how many lines are missing. The form is not asked under the lock: it may write, too."""
        line = (self._tell(missing) + "\n").encode(self.encoding, self.errors)
        with self._changed:
            self._untold_lines -= missing
            self._lines.append(line)
            self._queued_bytes += len(line)


def queue_output() -> OutputQueue:
    """Let nobody in this process wait for whoever reads what it prints, from now to its end.

    Returns:
        Standard error, where the log goes.
    """
    _queued("stdout")
    return _queued("stderr")


def _queued(name: str) -> OutputQueue:
    stream: TextIO = getattr(sys, name)
    queue = OutputQueue(stream)

    def end() -> None:
        if queue.end():  # what the interpreter says behind this has no thread any more
            setattr(sys, name, stream)

    setattr(sys, name, queue)
    atexit.register(end)
    return queue
