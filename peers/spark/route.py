"""Route: which subscriber would get which message of an archive, by the hub's own matching.

Tasks match each topic of a batch once, with the hub's prefix multimap: 2 to 5 µs, and 0.1 µs for each subscriber.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from hub.errors import InvalidTopicError, UsageError
from hub.prefixes import PrefixMultimap
from hub.topics import check_prefix, printable

if TYPE_CHECKING:
    from peers.spark.scan import Chosen, Scan

# Lines of a file. The driver holds all of them and sends them to every executor.
_SUBSCRIPTIONS_LIMIT = 1_000_000

_HEADS = ("name", "prefix")

Line = tuple[int, str, str]
"""Number in the file, from 1; name; prefix."""


class SubscriptionError(UsageError):
    """A file of subscriptions is wrong; the text names it, and the line."""


class _Fields(msgspec.Struct):
    name: str
    prefix: str


def read_subscriptions(path: Path) -> list[tuple[str, str]]:
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
    """How many messages and bytes each subscriber gets; `wanted` messages have a subscriber."""

    all_messages: int
    wanted: int
    messages: list[int]
    bytes: list[int]

    @property
    def delivered(self) -> int:
        """Deliveries: a message to three subscribers is three."""
        return sum(self.messages)


class Matcher:
    """Finds the subscribers of topics; it is sent to the tasks. Subscribers are numbered as their names appear."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        numbers: dict[str, int] = {}
        self.prefixes: set[str] = set()
        self._multimap: PrefixMultimap[int] = PrefixMultimap()
        for name, prefix in pairs:
            self.prefixes.add(prefix)
            self._multimap.add(prefix, numbers.setdefault(name, len(numbers)))
        self.names = list(numbers)

    def subscribers(self, topic: str) -> list[int]:
        return sorted(self._multimap.find(topic))


# Beside the numbers of subscribers: all messages, and those with a subscriber.
_ALL, _WANTED = -1, -2


def count(scan: Scan, matcher: Matcher) -> Totals:
    def sums(batches: Iterator[Chosen]) -> Iterator[pa.RecordBatch]:
        found: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        for batch in batches:
            counts = np.bincount(batch.numbers, minlength=len(batch.topics)).tolist()
            sizes = np.bincount(batch.numbers, batch.sizes, len(batch.topics)).tolist()
            for topic, messages, size_bytes in zip(batch.topics, counts, sizes, strict=True):
                if messages:
                    subscribers = matcher.subscribers(topic)
                    for number in (*subscribers, _ALL, *([_WANTED] if subscribers else [])):
                        found[number][0] += messages
                        found[number][1] += int(size_bytes)
        rows = [(number, *sums) for number, sums in found.items()]
        columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)] or [pa.array([], pa.int64())] * 3
        yield pa.record_batch(columns, names=["number", "messages", "bytes"])

    rows = scan.run(sums, "number BIGINT, messages BIGINT, bytes BIGINT", "sizes").groupBy("number").sum().collect()
    found = {row["number"]: (row["sum(messages)"], row["sum(bytes)"]) for row in rows}
    each = [found.get(number, (0, 0)) for number in range(len(matcher.names))]
    every, wanted = (found.get(number, (0, 0))[0] for number in (_ALL, _WANTED))
    return Totals(every, wanted, [messages for messages, _ in each], [size for _, size in each])


def write_deliveries(scan: Scan, matcher: Matcher, path: str) -> None:
    """Write the subscribers of each message to a new folder, without messages that have none."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 -- heavy: subscriptions are read before Java starts

    def lists(batches: Iterator[Chosen]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            topics = [matcher.subscribers(topic) for topic in batch.topics]
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
