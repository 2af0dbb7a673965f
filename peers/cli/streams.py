"""Standard output and standard error of a command, at its beginning and at its end.

Owner: the process. Invariants: while a command runs, both streams are open, so that no socket or file gets descriptor
1 or 2 and is written to by mistake; what could not be written is told before the process ends, by the command and not
by the interpreter.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

__all__ = ["discard", "flush_output", "open_closed_streams"]

_STREAMS = {"stdout": 1, "stderr": 2}
"""The names of the streams in `sys`, and their descriptors."""


def open_closed_streams() -> None:
    """Have a stream that whoever started us has closed (`>&-`) write to nowhere: nobody wants to read it."""
    for name, descriptor in _STREAMS.items():
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(descriptor, "w"))


def flush_output() -> None:
    """Write what standard output still holds.

    Raises:
        OSError: It could not be written (BrokenPipeError: its reader has gone).
    """
    sys.stdout.flush()


def discard(*streams: TextIO) -> None:
    """Have the interpreter flush what streams still hold to nowhere: it cannot be written, and it would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        with suppress(OSError, ValueError):  # one that is closed, or has no descriptor
            os.dup2(nowhere, stream.fileno())
