"""A clock and wires that are simulated: what happens is a heap of events, and nothing waits for anything.

```
Link ── End a ══ Wire ══▶ End b      a wire is one direction: first in, first out, as TCP is
             ◀══ Wire ══             an end is what a hub knows as its link
```

A link ends in one of three ways. *Closed*: one end knows at once, the other one when it has read what was under way.
*Reset*: both know at once, and what was under way is lost. *Silent*: one direction or both bring nothing any more, and
whoever hears nothing knows it after `SILENT_S`; then it closes, which the other end hears if that direction works.

Invariant: the same calls lead to the same events in the same order. There is no chance in here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import Any, NamedTuple, Protocol

__all__ = ["SILENT_S", "Clock", "End", "Hello", "Link", "Message", "Node", "Origin", "Wire"]

SILENT_S = 10.0  # After so long without a byte, a hub takes a link for dead

HELD_MESSAGES = 50  # So many messages wait at an end whose transport is full; then the oldest ones are dropped


class Message(NamedTuple):
    """A message, with what the truth knows of it. Hubs may read its topic, and nothing else."""

    origin: bytes
    epoch: int
    publisher: int
    number: int
    topic: str


class Origin(NamedTuple):
    """The ORIGIN frame: what follows entered the mesh at this hub, in this epoch."""

    hub: bytes
    epoch: int


class Hello(NamedTuple):
    hub: bytes


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0

    def at(self, at_s: float, act: Callable[[], object]) -> None:
        self._count += 1
        heappush(self._events, (at_s, self._count, act))

    def after(self, wait_s: float, act: Callable[[], object]) -> None:
        self.at(self.now_s + wait_s, act)

    def run_for(self, time_s: float) -> None:
        end_s = self.now_s + time_s
        events = self._events
        while events and events[0][0] <= end_s:
            self.now_s, _, act = heappop(events)
            act()
        self.now_s = end_s


class Wire:
    """One direction of a link: what was sent arrives in its order, or from some moment on nothing does."""

    def __init__(self, clock: Clock, delay_s: float, receive: Callable[[list[Any]], None]) -> None:
        self.is_dead = False
        self._clock = clock
        self._delay_s = delay_s
        self._receive = receive
        self._last_s = 0.0
        # What arrives together at `_last_s`, as long as it has not; so a turn of a hub is one event.
        self._under_way: list[Any] | None = None

    def send(self, item: Any) -> None:
        if self.is_dead:
            return
        arrives_s = max(self._last_s, self._clock.now_s + self._delay_s)
        if self._under_way is None or arrives_s != self._last_s:
            self._last_s = arrives_s
            self._under_way = [item]
            self._clock.at(arrives_s, partial(self._arrive, self._under_way))
        else:
            self._under_way.append(item)

    def stall(self, time_s: float) -> None:
        self._last_s = max(self._last_s, self._clock.now_s + self._delay_s + time_s)
        self._under_way = None

    def cut(self) -> None:
        self.is_dead = True

    def _arrive(self, items: list[Any]) -> None:
        if items is self._under_way:
            self._under_way = None
        if not self.is_dead:
            self._receive(items)


class Node(Protocol):
    id: bytes

    def link_up(self, end: End, far: bytes) -> None:
        """Take note of a link whose far side has said who it is."""

    def link_down(self, end: End) -> None:
        """Take note that a link that was up is gone."""

    def receive(self, end: End, item: Any) -> None:
        """Take one item of a read."""

    def end_turn(self) -> None:
        """Write what is due; called after each read, and after each other event of a node."""


_END_OF_FILE = object()


class End:
    __slots__ = ("_held", "far", "heard", "is_full", "is_open", "is_up", "link", "node", "out", "said")

    def __init__(self, node: Node, link: Link) -> None:
        self.node = node
        self.link = link
        self.is_open = True
        self.is_up = False
        """The far side has said hello, and the node was told."""
        self.is_full = False
        """The transport takes no messages; what answers and announces goes past them."""
        self.said = Origin(node.id, 0)
        self.heard = Origin(b"", 0)
        self._held: deque[Message] = deque(maxlen=HELD_MESSAGES)
        self.far: End
        self.out: Wire

    def send(self, item: Any) -> None:
        self.out.send(item)

    def send_message(self, message: Message) -> None:
        if self.is_full:
            self._held.append(message)
            return
        origin = Origin(message.origin, message.epoch)
        if origin != self.said:
            self.said = origin
            self.out.send(origin)
        self.out.send(message)

    def relax(self) -> None:
        self.is_full = False
        held = list(self._held)
        self._held.clear()
        if self.is_up:
            for message in held:
                self.send_message(message)

    def receive(self, items: list[Any]) -> None:
        for item in items:
            if not self.is_open:
                return
            if item is _END_OF_FILE:
                self.lose()
                return
            if isinstance(item, Hello):
                self.heard = Origin(item.hub, 0)
                self.is_up = True
                self.node.link_up(self, item.hub)
            else:
                self.node.receive(self, item)
        self.node.end_turn()

    def close(self) -> None:
        if self.is_open:
            self.out.send(_END_OF_FILE)
            self.lose()

    def lose(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self.far.out.cut()
        if self.is_up:
            self.is_up = False
            self.node.link_down(self)
        self.node.end_turn()


class Link:
    """A connection of two nodes, from its first hello to its end. Whoever connects again has another link."""

    def __init__(self, clock: Clock, nodes: tuple[Node, Node], delay_s: float, cost: int = 1) -> None:
        self.clock = clock
        self.cost = cost
        self.ends = (End(nodes[0], self), End(nodes[1], self))
        for end, far in (self.ends, self.ends[::-1]):
            end.far = far
            end.out = Wire(clock, delay_s, far.receive)
        for end in self.ends:
            end.send(Hello(end.node.id))

    @property
    def is_up(self) -> bool:
        return all(end.is_up and not end.out.is_dead for end in self.ends)

    @property
    def is_loose(self) -> bool:
        return not all(end.is_open for end in self.ends)

    @property
    def is_over(self) -> bool:
        return not any(end.is_open for end in self.ends)

    def close(self, side: int) -> None:
        self.ends[side].close()

    def reset(self) -> None:
        for end in self.ends:
            end.out.cut()
        for end in self.ends:
            end.lose()

    def silence(self, side: int) -> None:
        self.ends[side].out.cut()
        self.clock.after(SILENT_S, self.ends[1 - side].close)

    def stall(self, side: int, time_s: float) -> None:
        self.ends[side].out.stall(time_s)
