"""A clone that does what C++ Broker's does, also where that is a fault: it has one master and one place for its life.

As read in Broker 2.8 (`clone_actor.cc`, `channel.hh`): the first `ack_clone` is its master, every other sender is
ignored, and so is a second `ack_clone`; what is lost for good breaks it; it writes nothing any more, without a word,
once its master has been silent for 50 s, until that asks where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from peers.zeek.broker.messages import NIL_ID
from peers.zeek.broker.stores import command as wire

_HEARTBEAT, _NACK, _SILENT = 5, 2, 500


class StrictClone:
    """One clone.

    Args:
        own: Its entity.
        send: Called with the id of a node, nil for all, and a command under the topic of masters.
    """

    def __init__(self, own: bytes, send: Callable[[bytes, bytes], None]) -> None:
        self.own = own
        self._send = send
        self.master = b""
        self.content: dict[bytes, bytes] = {}
        self.events: list[tuple[str, bytes, bytes]] = []
        """What it would raise: insert, update, erase, expire; with the key and the value."""
        self.answers: dict[int, bool] = {}
        """What has become of `put_unique`, by request."""
        self.is_broken = False
        self.next = self.last = 0
        self._early: dict[int, wire.Action | None] = {}
        self._ticks = self._idle = self._next_at_tick = 0
        # Its own channel to the master.
        self.number = 1
        self._is_known = False
        self._offset = self._acked = self._seen = 0
        self._buffer: dict[int, bytes] = {}
        self._requests = 0

    # What it says.

    def begin(self) -> None:
        self._control(wire.Nack((0,)))

    def write(self, wish: wire.Action) -> None:
        if not self._is_known:
            return
        self.number += 1
        command = wire.encode_command(wire.Command(self.number, self.own, self.master, wish))
        self._buffer[self.number] = command
        self._send(NIL_ID, command)

    def put_unique(self, key: bytes, value: bytes) -> int:
        self._requests += 1
        self.write(wire.PutUnique(key, value, None, self.own, self._requests, self.own))
        return self._requests

    def _control(self, content: wire.Content, receiver: bytes | None = None, to: bytes = NIL_ID) -> None:
        receiver = (self.master or wire.NIL_ENTITY) if receiver is None else receiver
        self._send(to, wire.encode_command(wire.Command(0, self.own, receiver, content)))

    def _acknowledge(self) -> None:
        self._control(wire.CumulativeAck(self.next - 1), to=wire.node_of(self.master))

    def _shake_hands(self) -> None:
        self._control(wire.AttachWriter(self._offset, _HEARTBEAT))

    # What it hears.

    def hear(self, command: wire.Command, _: int = 0) -> None:
        seq, sender, receiver, content = command
        if self.next and sender != self.master:
            return
        if isinstance(content, wire.Put | wire.Erase | wire.Expire | wire.Clear | wire.PutUniqueResult):
            self._hear_action(seq, content)
        elif receiver == self.own:
            self._hear_control(sender, content)

    def _hear_control(self, sender: bytes, content: wire.Content) -> None:
        match content:
            case wire.AckClone():
                self._attach(sender, content)
            case wire.Keepalive() if self.next:
                self.last = max(self.last, content.number + 1)
            case wire.RetransmitFailed() if self.next:
                self._hear_action(content.number, None)
            case wire.CumulativeAck() if self._is_known:
                self._confirm(content.number)
            case wire.Nack():
                self._repeat(content.numbers)

    def _attach(self, sender: bytes, content: wire.AckClone) -> None:
        if self.master:
            return
        self.master = sender
        self.next = self.last = content.offset + 1
        self._early = {number: action for number, action in self._early.items() if number > content.offset}
        for key, value in content.entries:
            self.content[key] = value
            self.events.append(("insert", key, value))
        self._take_early()
        self._acknowledge()
        self._add_master()

    def _hear_action(self, number: int, action: wire.Action | None) -> None:
        if number < self.next:
            return
        if action is not None:
            self.last = max(self.last, number)
        self._early.setdefault(number, action)
        self._take_early()

    def _take_early(self) -> None:
        while self.next and self.next in self._early:
            action = self._early.pop(self.next)
            if action is None:
                self.is_broken = True
                self.next = self.last = 0
                return
            self.next += 1
            self.last = max(self.last, self.next)
            self._take(action)

    def _take(self, action: wire.Action) -> None:
        match action:
            case wire.Put():
                self.events.append(("update" if action.key in self.content else "insert", action.key, action.value))
                self.content[action.key] = action.value
            case wire.Erase() | wire.Expire():
                if self.content.pop(action.key, None) is not None:
                    self.events.append((type(action).__name__.lower(), action.key, b""))
            case wire.Clear():
                self.events += [("erase", key, b"") for key in self.content]
                self.content.clear()
            case wire.PutUniqueResult() if action.who == self.own:
                assert action.request not in self.answers
                self.answers[action.request] = action.inserted

    # Its own channel.

    def _add_master(self) -> None:
        self._is_known = True
        self._offset, self._acked, self._seen = self.number, 0, self._ticks
        self._shake_hands()

    def _confirm(self, number: int) -> None:
        if number >= self._acked:
            self._seen, self._acked = self._ticks, number
            self._buffer = {each: command for each, command in self._buffer.items() if each > number}

    def _repeat(self, numbers: tuple[int, ...]) -> None:
        if numbers == (0,):
            if not self.master:
                return
            if self._is_known:
                self._seen = self._ticks
                self._shake_hands()
            else:
                self._add_master()
        elif self._is_known:
            assert all(one < other for one, other in pairwise(numbers))
            self._confirm(numbers[0] - 1)
            for number in numbers:
                if number in self._buffer:
                    self._send(NIL_ID, self._buffer[number])
                else:
                    self._control(wire.RetransmitFailed(number))

    @property
    def unconfirmed(self) -> int:
        return len(self._buffer)

    def tick(self) -> None:
        self._ticks += 1
        self._tick_reading()
        if self.master and self._ticks % _HEARTBEAT == 0:
            if self._is_known and not self._acked:
                self._shake_hands()
            self._control(wire.Keepalive(self.number), wire.NIL_ENTITY)
            if self._is_known and self._ticks - self._seen >= _SILENT:
                self._is_known = False
                self._buffer.clear()

    def _tick_reading(self) -> None:
        self._idle = 0 if self.next > self._next_at_tick else self._idle + 1
        self._next_at_tick = self.next
        if not self.next:
            if self._idle >= _NACK:
                self._idle = 0
                self._control(wire.Nack((0,)))
        elif self.next < self.last and self._idle >= _NACK:
            self._idle = 0
            missing = tuple(number for number in range(self.next, self.last) if number not in self._early)
            self._control(wire.Nack(missing), to=wire.node_of(self.master))
        elif self._ticks % _HEARTBEAT == 0:
            self._acknowledge()
