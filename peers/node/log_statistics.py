"""`LogStatistics`: how the log of a process does, as metrics and `$hub/statistics` tell it.

Owner: nobody, it is a frozen value. Not here: the queue of the log (`peers.daemon.output_queue`); a hub within a
program has none, as the program decides where its log goes.
"""

from __future__ import annotations

from typing import NamedTuple


class LogStatistics(NamedTuple):
    """The log at one moment."""

    queued_bytes: int = 0
    """What is not written yet."""
    limit_bytes: int = 0
    """How much that may be; 0 where there is no queue."""
    dropped_lines_total: int = 0
    """Lines for which there was no room, since the start."""
    suppressed_lines_total: int = 0
    """Lines that were left out, as their event had many of them, since the start."""
    trouble: str = ""
    """What is wrong, in words that go on a sentence; empty if nothing is."""
