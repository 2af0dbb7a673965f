"""The table of the handshake: every message in every state, both roles and both orders of the ids."""

from __future__ import annotations

import pytest

from hub.errors import ProtocolError
from peers.zeek.broker.handshake import Ended, Handshake, PeerKnown, Role, State
from peers.zeek.broker.messages import (
    BrokerCode,
    DropConn,
    Filter,
    HandshakeMessage,
    Hello,
    OriginatorAck,
    OriginatorSyn,
    Probe,
    ResponderSynAck,
    VersionSelect,
    decode_message,
    encode_drop_conn,
    encode_hello,
    encode_originator_ack,
    encode_originator_syn,
    encode_probe,
    encode_responder_syn_ack,
    encode_version_select,
)
from tests.zeek.broker.recorded import HIGH, LOW, split

FRAMES: dict[type[HandshakeMessage], bytes] = {
    Probe: encode_probe(),
    Hello: encode_hello(LOW),
    VersionSelect: encode_version_select(LOW),
    DropConn: encode_drop_conn(LOW, 28, "shutting down"),
    OriginatorSyn: encode_originator_syn(("/far",)),
    ResponderSynAck: encode_responder_syn_ack(("/far",)),
    OriginatorAck: encode_originator_ack(),
}

PHASE_ONE = {Probe, DropConn}
ACCEPTED: dict[State, set[type[HandshakeMessage]]] = {
    State.CONNECTOR: PHASE_ONE | {Hello, VersionSelect},
    State.ACCEPTOR: PHASE_ONE | {Hello},
    State.AWAIT_VERSION_SELECT: PHASE_ONE | {VersionSelect},
    State.DECIDING: set(),
    State.AWAIT_ORIGINATOR_SYN: {OriginatorSyn},
    State.AWAIT_RESPONDER_SYN_ACK: {ResponderSynAck},
    State.AWAIT_ORIGINATOR_ACK: {OriginatorAck},
    State.DONE: set(),
}


def handshake_of(own_id: bytes, role: Role) -> tuple[Handshake, list[bytes]]:
    """A handshake at its beginning, and where it puts its frames."""
    sent: list[bytes] = []
    return Handshake(own_id, role, ("/near",), 10, sent.append), sent


def said(sent: list[bytes]) -> list[HandshakeMessage]:
    """The messages that were sent."""
    return [decode_message(frame, 10) for frame in split(b"".join(sent))]


@pytest.mark.parametrize("kind", FRAMES, ids=lambda kind: str(kind.__name__))
@pytest.mark.parametrize("state", State, ids=lambda state: str(state.name))
def test_every_message_in_every_state(state: State, kind: type[HandshakeMessage]) -> None:
    """What the table has is taken; all else ends the connection without a word."""
    handshake, sent = handshake_of(HIGH, "acceptor")
    sent.clear()
    handshake.state = state
    if kind in ACCEPTED[state]:
        handshake.receive(FRAMES[kind][4:])
        return
    with pytest.raises(ProtocolError, match=f"{kind.__name__} is not expected") as raised:
        handshake.receive(FRAMES[kind][4:])
    assert raised.value.code == BrokerCode.UNEXPECTED_HANDSHAKE_MESSAGE
    assert not sent


@pytest.mark.parametrize("role", ["acceptor", "connector"])
@pytest.mark.parametrize("own_id", [LOW, HIGH], ids=["smaller", "larger"])
def test_both_roles_and_both_orders(own_id: bytes, role: Role) -> None:
    """The smaller id is the originator, whoever has dialled."""
    other_id = HIGH if own_id == LOW else LOW
    other_role: Role = "connector" if role == "acceptor" else "acceptor"
    near, near_sent = handshake_of(own_id, role)
    far, far_sent = handshake_of(other_id, other_role)
    known = []
    for _ in range(6):
        for source, target in ((near_sent, far), (far_sent, near)):
            frames, source[:] = split(b"".join(source)), []
            for frame in frames:
                event = target.receive(frame)
                if isinstance(event, PeerKnown):
                    known.append((target is near, event))
                    target.proceed()
    assert (near.state, far.state) == (State.DONE, State.DONE)
    assert (near.peer_id, far.peer_id) == (other_id, own_id)
    assert near.peer_filter == far.peer_filter == Filter(("/near",))
    assert sorted(known) == sorted(
        [(True, PeerKnown(other_id, own_id == LOW)), (False, PeerKnown(own_id, own_id == HIGH))]
    )


def test_the_originator_decides_before_it_says_anything() -> None:
    """Until it goes on, the version is not selected; then filter and version go out together."""
    handshake, sent = handshake_of(LOW, "acceptor")
    assert handshake.receive(encode_hello(HIGH)[4:]) == PeerKnown(HIGH, is_originator=True)
    assert said(sent) == [Probe()]
    handshake.proceed()
    assert said(sent)[1:] == [VersionSelect(LOW), OriginatorSyn(Filter(("/near",)))]


def test_a_connection_to_oneself_ends() -> None:
    """Neither side is the originator; the second hello ends it, and the text says what was wrong."""
    acceptor, acceptor_sent = handshake_of(LOW, "acceptor")
    connector, connector_sent = handshake_of(LOW, "connector")
    acceptor.receive(connector_sent[0][4:])
    for frame in acceptor_sent:
        connector.receive(frame[4:])
    assert said(connector_sent) == [Hello(LOW), Hello(LOW)]
    with pytest.raises(ProtocolError, match="the far side is this hub itself"):
        acceptor.receive(connector_sent[1][4:])


@pytest.mark.parametrize("sender", [bytes(16), HIGH], ids=["nil", "own"])
def test_a_peer_has_an_id_of_its_own(sender: bytes) -> None:
    """Who selects a version as nobody or as this hub is no peer."""
    handshake, _ = handshake_of(HIGH, "connector")
    with pytest.raises(ProtocolError, match="without an endpoint id"):
        handshake.receive(encode_version_select(sender)[4:])


@pytest.mark.parametrize("role", ["acceptor", "connector"])
def test_nobody_says_hello(role: Role) -> None:
    """A hello without an endpoint id is refused at once, and told why."""
    handshake, sent = handshake_of(HIGH, role)
    with pytest.raises(ProtocolError, match="hello without an endpoint id") as raised:
        handshake.receive(encode_hello(bytes(16))[4:])
    assert raised.value.code == BrokerCode.PEER_INVALID
    assert said(sent)[-1] == DropConn(HIGH, BrokerCode.PEER_INVALID, "hello without an endpoint id")


def test_a_peer_keeps_its_id() -> None:
    """Who said hello as one endpoint cannot select the version as another."""
    handshake, _ = handshake_of(HIGH, "acceptor")
    handshake.receive(encode_hello(LOW)[4:])
    with pytest.raises(ProtocolError, match=r"hello came from 1111.*, version_select from 0001"):
        handshake.receive(encode_version_select(bytes(range(16)))[4:])


def test_a_dropped_connection_has_ended() -> None:
    """Code and text of the far side are passed on, with who it is."""
    handshake, _ = handshake_of(HIGH, "connector")
    ended = handshake.receive(encode_drop_conn(LOW, 39, "redundant connection")[4:])
    assert ended == Ended(BrokerCode.REDUNDANT_CONNECTION, "redundant connection", by_far_side=True)
    assert handshake.peer_id == LOW
