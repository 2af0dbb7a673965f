"""`Plan`: what a stream is asked to be: a frozen value. `check` says in one line what cannot be done."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from hub.frame import BATCH_LIMIT_MESSAGES
from peers.bench.messages import PUBLISHERS_LIMIT, SEQUENCE_LIMIT, SIZE_LEAST_BYTES, TOPICS_LIMIT, Layout
from peers.bench.running_hub import HubPlan
from peers.bench.worker import PlanError
from peers.transport.endpoints import Endpoint, Scheme
from peers.wire.hello import FRAME_LIMIT_BYTES, QueueWish

Transport = Literal["tcp", "ws"]

_WARMUP_MESSAGES = 10_000


class Placement(NamedTuple):
    """Which CPUs are used for what; empty means any."""

    hub: int | None
    load: list[int]


class Plan(HubPlan, frozen=True, kw_only=True):
    """One benchmark."""

    messages: int = 500_000
    """Messages of all publishers together; rounded up to whole batches, equally many for each."""
    size: int = 128
    """Bytes of a value."""
    topics: int = 1
    """How many topics there are; they are published to in turn."""
    rate: float = 0
    """Messages a second, of all publishers together; 0 is full speed."""
    burst: int = 1
    """With a rate, so many messages are due at the same time, and leave in one write."""
    publishers: int = 1
    subscribers: int = 1
    """Each subscriber gets all messages."""
    batch: int = 1
    """Values in a frame."""
    transport: Transport = "tcp"
    """How subscribers are connected."""
    window: bool = True
    """Whether publishers wait for subscribers, so that no queue of theirs overflows."""
    repeat: int = 1
    warmup: int | None = None
    """Messages before what is measured; None decides."""
    wish: QueueWish = QueueWish()
    """The queue that subscribers ask for."""
    hub_cpu: int | None = None
    load_cpus: tuple[int, ...] = ()
    pin: bool = True
    """Whether, without CPUs given, the hub is bound to the first one and the load to the others."""

    def check(self) -> Plan:
        """Return the plan, if it can be carried out.

        Raises:
            PlanError: It cannot; the text names the option.
        """
        self.check_hub(
            [
                ("messages", self.messages, 1, SEQUENCE_LIMIT),
                ("size", self.size, SIZE_LEAST_BYTES, FRAME_LIMIT_BYTES),
                ("topics", self.topics, 1, TOPICS_LIMIT),
                ("rate", self.rate, 0, SEQUENCE_LIMIT),
                ("burst", self.burst, 1, BATCH_LIMIT_MESSAGES),
                ("publishers", self.publishers, 1, PUBLISHERS_LIMIT),
                ("subscribers", self.subscribers, 1, 10_000),
                ("batch", self.batch, 1, BATCH_LIMIT_MESSAGES),
                ("repeat", self.repeat, 1, 1_000),
                ("warmup", self.warmup or 0, 0, SEQUENCE_LIMIT),
            ]
        )
        schemes = {Endpoint.parse(url).scheme for url in self.urls}
        if self.urls and not schemes & {Scheme.TCP, Scheme.UNIX}:
            raise PlanError("--url: publishers need a tcp:// or unix:// url")
        if self.urls and self.transport == "ws" and Scheme.WS not in schemes:
            raise PlanError("--url: --transport ws needs a second one, ws://")
        if self.publisher_messages * self.repeat + self.warmup_messages >= SEQUENCE_LIMIT:
            raise PlanError(f"--messages: a publisher can number {SEQUENCE_LIMIT:,} messages, all repeats together")
        if self.burst > 1 and not self.rate:
            raise PlanError("--burst: only with --rate; at full speed everything leaves in blocks of 64 KiB")
        if self.burst % self.batch and self.batch % self.burst:
            raise PlanError(f"--burst: {self.burst} messages cannot be made of batches of {self.batch}")
        if 4 + self.batch * (self.size + 5) > FRAME_LIMIT_BYTES:
            raise PlanError(f"--batch, --size: a frame takes {FRAME_LIMIT_BYTES:,} bytes at most")
        allowed = os.sched_getaffinity(0)
        for name, cpus in (("hub-cpu", () if self.hub_cpu is None else (self.hub_cpu,)), ("load-cpu", self.load_cpus)):
            for cpu in cpus:
                if cpu not in allowed:
                    raise PlanError(f"--{name}: CPU {cpu} is not among {sorted(allowed)}")
        return self

    @property
    def publisher_messages(self) -> int:
        """How many messages each publisher sends: whole batches."""
        return -(-self.messages // (self.publishers * self.batch)) * self.batch

    @property
    def warmup_messages(self) -> int:
        """Messages of all publishers before what is measured: two rounds through the topics, at least."""
        if self.warmup is not None:
            return self.warmup
        return min(self.messages, max(_WARMUP_MESSAGES, 2 * self.topics * self.batch))

    @property
    def processes(self) -> int:
        """How many processes the subscribers are spread over."""
        return min(self.subscribers, max(1, len(self.placement.load) or len(os.sched_getaffinity(0))))

    @property
    def placement(self) -> Placement:
        """Which CPUs are used for what."""
        if self.hub_cpu is not None or self.load_cpus or not self.pin or self.urls:
            return Placement(self.hub_cpu, list(self.load_cpus))
        allowed = sorted(os.sched_getaffinity(0))
        return Placement(allowed[0], allowed[1:]) if len(allowed) > 1 else Placement(None, [])

    def layout(self, run: str) -> Layout:
        """Return what its messages look like.

        Args:
            run: What sets this benchmark's topics apart from those of others on the same hub.
        """
        return Layout(f"/bench/{run}/", self.topics, self.size, self.batch)
