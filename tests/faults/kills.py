"""Lives of hubs on one journal: load, SIGKILL at a moment that a seed decides, a look at what is left."""

from __future__ import annotations

import asyncio
import signal
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, closing, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgpack

from hub.errors import ClosedError, PeerError
from hub.journal.block import Block
from hub.messages.batch import Batch
from peers.client import QueueWish, connect
from peers.client.client import Client, Connecting
from peers.journal.store import Retention, Store
from peers.journal.view import View
from tests.daemon.hub_process import HubProcess

DEADLINE_S = 90.0  # when a test stops waiting for what it expects
_LISTEN = ("--listen", "tcp://127.0.0.1:0", "--listen", "ws://127.0.0.1:0", "--log-format", "json")


class RunningHub:
    def __init__(self, process: HubProcess, up_s: float) -> None:
        self.process = process
        self.up_s = up_s
        self._is_struck = False
        self.url = process.endpoints[0].location

    def connect(self, queue: QueueWish | None = None) -> Connecting:
        return connect(self.url, reconnect=False, queue=queue)

    def strike(self) -> None:
        if not self._is_struck:
            self._is_struck = True
            self.process.signal(signal.SIGKILL)

    async def stop(self) -> None:
        self.process.signal(signal.SIGTERM)
        code, log = await self.process.wait_ended()
        assert code == 0, log

    async def get(self, path: str) -> tuple[int, str]:
        return await asyncio.to_thread(_get, f"{self.process.page.rstrip('/')}{path}")

    async def counter(self, name: str) -> int:
        _, text = await self.get("/metrics")
        return int(float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} "))))


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as response:  # noqa: S310 -- our own hub
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@asynccontextmanager
async def running_hub(path: Path | str, *flags: str, wrap: Sequence[str] = ()) -> AsyncIterator[RunningHub]:
    began_s = time.perf_counter()
    process = await HubProcess.start([*_LISTEN, "--journal", str(path), *flags], {}, before=wrap)
    try:
        await asyncio.wait_for(process.wait_up(2 + flags.count("--listen")), DEADLINE_S)
        yield RunningHub(process, time.perf_counter() - began_s)
    finally:
        await process.kill()


_RUN_MESSAGES = 50  # so many in a row have one topic, so that some leave as batches


def topic_of(name: str, number: int) -> str:
    return f"/load/{name}/{number // _RUN_MESSAGES % 3}"


def value_of(name: str, number: int) -> list[Any]:
    return [name, number, bytes([number % 251]) * (number * 37 % 300)]


NOWHERE = -1  # in place of an offset, where a message is not recorded


class Ledger:
    def __init__(self, *, may_lose: bool = False) -> None:
        self._may_lose = may_lose
        self.sent: defaultdict[str, int] = defaultdict(int)
        """How many messages each publisher has handed over, at least in part."""
        self.confirmed: dict[tuple[str, int], int] = {}
        """Publisher and number: the offset that the hub has told. Since the last `check_confirmed`."""
        self.confirmed_total = 0
        self.offsets: defaultdict[str, list[int]] = defaultdict(list)  # where the messages of each publisher were found
        self.position = 0  # everything before this offset was looked at

    def read(self, path: Path) -> None:
        with closing(View(str(path))) as view:
            extent = view.extent
            assert extent.first == 0
            assert extent.next >= self.position, f"{self.position} offsets were there, now {extent.next}"
            for row in view.rows(self.position):
                self.take(view.block(row))
            assert self.position == extent.next

    def take(self, block: Block) -> None:
        for offset, _, topic, _, body in block.records():
            if offset < self.position:
                continue
            assert offset == self.position, f"a gap: {offset} follows {self.position - 1}"
            value = msgpack.unpackb(body)
            name, number = value[:2]
            found = self.offsets[name]
            if self._may_lose:
                found += [NOWHERE] * (number - len(found))
            assert number == len(found), f"offset {offset}: number {number} of {name}, {len(found)} were there before"
            assert number < self.sent[name], f"offset {offset}: number {number} of {name} was never sent"
            assert (topic, value) == (topic_of(name, number), value_of(name, number)), f"offset {offset}: changed"
            found.append(offset)
            self.position += 1

    def check_confirmed(self) -> None:
        for (name, number), offset in self.confirmed.items():
            found = self.offsets.get(name, [])
            assert number < len(found), f"number {number} of {name} was confirmed at {offset} and is gone"
            assert found[number] == offset, f"number {number} of {name}: confirmed {offset}, found {found[number]}"
        self.confirmed_total += len(self.confirmed)
        self.confirmed.clear()

    def recorded(self, name: str) -> int:
        return len(self.offsets.get(name, ()))


BATCH_MESSAGES = 12_000  # of one batch of a writer: 2 MB, so that it is routed in several turns of the hub's loop
_PARTS = 3
_FRAME_MESSAGES = 50
_PLAIN_MESSAGES = 100  # published between two looks at whether the hub takes them


class Moment:
    def __init__(self, messages: int, suits: Callable[[], bool], act: Callable[[], None]) -> None:
        self._left = messages
        self._suits = suits
        self._act = act
        self._come = asyncio.Event()

    def count(self, messages: int) -> None:
        self._left -= messages
        if self._left <= 0 and not self._come.is_set() and self._suits():
            self._act()
            self._come.set()

    @property
    def is_due(self) -> bool:
        return self._left <= 0 and not self._come.is_set()

    @property
    def has_come(self) -> bool:
        return self._come.is_set()

    async def pause(self) -> None:
        pass

    async def wait(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await self._come.wait()


@asynccontextmanager
async def until_lost(hub: RunningHub) -> AsyncIterator[Client]:
    async with hub.connect() as client:
        with suppress(PeerError, ClosedError):
            yield client


async def publish_confirmed(hub: RunningHub, ledger: Ledger, name: str, moment: Moment, *, together: int) -> None:
    async with until_lost(hub) as client:
        for start in count(0, together):
            numbers = range(start, start + together)
            ledger.sent[name] += together
            moment.count(together)
            await moment.pause()
            calls = [client.publish_confirmed(topic_of(name, each), value_of(name, each)) for each in numbers]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            for number, outcome in zip(numbers, outcomes, strict=True):
                if isinstance(outcome, BaseException):
                    raise outcome
                ledger.confirmed[name, number] = outcome


async def publish_plain(hub: RunningHub, ledger: Ledger, name: str, moment: Moment) -> None:
    async with until_lost(hub) as client:
        for start in count(0, _PLAIN_MESSAGES):
            for number in range(start, start + _PLAIN_MESSAGES):
                ledger.sent[name] += 1
                await client.publish(topic_of(name, number), value_of(name, number))
            await client.drain()
            await asyncio.sleep(0)  # a socket that takes it all does not let others in
            moment.count(_PLAIN_MESSAGES)


async def read_history(hub: RunningHub, start: int) -> None:
    async with until_lost(hub) as client:
        while True:
            async for block in client.read(start=start).blocks(verify=True):
                start = block.next
            await asyncio.sleep(0)


class BatchWriter:
    def __init__(self, ledger: Ledger, query: str, messages: int = BATCH_MESSAGES) -> None:
        self._messages = messages
        self._ledger = ledger
        self.query = query
        self.next_batch = 0  # what comes before it was told to be committed
        self.is_committing = False  # whether a COMMIT is on its way
        self.in_doubt = False  # whether the batch may have been committed without our hearing of it
        self.again_total = 0

    @property
    def recorded(self) -> int:
        batches, rest = divmod(self._ledger.recorded(self.query), self._messages)
        assert not rest, f"{rest} messages of batch {batches} of {self.query} are recorded without the others"
        assert self.next_batch <= batches <= self.next_batch + 1
        return batches

    async def write(self, hub: RunningHub, moment: Moment) -> None:
        async with until_lost(hub) as client:
            if self.in_doubt:
                expected = self.recorded > self.next_batch
                assert await self._write_batch(client, moment) is expected
                self.again_total += expected
            while True:
                assert await self._write_batch(client, moment) is False
                await moment.pause()

    async def _write_batch(self, client: Client, moment: Moment) -> bool:
        batch = self.next_batch
        transaction = f"{self.query}.{batch}"
        for part in range(_PARTS):
            await client.stage(transaction, part, self._frames(batch, part))
        self._ledger.sent[self.query] = (batch + 1) * self._messages
        moment.count(self._messages)
        self.in_doubt = self.is_committing = True
        try:
            committed = await client.commit(transaction, list(range(_PARTS)), query=self.query, batch=batch)
        finally:
            self.is_committing = False
        self.in_doubt = False
        self.next_batch += 1
        first = batch * self._messages
        if not committed.again:
            self._ledger.confirmed[self.query, first] = committed.first
        return committed.again

    def _frames(self, batch: int, part: int) -> bytes:
        size = self._messages // _PARTS
        first = batch * self._messages + part * size
        return frames_of(self.query, range(first, first + size))


def frames_of(name: str, numbers: range) -> bytes:
    starts = range(numbers.start, numbers.stop, _FRAME_MESSAGES)
    return b"".join(_frame(name, range(start, min(start + _FRAME_MESSAGES, numbers.stop))) for start in starts)


def _frame(name: str, numbers: range) -> bytes:
    return Batch.of(topic_of(name, numbers[0]), [value_of(name, number) for number in numbers]).frames


async def load(hub: RunningHub, moment: Moment, work: list[Coroutine[Any, Any, None]]) -> None:
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await moment.wait()
    finally:
        hub.strike()
        await asyncio.gather(*tasks)


_ALL = Retention(bytes=1 << 50, age_us=1 << 60)


class Life(NamedTuple):
    up_s: float  # from the start of the process until the hub listens
    records: int  # in the journal when it was killed
    confirmed: int  # in this life
    opened_s: float  # for the first who opened the file after the kill; 0 if that was the next hub itself


async def read_on(hub: RunningHub, ledger: Ledger, name: str) -> None:
    async with hub.connect() as client:
        head = (await client.journal()).head
        async for block in client.read(start=ledger.position).blocks(verify=True):
            ledger.take(block)
        assert ledger.position == head
        ledger.check_confirmed()
        ledger.sent[name] = 1
        assert await client.publish_confirmed(topic_of(name, 0), value_of(name, 0)) == head
        ledger.confirmed[name, 0] = head


class Lives:
    def __init__(
        self, path: Path, sync: str, random: Random, *, most_messages: int = 60_000, writes: bool = False
    ) -> None:
        self.ledger = Ledger()
        self.writer = BatchWriter(self.ledger, "query")
        self._path = path
        self._sync = sync
        self._random = random
        self._most_messages = most_messages
        self._writes = writes
        self._lives = 0

    async def live(self) -> Life:
        ledger = self.ledger
        async with running_hub(self._path, "--journal-sync", self._sync) as hub:
            await read_on(hub, ledger, f"{self._lives}.first")
            assert self.writer.recorded >= self.writer.next_batch
            before = len(ledger.confirmed)
            await self._load(hub)
        confirmed = len(ledger.confirmed) - before
        opened_s = self._opened_s(self._random.choice(["reader", "writer", "nobody"]))
        self._lives += 1
        return Life(hub.up_s, ledger.position, confirmed, opened_s)

    async def _load(self, hub: RunningHub) -> None:
        ledger, life, writer = self.ledger, self._lives, self.writer
        confirmed = len(ledger.confirmed)

        def suits() -> bool:
            return writer.is_committing if self._writes else len(ledger.confirmed) > confirmed

        moment = Moment(self._random.randrange(1_000, self._most_messages), suits, hub.strike)
        work: list[Coroutine[Any, Any, None]] = [
            publish_confirmed(hub, ledger, f"{life}.one", moment, together=1),
            publish_confirmed(hub, ledger, f"{life}.many", moment, together=64),
            publish_plain(hub, ledger, f"{life}.plain", moment),
            publish_plain(hub, ledger, f"{life}.more", moment),
            writer.write(hub, moment),
            read_history(hub, ledger.position),
        ]
        await load(hub, moment, work)

    def _opened_s(self, kind: str) -> float:
        """Open the journal as a reader or a writer does, before anything else; return how long that took."""
        began_s = time.perf_counter()
        if kind == "reader":
            with closing(View(str(self._path))) as view:
                assert view.extent.next >= self.ledger.position
                opened_s = time.perf_counter() - began_s
            self._look()
        elif kind == "writer":
            with closing(Store(str(self._path), full_sync=False, retention=_ALL)) as store:
                opened_s = time.perf_counter() - began_s
                assert store.first == 0
            self._look()
            assert store.next == self.ledger.position
        else:
            return 0.0
        return opened_s

    def _look(self) -> None:
        self.ledger.read(self._path)
        self.ledger.check_confirmed()
        assert self.writer.recorded >= self.writer.next_batch

    def end(self) -> None:
        self._look()
        again = Ledger()
        again.sent = self.ledger.sent
        again.read(self._path)
        assert again.offsets == self.ledger.offsets
