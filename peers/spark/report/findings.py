"""`Findings`: what a survey of an archive found. Values only; times are µs since 1970 UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["OTHERS", "Findings", "Gap", "Missing", "Offsets", "Rate", "Talk", "Traffic"]

OTHERS = "(others)"
"""Stands for the roots that have no rates of their own; no root has brackets of its own accord."""


class Traffic(NamedTuple):
    """What came under a topic, under a root, or in all."""

    name: str
    messages: int
    bytes: int
    first_us: int
    last_us: int


class Rate(NamedTuple):
    """What came under a root or a topic within a bucket of time; buckets without messages are left out."""

    name: str
    start_us: int
    messages: int
    bytes: int


class Gap(NamedTuple):
    """A stretch of time without any message of a root."""

    root: str
    last_us: int
    """Time of the message before it."""
    next_us: int
    """Time of the message behind it."""

    @property
    def length_us(self) -> int:
        """How long it is."""
        return self.next_us - self.last_us


class Missing(NamedTuple):
    """A range of offsets that are absent."""

    first: int
    next: int
    """The offset behind the last one."""


@dataclass(frozen=True)
class Offsets:
    """Which offsets are there."""

    first: int
    last: int
    absent: int
    """Offsets between the first and the last that are not there."""
    ranges: int
    """How many ranges these make."""
    repeated: int
    """Messages whose offset another one has, too: 0 in an archive that was written once."""
    longest: tuple[Missing, ...]
    """The longest ranges, in order."""


@dataclass(frozen=True)
class Talk:
    """Who has sent most."""

    roots: tuple[Traffic, ...]
    """Those with the most messages first."""
    by_messages: tuple[Traffic, ...]
    """Topics with the most messages."""
    by_bytes: tuple[Traffic, ...]
    """Topics with the most bytes."""
    all_topics: pa.Table | None = None
    """If asked for: `root, topic, messages, bytes, first_us, last_us`, those with the most messages first."""

    def names(self) -> list[str]:
        """Return the topics that are among the first in either way."""
        return sorted({topic.name for topic in (*self.by_messages, *self.by_bytes)})


@dataclass(frozen=True)
class Findings:
    """All of it."""

    archive: str
    selected: str
    """Of what, in words."""
    total: Traffic
    topics: int
    """Distinct ones."""
    talk: Talk
    bucket_us: int
    root_rates: tuple[Rate, ...]
    """Of the first roots, and of all `OTHERS` together; by name and time."""
    topic_rates: tuple[Rate, ...]
    """Of the topics that `talk` names; the same."""
    gap_us: int
    """Stretches longer than this are gaps."""
    gaps: tuple[Gap, ...]
    """The longest first."""
    gaps_count: int
    """How many there are, also of those that are not listed."""
    offsets: Offsets
    """Of the whole archive in that time, whatever prefixes were selected; by event time, of all of it."""
    event_time: str = ""
    """Field of the messages whose time counts; empty for the time of the hub."""
    undated: int = 0
    """Messages that have no such time and are left out."""
