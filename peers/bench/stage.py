"""`Stage`: the hub, publishers and subscribers of one benchmark.

At full speed a publisher writes 64 KiB of ready frames at once. At a rate each burst has a due time, counted from the
start, and is a write of its own; a late publisher shifts nothing, so readers measure the whole wait (no coordinated
omission). A publisher is never more messages ahead of the slowest subscriber than its window, as the board says.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import select
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from types import NoneType, TracebackType
from typing import Annotated, Literal, NamedTuple, Self

from cyclopts import Group, Parameter

from hub.limits import QueueLimits
from hub.messages.batch import BATCH_OVERHEAD_BYTES
from hub.messages.frame import BATCH_LIMIT_MESSAGES
from peers.bench.line import (
    PUBLISHERS_LIMIT,
    SEQUENCE_LIMIT,
    SIZE_LEAST_BYTES,
    TOPICS_LIMIT,
    Control,
    Counted,
    Layout,
    Line,
    Tally,
    Template,
    dial,
)
from peers.bench.measurement import Histogram, Latency, Measurement, Sample
from peers.bench.processes import (
    HUB,
    BenchError,
    Board,
    HubPlan,
    PlanError,
    RunningHub,
    Usage,
    Worker,
    option,
    raise_descriptor_limit,
)
from peers.transport.endpoints import Endpoint, Scheme
from peers.wire.hello import FRAME_LIMIT_BYTES, QueueWish

Transport = Literal["tcp", "ws"]

_WARMUP_MESSAGES = 10_000

_QUEUES = Group("Queues", sort_key=3)

_USUAL_S = 5.0
_USUAL_MESSAGES = 5_000_000
_USUAL_BYTES = 500_000_000
_LEAST_MESSAGES = 10_000
"""A run without `--messages`: 5 s at a rate; at full speed some seconds, for any size."""

_WIDE_MESSAGES = 65_536
"""Default of `--queue-messages` at full speed. The window is as large as that queue, and with the hub's default, a
millisecond's worth, one would measure how soon processes wake each other up."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Plan(HubPlan):
    """The flags of a stream benchmark."""

    messages: Annotated[
        int | None, option("Messages, of all publishers together. Default: enough for some seconds.")
    ] = None
    size: Annotated[int, option("Bytes of a value, 16 or more.")] = 128
    topics: Annotated[int, option("Topics, published to in turn.")] = 1
    rate: Annotated[float, option("Messages a second; 0 is full speed.")] = 0
    publishers: Annotated[int, option("Publishers, each a process.")] = 1
    subscribers: Annotated[int, option("Subscribers; each gets every message.")] = 1
    batch: Annotated[int, option("Values in a frame.")] = 1
    transport: Annotated[Transport, option("Transport of subscribers.")] = "tcp"
    repeat: Annotated[int, option("Runs, on the same connections; the median counts.")] = 1
    window: Annotated[
        bool, option("Publishers wait for subscribers, so that no queue overflows.", _QUEUES, negative="--no-window")
    ] = True
    queue_messages: Annotated[
        int | None, option(f"Queue requested by subscribers; {_WIDE_MESSAGES:,} at full speed.", _QUEUES)
    ] = None
    pin: Annotated[
        bool, option("Bind a started hub to the first CPU, the load to the others.", HUB, negative="--no-pin")
    ] = True
    warmup: Annotated[int | None, Parameter(parse=False)] = None
    """Messages before those that are measured; None: two rounds through the topics, 10,000 at least."""

    def check(self) -> Plan:
        """Return the plan; raise `PlanError`, which names the option, if it cannot be carried out."""
        self.check_hub(
            [
                ("messages", self.total_messages, 1, SEQUENCE_LIMIT),
                ("size", self.size, SIZE_LEAST_BYTES, FRAME_LIMIT_BYTES),
                ("topics", self.topics, 1, TOPICS_LIMIT),
                ("rate", self.rate, 0, SEQUENCE_LIMIT),
                ("publishers", self.publishers, 1, PUBLISHERS_LIMIT),
                ("subscribers", self.subscribers, 1, 10_000),
                ("batch", self.batch, 1, BATCH_LIMIT_MESSAGES),
                ("repeat", self.repeat, 1, 1_000),
            ]
        )
        schemes = {Endpoint.parse(url).scheme for url in self.urls}
        if self.urls and not schemes & {Scheme.TCP, Scheme.UNIX}:
            raise PlanError("--url: publishers need a tcp:// or unix:// url")
        if self.urls and self.transport == "ws" and Scheme.WS not in schemes:
            raise PlanError("--url: --transport ws needs a second one, ws://")
        # Whole batches, equally many for each publisher.
        each = -(-self.total_messages // (self.publishers * self.batch)) * self.batch
        if each * self.repeat + self.warmup_messages >= SEQUENCE_LIMIT:
            raise PlanError(f"--messages: a publisher can number {SEQUENCE_LIMIT:,} messages, all repeats together")
        if 4 + self.batch * (self.size + 5) > FRAME_LIMIT_BYTES:
            raise PlanError(f"--batch, --size: a frame takes {FRAME_LIMIT_BYTES:,} bytes at most")
        return replace(self, messages=self.total_messages)

    @property
    def total_messages(self) -> int:
        if self.messages is not None:
            return self.messages
        if self.rate > 0:
            return max(1, int(self.rate * _USUAL_S))
        delivered_bytes = max(1, self.size) * max(1, self.subscribers)
        return min(_USUAL_MESSAGES, max(_LEAST_MESSAGES, _USUAL_BYTES // delivered_bytes))

    @property
    def warmup_messages(self) -> int:
        if self.warmup is not None:
            return self.warmup
        return min(self.total_messages, max(_WARMUP_MESSAGES, 2 * self.topics * self.batch))

    @property
    def placement(self) -> tuple[int | None, list[int]]:
        """The CPUs of the hub and of the load; None and empty mean any."""
        allowed = sorted(os.sched_getaffinity(0))
        if not self.pin or self.urls or len(allowed) == 1:
            return None, []
        return allowed[0], allowed[1:]


# The publisher: a process of its own.

_WINDOW_POLL_S = 0.00005
_LISTEN_NS = 500_000_000
"""How often a busy publisher reads from the hub (a ping, an error)."""

_PR_SET_TIMERSLACK = 29


@dataclass(frozen=True)
class Publisher:
    """The set-up of one publisher; it answers None when it is connected."""

    url: str
    layout: Layout
    board: Board
    number: int


@dataclass(frozen=True)
class Publish:
    """The order to send messages; `Published` answers it."""

    frames: int
    rate: float
    burst_frames: int
    window: int
    """Most messages that the slowest subscriber may be behind; 0 for any number."""
    start_ns: int


@dataclass(frozen=True)
class Published:
    """All messages were handed to the kernel."""

    latest_ns: int
    waited_ns: int
    cpu_ns: int


class _Publisher:
    def __init__(self, pipe: Connection, setup: Publisher) -> None:
        self._pipe = pipe
        self._layout = setup.layout
        self._number = setup.number
        self._board = setup.board
        self._row = setup.board.next[setup.number]
        self._template = Template(setup.layout, setup.number)
        self.line = dial(setup.url, setup.layout, f"bench publisher {setup.number}")
        self.line.socket.settimeout(None)
        self._frame = 0  # frames sent since the start of the process
        self._listened_ns = self._waited_ns = 0

    def publish(self, order: Publish) -> Published:
        cpu_ns = time.process_time_ns()
        self._waited_ns = 0
        time.sleep(max(0, order.start_ns - time.monotonic_ns()) / 1e9)
        self._board.first_ns[self._number] = time.monotonic_ns()
        latest_ns = 0
        if order.rate:
            latest_ns = self._at_rate(order)
        else:
            most = self._template.block_frames
            if order.window:
                most = max(1, min(most, order.window // self._layout.batch))
            end = self._frame + order.frames
            while self._frame < end:
                self._write(order, self._template.block(self._frame, min(most, end - self._frame)))
        return Published(latest_ns, self._waited_ns, time.process_time_ns() - cpu_ns)

    def _at_rate(self, order: Publish) -> int:
        """Return the worst lateness in ns."""
        begin, end = self._frame, self._frame + order.frames
        frames_per_s = order.rate / self._layout.batch
        latest_ns = 0
        while self._frame < end:
            due_ns = order.start_ns + int((self._frame - begin) / frames_per_s * 1e9)
            now_ns = time.monotonic_ns()
            if now_ns < due_ns:
                time.sleep((due_ns - now_ns) / 1e9)
                now_ns = time.monotonic_ns()
            latest_ns = max(latest_ns, now_ns - due_ns)
            frames = min(order.burst_frames, end - self._frame)
            burst = bytearray()  # two blocks, where the template ends within the burst
            while (made := len(burst) // self._layout.frame_bytes) < frames:
                burst += self._template.block(self._frame + made, frames - made, due_ns)
            self._write(order, burst)
        return latest_ns

    def _write(self, order: Publish, data: memoryview | bytearray) -> None:
        frames = len(data) // self._layout.frame_bytes
        if order.window and len(self._row):
            self._wait_window((self._frame + frames) * self._layout.batch - max(order.window, self._layout.batch))
        self.line.socket.sendall(data)
        self._frame += frames
        self._board.sent[self._number] = self._frame * self._layout.batch
        self._listen(time.monotonic_ns())

    def _listen(self, now_ns: int) -> bool:
        """Read from the hub, at most once in `_LISTEN_NS`; return whether it was done."""
        if now_ns - self._listened_ns < _LISTEN_NS:
            return False
        self._listened_ns = now_ns
        self.line.listen()
        return True

    def _wait_window(self, floor: int) -> None:
        if min(self._row) >= floor:
            return
        began_ns = now_ns = time.monotonic_ns()
        while min(self._row) < floor:
            time.sleep(_WINDOW_POLL_S)
            now_ns = time.monotonic_ns()
            if self._listen(now_ns) and self._pipe.poll():
                raise EOFError  # no order comes during another one: the command is gone
        self._waited_ns += now_ns - began_ns


def publish(pipe: Connection, setup: Publisher) -> None:
    # A sleeping publisher is woken up to 50 µs late by default, which would be measured as latency.
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    publisher = _Publisher(pipe, setup)
    pipe.send(None)
    while True:
        readable, _, _ = select.select([pipe.fileno(), publisher.line.fileno()], [], [])
        if publisher.line.fileno() in readable:
            publisher.line.listen()
        if pipe.fileno() in readable:
            pipe.send(publisher.publish(pipe.recv()))


# The subscribers: a process for one or many of them, with one epoll loop and one buffer for all.

_READ_BYTES = 256 * 1024


@dataclass(frozen=True)
class Subscribers:
    """The set-up of the subscribers of one process. The answer is the `QueueWish` that the hub has granted."""

    url: str
    layout: Layout
    board: Board
    first: int
    count: int
    wish: QueueWish


@dataclass(frozen=True)
class ReportOrder:
    """The order to return the counters, and to start again from 0; `Reported` answers it."""

    sent: list[int]
    latency: bool


@dataclass(frozen=True)
class Reported:
    """Counters of the subscribers of one process."""

    counted: list[Counted]
    latency: Histogram
    cpu_ns: int


class _Subscriber:
    __slots__ = ("_board", "_line", "_settled", "_slot", "tally")

    def __init__(self, line: Line, board: Board, slot: int) -> None:
        line.socket.settimeout(None)  # it is read only when epoll says so
        self._line = line
        self._board = board
        self._slot = slot
        self._settled = 0  # messages that were accounted for in earlier reports
        self.tally = Tally(line.layout, len(board.sent), line.cut, self._control)

    def read(self, buffer: bytearray, view: memoryview) -> bool:
        """Read once and account for it; return False when the connection is over."""
        line, tally = self._line, self.tally
        held = len(line.held)
        view[:held] = line.held
        try:
            count = line.socket.recv_into(view[held : held + _READ_BYTES])
        except OSError as error:
            self._closed(str(error))
            return False
        now_ns = time.monotonic_ns()
        if not count:
            self._closed("closed without a reason")
            return False
        end = held + count
        rest = tally.feed(buffer, end, now_ns)
        line.held = buffer[rest:end]
        counted = tally.counted
        counted.reads += 1
        board, slot = self._board, self._slot
        board.last_ns[slot] = now_ns
        for publisher, following in enumerate(tally.next):
            board.next[publisher][slot] = following
        board.accounted[slot] = self._settled + counted.received - counted.out_of_order + counted.told
        return True

    def report(self, sent: list[int]) -> Counted:
        self._settled = sum(sent)
        return self.tally.take(sent)

    def _control(self, control: Control) -> None:
        if control.answer:
            self._line.socket.sendall(control.answer)
        if control.word == "close":
            self._closed(f"{control.text} ({control.code})")
        elif control.word == "error":
            raise BenchError(f"the hub says: {control.text} ({control.code})")

    def _closed(self, reason: str) -> None:
        self.tally.counted.closed = self.tally.counted.closed or reason


def subscribe(pipe: Connection, setup: Subscribers) -> None:
    buffer = bytearray(2 * _READ_BYTES + 2 * setup.layout.frame_bytes)
    view = memoryview(buffer)
    poll = select.epoll()
    subscribers: dict[int, _Subscriber] = {}
    granted = QueueWish()
    for number in range(setup.first, setup.first + setup.count):
        line = dial(setup.url, setup.layout, f"bench subscriber {number}", wish=setup.wish)
        line.subscribe([setup.layout.prefix])
        granted = line.granted
        subscribers[line.fileno()] = _Subscriber(line, setup.board, number)
        poll.register(line.fileno(), select.EPOLLIN)
    poll.register(pipe.fileno(), select.EPOLLIN)
    pipe.send(granted)
    cpu_ns = time.process_time_ns()
    while True:
        for descriptor, _ in poll.poll():
            subscriber = subscribers.get(descriptor)
            if subscriber is None:
                before_ns, cpu_ns = cpu_ns, time.process_time_ns()
                pipe.send(_reported(list(subscribers.values()), pipe.recv(), cpu_ns - before_ns))
            elif not subscriber.read(buffer, view):
                poll.unregister(descriptor)


def _reported(subscribers: list[_Subscriber], order: ReportOrder, cpu_ns: int) -> Reported:
    latency = Histogram()
    counted = []
    for subscriber in subscribers:
        counted.append(subscriber.report(order.sent))
        if subscriber.tally.latency is not None:
            latency.add(subscriber.tally.latency)
        subscriber.tally.latency = Histogram() if order.latency else None
    return Reported(counted, latency, cpu_ns)


# The stage.

QUIET_S = 2.0
"""A hub that has a message delivers it within this, or never."""

_START_S = 120.0
_POLL_S = 0.02
_SAMPLE_S = 0.1
_LEAD_NS = 20_000_000
"""From the order to the first message, so that all publishers begin together."""

Watch = Callable[[int, int], object]
"""Called now and then with how many deliveries are accounted for, and how many there will be."""

Told = Callable[[str], Watch]
"""Called before each measurement with its title; returns its `Watch`."""


class Stage:
    """One benchmark, set up by the `with` statement."""

    hub: RunningHub

    def __init__(self, plan: Plan) -> None:
        self.plan = plan.check()
        # Topics of its own, as others may measure the same hub.
        self.layout = Layout(f"/bench/{secrets.token_hex(4)}/", plan.topics, plan.size, plan.batch)
        self._stack = ExitStack()
        self._board = Board(plan.publishers, plan.subscribers)
        self._publishers: list[Worker] = []
        self._subscribers: list[Worker] = []
        self._window = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:  # ends all processes, if this fails
            self._set_up(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def sent(self) -> list[int]:
        return list(self._board.sent)

    def _set_up(self, stack: ExitStack) -> None:
        plan = self.plan
        hub_cpu, cpus = plan.placement
        self.hub = plan.find_hub(("tcp",) if plan.transport == "tcp" else ("tcp", "ws"), hub_cpu)
        stack.callback(self.hub.stop)
        if cpus:
            stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
            os.sched_setaffinity(0, cpus)
        raise_descriptor_limit()
        url, publishers_url = self.hub.url(plan.transport), self.hub.url("tcp")

        def start(name: str, work: Callable[..., None], setup: object) -> Worker:
            worker = Worker(name, work, setup, cpus)
            stack.callback(worker.stop)
            return worker

        wish = QueueWish(plan.queue_messages or (None if plan.rate else _WIDE_MESSAGES))
        processes = min(plan.subscribers, len(cpus or os.sched_getaffinity(0)))
        each, more = divmod(plan.subscribers, processes)
        for index in range(processes):
            first, count = index * each + min(index, more), each + (index < more)
            subscribers = Subscribers(url, self.layout, self._board, first, count, wish)
            self._subscribers.append(start("subscriber", subscribe, subscribers))
        granted = [worker.take(QueueWish, _START_S) for worker in self._subscribers]
        self._window = self._fitting(granted[0]) if plan.window else 0
        for number in range(plan.publishers):
            setup = Publisher(publishers_url, self.layout, self._board, number)
            self._publishers.append(start("publisher", publish, setup))
        for worker in self._publishers:
            worker.take(NoneType, _START_S)
        if plan.warmup_messages:
            self.measure(plan.warmup_messages)

    def _fitting(self, granted: QueueWish) -> int:
        """Return how many messages of each publisher surely fit into the queue of a subscriber."""
        default, layout = QueueLimits(), self.layout
        each_bytes = (layout.frame_bytes + BATCH_OVERHEAD_BYTES) / layout.batch
        fitting = min(granted.messages or default.messages, int((granted.bytes or default.bytes) / each_bytes))
        return max(1, fitting // self.plan.publishers)

    def measure(
        self, messages: int | None = None, rate: float = 0, burst: int = 1, watch: Watch | None = None
    ) -> Measurement:
        """Send messages and account for them; raise `BenchError` if the hub or a worker failed.

        `messages` are those of all publishers together, None for the plan's number. At a rate (messages a second),
        `burst` messages are due at the same time, in one write.
        """
        plan, board = self.plan, self._board
        frames = -(-(plan.total_messages if messages is None else messages) // (plan.publishers * plan.batch))
        already = sum(self.sent)
        total = frames * plan.batch * plan.publishers
        self._report(latency=bool(rate))
        self.hub.forget_peak()
        before = self.hub.usage()
        start_ns, burst_frames = time.monotonic_ns() + _LEAD_NS, max(1, burst // plan.batch)
        # Bursts of several publishers take turns instead of coming all at once.
        turn_ns = int(burst_frames * plan.batch / rate * 1e9) if rate else 0
        for number, worker in enumerate(self._publishers):
            begin_ns = start_ns + number * turn_ns
            worker.order(Publish(frames, rate / plan.publishers, burst_frames, self._window, begin_ns))
        samples = self._watch(already, total, watch)
        after = self.hub.usage()
        published = [worker.take(Published) for worker in self._publishers]
        reported = self._report(latency=False)
        first_ns, last_ns = min(board.first_ns), max(*board.last_ns, *board.first_ns)
        steps = [Sample(max(0.0, at_s - first_ns / 1e9), sent, delivered) for at_s, sent, delivered in samples]
        return measured(Window(first_ns, last_ns, before, after), published, reported, total, plan.size, steps)

    def _watch(self, already: int, messages: int, watch: Watch | None) -> list[tuple[float, int, int]]:
        """Wait until all is accounted for, or nothing moves any more; return samples: time, published, delivered.

        Messages that have not arrived `QUIET_S` after any progress are lost.
        """
        board, subscribers = self._board, self.plan.subscribers
        samples: list[tuple[float, int, int]] = []
        moved_s = sampled_s = time.monotonic()
        seen = (-1, -1)
        while True:
            sent = sum(board.sent) - already
            accounted = list(board.accounted)  # once: the sum and the end of the wait need the same figures
            delivered = sum(accounted) - already * subscribers
            now_s = time.monotonic()
            done = sent >= messages and min(accounted) >= already + messages
            if (sent, delivered) != seen or sent < messages:
                seen, moved_s = (sent, delivered), now_s
            if done or now_s - sampled_s >= _SAMPLE_S:
                sampled_s = now_s
                samples.append((now_s, sent, delivered))
                self.hub.usage()  # raises if the hub has ended
                if watch is not None:
                    watch(delivered, messages * subscribers)
            if done or now_s - moved_s > QUIET_S:
                return samples
            for worker in (*self._publishers, *self._subscribers):
                worker.wait(0)
            time.sleep(_POLL_S)

    def _report(self, *, latency: bool) -> list[Reported]:
        order = ReportOrder(self.sent, latency)
        for worker in self._subscribers:
            worker.order(order)
        return [worker.take(Reported) for worker in self._subscribers]


class Window(NamedTuple):
    """The time that is measured, ns of the monotonic clock, and the hub's usage before and after."""

    first_ns: int
    last_ns: int
    before: Usage
    after: Usage


def measured(  # noqa: PLR0913, PLR0917 -- the results of a run
    window: Window,
    published: list[Published],
    reported: list[Reported],
    messages: int,
    size_bytes: int,
    samples: list[Sample],
) -> Measurement:
    """Return the figures of a run of so many messages with values of `size_bytes`."""
    counted = [one for answer in reported for one in answer.counted]
    before, after = window.before, window.after
    elapsed_s = max(window.last_ns - window.first_ns, 1) / 1e9
    delivered = sum(one.received for one in counted)
    cpu_s = (after.cpu_ns - before.cpu_ns) / 1e9
    writes = after.writes - before.writes
    latency = Histogram()
    for answer in reported:
        latency.add(answer.latency)
    return Measurement(
        published=messages,
        expected=messages * len(counted),
        delivered=delivered,
        lost=sum(one.lost for one in counted),
        told=sum(one.told for one in counted),
        out_of_order=sum(one.out_of_order for one in counted),
        misrouted=sum(one.misrouted for one in counted),
        disconnected=sum(1 for one in counted if one.closed),
        elapsed_s=elapsed_s,
        published_per_s=messages / elapsed_s,
        delivered_per_s=delivered / elapsed_s,
        delivered_mb_per_s=delivered * size_bytes / elapsed_s / 1e6,
        hub_cpu_s=cpu_s,
        hub_cpu_percent=100 * cpu_s / elapsed_s,
        us_per_message=cpu_s * 1e6 / messages,
        us_per_delivery=cpu_s * 1e6 / delivered if delivered else 0.0,
        hub_memory_bytes=after.memory_bytes,
        hub_peak_bytes=after.peak_bytes,
        messages_per_read=delivered / max(1, sum(one.reads for one in counted)),
        messages_per_write=delivered / writes if writes > len(counted) else 0.0,
        publisher_busy_percent=sum(one.cpu_ns for one in published) / elapsed_s / 1e7,
        subscriber_busy_percent=sum(one.cpu_ns for one in reported) / elapsed_s / 1e7,
        window_wait_percent=sum(one.waited_ns for one in published) / len(published) / elapsed_s / 1e7,
        publisher_late_us=max(one.latest_ns for one in published) / 1000,
        latency=Latency.of(latency) if latency.total else None,
        samples=samples,
    )
