"""In place of a C++ master, or of a C++ clone, the same is said byte for byte, at the same time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from peers.values import Count, decode, encode
from peers.zeek.broker.messages import Envelope, EnvelopeType, decode_envelope, encode_envelope
from peers.zeek.broker.session import Role
from peers.zeek.broker.stores import command as wire
from tests.zeek.broker.recorded import HIGH, LOW, RECORDINGS, connection, split
from tests.zeek.broker.stores.simulated import ClonedStore, ServedStore

_TICKS_LIMIT = 10
"""More than ever pass without a word of either end."""

_MASTER_TOPIC, _CLONE_TOPIC = b"db/<$>/data/master", b"db/<$>/data/clone"


def exchange(name: str) -> Iterator[tuple[Role, Envelope]]:
    orders: list[tuple[float | None, Role]] = json.loads((RECORDINGS / "store-orders.json").read_text())[name]
    sides = connection(name)
    frames = {role: iter(split(side.stream)) for role, side in sides.items()}
    left = {role: len(side.handshake) for role, side in sides.items()}
    for _, role in orders:
        frame = next(frames[role])
        if left[role]:
            left[role] -= 1
            continue
        envelope = decode_envelope(frame)
        if envelope.type is EnvelopeType.COMMAND:
            yield role, envelope


@dataclass
class _Replay:
    node: bytes
    topic: bytes
    said: list[bytes] = field(default_factory=list)

    def send(self, to: bytes, command: bytes) -> None:
        self.said.append(encode_envelope(Envelope(self.node, to, EnvelopeType.COMMAND, self.topic, command)))


class MasterRole(_Replay):
    role: Role = "acceptor"
    ours = (wire.Keepalive, wire.CumulativeAck, wire.AckClone, wire.PutUniqueResult)
    """What a master says by itself."""

    def __init__(self, content: dict[bytes, bytes]) -> None:
        super().__init__(HIGH, _CLONE_TOPIC)
        self.served = ServedStore(HIGH, self.send, number=8)
        self.master = self.served.master
        for key, value in content.items():
            self.served.wish(wire.Put(key, value, None, self.served.own))

    def begin(self) -> None: ...

    def hear(self, command: wire.Command) -> None:
        self.master.hear(command, 0)

    def tick(self) -> None:
        self.master.tick()

    def do(self, command: wire.Command) -> None:
        content = command.content
        if isinstance(content, self.ours):
            return
        if isinstance(content, wire.Expire):
            self.tick()
            self.served.store.expire(content.key)
        else:
            assert content[-1] == self.served.own, f"{content} should have come of a wish"
            self.served.wish(content)  # type: ignore[arg-type]


class CloneRole(_Replay):
    role: Role = "connector"

    def __init__(self, number: int) -> None:
        super().__init__(LOW, _MASTER_TOPIC)
        numbers = iter(range(number, number + 2))
        self.cloned = ClonedStore(LOW, self.send, first=number)
        self.clone = self.cloned.clone
        # A clone of this hub wishes each thing under a publisher of its own, and says that it writes when it does.
        self.clone._entities = lambda: self.clone._own
        self.clone._own, self.clone._asker = (wire.entity(LOW, each) for each in numbers)
        self.results: list[bool | None] = []

    def begin(self) -> None:
        self.clone.begin()

    def hear(self, command: wire.Command) -> None:
        self.clone.hear(command, 0)

    def tick(self) -> None:
        self.clone.tick()
        if self.clone.is_attached and not self.clone._is_writer:
            self.clone.attach_writer()

    def do(self, command: wire.Command) -> None:
        match command.content:
            case wire.PutUnique(key, value):
                self.cloned.put_unique(decode(key), decode(value), self.results)  # type: ignore[arg-type]
            case wire.Nack() | wire.CumulativeAck() | wire.AttachWriter() | wire.Keepalive():
                pass
            case wish:
                self.cloned.wish(wish)  # type: ignore[arg-type]


def replay(name: str, end: MasterRole | CloneRole, extra: dict[int, int]) -> list[bytes]:
    """Let an end take part in a recorded exchange.

    Args:
        name: Of the recording.
        end: In place of one that was recorded.
        extra: Ticks besides, by the number of the command before which they pass.

    Returns:
        What was recorded of it, up to where it says something else.
    """
    recorded: list[bytes] = []
    end.begin()
    for number, (role, envelope) in enumerate(exchange(name)):
        for _ in range(extra.get(number, 0)):
            end.tick()
        command = wire.decode_command(envelope.payload)
        if role != end.role:
            end.hear(command)
            continue
        recorded.append(encode_envelope(envelope))
        if len(end.said) < len(recorded):
            end.do(command)
        for _ in range(_TICKS_LIMIT):
            if len(end.said) >= len(recorded):
                break
            end.tick()
        if end.said[: len(recorded)] != recorded:
            break
    return recorded


NAMES = ("n05-data-store", "t01-clone-attach", "t02-clone-before-master")
MASTERS = {"n05-data-store": {54: 1}, "t01-clone-attach": {15: 2, 19: 1, 27: 2}, "t02-clone-before-master": {}}
CLONES = {"n05-data-store": {}, "t01-clone-attach": {15: 1, 19: 1}, "t02-clone-before-master": {}}
"""Ticks during which nothing was said, by the command that came then."""

CONTENT = {encode("b"): encode("two"), encode("n"): encode(Count(5))}  # in the end of t01


@pytest.mark.parametrize("name", NAMES)
def test_in_place_of_the_master(name: str) -> None:
    end = MasterRole({encode("a"): encode("one")} if name.startswith("t01") else {})
    recorded = replay(name, end, MASTERS[name])
    assert end.said == recorded
    assert len(recorded) > 10
    assert end.master.clones == end.master.writers == 1
    if name.startswith("t01"):
        assert dict(end.master.entries()) == CONTENT


@pytest.mark.parametrize("name", NAMES)
def test_in_place_of_the_clone(name: str) -> None:
    end = CloneRole(9 if name.startswith("n05") else 7)
    recorded = replay(name, end, CLONES[name])
    assert end.said == recorded
    assert len(recorded) > 10
    assert end.clone.is_idle
    assert end.cloned.lost == []
    if not name.startswith("t02"):
        assert end.cloned.replica.content == (CONTENT if name.startswith("t01") else {})
        assert end.results == [name.startswith("n05")]
