"""Goals for memory, and for subscribers that stop reading: what they cost the others, what exactly they lose.

Those have a small receive buffer in the kernel, so that the hub soon notices that nobody reads. So that it does not
take them for dead, they say something now and then: a pong that nobody asked for.
"""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from hub.limits import Overflow
from hub.messages.frame import encode_frame
from peers.bench.line import SEQUENCE_OFFSET, Layout, Line, Shape, dial
from peers.bench.measurement import Measurement
from peers.bench.processes import RunningHub
from peers.bench.stage import Stage, Transport, Watch
from peers.transport.endpoints import Endpoint
from peers.wire.hello import QueueWish
from peers.wire.kinds import Kind
from tests.benchmarks.goals.figure import Figure, Scope, faults

_SIGN_OF_LIFE_S = 5.0
"""This is well below the 20 s of silence after which a hub pings."""

_STALLED_RECEIVE_BYTES = 4096
"""Linux doubles it and gives at least about this."""

_RECEIVE_BYTES = 256 * 1024
_QUIET_S = 1.0
"""When nothing has come for so long, nothing more will."""


class Gap(msgspec.Struct, frozen=True):
    first: int
    messages: int


class Account(msgspec.Struct):
    received: int = 0
    lost: int = 0
    told: int = 0
    """How many of them the hub told it of."""
    out_of_order: int = 0
    closed: str = ""
    """Why the hub closed the connection; empty while it is open."""
    gaps: list[Gap] = []


class _Reader:
    def __init__(self, line: Line, first: int, step: int) -> None:
        self.line = line
        self.account = Account()
        self._next = first
        self._step = step

    def read(self) -> bool:
        line, account = self.line, self.account
        data = b""
        with suppress(ConnectionError):
            data = line.socket.recv(_RECEIVE_BYTES)
        line.held += data
        position = 0
        while (frame := line.cut(line.layout, line.held, position, len(line.held))) is not None:
            if isinstance(frame, Shape):
                place = position + frame.first_value + len(line.layout.value_head) + SEQUENCE_OFFSET
                self._count(int.from_bytes(line.held[place : place + 4], "big"))
            elif frame.word == "dropped":
                account.told += frame.lost
            elif frame.word == "close":
                account.closed = account.closed or f"{frame.text} ({frame.code})"
            elif frame.answer:
                line.socket.sendall(frame.answer)
            position += frame.size
        del line.held[:position]
        if not data:
            account.closed = account.closed or "closed without a word"
        return bool(data)

    def end(self, sent: int) -> Account:
        if self._next < sent:
            self._lose(-(-(sent - self._next) // self._step))
        return self.account

    def _count(self, sequence: int) -> None:
        self.account.received += 1
        if sequence < self._next:
            self.account.out_of_order += 1
            return
        if sequence > self._next:
            self._lose((sequence - self._next) // self._step)
        self._next += self._step

    def _lose(self, messages: int) -> None:
        self.account.lost += messages
        self.account.gaps.append(Gap(self._next, messages))
        self._next += messages * self._step


class StalledReaders:
    def __init__(self, stage: Stage, readers: list[_Reader]) -> None:
        self._stage = stage
        self._readers = readers
        self._said_s = time.monotonic()

    def watched(self, watch: Watch) -> Watch:
        def call(done: int, total: int) -> None:
            watch(done, total)
            if time.monotonic() - self._said_s > _SIGN_OF_LIFE_S:
                self._said_s = time.monotonic()
                for reader in self._readers:
                    with suppress(OSError):  # the hub has closed; why is read when the reader reads on
                        reader.line.socket.sendall(encode_frame(Kind.PONG, b""))

        return call

    def accounts(self) -> list[Account]:
        """Read on until nothing more comes; return what each got since it was connected."""
        (sent,) = self._stage.sent
        poll = select.epoll()
        by_descriptor = {reader.line.fileno(): reader for reader in self._readers}
        for descriptor, reader in by_descriptor.items():
            reader.line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
            poll.register(descriptor, select.EPOLLIN)
        while ready := poll.poll(_QUIET_S):
            for descriptor, _ in ready:
                if not by_descriptor[descriptor].read():
                    poll.unregister(descriptor)
        return [reader.end(sent) for reader in self._readers]


@contextmanager
def stalled_readers(stage: Stage, count: int, wish: QueueWish, *, apart: bool = False) -> Iterator[StalledReaders]:
    """Have so many readers, for a `with` statement."""
    (sent,) = stage.sent
    step = stage.layout.topics if apart else 1
    readers: list[_Reader] = []
    url = stage.hub.url("tcp")
    try:
        for number in range(count):
            through = _connected(url)
            line = dial(url, stage.layout, f"bench stalled {number}", wish=wish, through=through)
            line.subscribe([stage.layout.topic(number) if apart else stage.layout.prefix])
            readers.append(_Reader(line, sent + (number - sent) % step, step))
        yield StalledReaders(stage, readers)
    finally:
        for reader in readers:
            reader.line.close()


def _connected(url: str) -> socket.socket:
    """Connect with a small receive buffer. One that is made small later would make the kernel drop what it let in."""
    endpoint = Endpoint.parse(url)
    made = socket.socket(socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _STALLED_RECEIVE_BYTES)
    made.connect((endpoint.host, endpoint.port))
    return made


_SUBSCRIBERS, _STALLED = 100, 10
_QUEUE_MESSAGES = 1000
_STALLED_SIZE_BYTES = 100
_RATE_MESSAGES = 400_000
_ACCOUNT_MESSAGES = 200_000
"""This is several times what a queue, the hub's write buffer and the kernel's hold together, and few enough that a
subscriber that is disconnected is read again before the hub gives it up (2 s)."""


def stalled(scope: Scope, overflow: Overflow, goal_percent: float) -> list[Figure]:
    name = f"10 of 100 stalled, {overflow.value}"
    rates, capacities, flaws = [], [], []
    for number in range(scope.repeat):
        pair: dict[bool, Measurement] = {}
        for stalling in (False, True) if number % 2 == 0 else (True, False):
            pair[stalling] = _rate(scope, overflow, f"{name}{'' if stalling else ': none yet'}", stalling=stalling)
        rates.append(100 * pair[True].published_per_s / pair[False].published_per_s)
        capacities.append(100 * pair[False].us_per_message / pair[True].us_per_message)
        flaws += faults(list(pair.values()))
    by_cpu = f"{name}: messages to the others for a second of hub CPU"
    return [
        Figure(f"{name}: rate of the others", goal_percent, "% of before", rates, at_least=True, faults=flaws),
        Figure(by_cpu, goal_percent, "% of before", capacities, at_least=True, faults=flaws),
        _accounts(scope, overflow, name),
    ]


def _accounts(scope: Scope, overflow: Overflow, name: str) -> Figure:
    wrong = [
        account_faults(account, overflow, _sent(scope), _QUEUE_MESSAGES)
        for _ in range(scope.repeat)
        for account in _account(scope, overflow, f"{name}: account")
    ]
    right_percent = 100 * sum(not one for one in wrong) / len(wrong)
    return Figure(
        f"{name}: stalled ones whose messages and told losses are exactly right",
        100,
        "%",
        [right_percent],
        at_least=True,
        faults=sorted({fault for one in wrong for fault in one})[:3],
    )


def _sent(scope: Scope) -> int:
    return scope.scaled(_ACCOUNT_MESSAGES, 60_000)


def _rate(scope: Scope, overflow: Overflow, name: str, *, stalling: bool) -> Measurement:
    stuck = scope.scaled(_STALLED) if stalling else 0
    plan = scope.plan(
        messages=scope.scaled(_RATE_MESSAGES),
        size=_STALLED_SIZE_BYTES,
        subscribers=scope.scaled(_SUBSCRIBERS, 2) - stuck,
    )
    with Stage(plan) as stage, stalled_readers(stage, stuck, _wish(overflow)) as readers:
        stage.measure(plan.warmup_messages)  # so that their queues are full from the beginning
        return stage.measure(watch=readers.watched(scope.tell(name)))


def _account(scope: Scope, overflow: Overflow, name: str) -> list[Account]:
    plan = scope.plan(messages=_sent(scope), size=_STALLED_SIZE_BYTES, warmup=0)
    with Stage(plan) as stage, stalled_readers(stage, scope.scaled(_STALLED), _wish(overflow)) as readers:
        stage.measure(watch=readers.watched(scope.tell(name)))
        return readers.accounts()


def _wish(overflow: Overflow) -> QueueWish:
    return QueueWish(messages=_QUEUE_MESSAGES, overflow=overflow)


def account_faults(account: Account, overflow: Overflow, sent: int, queue_messages: int) -> list[str]:
    """Return what is wrong with what one subscriber got that stalled from the first message on.

    All of it must be told, and none twice or out of order. Of the messages that its queue held:

    * drop-oldest: one gap, and behind it exactly as many messages as the queue holds, the newest;
    * drop-newest: no gap before the end, so what it got are the oldest;
    * disconnect: the oldest, then close code 4008 and how many were lost until then.
    """
    wrong = []
    if account.received + account.lost != sent or account.out_of_order:
        wrong.append(f"{account.received} received and {account.lost} lost are not {sent}")
    if len(account.gaps) != 1:
        return [*wrong, f"{len(account.gaps)} gaps, expected one"]
    gap = account.gaps[0]
    behind = sent - gap.first - gap.messages
    if behind != (queue_messages if overflow is Overflow.DROP_OLDEST else 0):
        wrong.append(f"{behind} messages behind the gap")
    if overflow is Overflow.DISCONNECT:
        told = re.search(r"(\d+) messages lost.*\(4008\)", account.closed)
        if told is None or not queue_messages < int(told[1]) <= account.lost:
            wrong.append(f"closed with {account.closed!r}")
    elif account.told != account.lost:
        wrong.append(f"{account.lost} lost, {account.told} told")
    if account.closed and overflow is not Overflow.DISCONNECT:
        wrong.append(f"closed with {account.closed!r}")
    return wrong


_CONNECTIONS = 2000
_PREFIXES = 100_000
_HOLDERS = 20
_WARM_CONNECTIONS = 20
"""So many clients connect and leave before, so that what the first one makes the hub load is not charged."""

_PREFIXES_PER_REQUEST = 500
_LAYOUT = Layout("/idle/", 1, 16, 1)
"""The layout of messages that never come."""

_STALLED_QUEUES = 100
_STALLED_QUEUE_BYTES = 1 << 20
_OVERFULL = 4
"""So many times what the queue holds is published to each."""

_SIZE_BYTES = 100


class _Crowd:
    """A hub with idle clients, and nothing else. They do not answer pings: all is over before the first one."""

    def __init__(self, hub: RunningHub, url: str) -> None:
        self._hub = hub
        self._url = url
        self._lines: list[Line] = []
        self._prefixes = 0

    def populate(self, count: int) -> None:
        while len(self._lines) > count:
            self._lines.pop().close()
        while len(self._lines) < count:
            self._lines.append(dial(self._url, _LAYOUT, f"bench idle {len(self._lines)}"))

    def subscribe(self, prefixes: int) -> None:
        """Each of them subscribes to so many more prefixes: few topics of many parts, as hosts and services have."""
        for line in self._lines:
            for first in range(0, prefixes, _PREFIXES_PER_REQUEST):
                numbers = range(self._prefixes, self._prefixes + min(_PREFIXES_PER_REQUEST, prefixes - first))
                self._prefixes = numbers.stop
                line.subscribe([f"/idle/zeek/{number % 50:02}/10.{number >> 8}.{number & 255}/" for number in numbers])

    def memory_bytes(self) -> int:
        self._hub.wait_quiet()
        return self._hub.usage().memory_bytes


@contextmanager
def _crowd(scope: Scope, transport: Transport, *flags: str) -> Iterator[_Crowd]:
    schemes = ("tcp", "ws") if transport == "ws" else ("tcp",)
    hub = RunningHub.start(schemes, (*scope.base.hub_flags, *flags), scope.base.placement[0])
    crowd = _Crowd(hub, hub.url(transport))
    try:
        crowd.populate(_WARM_CONNECTIONS)
        crowd.populate(0)
        yield crowd
    finally:
        crowd.populate(0)
        hub.stop()


def connections(scope: Scope, transport: Transport, goal_kib: float) -> list[Figure]:
    count = scope.scaled(_CONNECTIONS, 10)
    kind = "WebSocket connection" if transport == "ws" else "TCP client"
    name = f"idle {kind} with one subscription, of {count:,}"
    values = []
    for _ in range(scope.repeat):
        scope.tell(name)
        with _crowd(scope, transport) as crowd:
            before = crowd.memory_bytes()
            crowd.populate(count)
            crowd.subscribe(1)
            values.append((crowd.memory_bytes() - before) / count / 1024)
    return [Figure(name, goal_kib, "KiB of memory each", values)]


def subscriptions(scope: Scope, goal_bytes: float) -> list[Figure]:
    each = scope.scaled(_PREFIXES / _HOLDERS)
    name = f"subscription, of {each * _HOLDERS:,} different ones of {_HOLDERS} clients"
    values = []
    for _ in range(scope.repeat):
        scope.tell(name)
        with _crowd(scope, "tcp", "--limits-prefixes-per-client", str(_PREFIXES)) as crowd:
            crowd.populate(_HOLDERS)
            before = crowd.memory_bytes()
            crowd.subscribe(each)
            values.append((crowd.memory_bytes() - before) / (each * _HOLDERS))
    return [Figure(name, goal_bytes, "bytes of memory each", values)]


def stalled_queues(scope: Scope, goal_mib: float) -> list[Figure]:
    """Measure queues of 1 MiB that are full, each with messages that no other one has."""
    count = scope.scaled(_STALLED_QUEUES, 2)
    fitting = _STALLED_QUEUE_BYTES // _SIZE_BYTES
    plan = scope.plan(
        messages=count * fitting * _OVERFULL,
        size=_SIZE_BYTES,
        topics=count,
        warmup=count,
    )
    wish = QueueWish(messages=1_000_000, bytes=_STALLED_QUEUE_BYTES)
    name = f"{count} stalled subscribers, {_STALLED_QUEUE_BYTES >> 20} MiB queues, no message in two of them"
    values, faults = [], []
    for _ in range(scope.repeat):
        with Stage(plan) as stage, stalled_readers(stage, count, wish, apart=True) as readers:
            stage.hub.wait_quiet()
            before = stage.hub.usage().memory_bytes
            run = stage.measure(watch=readers.watched(scope.tell(name)))
            values.append((run.hub_memory_bytes - before) / 1048576)
            accounts = readers.accounts()
        if any(not one.told or one.told != one.lost or one.out_of_order for one in accounts):
            faults.append("a queue was not full, or what it lost was not told")
        if not run.flawless:
            faults.append("the subscriber that reads did not get everything")
    return [Figure(name, goal_mib, "MiB of memory together", values, faults=faults)]
