"""What is said of findings, on the terminal and in the page."""

from __future__ import annotations

from collections.abc import Sequence

from peers.spark.report.findings import Findings, Traffic
from peers.spark.summary import Figure, amount, plain, rate, second, span

__all__ = ["TRAFFIC_HEADS", "figures_of", "named", "remarks", "traffic_row"]

TRAFFIC_HEADS = ("messages", "bytes", "messages/s", "first, UTC", "last, UTC")
"""What stands over a `traffic_row`, behind the name."""


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
    """Return the figures of all, with their units."""
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
        said.append(f"times are those of the field {plain(findings.event_time)}, not of the hub")
    if findings.undated:
        said.append(f"{findings.undated:,} messages have no such time and are left out")
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
