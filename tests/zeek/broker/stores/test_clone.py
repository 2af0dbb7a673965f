"""A clone alone: whom it listens to, and what it keeps of what it writes."""

from __future__ import annotations

from itertools import count

import pytest

from hub.errors import BusyError
from peers.values import Count, encode
from peers.zeek.broker.handshake_messages import NIL_ID
from peers.zeek.broker.stores.channel import HEARTBEAT_TICKS, ChannelLimits
from peers.zeek.broker.stores.clone import Clone
from peers.zeek.broker.stores.command import (
    NIL_ENTITY,
    AckClone,
    AttachWriter,
    Command,
    Content,
    CumulativeAck,
    Erase,
    Keepalive,
    Nack,
    Put,
    PutUnique,
    PutUniqueResult,
    RetransmitFailed,
    decode_command,
    entity,
)
from tests.zeek.broker.recorded import HIGH, LOW
from tests.zeek.broker.stores.memory import MemoryReplica

MASTER, OTHER = entity(HIGH, 8), entity(HIGH, 9)
OWN, ASKER = entity(LOW, 1), entity(LOW, 2)
KEY, ONE = encode("k"), encode(Count(1))


class Copied:
    """A clone, and what it says to whom."""

    def __init__(self, *, writes: bool = True, limits: ChannelLimits | None = None) -> None:
        numbers = count(1)
        self.said: list[tuple[bytes, Command]] = []
        self.replica = MemoryReplica()
        self.clone = Clone(
            lambda: entity(LOW, next(numbers)),
            self.replica,
            lambda to, command: self.said.append((to, decode_command(command))),
            limits=limits,
            writes=writes,
        )

    def hear(self, content: Content, seq: int = 0, sender: bytes = MASTER, receiver: bytes = OWN) -> list[Content]:
        """Let it hear a command; return what it says."""
        self.said.clear()
        self.clone.hear(Command(seq, sender, receiver, content), 100)
        return [command.content for _, command in self.said]

    def ticks(self, ticks: int) -> list[Content]:
        """What it says in so many ticks."""
        self.said.clear()
        for _ in range(ticks):
            self.clone.tick()
        return [command.content for _, command in self.said]


def attached(**options: bool) -> Copied:
    """A clone with an empty copy."""
    copied = Copied(**options)
    copied.hear(AckClone(1, 5, ()))
    return copied


def test_one_that_only_reads() -> None:
    """It says nothing but that it is there."""
    copied = attached(writes=False)
    assert copied.ticks(2 * HEARTBEAT_TICKS) == [CumulativeAck(1)] * 2
    assert copied.said[0] == (HIGH, Command(0, OWN, MASTER, CumulativeAck(1)))
    assert copied.clone.is_idle


def test_a_handshake_of_a_writer_is_repeated() -> None:
    """Until the master has acknowledged it: without it, nothing that is written is taken."""
    copied = attached()
    handshakes = [said for said in copied.ticks(3 * HEARTBEAT_TICKS + 1) if isinstance(said, AttachWriter)]
    assert handshakes == [AttachWriter(1, 5)] * 4
    copied.hear(CumulativeAck(1))
    assert not [said for said in copied.ticks(3 * HEARTBEAT_TICKS) if isinstance(said, AttachWriter)]


@pytest.mark.parametrize(
    ("sender", "receiver", "content"),
    [
        (OTHER, NIL_ENTITY, Put(KEY, ONE, None, OTHER)),
        (OTHER, OWN, RetransmitFailed(2)),
        (OTHER, OWN, AckClone(5, 5, ((ONE, ONE),))),
        (MASTER, OTHER, RetransmitFailed(2)),
        (MASTER, OWN, AckClone(5, 5, ((ONE, ONE),))),
        (MASTER, OTHER, CumulativeAck(1)),
        (MASTER, OWN, AttachWriter(1, 5)),
    ],
)
def test_what_is_not_for_it(sender: bytes, receiver: bytes, content: Content) -> None:
    """Another master, another clone's, a second handshake: nothing happens."""
    copied = attached()
    assert copied.hear(content, 2, sender, receiver) == []
    assert (copied.replica.content, copied.replica.lost, copied.replica.replaced) == ({}, [], 1)


def test_a_handshake_for_another_clone() -> None:
    """Clones of one node share a topic."""
    copied = Copied()
    copied.hear(AckClone(1, 5, ()), receiver=OTHER)
    assert not copied.clone.is_attached


def test_keepalives_count_whomever_they_name() -> None:
    """A lost last change is asked for, though C++ masters name nobody."""
    copied = attached(writes=False)
    copied.hear(Keepalive(2), receiver=NIL_ENTITY)
    assert not copied.clone.is_idle
    assert copied.ticks(2) == [Nack((2,))]
    copied.hear(Put(KEY, ONE, None, MASTER), 2, receiver=NIL_ENTITY)
    assert copied.replica.content == {KEY: ONE}


def test_what_is_lost_for_good() -> None:
    """The copy is stale; all begins anew, as another entity, and changes to the old one count no more."""
    copied = attached(writes=False)
    assert copied.hear(RetransmitFailed(2)) == [Nack((0,))]
    assert copied.said[0] == (NIL_ID, Command(0, entity(LOW, 3), NIL_ENTITY, Nack((0,))))
    assert (copied.replica.lost, copied.clone.master, copied.clone.restarts) == (["change 2 is lost for good"], b"", 1)
    copied.hear(AckClone(9, 5, ()))
    assert not copied.clone.is_attached
    copied.hear(AckClone(9, 5, ((KEY, ONE),)), receiver=entity(LOW, 3))
    assert copied.replica.content == {KEY: ONE}


def test_what_is_written_waits_for_a_master_within_bounds() -> None:
    """More is refused, at once."""
    copied = Copied(limits=ChannelLimits(actions=2))
    for _ in range(2):
        copied.clone.write(Erase(KEY, OWN))
    with pytest.raises(BusyError, match="2 changes wait for a master"):
        copied.clone.write(Erase(KEY, OWN))
    assert copied.hear(AckClone(1, 5, ())) == [CumulativeAck(1), AttachWriter(1, 5), *[Erase(KEY, OWN)] * 2]
    results: list[bool | None] = []
    with pytest.raises(BusyError, match="has not confirmed 2 changes"):
        copied.clone.put_unique(KEY, ONE, None, results.append)
    copied.hear(CumulativeAck(3))
    assert copied.clone.is_idle
    copied.clone.put_unique(KEY, ONE, None, results.append)
    assert copied.said[-1][1] == Command(4, OWN, MASTER, PutUnique(KEY, ONE, None, ASKER, 2, OWN))


def test_what_waits_is_bounded_in_bytes() -> None:
    """Long values fill it as well."""
    copied = Copied(limits=ChannelLimits(bytes=1_000))
    copied.clone.write(Put(KEY, encode("x" * 1_000), None, OWN))
    with pytest.raises(BusyError):
        copied.clone.write(Erase(KEY, OWN))


def test_results() -> None:
    """Each goes to whoever has asked; those of others, and those that come twice, to nobody."""
    copied = attached()
    results: list[bool | None] = []
    copied.clone.put_unique(KEY, ONE, None, results.append)
    copied.clone.put_unique(ONE, ONE, None, results.append)
    copied.hear(CumulativeAck(3))
    assert not copied.clone.is_idle
    copied.hear(PutUniqueResult(False, OTHER, 1, MASTER), 2)
    copied.hear(PutUniqueResult(True, ASKER, 2, MASTER), 3)
    copied.hear(PutUniqueResult(False, ASKER, 2, MASTER), 4)
    assert results == [True]
    copied.clone.restart("the peering is lost")
    assert results == [True, None]
    assert copied.clone.unconfirmed == 0


def test_a_master_may_ask_for_the_handshake_again() -> None:
    """It gets what it lacks, and from where on."""
    copied = attached()
    copied.clone.write(Erase(KEY, OWN))
    copied.hear(CumulativeAck(2))
    assert copied.hear(Nack((0,))) == [AttachWriter(2, 5)]
    copied.clone.write(Erase(ONE, OWN))
    assert copied.hear(Nack((3,))) == [Erase(ONE, OWN)]
