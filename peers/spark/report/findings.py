"""`Findings`: what a survey of an archive found, and its words; times are µs since 1970 UTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from peers.spark.summary import Figure, amount, plain, rate, second, span

OTHERS = "(others)"
"""Stands for the roots that have no rates of their own."""


class Traffic(NamedTuple):
    """What came under a topic, under a root, or in all."""

    name: str
    messages: int
    bytes: int
    first_us: int
    last_us: int


class Rate(NamedTuple):
    """What came under a root or a topic within a bucket of time; empty buckets are left out."""

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
    """A range of absent offsets; `next` is behind the last one."""

    first: int
    next: int


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
    """Messages with the offset of another one: 0 in an archive that was written once."""
    longest: tuple[Missing, ...]
    """The longest ranges, in order."""


@dataclass(frozen=True)
class Findings:
    """All of it."""

    archive: str
    selected: str
    """The selection in words."""
    total: Traffic
    topics: int
    """Distinct ones."""
    roots: tuple[Traffic, ...]
    """Those with the most messages first."""
    by_messages: tuple[Traffic, ...]
    """Topics with the most messages."""
    by_bytes: tuple[Traffic, ...]
    """Topics with the most bytes."""
    bucket_us: int
    root_rates: tuple[Rate, ...]
    """Of the first roots, and of all `OTHERS` together; by name and time."""
    topic_rates: tuple[Rate, ...]
    """Of the topics in `by_messages` and `by_bytes`."""
    gap_us: int
    """Longer stretches are gaps."""
    gaps: tuple[Gap, ...]
    """The longest first."""
    gaps_count: int
    """With those that are not listed."""
    offsets: Offsets
    """Of all topics in that time, not only those of the selected prefixes."""
    event_time: str = ""
    """Field of the messages whose time counts; empty for the time of the hub."""


TRAFFIC_HEADS = ("messages", "bytes", "messages/s", "first, UTC", "last, UTC")
"""The heads of a `traffic_row`, behind the name."""


def named(name: str) -> str:
    """Write a root or a topic; the root of `/` has no name."""
    return plain(name) or "(none)"


def traffic_row(traffic: Traffic) -> Sequence[str]:
    """Write name, messages, bytes, mean rate and times."""
    return (
        named(traffic.name),
        amount(traffic.messages),
        amount(traffic.bytes),
        rate(traffic.messages, _length_s(traffic)),
        second(traffic.first_us),
        second(traffic.last_us),
    )


def _length_s(traffic: Traffic) -> float:
    return (traffic.last_us - traffic.first_us) / 1_000_000


def figures_of(findings: Findings) -> list[Figure]:
    """Return the figures of all messages."""
    total, offsets = findings.total, findings.offsets
    return [
        ("messages", "messages", amount(total.messages)),
        ("values", "bytes", amount(total.bytes)),
        ("mean value", "bytes", f"{total.bytes / total.messages:,.1f}"),
        ("topics", "topics", amount(findings.topics)),
        ("first message", "UTC", second(total.first_us)),
        ("last message", "UTC", second(total.last_us)),
        ("time between them", "", span(total.last_us - total.first_us)),
        ("mean rate", "messages/s", rate(total.messages, _length_s(total))),
        (f"gaps longer than {span(findings.gap_us)}", "gaps", amount(findings.gaps_count)),
        ("first offset", "", amount(offsets.first)),
        ("last offset", "", amount(offsets.last)),
        ("absent offsets", "offsets", amount(offsets.absent)),
        ("absent offsets", "ranges", amount(offsets.ranges)),
        ("repeated offsets", "messages", amount(offsets.repeated)),
    ]


def remarks(findings: Findings) -> list[str]:
    """Return what a reader should know before drawing conclusions."""
    said = []
    if findings.event_time:
        said.append(f"times are those of the field {plain(findings.event_time)}, of the hub where a message has none")
    if findings.offsets.absent:
        said.append(
            f"{findings.offsets.absent:,} offsets between the first and the last are absent, in "
            f"{findings.offsets.ranges:,} ranges: messages of prefixes that were not archived look the same as "
            "messages that were lost"
        )
    if findings.offsets.repeated:
        said.append(
            f"{findings.offsets.repeated:,} messages have the offset of another one: the archive was written twice "
            "over, or holds messages of several journals"
        )
    return said
