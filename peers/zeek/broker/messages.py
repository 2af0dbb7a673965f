"""What stands on a Broker connection: error codes, filters, the messages of the handshake, and envelopes.

```
envelope of the operation phase                              frame of the handshake: u32 length, u8 tag, fields
 0  u32  length of all that follows      big-endian           6  Hello          magic, sender id, versions
 4  16   sender     the hop; the id of the handshake          7  Probe          magic
20  16   receiver   nil: all                                  8  VersionSelect  magic, sender id, version
36  u8   type       data, command, routing_update, ping, pong 9  DropConn       magic, sender id, code, text
37  u16  ttl        written as 16, never counted down        10  OriginatorSyn, 11 ResponderSynAck: a filter
39  u16  topic length T, topic, payload up to the end        12  OriginatorAck
```

From offset 39 on, a data envelope is the same as a MESSAGES frame of the hub from its offset 6 on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from hub.errors import ProtocolError
from hub.topics import decode_prefixes


class BrokerCode(IntEnum):
    """Why a connection ends. The numbers are Broker's `ec`; 0 is a graceful end."""

    NONE = 0
    UNSPECIFIED = 1
    PEER_INCOMPATIBLE = 2
    PEER_INVALID = 3
    PEER_UNAVAILABLE = 4
    PEER_DISCONNECT_DURING_HANDSHAKE = 5
    PEER_TIMEOUT = 6
    MASTER_EXISTS = 7
    NO_SUCH_MASTER = 8
    NO_SUCH_KEY = 9
    REQUEST_TIMEOUT = 10
    TYPE_CLASH = 11
    INVALID_DATA = 12
    BACKEND_FAILURE = 13
    STALE_DATA = 14
    CANNOT_OPEN_FILE = 15
    CANNOT_WRITE_FILE = 16
    INVALID_TOPIC_KEY = 17
    END_OF_FILE = 18
    INVALID_TAG = 19
    INVALID_MESSAGE = 20
    INVALID_STATUS = 21
    CONVERSION_FAILED = 22
    CONSUMER_EXISTS = 23
    CONNECTION_TIMEOUT = 24
    BAD_MEMBER_FUNCTION_CALL = 25
    REPEATED_REQUEST_ID = 26
    BROKEN_CLONE = 27
    SHUTTING_DOWN = 28
    INVALID_PEERING_REQUEST = 29
    REPEATED_PEERING_HANDSHAKE_REQUEST = 30
    UNEXPECTED_HANDSHAKE_MESSAGE = 31
    INVALID_HANDSHAKE_STATE = 32
    NO_PATH_TO_PEER = 33
    NO_CONNECTOR_AVAILABLE = 34
    CANNOT_OPEN_RESOURCE = 35
    SERIALIZATION_FAILED = 36
    DESERIALIZATION_FAILED = 37
    WRONG_MAGIC_NUMBER = 38
    REDUNDANT_CONNECTION = 39
    LOGIC_ERROR = 40
    INVALID_JSON = 41

    @property
    def text(self) -> str:
        """Broker's own name for the code, such as `wrong_magic_number`."""
        return self.name.lower()


FILTER_LIMIT_PREFIXES = 100_000
"""Default of the most prefixes in one filter; reading that many takes about 40 ms."""

FILTER_LIMIT_BYTES = 16 * 1024 * 1024
"""Default of the largest filter of the handshake, bytes: as large as a frame of the operation phase may be."""

_VARBYTE_LIMIT_BYTES = 10
_MORE = 0x80


class Filter(NamedTuple):
    """A filter as far as the hub can take it."""

    prefixes: tuple[str, ...]
    """Sorted prefixes, none of which covers another."""

    left_out: int = 0
    """How many more prefixes there were that the hub cannot take."""


def minimal_prefixes(prefixes: Iterable[str]) -> tuple[str, ...]:
    """Return the prefixes sorted, without those that another one covers."""
    kept: list[str] = []
    for prefix in sorted(prefixes):
        if not kept or not prefix.startswith(kept[-1]):  # a prefix stands directly before those that it covers
            kept.append(prefix)
    return tuple(kept)


def encode_varbyte(number: int) -> bytes:
    """Return `number`, 0 or more, as a varbyte."""
    encoded = bytearray()
    while number >= _MORE:
        encoded.append(number & 0x7F | _MORE)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def read_varbyte(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position` and where it ends.

    Raises:
        ValueError: The number is not complete, or longer than 10 bytes.
    """
    number = 0
    for index, byte in enumerate(data[position : position + _VARBYTE_LIMIT_BYTES]):
        number |= (byte & 0x7F) << 7 * index
        if byte < _MORE:
            return number, position + index + 1
    raise ValueError(f"varbyte at byte {position} has no end")


def encode_filter(prefixes: Iterable[str]) -> bytes:
    """Return the prefixes as a filter, in the order given."""
    raw = [prefix.encode() for prefix in prefixes]
    parts = [encode_varbyte(len(raw))]
    for prefix in raw:
        parts += (encode_varbyte(len(prefix)), prefix)
    return b"".join(parts)


def decode_filter(data: bytes, position: int, limit_prefixes: int) -> tuple[Filter, int]:
    """Return the filter at `position` and where it ends.

    Raises:
        ValueError: The filter is not complete, or has more than `limit_prefixes` prefixes; the text says which.
    """
    count, position = read_varbyte(data, position)
    if count > limit_prefixes:
        raise ValueError(f"filter of {count} prefixes, the limit is {limit_prefixes}")
    raw: list[bytes] = []
    for number in range(count):
        # Nearly all lengths take one byte, and a call for each would cost more than everything else.
        if position < len(data) and data[position] < _MORE:
            size, start = data[position], position + 1
        else:
            size, start = read_varbyte(data, position)
        position = start + size
        if position > len(data):
            raise ValueError(f"prefix {number} of the filter says {size} bytes, there are {len(data) - start}")
        raw.append(data[start:position])
    taken = decode_prefixes(raw)  # it leaves out those that the hub cannot take
    return Filter(minimal_prefixes(taken), count - len(taken)), position


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


TTL = 16
"""The ttl that Broker writes; nobody counts it down."""

CONTROL_TOPIC = b"<$>"
"""The topic of routing updates, pings and pongs."""

FIXED_BYTES = 41
"""Offset of the topic in an envelope, which begins with its length."""

TOPIC_OFFSET = 39
"""Offset of the topic's length in an envelope, which begins with its own length."""

_LAYOUT = Struct(">16s16sBHH")
_HEADER = Struct(">I16s16sBHH")
_DATA_HEADER = Struct(">16s16sBH")


class EnvelopeType(IntEnum):
    """What an envelope holds."""

    DATA = 1
    COMMAND = 2
    ROUTING_UPDATE = 3
    PING = 4
    PONG = 5


_TYPES = {int(kind): kind for kind in EnvelopeType}


class Envelope(NamedTuple):
    """One frame of the operation phase, taken apart."""

    sender: bytes
    receiver: bytes
    type: EnvelopeType
    topic: bytes
    payload: bytes
    ttl: int = TTL


def encode_envelope(envelope: Envelope) -> bytes:
    """Return an envelope as a frame."""
    sender, receiver, kind, topic, payload, ttl = envelope
    size = _LAYOUT.size + len(topic) + len(payload)
    return _HEADER.pack(size, sender, receiver, kind, ttl, len(topic)) + topic + payload


def decode_envelope(frame: bytes) -> Envelope:
    """Take a frame apart.

    Args:
        frame: The frame without its length.

    Raises:
        ValueError: The frame is too short, of an unknown type, or lacks a topic or payload; the text says which.
    """
    if len(frame) < _LAYOUT.size:
        raise ValueError(f"envelope of {len(frame)} bytes, the shortest has {_LAYOUT.size}")
    sender, receiver, number, ttl, topic_length = _LAYOUT.unpack_from(frame)
    kind = _TYPES.get(number)
    if kind is None:
        raise ValueError(f"envelope of the unknown type {number}")
    payload_start = _LAYOUT.size + topic_length
    if payload_start >= len(frame):
        raise ValueError(f"envelope of {len(frame)} bytes with a topic of {topic_length} has no payload")
    return Envelope(sender, receiver, kind, frame[_LAYOUT.size : payload_start], frame[payload_start:], ttl)


def data_header(sender: bytes) -> bytes:
    """Return the fields between the length and the topic length of a data envelope for everybody."""
    return _DATA_HEADER.pack(sender, NIL_ID, EnvelopeType.DATA, TTL)


def encode_routing_update(sender: bytes, receiver: bytes, prefixes: tuple[str, ...]) -> bytes:
    """Return the frame that replaces what the receiver knows of the sender's subscriptions."""
    payload = encode_filter(prefixes)
    return encode_envelope(Envelope(sender, receiver, EnvelopeType.ROUTING_UPDATE, CONTROL_TOPIC, payload))


def encode_ping(sender: bytes, receiver: bytes, payload: bytes) -> bytes:
    """Return a ping as a frame. Its payload must not be empty: Broker before 2.8 takes no such envelope."""
    return encode_envelope(Envelope(sender, receiver, EnvelopeType.PING, CONTROL_TOPIC, payload))


def encode_pong(sender: bytes, receiver: bytes, payload: bytes) -> bytes:
    """Return the answer to a ping with this payload as a frame."""
    return encode_envelope(Envelope(sender, receiver, EnvelopeType.PONG, CONTROL_TOPIC, payload))
