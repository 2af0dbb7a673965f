"""A clone alone: whom it listens to, and what it keeps of what it writes."""

from __future__ import annotations

import pytest

from hub.errors import StoreError
from hub.stores.command import ChangeKind, StoreLimits
from peers.values import Count, encode, to_msgpack
from peers.zeek.broker.messages import NIL_ID
from peers.zeek.broker.stores.channel import HEARTBEAT_TICKS, ChannelLimits
from peers.zeek.broker.stores.command import (
    NIL_ENTITY,
    AckClone,
    AttachWriter,
    Clear,
    Command,
    Content,
    CumulativeAck,
    Erase,
    Expire,
    Keepalive,
    Nack,
    Put,
    PutUniqueResult,
    RetransmitFailed,
    decode_command,
    entity,
)
from peers.zeek.broker.stores.master import publisher_of
from tests.zeek.broker.recorded import HIGH, LOW
from tests.zeek.broker.stores.simulated import ClonedStore

MASTER, OTHER = entity(HIGH, 8), entity(HIGH, 9)
ASKER, OWN = entity(LOW, 1), entity(LOW, 2)
KEY, ONE = encode("k"), encode(Count(1))


class Copied(ClonedStore):
    """A clone, and what it says to whom."""

    def __init__(self, *, limits: ChannelLimits | None = None) -> None:
        self.said: list[tuple[bytes, Command]] = []
        super().__init__(LOW, lambda to, command: self.said.append((to, decode_command(command))), limits)

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


def attached(limits: ChannelLimits | None = None, *, writes: bool = False) -> Copied:
    """A clone with an empty copy."""
    copied = Copied(limits=limits)
    copied.hear(AckClone(1, 5, ()))
    if writes:
        copied.clone.attach_writer()
    return copied


def test_one_that_only_reads() -> None:
    """It says nothing but that it is there."""
    copied = attached()
    assert copied.ticks(2 * HEARTBEAT_TICKS) == [CumulativeAck(1)] * 2
    assert copied.said[0] == (HIGH, Command(0, OWN, MASTER, CumulativeAck(1)))
    assert copied.clone.is_idle


def test_a_handshake_of_a_writer_is_repeated() -> None:
    """Until the master has acknowledged it: without it, nothing that is written is taken."""
    copied = attached(writes=True)
    handshakes = [said for said in copied.ticks(4 * HEARTBEAT_TICKS) if isinstance(said, AttachWriter)]
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
    copied = attached(writes=True)
    assert copied.hear(content, 2, sender, receiver) == []
    assert (copied.replica.content, copied.states) == ({}, [""])


def test_a_handshake_for_another_clone() -> None:
    """Clones of one node share a topic."""
    copied = Copied()
    copied.hear(AckClone(1, 5, ()), receiver=OTHER)
    assert not copied.clone.is_attached


def test_keepalives_count_whomever_they_name() -> None:
    """A lost last change is asked for, though C++ masters name nobody."""
    copied = attached()
    copied.hear(Keepalive(2), receiver=NIL_ENTITY)
    assert not copied.clone.is_idle
    assert copied.ticks(2) == [Nack((2,))]
    copied.hear(Put(KEY, ONE, None, MASTER), 2, receiver=NIL_ENTITY)
    assert copied.replica.content == {KEY: ONE}


def test_what_is_lost_for_good() -> None:
    """The copy is stale; all begins anew, as another entity, and changes to the old one count no more."""
    copied = attached()
    assert copied.hear(RetransmitFailed(2)) == [Nack((0,))]
    assert copied.said[0] == (NIL_ID, Command(0, entity(LOW, 3), NIL_ENTITY, Nack((0,))))
    assert copied.lost == ["change 2 is lost for good"]
    copied.hear(AckClone(9, 5, ()))
    assert not copied.clone.is_attached
    copied.hear(AckClone(9, 5, ((KEY, ONE),)), receiver=entity(LOW, 3))
    assert copied.replica.content == {KEY: ONE}


def test_results() -> None:
    """Each goes to the client that has asked; those of others, and those that come twice, to none."""
    copied = attached()
    results: list[bool | None] = []
    copied.put_unique("k", 1, results)
    copied.put_unique("l", 1, results)
    copied.hear(PutUniqueResult(False, OTHER, 1, MASTER), 2)
    copied.hear(PutUniqueResult(False, ASKER, 2, MASTER), 3)
    copied.hear(PutUniqueResult(False, ASKER, 2, MASTER), 4)
    copied.hear(CumulativeAck(3))
    assert not copied.clone.is_idle
    assert results == [False]
    copied.clone.restart("the peering is lost")
    assert results == [False, None]
    assert len(copied.clone) == 0


def test_a_content_that_comes_anew() -> None:
    """What is the same is not touched, so that watchers hear only of what differs."""
    copied = Copied()
    copied.hear(AckClone(1, 5, ((KEY, ONE), (ONE, ONE))))
    copied.replica.changes.clear()
    copied.clone.restart("the master was silent")
    assert copied.replica.content == {KEY: ONE, ONE: ONE}
    copied.hear(AckClone(1, 5, ((ONE, KEY),)), receiver=entity(LOW, 3))
    assert copied.replica.content == {ONE: KEY}
    told = [(change.kind, change.key) for change in copied.replica.changes]
    assert told == [(ChangeKind.ERASE, to_msgpack(KEY)), (ChangeKind.PUT, to_msgpack(ONE))]
    assert copied.states == ["", "the master was silent", ""]


def test_changes() -> None:
    """Each is told with its publisher; what has expired at the master is gone, and nothing expires by itself."""
    copied = attached()
    changes = (Put(KEY, ONE, 5, MASTER), Put(ONE, ONE, None, MASTER), Expire(KEY, MASTER), Erase(ONE, MASTER))
    for number, change in enumerate(changes, 2):
        copied.hear(change, number, receiver=NIL_ENTITY)
    assert copied.replica.content == {}
    assert {change.publisher for change in copied.replica.changes} == {publisher_of(MASTER)}
    assert copied.replica.changes[0].expires_ns is None
    copied.hear(Put(KEY, ONE, None, MASTER), 6, receiver=NIL_ENTITY)
    copied.hear(Clear(MASTER), 7, receiver=NIL_ENTITY)
    assert copied.replica.content == {}
    assert copied.clone.refused == 0


def test_what_cannot_be_held() -> None:
    """It is counted, and the rest is there."""
    copied = Copied()
    copied.replica.store.limits = StoreLimits(entries=1)
    copied.hear(AckClone(1, 5, ((KEY, ONE), (ONE, ONE), (encode(1), b"\x0f"), (b"", ONE))))
    assert copied.replica.content == {KEY: ONE}
    assert copied.clone.refused == 3
    copied.hear(Put(b"\x0f", ONE, None, MASTER), 2)
    copied.replica.error = StoreError("the disk is full")
    copied.hear(Put(KEY, KEY, None, MASTER), 3)
    assert copied.clone.refused == 5


def test_a_master_may_ask_for_the_handshake_again() -> None:
    """It gets what it lacks, and from where on."""
    copied = attached()
    copied.wish(Erase(KEY, OWN))
    copied.hear(CumulativeAck(2))
    assert copied.hear(Nack((0,))) == [AttachWriter(2, 5)]
    copied.wish(Erase(ONE, OWN))
    assert copied.hear(Nack((3,))) == [Erase(ONE, OWN)]
