"""What a survey found as CSV, for programs: every file has a header, times are RFC 3339 in UTC, names are as they are.

| file | a row is |
|---|---|
| `topics.csv`, `roots.csv` | a topic, a root: messages, bytes, first and last message |
| `root_rates.csv`, `topic_rates.csv` | a bucket of time of one of them: messages, bytes, messages a second |
| `gaps.csv` | a stretch without messages of a root, the longest first |
| `absent_offsets.csv` | a range of offsets that are not there, in order |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from peers.spark.report.findings import Findings, Rate, Traffic
from peers.spark.summary import moment

__all__ = ["Sheet", "sheets"]

Row = tuple[object, ...]

_TIMES = ("messages", "bytes", "first", "last")
_TOPICS_AT_ONCE = 10_000


class Sheet(NamedTuple):
    """A CSV file."""

    heads: tuple[str, ...]
    rows: Iterable[Row]


def sheets(findings: Findings) -> Mapping[str, Sheet]:
    """Return the files by name; that of all topics only if they were asked for."""
    made = {
        "roots.csv": Sheet(("root", *_TIMES), map(_traffic, findings.talk.roots)),
        "root_rates.csv": _rates("root", findings, findings.root_rates),
        "topic_rates.csv": _rates("topic", findings, findings.topic_rates),
        "gaps.csv": Sheet(
            ("root", "last_before", "first_after", "length_s"),
            ((one.root, moment(one.last_us), moment(one.next_us), one.length_us / 1e6) for one in findings.gaps),
        ),
        "absent_offsets.csv": Sheet(
            ("first", "last", "count"),
            ((one.first, one.next - 1, one.next - one.first) for one in findings.offsets.longest),
        ),
    }
    if findings.talk.all_topics is not None:
        made["topics.csv"] = Sheet(("topic", "root", *_TIMES), _topics(findings))
    return made


def _traffic(traffic: Traffic) -> Row:
    return (traffic.name, traffic.messages, traffic.bytes, moment(traffic.first_us), moment(traffic.last_us))


def _topics(findings: Findings) -> Iterator[Row]:
    table = findings.talk.all_topics
    for batch in table.to_batches(_TOPICS_AT_ONCE) if table is not None else ():
        for one in batch.to_pylist():
            times = (moment(one["first_us"]), moment(one["last_us"]))
            yield (one["topic"], one["root"], one["messages"], one["bytes"], *times)


def _rates(head: str, findings: Findings, rates: Iterable[Rate]) -> Sheet:
    width_s = findings.bucket_us / 1e6
    rows = ((one.name, moment(one.start_us), one.messages, one.bytes, one.messages / width_s) for one in rates)
    return Sheet((head, "start", "messages", "bytes", "messages_per_s"), rows)
