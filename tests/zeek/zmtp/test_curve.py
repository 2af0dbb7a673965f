"""CURVE without sockets: both sides of the handshake, boxes, and whatever does not fit."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hub.errors import CloseCode

pytest.importorskip("nacl", reason="part of the extra `test`")
from nacl.bindings import crypto_box_afternm

from peers.wire.scanner import NEED_DATA
from peers.zeek.zmtp.curve import (
    BOXES_AT_ONCE,
    INITIATE_NONCE,
    SEALED_BYTES,
    CurveClient,
    CurveServer,
    KeyPair,
    SealedIncoming,
    Traffic,
)
from peers.zeek.zmtp.frames import Command, encode_command, encode_frame, encode_message
from peers.zeek.zmtp.session import HANDSHAKE_LIMIT_BYTES, Ended, Fault, Greeting, Proving, Ready, Session, SocketType
from peers.zeek.zmtp.z85 import decode_key, encode_key

SERVER = KeyPair.new()
CLIENT = KeyPair.new()

LIMIT = 1 << 20


def served(own: SocketType = SocketType.PULL, limit_bytes: int = LIMIT, keys: KeyPair = SERVER) -> Session:
    return Session(own, limit_bytes, b"", CurveServer(keys, lambda key: key == CLIENT.public))


def dialled(own: SocketType = SocketType.PUSH, keys: KeyPair = CLIENT, server: bytes = SERVER.public) -> Session:
    return Session(own, LIMIT, b"", CurveClient(keys, server))


def events(session: Session) -> list[Any]:
    found = []
    while (event := session.next_event()) is not NEED_DATA:
        if event is not None and not isinstance(event, Proving):
            found.append(event)
    return found


def shake_hands(server: Session, client: Session) -> tuple[list[Any], list[Any]]:
    by_server: list[Any] = []
    by_client: list[Any] = []
    while server.has_outgoing or client.has_outgoing:
        server.feed(client.take_outgoing())
        by_server += events(server)
        client.feed(server.take_outgoing())
        by_client += events(client)
    return by_server, by_client


def opened(own: SocketType = SocketType.PULL, far: SocketType = SocketType.PUSH) -> tuple[Session, Session]:
    server, client = served(own), dialled(far)
    assert shake_hands(server, client) == ([Ready(far.value, 1)], [Ready(own.value, 1)])
    return server, client


# What fits.


def test_keys_as_text() -> None:
    text = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
    assert decode_key(text).hex() == "54fcba24e93249969316fb617c872bb0c1d1ff14800427c594cbfacf1bc2d652"
    assert encode_key(decode_key(text)) == text
    for wrong in ("", text[:-1], text + "0", text[:-1] + "~", "#" * 40, text[:-1] + "é"):
        with pytest.raises(ValueError, match="a key"):
            decode_key(wrong)


@example(b"\xff" * 32)
@given(st.binary(min_size=32, max_size=32))
def test_every_key_has_a_text(key: bytes) -> None:
    assert decode_key(encode_key(key)) == key
    assert not encode_key(key).startswith("#")


def test_a_pair_shows_no_secret() -> None:
    assert KeyPair.of_secret(SERVER.secret) == SERVER
    assert SERVER.secret.hex() not in repr(SERVER)
    assert repr(SERVER.secret) not in repr(SERVER)


def test_nothing_of_it_can_be_read_on_the_way() -> None:
    server, client = served(), dialled()
    said = []
    for _ in range(3):
        said.append(client.take_outgoing())
        server.feed(said[-1])
        events(server)
        said.append(server.take_outgoing())
        client.feed(said[-1])
        events(client)
    assert client.is_open
    first, second = client.seal(encode_message([b"payload"])), client.seal(encode_message([b"payload"]))
    assert first != second
    for data in (*said, first, second):
        assert b"payload" not in data
        assert b"Socket-Type" not in data
        assert CLIENT.public not in data


@given(st.lists(st.lists(st.binary(max_size=300), min_size=1, max_size=6), max_size=12), st.integers(1, 900), st.data())
def test_messages_come_as_they_were_sent_however_the_stream_is_cut(
    messages: list[list[bytes]], piece: int, data: st.DataObject
) -> None:
    server, client = served(SocketType.PULL), dialled(SocketType.PUSH)
    for teller, hearer in ((client, server), (server, client)) * 2:
        hearer.feed(teller.take_outgoing())
        events(hearer)
    stream = client.take_outgoing()  # INITIATE
    server.feed(stream)
    assert events(server) == [Ready("PUSH", 1)]
    client.feed(server.take_outgoing())
    assert events(client) == [Ready("PULL", 1)]
    teller, hearer = (client, server) if data.draw(st.booleans()) else (server, client)
    stream = b"".join(teller.seal(encode_message(parts)) for parts in messages)
    found = []
    for start in range(0, len(stream), piece):
        hearer.feed(stream[start : start + piece])
        found += events(hearer)
    assert [message.parts for message in found] == messages
    assert hearer.held_bytes == 0


def test_what_is_read_with_the_end_of_the_handshake_is_not_lost() -> None:
    server, client = served(SocketType.PUSH), dialled(SocketType.PULL)
    for teller, hearer in ((client, server), (server, client)) * 2:
        hearer.feed(teller.take_outgoing())
        events(hearer)
    server.feed(client.take_outgoing())
    assert events(server) == [Ready("PULL", 1)]
    server.send(encode_message([b"first"]))
    client.feed(server.take_outgoing())
    ready, message = events(client)
    assert ready == Ready("PUSH", 1)
    assert message.parts == [b"first"]


def test_what_takes_long_in_a_handshake_is_said_before_it_is_done() -> None:
    server, client = served(), dialled()
    proofs = []
    while server.has_outgoing or client.has_outgoing:
        for session, other in ((server, client), (client, server)):
            session.feed(other.take_outgoing())
            while (event := session.next_event()) is not NEED_DATA:
                if isinstance(event, Proving):
                    proofs.append("server" if session is server else "client")
                    assert session.has_more
                    assert not session.has_outgoing
                    session.feed(b"")
    assert proofs == ["server", "client", "server", "client"]
    assert server.is_open
    assert client.is_open
    stranger = served()
    asker = dialled()
    stranger.feed(asker.take_outgoing())
    asker.feed(stranger.take_outgoing())
    events(asker)
    stranger.feed(asker.take_outgoing())
    while not isinstance(stranger.next_event(), Proving):
        pass
    stranger.feed_eof()
    assert [type(event) for event in events(stranger)] == [Ended]
    assert stranger.fault is Fault.ENDED


def test_boxes_are_opened_a_few_at_a_time() -> None:
    server, client = opened()
    server.feed(client.seal(encode_message([b"x"]) * (3 * BOXES_AT_ONCE)))
    lots = 0
    found: list[Any] = []
    while (event := server.next_event()) is not NEED_DATA:
        lots += event is None
        found += [] if event is None else [event]
        assert len(found) <= lots * BOXES_AT_ONCE
    assert (lots, len(found)) == (3, 3 * BOXES_AT_ONCE)


def test_a_large_box_is_let_go_of_once_it_was_opened() -> None:
    size_bytes = 1 << 20
    incoming = SealedIncoming(2 * size_bytes)
    incoming.begin(Traffic(b"k" * 32, is_server=True, sent=0, came=0))
    sealed = Traffic(b"k" * 32, is_server=False, sent=0, came=0).seal(encode_message([bytes(size_bytes)]))
    tracemalloc.start()
    try:
        incoming.feed(sealed)
        assert incoming.open_more()
        assert incoming.next_message() is not None
        assert incoming.held_bytes == 0
        assert tracemalloc.get_traced_memory()[0] < size_bytes / 2
    finally:
        tracemalloc.stop()


# What does not fit.


def failed(session: Session, stream: bytes) -> tuple[Ended, Fault | None]:
    session.feed(stream)
    *_, ended = events(session)
    assert isinstance(ended, Ended)
    assert session.closed
    assert events(session) == []
    return ended, session.fault


def test_a_client_that_shows_the_key_of_somebody_else() -> None:
    server, client = served(), dialled(keys=KeyPair(CLIENT.public, KeyPair.new().secret))
    (ended,), told = shake_hands(server, client)
    assert (server.fault, told) == (Fault.KEY, [])
    assert ended.text == "CURVE: the other side does not have the secret key of the one that it shows"


def test_a_server_that_does_not_have_the_key() -> None:
    client = dialled()
    client.feed(Greeting("CURVE").encode())
    events(client)
    welcome = encode_command(Command(b"WELCOME", bytes(160)))
    ended, fault = failed(client, welcome)
    assert ended.text.startswith("CURVE: WELCOME does not open: the other side has another key")
    assert fault is Fault.KEY


def test_an_initiate_that_was_heard_before() -> None:
    server, client = served(), dialled()
    said = []
    for _ in range(3):
        said.append(client.take_outgoing())
        server.feed(said[-1])
        events(server)
        client.feed(server.take_outgoing())
        events(client)
    assert server.is_open
    again = served()
    again.feed(b"".join(said[:2]))
    assert events(again) == []
    ended, fault = failed(again, said[2])
    assert (ended.text, fault) == ("CURVE: the cookie is not this connection's", Fault.GARBLED)


def test_an_initiate_with_too_little_in_its_box() -> None:
    mechanism = CurveClient(CLIENT, SERVER.public)
    server, client = served(), Session(SocketType.PUSH, LIMIT, b"", mechanism)
    for _ in range(2):
        server.feed(client.take_outgoing())
        events(server)
        client.feed(server.take_outgoing())
        events(client)
    cookie, number = client.take_outgoing()[18:114], (2).to_bytes(8, "big")  # behind the name of INITIATE
    box = crypto_box_afternm(b"short", INITIATE_NONCE + number, mechanism._key)
    ended, fault = failed(server, encode_command(Command(b"INITIATE", cookie + number + box)))
    assert (ended.text, fault) == ("CURVE: INITIATE with 5 bytes in its box", Fault.GARBLED)


def test_the_wrong_socket_behind_a_right_key() -> None:
    server, client = served(SocketType.PULL), dialled(SocketType.XSUB)
    (ended,), _ = shake_hands(server, client)
    assert "a socket of the type 'XSUB'" in ended.text
    assert not client.is_open


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (Command(b"READY", b""), "CURVE: b'READY' in the place of HELLO"),
        (Command(b"HELLO", bytes(193)), "CURVE: HELLO with 193 bytes, which has 194"),
        (Command(b"HELLO", bytes(194)), "CURVE: HELLO of version 0000, this side speaks 0100"),
        (Command(b"HELLO", b"\1\0" + bytes(193)), "CURVE: HELLO of version 0100, this side speaks 0100"),
        (Command(b"HELLO", b"\1\0" + bytes(192)), "CURVE: HELLO does not open"),  # the key is a point of low order
    ],
)
def test_a_hello_that_does_not_fit(command: Command, text: str) -> None:
    server = served()
    ended, _ = failed(server, Greeting("CURVE").encode() + encode_command(command))
    assert ended.text.startswith(text)
    server.take_outgoing()


def wrong_boxes(sealed: bytes) -> dict[str, bytes]:
    return {
        "a frame that is not a MESSAGE": encode_frame(b"\x07MESSAGE" + bytes(24)),
        "does not open": sealed[:-1] + bytes((sealed[-1] ^ 1,)),
        "behind box": sealed + sealed,
        "flags 0x01 around a box": b"\1" + sealed[1:],
        "a box of": b"\2" + (LIMIT + SEALED_BYTES + 1).to_bytes(8, "big"),
    }


@pytest.mark.parametrize(
    "text", ["a frame that is not a MESSAGE", "does not open", "behind box", "flags 0x01 around a box", "a box of"]
)
def test_traffic_that_does_not_fit(text: str) -> None:
    server, client = opened()
    good = client.seal(encode_message([b"good"]))
    next_one = client.seal(encode_message([b"next"]))
    server.feed(good + wrong_boxes(next_one)[text] + next_one)
    *taken, ended = events(server)
    assert [message.parts for message in taken] in ([[b"good"]], [[b"good"], [b"next"]])
    assert text in ended.text
    assert ended.code in (CloseCode.PROTOCOL_ERROR, CloseCode.TOO_BIG)
    assert server.fault is None  # that is the handshake's


def test_boxes_of_the_other_direction_do_not_open() -> None:
    _, client = opened()
    sealed = client.seal(encode_message([b"x"]))
    client.feed(sealed)
    (ended,) = events(client)
    assert "does not open" in ended.text


def test_flags_within_a_box() -> None:
    secret = b"k" * 32
    for flags in (3, 4, 255):
        traffic = Traffic(secret, is_server=True, sent=0, came=0)
        number = (1).to_bytes(8, "big")
        box = crypto_box_afternm(bytes((flags,)) + b"x", b"CurveZMQMESSAGEC" + number, secret)
        with pytest.raises(Exception, match=f"has the flags {flags:#04x}"):
            traffic.open(b"\x07MESSAGE" + number + box)


@given(st.data())
def test_a_handshake_that_was_changed_on_its_way_ends(data: st.DataObject) -> None:
    server, client = served(), dialled()
    target_is_server = data.draw(st.booleans())
    step = data.draw(st.integers(1, 2))
    change: Callable[[bytes], bytes]
    at = data.draw(st.integers(0, 1 << 16))
    if data.draw(st.booleans()):
        bits = data.draw(st.integers(1, 255))

        def change(said: bytes) -> bytes:
            place = at % len(said)
            return said[:place] + bytes((said[place] ^ bits,)) + said[place + 1 :]
    else:

        def change(said: bytes) -> bytes:
            return said[: at % len(said)]

    is_changed = False
    for number in range(4):
        for teller, hearer in ((client, server), (server, client)):
            said = teller.take_outgoing()
            if said and number == step and (hearer is server) is target_is_server:
                changed = change(said)
                is_changed = not (step == 1 and target_is_server and _first_difference(said, changed) in PADDING)
                said = changed if is_changed else said
            hearer.feed(said)
            events(hearer)
    hearer = server if target_is_server else client
    hearer.feed_eof()
    assert hearer.is_open is not is_changed or hearer.closed
    events(hearer)
    assert hearer.closed
    assert (hearer.fault is not None) is is_changed


PADDING = range(10, 82)
"""Where zeros stand in the frame of a HELLO, at which nobody looks."""


def _first_difference(one: bytes, other: bytes) -> int:
    pairs = zip(one, other, strict=False)
    return next((place for place, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


@given(st.sampled_from(["server", "client"]), st.lists(st.binary(max_size=300), max_size=20), st.booleans())
def test_any_bytes_end_a_session_at_most(side: str, reads: list[bytes], is_open: bool) -> None:  # noqa: FBT001
    if is_open:
        server, client = opened()
        session = server if side == "server" else client
    else:
        session = served() if side == "server" else dialled()
        session.feed(Greeting("CURVE").encode())
        assert events(session) == []
    for read in reads:
        session.feed(read)
        found = events(session)
        assert not any(isinstance(event, Ended) for event in found[:-1])
        assert session.held_bytes <= 300 + (LIMIT if is_open else HANDSHAKE_LIMIT_BYTES)
    session.feed_eof()
    events(session)
    assert session.held_bytes == 0
