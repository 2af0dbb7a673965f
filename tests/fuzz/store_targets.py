"""Commands of Broker's data stores, as a peer sends them: read, forwarded to another peer, and heard by either end."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from contextlib import suppress

from peers.zeek.broker.messages import NIL_ID, Envelope, EnvelopeType
from peers.zeek.broker.stores.command import (
    KIND_OFFSET,
    NIL_ENTITY,
    SENDER_OFFSET,
    InvalidCommandError,
    clone_topic,
    decode_command,
    encode_command,
    entity,
    master_topic,
)
from peers.zeek.broker.stores.forwarder import ForwarderLimits
from tests.fuzz.target import Target
from tests.zeek.broker.recorded import connection
from tests.zeek.broker.stores.nodes import HUB, Hub, Node

__all__ = ["STORE_TARGETS"]


def _run_command(data: bytes) -> None:
    with suppress(InvalidCommandError):
        command = decode_command(data)
        written = encode_command(command)
        assert len(written) <= len(data), "what was read is longer than what stood there"
        assert decode_command(written) == command


def _run_ends(data: bytes) -> None:
    """Commands, each behind its length, through a hub to a node that has a master and a clone."""
    hub = Hub(limits=ForwarderLimits(entities=50))
    one, two = hub.peer(1), hub.peer(2)
    two.serve("db")
    two.copy("db")
    position = 0
    while position + 2 <= len(data):
        size = int.from_bytes(data[position : position + 2], "big")
        payload = data[position + 2 : position + 2 + size]
        position += 2 + size
        topic = (clone_topic if size % 2 else master_topic)("db").encode()
        to = NIL_ID if size % 3 else HUB
        receiver = _RECEIVERS[size % 5](two) if len(payload) >= KIND_OFFSET else b""
        payload = payload[:SENDER_OFFSET] + entity(one.id, size % 7) + receiver + payload[KIND_OFFSET:]
        with suppress(InvalidCommandError):  # the node reads what is forwarded, as the hub's own would
            hub.hear(Envelope(one.id, to, EnvelopeType.COMMAND, topic, payload))
            hub.tick()
    assert hub.forwarder.entities <= 50 + 10
    assert two.strangers == 0


_RECEIVERS: tuple[Callable[[Node], bytes], ...] = (
    lambda _: NIL_ENTITY,
    lambda _: entity(HUB, 1),
    lambda node: _alias(node.masters["db"].own),
    lambda node: _alias(entity(node.id, 2000)),
    lambda node: node.masters["db"].own,
)


def _alias(of: bytes) -> bytes:
    return entity(HUB, int.from_bytes(hashlib.blake2b(of, digest_size=8, key=HUB).digest(), "big"))


def _end_seeds() -> list[bytes]:
    commands = _command_seeds()
    return [b"".join(len(each).to_bytes(2, "big") + each for each in commands[start::4]) for start in range(4)]


def _command_seeds() -> list[bytes]:
    sides = [*connection("t01-clone-attach").values(), *connection("n05-data-store").values()]
    commands = [each.payload for side in sides for each in side.of_type(EnvelopeType.COMMAND)]
    return sorted(set(commands))


STORE_TARGETS = (
    Target(
        "store_command",
        _run_command,
        _command_seeds,
        [b"\xff" * 9 + b"\x01", struct.pack(">Q", 2**64 - 1), b"\x0d\x02", b"\x0c\x01"],
    ),
    Target("store_ends", _run_ends, _end_seeds, [struct.pack(">Q", 2**64 - 1), b"\0\x3a", b"\0\x41"], runs=300),
)
