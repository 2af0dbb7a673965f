"""CURVE: the handshake of either side, what is in its boxes, and what is in those of messages.

Bytes that were changed on their way do not open a box, which says little about what is behind it. So a far side that
has the right keys puts the input into boxes, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nacl.bindings import crypto_box_afternm

from peers.wire.scanner import NEED_DATA
from peers.zeek.zmtp.curve import INITIATE_NONCE, NUMBER, READY_NONCE, CurveClient, CurveServer, KeyPair
from peers.zeek.zmtp.frames import Command, Message, encode_command
from peers.zeek.zmtp.session import Greeting, Ready, Session, SocketType, encode_properties
from tests.fuzz.target import Target

__all__ = ["CURVE_TARGETS"]
_LIMIT: Final = 64 * 1024
_SERVER: Final = KeyPair.of_secret(b"\x01" * 32)
_CLIENT: Final = KeyPair.of_secret(b"\x02" * 32)
_GREETING: Final = Greeting("CURVE").encode()
_METADATA: Final = encode_properties({"Socket-Type": b"PUSH"})
_MESSAGE: Final = b"\x07MESSAGE"


def _server() -> tuple[Session, CurveServer]:
    mechanism = CurveServer(_SERVER, lambda key: key == _CLIENT.public)
    return Session(SocketType.PULL, _LIMIT, mechanism=mechanism), mechanism


def _client() -> tuple[Session, CurveClient]:
    mechanism = CurveClient(_CLIENT, _SERVER.public)
    return Session(SocketType.PUSH, _LIMIT, mechanism=mechanism), mechanism


def _feed(session: Session, data: bytes) -> list[Any]:
    session.feed(data)
    found = []
    while (event := session.next_event()) is not NEED_DATA:
        found.append(event)
    assert session.held_bytes <= _LIMIT + 256
    return found


def _run_handshake(data: bytes) -> None:
    for session, _ in (_server(), _client()):
        found = _feed(session, data)
        assert not any(isinstance(event, Ready) for event in found)


def _run_box(data: bytes) -> None:
    way, rest = (data[0] % 4, data[1:]) if data else (0, b"")
    (server, _), (client, dialled) = _server(), _client()
    _feed(server, client.take_outgoing())
    _feed(client, server.take_outgoing())
    _feed(server, client.take_outgoing())  # HELLO
    _WAYS[way](server, client, dialled, rest)


def _in_initiate(server: Session, client: Session, dialled: CurveClient, data: bytes) -> None:
    _feed(client, server.take_outgoing())
    cookie = client.take_outgoing()[18:114]  # behind the frame's header and name of INITIATE
    number = NUMBER.pack(2)
    box = crypto_box_afternm(data, INITIATE_NONCE + number, dialled._key)
    found = _feed(server, encode_command(Command(b"INITIATE", cookie + number + box)))
    assert not any(isinstance(event, Ready) for event in found)


def _as_metadata(server: Session, client: Session, dialled: CurveClient, data: bytes) -> None:
    dialled._metadata = data
    _feed(client, server.take_outgoing())
    _feed(server, client.take_outgoing())
    assert server.is_open or server.closed or len(data) > 3000


def _in_ready(server: Session, client: Session, dialled: CurveClient, data: bytes) -> None:
    _feed(client, server.take_outgoing())
    number = NUMBER.pack(1)
    box = crypto_box_afternm(data, READY_NONCE + number, dialled._key)
    _feed(client, encode_command(Command(b"READY", number + box)))
    assert client.is_open or client.closed or len(data) > 3000


def _in_messages(server: Session, client: Session, dialled: CurveClient, data: bytes) -> None:
    for hears, tells in ((client, server), (server, client), (client, server)):
        _feed(hears, tells.take_outgoing())
    assert server.is_open
    assert client.is_open
    boxes, number, position = [], 2, 0
    while position < len(data):
        size = data[position]
        number += 1
        short = NUMBER.pack(number)
        box = crypto_box_afternm(data[position + 1 : position + 1 + size], b"CurveZMQMESSAGEC" + short, dialled._key)
        body = _MESSAGE + short + box
        boxes.append(b"\2" + len(body).to_bytes(8, "big") + body)
        position += 1 + size
    found = _feed(server, b"".join(boxes))
    for event in found:
        if isinstance(event, Message):
            assert sum(map(len, event.parts)) <= len(data)


_WAYS: Final[tuple[Callable[[Session, Session, CurveClient, bytes], None], ...]] = (
    _in_initiate,
    _as_metadata,
    _in_ready,
    _in_messages,
)


def _handshake_seeds() -> list[bytes]:
    (server, _), (client, _) = _server(), _client()
    said = [b"", b""]
    while server.has_outgoing or client.has_outgoing:
        for place, (teller, hearer) in enumerate(((client, server), (server, client))):
            words = teller.take_outgoing()
            said[place] += words
            _feed(hearer, words)
    assert client.is_open
    error = _GREETING + encode_command(Command(b"ERROR", b"\x03400"))
    return [*said, error, _GREETING]


def _box_seeds() -> list[bytes]:
    pieces = [b"\0whole", b"\1first", b"\0second", b"\2\x04PING\0\0x", b"\2\x09SUBSCRIBEa", b"\3", b"\0"]
    messages = b"".join(bytes((len(piece),)) + piece for piece in pieces)
    return [b"\0" + _CLIENT.public + bytes(96) + _METADATA, b"\1" + _METADATA, b"\2" + _METADATA, b"\3" + messages]


CURVE_TARGETS = (
    Target("curve_handshake", _run_handshake, _handshake_seeds, [b"\x05HELLO\1\0", b"\x07WELCOME", b"\x08INITIATE"]),
    Target("curve_boxes", _run_box, _box_seeds, [b"\x0bSocket-Type", b"\x09SUBSCRIBE", b"\x06CANCEL"], runs=400),
)
