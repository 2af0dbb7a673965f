"""`RateLimit`: so many log lines a second for each event, so that no storm fills a disk or hides everything else.

Owner: the event loop's thread; lines from other threads are admitted too, a race between them costs an exact count at
most. Bound: `names` events are told apart, and those that were silent for long are forgotten. Cost: 0.6 µs for `admit`.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RateLimit"]

_LINES_PER_S = 10.0
"""Lines of one event in the long run: more than a person reads, and less than fills a disk unnoticed."""

_BURST_LINES = 50
"""Lines of one event after silence, so that a start with many listeners or a small storm is logged in full."""

_NAMES = 1024
"""How many events are told apart; the hub has tens, but a library may put variable text into its own."""

_OTHER_NAMES = "(other events)"


@dataclass(slots=True)
class _Bucket:
    """The lines that one event may still log."""

    lines: float
    """How many these are; each line takes one, and time brings them back."""
    filled_s: float
    """The time up to which that has happened."""
    suppressed: int = 0
    """How many lines were dropped and not told yet."""


class RateLimit:
    """Admits so many lines a second of each event; what is above is counted instead of logged.

    Knows no clock: times are arguments, in seconds of any clock that does not go back.

    Args:
        lines_per_s: Lines of one event in the long run, above 0.
        burst_lines: Lines of one event at once after silence, 1 or more.
        names: Events told apart; all further ones share one allowance.
    """

    __slots__ = ("_buckets", "_burst_lines", "_lines_per_s", "_names", "_suppressed_lines")

    def __init__(self, lines_per_s: float = _LINES_PER_S, burst_lines: int = _BURST_LINES, names: int = _NAMES) -> None:
        self._lines_per_s = lines_per_s
        self._burst_lines = burst_lines
        self._names = names
        # Event → what it may still log. Events that have all of it again are forgotten by `take_suppressed`.
        self._buckets: dict[str, _Bucket] = {}
        # How many lines were dropped since the start; nothing lowers it.
        self._suppressed_lines = 0

    @property
    def suppressed_lines(self) -> int:
        """How many lines of all events were suppressed since the start."""
        return self._suppressed_lines

    def admit(self, event: str, now_s: float) -> int | None:
        """Ask whether a line may be logged.

        O(1).

        Returns:
            None if the line is to be dropped, else the number of lines of this event that were dropped since the last
            one that was admitted or reported.
        """
        bucket = self._bucket(event, now_s)
        self._fill(bucket, now_s)
        if bucket.lines < 1:
            bucket.suppressed += 1
            self._suppressed_lines += 1
            return None
        bucket.lines -= 1
        suppressed, bucket.suppressed = bucket.suppressed, 0
        return suppressed

    def take_suppressed(self, now_s: float) -> dict[str, int]:
        """Return the number of dropped lines for each event that has some not told yet, and count them as told.

        It is called now and then, so that the end of a storm is told even if its event never comes again. Events that
        have been silent for long are forgotten.
        """
        told = {event: bucket.suppressed for event, bucket in self._buckets.items() if bucket.suppressed}
        for event, bucket in list(self._buckets.items()):
            bucket.suppressed = 0
            self._fill(bucket, now_s)
            if bucket.lines >= self._burst_lines:
                del self._buckets[event]
        return told

    def _bucket(self, event: str, now_s: float) -> _Bucket:
        """Return the allowance of an event: its own, or where too many are told apart the common one."""
        bucket = self._buckets.get(event)
        if bucket is None:
            name = event if len(self._buckets) < self._names else _OTHER_NAMES
            bucket = self._buckets.setdefault(name, _Bucket(self._burst_lines, now_s))
        return bucket

    def _fill(self, bucket: _Bucket, now_s: float) -> None:
        """Give an event the lines that time has brought."""
        passed_s = max(0.0, now_s - bucket.filled_s)
        bucket.lines = min(float(self._burst_lines), bucket.lines + passed_s * self._lines_per_s)
        bucket.filled_s = max(bucket.filled_s, now_s)
