"""What the command tells its workers, and what they answer: one JSON object a line, over the workers' stdin and stdout.

The first line is the set-up, answered by `Ready`. Each order is answered by exactly one answer, in order.
"""

from __future__ import annotations

import msgspec

from peers.bench.dial import Wish
from peers.bench.histogram import Dumped
from peers.bench.layout import Layout
from peers.bench.tally import Counted
from peers.bench.y.operation import Mode, Operation

__all__ = [
    "Answer",
    "Ask",
    "Asked",
    "BystanderSetup",
    "Done",
    "Failed",
    "Order",
    "Populate",
    "Publish",
    "Published",
    "PublisherSetup",
    "Ready",
    "Report",
    "Reported",
    "RequesterSetup",
    "Resume",
    "ServiceSetup",
    "Setup",
    "SubscriberSetup",
    "TrafficSetup",
]


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What every worker must know."""

    url: str
    board: int
    """Descriptor of the shared memory."""
    publishers: int
    subscribers: int
    """Of the whole benchmark, those that are waited for."""
    cpus: list[int] = []
    """Where the worker may run; empty: anywhere."""


class TrafficSetup(Setup, frozen=True, kw_only=True):
    """What those must know that make messages, count them or stand beside them."""

    layout: Layout


class PublisherSetup(TrafficSetup, frozen=True, kw_only=True, tag="publisher"):
    """One publisher."""

    number: int


class SubscriberSetup(TrafficSetup, frozen=True, kw_only=True, tag="subscriber"):
    """Some subscribers in one process."""

    first: int
    """Number of the first of them on the board."""
    count: int
    wish: Wish = Wish()
    stalled: bool = False
    """They do not read until `Resume`, and are not on the board."""
    own_topics: bool = False
    """Each subscribes to the one topic of its number, else all to all topics."""


class BystanderSetup(TrafficSetup, frozen=True, kw_only=True, tag="bystander"):
    """Clients and links that take no part in the traffic."""


class RequesterSetup(Setup, frozen=True, kw_only=True, tag="requester"):
    """Who makes pairs of numbers."""

    topic: str
    """Prefix of the services' topics."""
    requester: int
    """Its id in records, 64 bits."""
    shared: bool
    """Whether arrays travel in shared memory."""
    ring_bytes: int
    """Of its segment."""


class ServiceSetup(Setup, frozen=True, kw_only=True, tag="service"):
    """One service."""

    topic: str
    operation: Operation
    records: bool
    """Whether it is asked for arrays of records."""
    shared: bool
    """Whether their results travel in shared memory."""
    ring_bytes: int
    """Of its segment."""


class Publish(msgspec.Struct, frozen=True, tag="publish"):
    """Send messages."""

    frames: int
    rate: float
    """Messages a second, 0 for full speed."""
    burst_frames: int
    """So many are due at the same time; only with a rate."""
    window: int
    """Most messages that the slowest subscriber may be behind, 0 for any number."""
    start_ns: int
    """When the first is due, monotonic clock."""


class Report(msgspec.Struct, frozen=True, tag="report"):
    """Tell what was counted, and start anew."""

    sent: list[int]
    """What each publisher has sent until now."""
    latency: bool
    """Whether to measure latencies from now on."""


class Resume(msgspec.Struct, frozen=True, tag="resume"):
    """Stalled subscribers: read again, until nothing has come for a while."""

    quiet_s: float


class Populate(msgspec.Struct, frozen=True, tag="populate"):
    """Have so many bystanders, by connecting more or closing some."""

    subscribers: int
    links: int
    idle_url: str
    """Where new subscribers connect."""


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """Make pairs, have them worked out, check the results."""

    mode: Mode
    pairs: int
    """Stop after so many, 0 for any number."""
    seconds: float
    """Stop after this time; what was asked by then is waited for."""
    outstanding: int
    batch: int
    """Pairs that are made at a time in mode `batched`."""


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The worker is connected."""

    queue_messages: int = 0
    """What the hub granted its subscribers, 0 if it did not say."""
    queue_bytes: int = 0


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The order was carried out."""


class Published(msgspec.Struct, frozen=True, tag="published"):
    """All messages were handed to the kernel."""

    latest_ns: int
    """How far behind its schedule the publisher was at worst."""
    joined_bursts: int
    """Bursts that left in one write with the one before, because they were late."""
    waited_ns: int
    """How long the window held it back."""
    cpu_ns: int


class Reported(msgspec.Struct, frozen=True, tag="reported"):
    """What the subscribers of one worker have counted."""

    counted: list[Counted]
    latency: Dumped
    cpu_ns: int


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag="asked"):
    """What has become of the pairs."""

    pairs: int
    wrong: int
    """The result was another one than it must be."""
    failed: int
    """Instead of a result came a status."""
    lost: int
    """Nothing came."""
    reasons: list[str]
    """Of failures, each once."""
    elapsed_ns: int
    """From before the first request to after the last check."""
    latency: Dumped
    """Of each pair in mode `one`, ns."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The worker gives up."""

    text: str


Order = Publish | Report | Resume | Populate | Ask
Answer = Ready | Done | Published | Reported | Asked | Failed
