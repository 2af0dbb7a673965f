"""Route: which subscriber would get which message of an archive, by the hub's own matching.

```
name,prefix                 {"name": "alerts", "prefix": "/zeek/notice"}      CSV with this header, or NDJSON
alerts,/zeek/notice         {"name": "everything", "prefix": ""}

prefixes, by length      parent      added: subscribers that the parent's chain does not have
0  ""                    -           everything
1  "/zeek/"              0           zeeks                /zeek/dns/7 ── longest ──▶ 2, and so 1 and 0:
2  "/zeek/dns"           1           names                                  names, zeeks, everything
```

All prefixes of a topic are prefixes of each other: they make a chain, and the longest one says who gets the topic, each
subscriber once. Tasks match each topic of a batch once, 2 to 5 µs. Deliveries go to a disk as

```
DELIVERIES/part-*.parquet                offset BIGINT, subscribers ARRAY<INT>
DELIVERIES/_subscribers/part-*.csv       number, name; readers of the folder skip it
```
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from hub.errors import InvalidTopicError, UsageError
from hub.prefixes.multimap import PrefixMultimap
from hub.topics import check_prefix, printable

if TYPE_CHECKING:
    from peers.spark.scan import Chosen, Scan

# Lines of a file. The driver holds all of them and sends them to every executor.
_SUBSCRIPTIONS_LIMIT = 1_000_000

_HEADS = ("name", "prefix")
_NO_PREFIX = -1

Line = tuple[int, str, str]
"""Number in the file, from 1; name; prefix."""


class SubscriptionError(UsageError):
    """A file of subscriptions is wrong; the text names it, and the line."""


class _Fields(msgspec.Struct):
    name: str
    prefix: str


def read_subscriptions(path: Path) -> list[tuple[str, str]]:
    """Return the names and prefixes in a file."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SubscriptionError(f"{path}: {error.strerror}") from error
    try:
        text = raw.decode("utf-8-sig")  # spreadsheets begin their CSV with a mark
    except UnicodeDecodeError as error:
        raise _bad(path, raw.count(b"\n", 0, error.start) + 1, "not UTF-8") from error
    lines = _ndjson(path, text) if text.lstrip().startswith("{") else _csv(path, text)
    pairs = [_checked(path, *line) for line in lines]
    if not pairs:
        raise SubscriptionError(f"{path}: there is no subscription in it")
    if len(pairs) > _SUBSCRIPTIONS_LIMIT:
        raise SubscriptionError(f"{path}: {len(pairs):,} subscriptions, the limit is {_SUBSCRIPTIONS_LIMIT:,}")
    return pairs


def _bad(path: Path, number: int, reason: str) -> SubscriptionError:
    return SubscriptionError(f"{path}: line {number}: {reason}")


def _checked(path: Path, number: int, name: str, prefix: str) -> tuple[str, str]:
    if not name:
        raise _bad(path, number, "the name is empty")
    try:
        return name, check_prefix(prefix)
    except InvalidTopicError as error:
        raise _bad(path, number, str(error)) from error


def _ndjson(path: Path, text: str) -> Iterator[Line]:
    decode = msgspec.json.Decoder(_Fields).decode
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                fields = decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                raise _bad(path, number, f'{{"name": ..., "prefix": ...}} expected: {error}') from error
            yield number, fields.name, fields.prefix


def _csv(path: Path, text: str) -> Iterator[Line]:
    rows = csv.reader(text.splitlines(keepends=True), strict=True)
    try:
        heads = next((row for row in rows if row), [])
        if any(head not in heads for head in _HEADS):
            shown = printable(",".join(heads))
            raise _bad(path, max(1, rows.line_num), f"the header name,prefix expected, found {shown}")
        name, prefix = map(heads.index, _HEADS)
        for row in rows:
            if row:
                if len(row) != len(heads):
                    raise _bad(path, rows.line_num, f"{len(heads)} fields expected, found {len(row)}")
                yield rows.line_num, row[name], row[prefix]
    except csv.Error as error:
        raise _bad(path, rows.line_num, str(error)) from error


class Totals(NamedTuple):
    """How many messages and bytes went where."""

    all_messages: int
    messages: list[int]
    """Of each subscriber."""
    bytes: list[int]
    """Of each subscriber."""
    delivered: int
    """Deliveries: a message to three subscribers is three."""
    wanted: int
    """Messages with a subscriber."""


class Matcher:
    """Finds the subscribers of topics; it is sent to the tasks.

    Args:
        pairs: Names and prefixes. Subscribers are numbered as their names appear.

    Attributes:
        names: Of the subscribers.
        prefixes: Distinct ones, the shortest first.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        numbers: dict[str, int] = {}
        wanted: dict[str, set[int]] = {}
        for name, prefix in pairs:
            wanted.setdefault(prefix, set()).add(numbers.setdefault(name, len(numbers)))
        self.names = list(numbers)
        self.prefixes = sorted(wanted, key=lambda prefix: (len(prefix), prefix))
        self._multimap: PrefixMultimap[int] = PrefixMultimap()
        for number, prefix in enumerate(self.prefixes):
            self._multimap.add(prefix, number)
        # The longest prefix that each prefix has; it has a lower number.
        self._parents = [
            max((found for found in self._multimap.find(prefix) if found != number), default=_NO_PREFIX)
            for number, prefix in enumerate(self.prefixes)
        ]
        self._added = [
            sorted(wanted[prefix].difference(*(wanted[self.prefixes[above]] for above in self._above(number))))
            for number, prefix in enumerate(self.prefixes)
        ]

    def _above(self, number: int) -> Iterator[int]:
        while (number := self._parents[number]) != _NO_PREFIX:
            yield number

    def longest(self, topic: str) -> int:
        """Return the number of the longest prefix of a topic, -1 if it has none."""
        return max(self._multimap.find(topic), default=_NO_PREFIX)

    def subscribers(self, longest: int) -> list[int]:
        """Return the subscribers of the topics with this longest prefix, ascending."""
        chain = [longest, *self._above(longest)] if longest != _NO_PREFIX else []
        return sorted(subscriber for number in chain for subscriber in self._added[number])

    def totals(self, ends: Mapping[int, tuple[int, int]]) -> Totals:
        """Return what each subscriber gets."""
        found = [ends.get(number, (0, 0)) for number in range(len(self.prefixes))]
        unwanted = ends.get(_NO_PREFIX, (0, 0))[0]
        messages, sizes = [0] * len(self.names), [0] * len(self.names)
        delivered = wanted = 0
        for number in range(len(found) - 1, -1, -1):  # children first: their messages have the parent's prefix, too
            count, size_bytes = found[number]
            for subscriber in self._added[number]:
                messages[subscriber] += count
                sizes[subscriber] += size_bytes
            delivered += count * len(self._added[number])
            parent = self._parents[number]
            if parent == _NO_PREFIX:
                wanted += count
            else:
                found[parent] = (found[parent][0] + count, found[parent][1] + size_bytes)
        return Totals(wanted + unwanted, messages, sizes, delivered, wanted)


def count(scan: Scan, matcher: Matcher) -> Totals:
    """Return what each subscriber gets of an archive."""

    def sums(batches: Iterator[Chosen]) -> Iterator[pa.RecordBatch]:
        found: dict[int, list[int]] = {}
        for batch in batches:
            counts = np.bincount(batch.numbers, minlength=len(batch.topics)).tolist()
            sizes = np.bincount(batch.numbers, batch.sizes, len(batch.topics)).tolist()
            for topic, messages, size_bytes in zip(batch.topics, counts, sizes, strict=True):
                if messages:
                    sums = found.setdefault(matcher.longest(topic), [0, 0])
                    sums[0] += messages
                    sums[1] += int(size_bytes)
        rows = [(longest, *sums) for longest, sums in found.items()]
        columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)] or [pa.array([], pa.int64())] * 3
        yield pa.record_batch(columns, names=["longest", "messages", "bytes"])

    rows = scan.run(sums, "longest BIGINT, messages BIGINT, bytes BIGINT", "sizes").groupBy("longest").sum().collect()
    return matcher.totals({row["longest"]: (row["sum(messages)"], row["sum(bytes)"]) for row in rows})


def write_deliveries(scan: Scan, matcher: Matcher, path: str) -> None:
    """Write who gets each message to a new folder, without the messages that have no receiver."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 -- heavy: subscriptions are read before Java starts

    def lists(batches: Iterator[Chosen]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            topics = [matcher.subscribers(matcher.longest(topic)) for topic in batch.topics]
            found = pa.array(topics, pa.list_(pa.int32())).take(pa.array(batch.numbers))
            rows = pa.record_batch({"offset": pa.array(batch.offsets), "subscribers": found})
            yield rows.filter(pa.array(np.array(list(map(bool, topics)), bool)[batch.numbers]))

    deliveries = scan.run(lists, "offset BIGINT, subscribers ARRAY<INT>", "offsets")
    try:
        deliveries.write.option("compression", "zstd").parquet(path)
    except AnalysisException as error:
        if error.getCondition() == "PATH_ALREADY_EXISTS":
            raise UsageError(f"{path}: it exists already, and deliveries are written to a new folder") from error
        raise
    names = pa.table({"number": range(len(matcher.names)), "name": matcher.names})
    subscribers = deliveries.sparkSession.createDataFrame(names)
    subscribers.coalesce(1).write.option("header", value=True).csv(f"{path}/_subscribers")
