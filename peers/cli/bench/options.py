"""The options of benchmarks that become a plan: `Place`, which hub is measured, and `Traffic`, what is sent to whom."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Group, Parameter

from hub.overflow import Overflow
from peers.bench.errors import PlanError
from peers.bench.plan import Plan, Transport
from peers.cli.errors import FlagError
from peers.cli.ranges import size_of
from peers.transport.endpoints import InvalidEndpointError
from peers.wire.hello import QueueWish

__all__ = ["HUB", "OUTPUT", "TRAFFIC", "Place", "Traffic", "described", "flags_checked"]

TRAFFIC = Group("Traffic", sort_key=1)
_BESIDE = Group("Beside the traffic", sort_key=2)
_QUEUES = Group("Queues", sort_key=3)
HUB = Group("The hub", sort_key=4)
OUTPUT = Group("Output", sort_key=5)

_USUAL_S = 5.0
_USUAL_MESSAGES = 5_000_000
_USUAL_BYTES = 500_000_000
_LEAST_MESSAGES = 10_000
"""A run without `--messages`: 5 s at a rate; at full speed some seconds on a machine of today, whether messages are
small (two million a second of 100 bytes) or large, and however many subscribers get each of them."""

_DEFAULT = Plan()
_WIDE_MESSAGES = 65_536
"""Queue that subscribers ask for at full speed, unless told otherwise: the window is as large as their queue, and with
the hub's default of 8192 messages, a millisecond's worth, one would measure how soon processes wake each other up."""


@contextmanager
def flags_checked() -> Iterator[None]:
    """Tell what is wrong with a plan as a command tells what is wrong with its flags, for a `with` statement.

    Raises:
        FlagError: The plan cannot be carried out.
    """
    try:
        yield
    except (PlanError, InvalidEndpointError) as error:
        raise FlagError(str(error)) from error


def described(text: str, group: Group, name: str | None = None) -> Parameter:
    """Return the help of an option, in the group under which it is listed."""
    return Parameter(name=name, help=text, group=group, negative_iterable=())


@Parameter(name="*")
@dataclass(kw_only=True)
class Place:
    """The options that say which hub is measured, and on which CPUs."""

    url: Annotated[
        list[str] | None,
        described("A running hub, tcp:// or unix://, and again ws:// for --transport ws. Else one is started.", HUB),
    ] = None
    hub_pid: Annotated[int, described("With --url: its process, for CPU time and memory.", HUB)] = 0
    hub_cpu: Annotated[int | None, described("CPU that the started hub is bound to.", HUB)] = None
    load_cpu: Annotated[list[int] | None, described("CPU that the load is bound to; repeatable.", HUB)] = None
    pin: Annotated[
        bool, described("Without --hub-cpu and --load-cpu: bind the hub to the first CPU, the load to the others.", HUB)
    ] = True
    hub_flag: Annotated[
        list[str] | None, described("Further flag of the started `hub run`, as --hub-flag=--limits-routes=1000.", HUB)
    ] = None

    def fields(self) -> dict[str, Any]:
        """Return the options as fields of a plan."""
        return {
            "urls": tuple(self.url or ()),
            "hub_pid": self.hub_pid,
            "hub_cpu": self.hub_cpu,
            "load_cpus": tuple(self.load_cpu or ()),
            "pin": self.pin,
            "hub_flags": tuple(self.hub_flag or ()),
        }


@Parameter(name="*")
@dataclass(kw_only=True)
class Traffic:
    """The options that say what is sent to whom."""

    messages: Annotated[
        int | None,
        described("Messages, of all publishers together; without it, as many as take some seconds.", TRAFFIC),
    ] = None
    size: Annotated[int, described("Bytes of a value, 16 or more.", TRAFFIC)] = _DEFAULT.size
    topics: Annotated[int, described("Topics, published to in turn.", TRAFFIC)] = _DEFAULT.topics
    rate: Annotated[float, described("Messages a second; 0 is full speed.", TRAFFIC)] = _DEFAULT.rate
    burst: Annotated[int, described("With --rate: messages due at once, in one write.", TRAFFIC)] = _DEFAULT.burst
    publishers: Annotated[int, described("Publishers, each a process.", TRAFFIC)] = _DEFAULT.publishers
    subscribers: Annotated[int, described("Subscribers; each gets every message.", TRAFFIC)] = _DEFAULT.subscribers
    batch: Annotated[int, described("Values in a frame.", TRAFFIC)] = _DEFAULT.batch
    transport: Annotated[Transport, described("Of subscribers, also of idle ones.", TRAFFIC)] = "tcp"
    subscriber_processes: Annotated[
        int, described("Processes of the subscribers; 0 is one for each CPU of the load.", TRAFFIC)
    ] = _DEFAULT.subscriber_processes
    warmup: Annotated[int | None, described("Messages before what is measured.", TRAFFIC)] = None
    repeat: Annotated[int, described("Runs, on the same connections; the median counts.", TRAFFIC)] = _DEFAULT.repeat
    idle_subscribers: Annotated[int, described("Subscribers to other topics.", _BESIDE)] = 0
    idle_peers: Annotated[int, described("Peer hubs that want other topics.", _BESIDE)] = 0
    window: Annotated[bool, described("Publishers wait for subscribers, so that no queue overflows.", _QUEUES)] = True
    queue_messages: Annotated[
        int | None, described(f"Queue that subscribers ask for; {_WIDE_MESSAGES:,} at full speed.", _QUEUES)
    ] = None
    queue_bytes: Annotated[str | None, described("The same in bytes, such as 1MiB.", _QUEUES)] = None
    overflow: Annotated[Overflow | None, described("Overflow policy that subscribers ask for.", _QUEUES)] = None

    def plan(self, place: Place) -> Plan:
        """Return the plan that these options and those of a place make.

        Raises:
            FlagError: They make none; the text names the option.
        """
        queue_messages = self.queue_messages
        if queue_messages is None and not self.rate:
            queue_messages = _WIDE_MESSAGES
        queue_bytes = None if self.queue_bytes is None else size_of("--queue-bytes", self.queue_bytes)
        wish = QueueWish(queue_messages, queue_bytes, self.overflow)
        own = {name: getattr(self, name) for name in Plan.__struct_fields__ if hasattr(self, name)}
        own["messages"] = self._usual_messages() if self.messages is None else self.messages
        with flags_checked():
            return Plan(**own, **place.fields(), wish=wish).check()

    def _usual_messages(self) -> int:
        """Return how many messages make a run that is long enough for a rate that means something."""
        if self.rate > 0:
            return max(1, int(self.rate * _USUAL_S))
        delivered_bytes = max(1, self.size) * max(1, self.subscribers)
        return min(_USUAL_MESSAGES, max(_LEAST_MESSAGES, _USUAL_BYTES // delivered_bytes))
