"""`Producer`: the end of a channel that numbers actions, and sends again what a consumer lacks.

```
                              ┌ waits for acknowledgements ┐
numbers   1 ... floor │ floor+1 ............................ number
                      └ all consumers have these: forgotten
```

Numbers begin at 2: 1 stands for "nothing was sent yet", 0 for "nothing was acknowledged yet". An action that nobody is
there to hear is dropped and takes no number, since whoever comes later gets the whole content.

A consumer comes by a nack of [0], or is added by the owner; it gets a handshake with an offset, and all that follows
has higher numbers. Its handshake is kept until the first acknowledgement, so that asking again gets the same bytes.

C++ clones take no keepalive that does not name them, and C++ masters name nobody, so that a lost last action stays
unnoticed until the next one. Here, whoever had not acknowledged the last action at one keepalive gets the next one by
name.

A consumer that was there before the producer was is taken in where it is (`adopt`): what it lacks below the floor is
what the owner can recall.

What a handshake holds may be ahead of what the owner has on its disk, and must not be known elsewhere if that is never
written. So it is sent once the owner says that it is kept (`when_kept`); actions that come meanwhile have higher
numbers, and go ahead: its consumer lets them wait.

Owner: one master, or one clone that writes. Invariants: the buffer holds all numbers above the floor; a consumer that
is silent, asks nonsense, or is removed by the owner holds nothing back; none is sent more than `REPEATED`
actions again in a tick, however often it asks. Cost: O(1) an action and an acknowledgement,
O(consumers) a heartbeat and each time the floor rises. No I/O, no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from hub.errors import HubError
from peers.zeek.broker.stores.channel import (
    HEARTBEAT_TICKS,
    NACK_NUMBERS,
    SILENT_TICKS,
    ChannelCounters,
    ChannelLimits,
    Later,
)
from peers.zeek.broker.stores.command import (
    NIL_ENTITY,
    AckClone,
    Action,
    AttachWriter,
    Command,
    Content,
    Keepalive,
    RetransmitFailed,
    encode_command,
)

__all__ = ["FIRST_NUMBER", "REPEATED", "Producer"]

FIRST_NUMBER = 1
"""The number before that of the first action."""

REPEATED: Final = 2 * NACK_NUMBERS
"""Most actions that are sent again to one consumer in one tick. It asks every other tick, if it does as it should."""

_HANDSHAKE = (0,)
"""What a nack asks for that wants a handshake."""


class _Path:
    """One consumer, as the producer knows it."""

    __slots__ = ("acked", "handshake", "is_held", "lagged", "last_seen", "offset", "repeated", "repeated_tick")

    def __init__(self, offset: int, handshake: bytes, tick: int) -> None:
        self.offset = offset
        """Its handshake stands for everything up to this number."""
        self.acked = 0
        """What it has acknowledged last; 0 before the first time."""
        self.handshake = handshake
        """Sent again until the first acknowledgement, empty from then on."""
        self.is_held = False
        """Whether its handshake holds what is not kept yet, and is not sent."""
        self.last_seen = tick
        self.lagged = False
        """Whether it lacked something at the last keepalive."""
        self.repeated = self.repeated_tick = 0
        """How many actions were sent to it again in which tick."""

    @property
    def has(self) -> int:
        """Up to which number it needs nothing any more."""
        return max(self.acked, self.offset)


def _nothing(_: int) -> None:
    """Stand in where nothing is known but what the buffer holds."""


def _at_once(then: Callable[[HubError | None], object]) -> None:
    """Stand in where nothing is kept."""
    then(None)


class Producer:
    """One end of a channel.

    Args:
        own: The entity that sends.
        receiver: The entity that actions name: nil, or the master.
        send: Called with an entity, nil for everybody, and a command for it.
        handshake: Called with the number of the last action, and the number up to which a consumer has everything (the
            same for a new one), for what the handshake holds; None if there can be none.
        limits: Of the buffer, see `is_full`.
        counters: Raised here.
        removes_silent: Whether a consumer that says nothing for `SILENT_TICKS` is removed.
        number: That of the last action before the first.
        recall: Returns what stands under a number that the buffer does not hold; None if nobody knows.
        when_kept: Calls what it is given, at once or later, once all is kept that a handshake may hold now; later with
            an error if that has failed, and may be waited for again.
    """

    __slots__ = (
        "_buffer",
        "_counters",
        "_floor",
        "_handshake",
        "_last_broadcast",
        "_limits",
        "_own",
        "_paths",
        "_recall",
        "_receiver",
        "_removes_silent",
        "_send",
        "_tick",
        "_when_kept",
        "buffered_bytes",
        "number",
    )

    def __init__(  # noqa: PLR0913 -- each is another thing
        self,
        own: bytes,
        receiver: bytes,
        send: Callable[[bytes, bytes], None],
        handshake: Callable[[int, int], AckClone | AttachWriter | None],
        *,
        limits: ChannelLimits,
        counters: ChannelCounters,
        removes_silent: bool = True,
        number: int = FIRST_NUMBER,
        recall: Callable[[int], Action | Later | None] = _nothing,
        when_kept: Callable[[Callable[[HubError | None], object]], object] = _at_once,
    ) -> None:
        self._own = own
        self._receiver = receiver
        self._send = send
        self._handshake = handshake
        self._limits = limits
        self._counters = counters
        self._removes_silent = removes_silent
        self._recall = recall
        self._when_kept = when_kept
        self.number = number
        """That of the last action."""
        self._floor = number
        """Every consumer has all up to this number; the buffer begins behind it."""
        self._buffer: deque[bytes] = deque()
        """The commands behind the floor."""
        self.buffered_bytes = 0
        self._paths: dict[bytes, _Path] = {}
        self._tick = self._last_broadcast = 0

    def __len__(self) -> int:
        """Return how many consumers there are."""
        return len(self._paths)

    def __contains__(self, consumer: bytes) -> bool:
        """Whether an entity is a consumer."""
        return consumer in self._paths

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the consumers."""
        return iter(self._paths)

    @property
    def buffered(self) -> int:
        """How many actions wait for an acknowledgement."""
        return len(self._buffer)

    @property
    def is_full(self) -> bool:
        """Whether the buffer is at its limits: the owner removes a consumer, or refuses actions."""
        return len(self._buffer) >= self._limits.actions or self.buffered_bytes >= self._limits.bytes

    @property
    def handshake_bytes(self) -> int:
        """How many bytes of handshakes are held until they are acknowledged."""
        return sum(len(path.handshake) for path in self._paths.values())

    @property
    def pending(self) -> list[bytes]:
        """The commands that wait for an acknowledgement."""
        return list(self._buffer)

    @property
    def is_idle(self) -> bool:
        """Whether all consumers have acknowledged everything."""
        return all(path.acked >= self.number for path in self._paths.values())

    def produce(self, action: Action) -> bool:
        """Send an action to all consumers.

        Returns:
            Whether there were any; otherwise it is dropped, and takes no number.
        """
        if not self._paths:
            return False
        self.number += 1
        command = encode_command(Command(self.number, self._own, self._receiver, action))
        self._buffer.append(command)
        self.buffered_bytes += len(command)
        self._last_broadcast = self._tick
        self._send(NIL_ENTITY, command)
        return True

    def skip(self, number: int) -> None:
        """Have used all numbers up to this one; there must be no consumers."""
        self.number = self._floor = number

    def adopt(self, consumer: bytes, number: int) -> None:
        """Take in a consumer that has everything up to a number of before, and send it the next of what it lacks."""
        path = self._paths[consumer] = _Path(number, b"", self._tick)
        path.acked = number
        for each in range(number + 1, min(number + NACK_NUMBERS, self.number) + 1):
            self._repeat_action(consumer, path, each)

    def add(self, consumer: bytes) -> bool:
        """Take in a consumer, and send it the handshake; return whether there can be one."""
        content = self._handshake(self.number, self.number)
        if content is None:
            return False
        if not self._paths:
            self._floor = self.number  # the buffer is empty
        path = self._paths[consumer] = _Path(content.offset, b"", self._tick)
        self._shake_hands(consumer, path, content)
        return True

    def remove(self, consumer: bytes) -> None:
        """Forget a consumer, if it is one; it is not told."""
        if self._paths.pop(consumer, None) is not None:
            self._raise_floor()

    def remove_slowest(self) -> bytes:
        """Forget the consumer that holds back most, and return it. There must be one."""
        slowest = min(self._paths, key=lambda consumer: self._paths[consumer].has)
        self._counters.slow += 1
        self.remove(slowest)
        return slowest

    def acknowledge(self, consumer: bytes, number: int) -> None:
        """A consumer has everything up to a number."""
        path = self._paths.get(consumer)
        if path is None:
            return
        path.last_seen = self._tick
        if path.acked <= number <= self.number:
            path.handshake = b""
            was_floor = path.has <= self._floor
            path.acked = number
            if was_floor:
                self._raise_floor()

    def repeat(self, consumer: bytes, numbers: tuple[int, ...]) -> bool:
        """A consumer lacks these numbers, or, by a lone 0, its handshake.

        Returns:
            False if a new consumer asks for a handshake, and there can be none.
        """
        path = self._paths.get(consumer)
        if numbers == _HANDSHAKE:
            if path is None:
                return self.add(consumer)
            return self._repeat_handshake(consumer, path)
        if path is None:
            return True
        numbers = numbers[:NACK_NUMBERS]
        if not numbers or numbers[0] == 0 or any(one >= other for one, other in pairwise(numbers)):
            self._counters.wrong += 1
            self.remove(consumer)
            return True
        self.acknowledge(consumer, numbers[0] - 1)
        for number in numbers:
            self._repeat_action(consumer, path, number)
        return True

    def insist(self) -> None:
        """Send all handshakes again that were never acknowledged."""
        for consumer, path in self._paths.items():
            if path.handshake and not path.is_held:
                self._send(consumer, path.handshake)

    def fail(self, consumer: bytes, number: int) -> None:
        """Tell an entity, whether it is a consumer or not, that a number will never come."""
        self._counters.failed += 1
        self._control(consumer, RetransmitFailed(number))

    def tick(self) -> None:
        """Let a tick pass: keepalives, and those who have fallen silent."""
        self._tick += 1
        if self._last_broadcast + HEARTBEAT_TICKS == self._tick:
            self._last_broadcast = self._tick
            self._keep_alive()
        if self._removes_silent and self._tick % HEARTBEAT_TICKS == 0:
            silent = [each for each, path in self._paths.items() if self._tick - path.last_seen > SILENT_TICKS]
            for consumer in silent:
                self._counters.silent += 1
                self.remove(consumer)

    def _keep_alive(self) -> None:
        self._control(NIL_ENTITY, Keepalive(self.number))
        for consumer, path in self._paths.items():
            if path.lagged and path.acked < self.number:
                self._control(consumer, Keepalive(self.number))
            path.lagged = path.acked < self.number

    def _shake_hands(self, consumer: bytes, path: _Path, content: AckClone | AttachWriter) -> None:
        seq = content.offset if isinstance(content, AckClone) else 0
        path.handshake = encode_command(Command(seq, self._own, consumer, content))
        self._hold(consumer, path, path.handshake)

    def _hold(self, consumer: bytes, path: _Path, handshake: bytes) -> None:
        """Send a handshake once what it holds is kept, if it is still wanted then."""

        def then(error: HubError | None) -> None:
            if self._paths.get(consumer) is not path or path.handshake is not handshake:
                return
            if error is not None:
                self._hold(consumer, path, handshake)
                return
            path.is_held = False
            self._send(consumer, handshake)

        path.is_held = True
        self._when_kept(then)

    def _repeat_handshake(self, consumer: bytes, path: _Path) -> bool:
        path.last_seen = self._tick
        if path.handshake:
            if not path.is_held:
                self._send(consumer, path.handshake)
            return True
        content = self._handshake(self.number, path.has)  # it was there already, and has lost what it knew
        if content is None:
            self.remove(consumer)
            return False
        self._shake_hands(consumer, path, content)
        return True

    def _repeat_action(self, consumer: bytes, path: _Path, number: int) -> None:
        if number > self.number:
            return
        if path.repeated_tick != self._tick:
            path.repeated_tick, path.repeated = self._tick, 0
        path.repeated += 1
        if path.repeated > REPEATED:
            return
        place = number - self._floor - 1
        if 0 <= place < len(self._buffer):
            self._counters.repeated += 1
            self._send(consumer, self._buffer[place])
            return
        action = self._recall(number)
        if action is None:
            self.fail(consumer, number)
        elif action is not Later.LATER:
            self._counters.recalled += 1
            self._send(consumer, encode_command(Command(number, self._own, consumer, action)))

    def _control(self, consumer: bytes, content: Content) -> None:
        self._send(consumer, encode_command(Command(0, self._own, consumer, content)))

    def _raise_floor(self) -> None:
        floor = min((path.has for path in self._paths.values()), default=self.number)
        while self._floor < floor:
            self._floor += 1
            self.buffered_bytes -= len(self._buffer.popleft())
