"""The messages of the handshake. Each is a frame that begins with a tag.

| tag | message | fields behind the tag |
|---|---|---|
| 6 | `Hello` | magic, sender id, lowest and highest version |
| 7 | `Probe` | magic |
| 8 | `VersionSelect` | magic, sender id, version |
| 9 | `DropConn` | magic, sender id, code, text |
| 10 | `OriginatorSyn` | filter |
| 11 | `ResponderSynAck` | filter |
| 12 | `OriginatorAck` | none |

A frame is a u32 big-endian length and that many bytes. Bytes behind the last field are ignored, as Broker does.

No state, no I/O. Not here: which side may say what at which time (`peers.zeek.broker.handshake`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from hub.errors import ProtocolError
from peers.zeek.broker.codes import BrokerCode
from peers.zeek.broker.filters import Filter, decode_filter, encode_filter, encode_varbyte, read_varbyte

__all__ = [
    "ID_BYTES",
    "LENGTH",
    "NIL_ID",
    "PROTOCOL_VERSION",
    "DropConn",
    "HandshakeMessage",
    "Hello",
    "OriginatorAck",
    "OriginatorSyn",
    "Probe",
    "ResponderSynAck",
    "Tag",
    "VersionSelect",
    "decode_message",
    "encode_drop_conn",
    "encode_hello",
    "encode_originator_ack",
    "encode_originator_syn",
    "encode_probe",
    "encode_responder_syn_ack",
    "encode_version_select",
]

LENGTH = Struct(">I")
"""The length of a frame, which stands in front of it and does not count itself."""

ID_BYTES = 16
"""Length of an endpoint id, which is a UUID with its bytes in the order of its text."""

NIL_ID = bytes(ID_BYTES)
"""This id belongs to no endpoint; as a receiver it means everybody."""

PROTOCOL_VERSION = 1
"""The only version that exists: Broker 2.3 and all later versions speak it."""

_MAGIC = b"ZEEK"
_TEXT_LIMIT_CHARACTERS = 256
"""How much is kept of a far side's reason for dropping the connection: enough for one line of a log."""


class Tag(IntEnum):
    """What a frame of the handshake is."""

    HELLO = 6
    PROBE = 7
    VERSION_SELECT = 8
    DROP_CONN = 9
    ORIGINATOR_SYN = 10
    RESPONDER_SYN_ACK = 11
    ORIGINATOR_ACK = 12


class Hello(NamedTuple):
    """Who the far side is and which versions it speaks."""

    sender: bytes
    min_version: int = PROTOCOL_VERSION
    max_version: int = PROTOCOL_VERSION


class Probe(NamedTuple):
    """The first message of an acceptor, which only shows that an endpoint listens."""


class VersionSelect(NamedTuple):
    """The originator has chosen a version."""

    sender: bytes
    version: int = PROTOCOL_VERSION


class DropConn(NamedTuple):
    """The far side ends the connection, and says why."""

    sender: bytes
    code: BrokerCode
    text: str


class OriginatorSyn(NamedTuple):
    """What the originator subscribes to."""

    filter: Filter


class ResponderSynAck(NamedTuple):
    """What the responder subscribes to."""

    filter: Filter


class OriginatorAck(NamedTuple):
    """The handshake is done."""


HandshakeMessage = Hello | Probe | VersionSelect | DropConn | OriginatorSyn | ResponderSynAck | OriginatorAck


def _frame(tag: Tag, fields: bytes = b"") -> bytes:
    return LENGTH.pack(1 + len(fields)) + bytes((tag,)) + fields


def encode_hello(sender: bytes) -> bytes:
    """Return `Hello` as a frame."""
    return _frame(Tag.HELLO, _MAGIC + sender + bytes((PROTOCOL_VERSION, PROTOCOL_VERSION)))


def encode_probe() -> bytes:
    """Return `Probe` as a frame."""
    return _frame(Tag.PROBE, _MAGIC)


def encode_version_select(sender: bytes) -> bytes:
    """Return `VersionSelect` as a frame."""
    return _frame(Tag.VERSION_SELECT, _MAGIC + sender + bytes((PROTOCOL_VERSION,)))


def encode_drop_conn(sender: bytes, code: int, text: str) -> bytes:
    """Return `DropConn` as a frame."""
    raw = text.encode()
    return _frame(Tag.DROP_CONN, _MAGIC + sender + bytes((code,)) + encode_varbyte(len(raw)) + raw)


def encode_originator_syn(prefixes: tuple[str, ...]) -> bytes:
    """Return `OriginatorSyn` as a frame."""
    return _frame(Tag.ORIGINATOR_SYN, encode_filter(prefixes))


def encode_responder_syn_ack(prefixes: tuple[str, ...]) -> bytes:
    """Return `ResponderSynAck` as a frame."""
    return _frame(Tag.RESPONDER_SYN_ACK, encode_filter(prefixes))


def encode_originator_ack() -> bytes:
    """Return `OriginatorAck` as a frame."""
    return _frame(Tag.ORIGINATOR_ACK)


def decode_message(payload: bytes, limit_prefixes: int) -> HandshakeMessage:
    """Return what a frame of the handshake says.

    Args:
        payload: The frame without its length, 1 byte or more.
        limit_prefixes: Most prefixes in a filter.

    Raises:
        ProtocolError: It says nothing that is valid; code and text are those that Broker puts into its `drop_conn`.
    """
    found = _DECODERS.get(payload[0])
    if found is None:
        raise ProtocolError(BrokerCode.INVALID_MESSAGE, "invalid message type tag")
    name, decode = found
    try:
        return decode(payload, limit_prefixes)
    except (ValueError, IndexError):
        raise ProtocolError(BrokerCode.INVALID_MESSAGE, f"failed to parse {name}") from None


def _check_magic(payload: bytes) -> None:
    if payload[1:5] != _MAGIC:
        raise ProtocolError(BrokerCode.WRONG_MAGIC_NUMBER, "wrong magic number")


def _decode_hello(payload: bytes, _: int) -> Hello:
    hello = Hello(payload[5:21], payload[21], payload[22])
    _check_magic(payload)
    if not hello.min_version <= PROTOCOL_VERSION <= hello.max_version:
        raise ProtocolError(BrokerCode.PEER_INCOMPATIBLE, "unsupported versions offered")
    return hello


def _decode_probe(payload: bytes, _: int) -> Probe:
    payload[4]  # raises IndexError if the message is not complete
    _check_magic(payload)
    return Probe()


def _decode_version_select(payload: bytes, _: int) -> VersionSelect:
    selected = VersionSelect(payload[5:21], payload[21])
    _check_magic(payload)
    if selected.version != PROTOCOL_VERSION:
        raise ProtocolError(BrokerCode.PEER_INCOMPATIBLE, "unsupported version selected")
    return selected


def _decode_drop_conn(payload: bytes, _: int) -> DropConn:
    code = payload[21]
    size, start = read_varbyte(payload, 22)
    if start + size > len(payload):
        raise ValueError(f"a text of {size} bytes")
    _check_magic(payload)
    text = payload[start : start + size].decode(errors="replace")[:_TEXT_LIMIT_CHARACTERS]
    shown = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    if code > max(BrokerCode):
        raise ProtocolError(BrokerCode.UNSPECIFIED, shown)
    return DropConn(payload[5:21], BrokerCode(code), shown)


def _decode_originator_syn(payload: bytes, limit_prefixes: int) -> OriginatorSyn:
    return OriginatorSyn(decode_filter(payload, 1, limit_prefixes)[0])


def _decode_responder_syn_ack(payload: bytes, limit_prefixes: int) -> ResponderSynAck:
    return ResponderSynAck(decode_filter(payload, 1, limit_prefixes)[0])


def _decode_originator_ack(_: bytes, __: int) -> OriginatorAck:
    return OriginatorAck()


# Each name is the one that Broker uses in its `drop_conn`.
_DECODERS: dict[int, tuple[str, Callable[[bytes, int], HandshakeMessage]]] = {
    Tag.HELLO: ("hello_msg", _decode_hello),
    Tag.PROBE: ("probe_msg", _decode_probe),
    Tag.VERSION_SELECT: ("version_select_msg", _decode_version_select),
    Tag.DROP_CONN: ("drop_conn_msg", _decode_drop_conn),
    Tag.ORIGINATOR_SYN: ("v1::originator_syn_msg", _decode_originator_syn),
    Tag.RESPONDER_SYN_ACK: ("v1::responder_syn_ack_msg", _decode_responder_syn_ack),
    Tag.ORIGINATOR_ACK: ("v1::originator_ack_msg", _decode_originator_ack),
}
