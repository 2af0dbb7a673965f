"""`Traffic`: what a workload's publishers send, and what its subscribers must then get, spelled by a dialect.

```
message number   0      1      2      ...   is the unit of a publisher's stream
topic            0      1      2      ...   in turn; neighbours have no prefix in common
subscriber       0      1      2      ...   that wants it, if the prefixes are shared out; else all do
```
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads import Workload

from generators.dialect import Dialect, Interest, Topic
from generators.stream import WRITE_BYTES, Stream, payload

__all__ = ["Traffic"]

_WINDOW_BYTES = 512 * 1024
_PERIOD_LEAST_UNITS = 32


@dataclass(frozen=True, slots=True)
class Traffic:
    """The streams of one workload in one dialect."""

    workload: Workload
    dialect: Dialect

    def published(self, publisher: int) -> Stream:
        """Return what a publisher sends, cut into writes."""
        units = [self._publication(publisher, number) for number in range(self._period_units())]
        stream = Stream(units, self.dialect.unit_messages, units[0].index(self._payloads(publisher, 0)[0]))
        most = 1 if self.workload.rate else self.workload.chunk_messages
        stream.cut(self.workload.shares, len(units[0]) * most if most else WRITE_BYTES)
        return stream

    def delivered(self, publisher: int, share: int) -> Stream:
        """Return what a subscriber gets of it.

        Args:
            publisher: Number of the publisher.
            share: Which part of the prefixes the subscriber has.
        """
        workload = self.workload
        units = []
        for number in range(share, self._period_units(), workload.shares):
            topic = self._topic(number)
            place = number % workload.prefixes // workload.shares if workload.prefixes else 0
            interest = Interest(topic[:2], below=bool(workload.prefixes))
            units.append(self.dialect.delivery(topic, self._payloads(publisher, number), interest, place))
        offset = units[0].index(self._payloads(publisher, share)[0])
        return Stream(units, self.dialect.unit_messages, offset)

    def interests(self, share: int) -> list[Interest]:
        """Return what a subscriber with this share subscribes to."""
        workload = self.workload
        if not workload.prefixes:
            return [Interest(self._topic(0))]
        numbers = range(share, workload.prefixes, workload.shares)
        return [Interest(self._topic(number)[:2], below=True) for number in numbers]

    def window_messages(self, stream: Stream) -> int:
        """Return how far a publisher may be ahead."""
        return self.workload.window_messages or stream.messages(_WINDOW_BYTES)

    def _topic(self, number: int) -> Topic:
        prefixes = self.workload.prefixes
        if not prefixes:
            return ("bench", "stream")
        return ("bench", f"{number % prefixes:04}", f"{number % self.workload.topics // prefixes:04}")

    def _payloads(self, publisher: int, unit: int) -> list[bytes]:
        count = self.dialect.unit_messages
        return [
            payload(number, publisher, self.workload.size_bytes) for number in range(unit * count, (unit + 1) * count)
        ]

    def _publication(self, publisher: int, unit: int) -> bytes:
        return self.dialect.publication(self._topic(unit), self._payloads(publisher, unit))

    def _period_units(self) -> int:
        """Return two windows, or more: a whole number of rounds through topics and shares."""
        workload = self.workload
        windows = workload.window_messages // self.dialect.unit_messages
        windows = max(windows, _WINDOW_BYTES // len(self._publication(0, 0)))
        multiple = max(workload.topics, workload.shares)
        return -(-max(2 * windows, _PERIOD_LEAST_UNITS) // multiple) * multiple
