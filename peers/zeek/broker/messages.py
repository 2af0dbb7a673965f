"""The wire format of a Broker connection: error codes, filters, the messages of the handshake, and envelopes.

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

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from hub.errors import ProtocolError
from hub.topics import decode_prefixes
from peers.values.binary import length_bytes, read_bytes, read_length, string_body

BrokerCode = IntEnum(
    "BrokerCode",
    "NONE UNSPECIFIED PEER_INCOMPATIBLE PEER_INVALID PEER_UNAVAILABLE PEER_DISCONNECT_DURING_HANDSHAKE PEER_TIMEOUT "
    "MASTER_EXISTS NO_SUCH_MASTER NO_SUCH_KEY REQUEST_TIMEOUT TYPE_CLASH INVALID_DATA BACKEND_FAILURE STALE_DATA "
    "CANNOT_OPEN_FILE CANNOT_WRITE_FILE INVALID_TOPIC_KEY END_OF_FILE INVALID_TAG INVALID_MESSAGE INVALID_STATUS "
    "CONVERSION_FAILED CONSUMER_EXISTS CONNECTION_TIMEOUT BAD_MEMBER_FUNCTION_CALL REPEATED_REQUEST_ID BROKEN_CLONE "
    "SHUTTING_DOWN INVALID_PEERING_REQUEST REPEATED_PEERING_HANDSHAKE_REQUEST UNEXPECTED_HANDSHAKE_MESSAGE "
    "INVALID_HANDSHAKE_STATE NO_PATH_TO_PEER NO_CONNECTOR_AVAILABLE CANNOT_OPEN_RESOURCE SERIALIZATION_FAILED "
    "DESERIALIZATION_FAILED WRONG_MAGIC_NUMBER REDUNDANT_CONNECTION LOGIC_ERROR INVALID_JSON",
    start=0,
)  # Why a connection ends. The numbers and names are those of Broker's `ec`; 0 is a graceful end.

FILTER_LIMIT_PREFIXES = 100_000  # Default of the most prefixes in one filter; reading that many takes about 40 ms


def minimal_prefixes(prefixes: Iterable[str]) -> tuple[str, ...]:
    """Return the prefixes sorted, without those that another one covers."""
    kept: list[str] = []
    for prefix in sorted(prefixes):
        if not kept or not prefix.startswith(kept[-1]):  # a prefix stands directly before those that it covers
            kept.append(prefix)
    return tuple(kept)


def encode_filter(prefixes: Iterable[str]) -> bytes:
    """Return the prefixes as a filter, in the order given."""
    raw = [string_body(prefix.encode(), b"") for prefix in prefixes]
    return length_bytes(len(raw)) + b"".join(raw)


def decode_filter(data: bytes, position: int, limit_prefixes: int) -> tuple[tuple[str, ...], int]:
    """Return the minimal prefixes of the filter at `position`, as far as the hub can take them, and where it ends.

    Raises:
        ValueError: The filter is not complete, or has more than `limit_prefixes` prefixes; the text says which.
    """
    raw: list[bytes] = []
    try:
        count, position = read_length(data, position)
        if count > limit_prefixes:
            raise ValueError(f"filter of {count} prefixes, the limit is {limit_prefixes}")
        for _ in range(count):
            prefix, position = read_bytes(data, position)
            raw.append(prefix)
    except IndexError:
        raise ValueError(f"the filter is not complete at byte {len(data)}") from None
    return minimal_prefixes(decode_prefixes(raw)), position  # which leaves out those that the hub cannot take


LENGTH = Struct(">I")  # The length of a frame, which stands in front of it and does not count itself

ID_BYTES = 16  # an endpoint id is a UUID
NIL_ID = bytes(ID_BYTES)  # No endpoint's id; as a receiver: all
_VERSION = 1  # Broker 2.3 and all later versions speak it
_MAGIC = b"ZEEK"
_TEXT_LIMIT_CHARACTERS = 256  # of the reason for dropping a connection: a line of a log


class Tag(IntEnum):
    """Type of a frame of the handshake."""

    HELLO = 6
    PROBE = 7
    VERSION_SELECT = 8
    DROP_CONN = 9
    ORIGINATOR_SYN = 10
    RESPONDER_SYN_ACK = 11
    ORIGINATOR_ACK = 12


_TAGS = frozenset(Tag)


class Message(NamedTuple):
    """A message of the handshake."""

    tag: Tag
    sender: bytes = NIL_ID
    filter: tuple[str, ...] = ()
    code: BrokerCode = BrokerCode.NONE
    text: str = ""


def _frame(tag: Tag, fields: bytes = b"") -> bytes:
    return LENGTH.pack(1 + len(fields)) + bytes((tag,)) + fields


def encode_hello(sender: bytes) -> bytes:
    return _frame(Tag.HELLO, _MAGIC + sender + bytes((_VERSION, _VERSION)))


def encode_probe() -> bytes:
    return _frame(Tag.PROBE, _MAGIC)


def encode_version_select(sender: bytes) -> bytes:
    return _frame(Tag.VERSION_SELECT, _MAGIC + sender + bytes((_VERSION,)))


def encode_drop_conn(sender: bytes, code: int, text: str) -> bytes:
    return _frame(Tag.DROP_CONN, _MAGIC + sender + bytes((code,)) + string_body(text.encode(), b""))


def encode_originator_syn(prefixes: tuple[str, ...]) -> bytes:
    return _frame(Tag.ORIGINATOR_SYN, encode_filter(prefixes))


def encode_responder_syn_ack(prefixes: tuple[str, ...]) -> bytes:
    return _frame(Tag.RESPONDER_SYN_ACK, encode_filter(prefixes))


def encode_originator_ack() -> bytes:
    return _frame(Tag.ORIGINATOR_ACK)


def decode_message(payload: bytes, limit_prefixes: int) -> Message:
    """Return the message in a frame without its length, 1 byte or more.

    Raises:
        ProtocolError: It is invalid; code and text are those that Broker puts into its drop_conn.
    """
    if payload[0] not in _TAGS:
        raise ProtocolError(BrokerCode.INVALID_MESSAGE, "invalid message type tag")
    tag = Tag(payload[0])
    try:
        return _decode(tag, payload, limit_prefixes)
    except (ValueError, IndexError):
        version = "v1::" if tag >= Tag.ORIGINATOR_SYN else ""  # as Broker names messages
        text = f"failed to parse {version}{tag.name.lower()}_msg"
        raise ProtocolError(BrokerCode.INVALID_MESSAGE, text) from None


def _decode(tag: Tag, payload: bytes, limit_prefixes: int) -> Message:
    if tag is Tag.ORIGINATOR_ACK:
        return Message(tag)
    if tag in (Tag.ORIGINATOR_SYN, Tag.RESPONDER_SYN_ACK):
        return Message(tag, filter=decode_filter(payload, 1, limit_prefixes)[0])
    magic, fields = payload[1:5], payload[21:]
    sender = NIL_ID if tag is Tag.PROBE else payload[5:21]
    lowest = highest = _VERSION
    text = b""
    if tag is Tag.HELLO:
        lowest, highest = fields[0], fields[1]
    elif tag is Tag.VERSION_SELECT:
        lowest = highest = fields[0]
    elif tag is Tag.DROP_CONN:
        text, _ = read_bytes(fields, 1)
    payload[4]  # raises IndexError if the message is not complete
    if magic != _MAGIC:
        raise ProtocolError(BrokerCode.WRONG_MAGIC_NUMBER, "wrong magic number")
    if not lowest <= _VERSION <= highest:
        versions = "versions offered" if tag is Tag.HELLO else "version selected"
        raise ProtocolError(BrokerCode.PEER_INCOMPATIBLE, f"unsupported {versions}")
    if tag is not Tag.DROP_CONN:
        return Message(tag, sender)
    shortened = text.decode(errors="replace")[:_TEXT_LIMIT_CHARACTERS]
    shown = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in shortened)
    if fields[0] > max(BrokerCode):
        raise ProtocolError(BrokerCode.UNSPECIFIED, shown)
    return Message(tag, sender, code=BrokerCode(fields[0]), text=shown)


TTL = 16  # as Broker writes it; it is never counted down
CONTROL_TOPIC = b"<$>"  # of routing updates, pings and pongs
TOPIC_OFFSET = 39  # of the topic's length in an envelope, which begins with its own length
FIXED_BYTES = 41  # offset of the topic
_LAYOUT = Struct(">16s16sBHH")
_HEADER = Struct(">I16s16sBHH")
_DATA_HEADER = Struct(">16s16sBH")


EnvelopeType = IntEnum("EnvelopeType", "DATA COMMAND ROUTING_UPDATE PING PONG")
"""Type of an envelope, from 1 on."""


class Envelope(NamedTuple):
    """One frame of the operation phase."""

    sender: bytes
    receiver: bytes
    type: EnvelopeType
    topic: bytes
    payload: bytes
    ttl: int = TTL


def encode_envelope(envelope: Envelope) -> bytes:
    sender, receiver, kind, topic, payload, ttl = envelope
    size = _LAYOUT.size + len(topic) + len(payload)
    return _HEADER.pack(size, sender, receiver, kind, ttl, len(topic)) + topic + payload


def decode_envelope(frame: bytes) -> Envelope:
    """Decode a frame without its length.

    Raises:
        ValueError: The frame is too short, of an unknown type, or lacks a topic or payload.
    """
    if len(frame) < _LAYOUT.size:
        raise ValueError(f"envelope of {len(frame)} bytes, the shortest has {_LAYOUT.size}")
    sender, receiver, number, ttl, topic_length = _LAYOUT.unpack_from(frame)
    if not EnvelopeType.DATA <= number <= EnvelopeType.PONG:
        raise ValueError(f"envelope of the unknown type {number}")
    payload_start = _LAYOUT.size + topic_length
    if payload_start >= len(frame):
        raise ValueError(f"envelope of {len(frame)} bytes with a topic of {topic_length} has no payload")
    return Envelope(
        sender, receiver, EnvelopeType(number), frame[_LAYOUT.size : payload_start], frame[payload_start:], ttl
    )


def data_header(sender: bytes) -> bytes:
    """Return the fields between the length and the topic length of a data envelope to all."""
    return _DATA_HEADER.pack(sender, NIL_ID, EnvelopeType.DATA, TTL)


def encode_routing_update(sender: bytes, receiver: bytes, prefixes: tuple[str, ...]) -> bytes:
    """Return the frame that replaces the sender's subscriptions at the receiver."""
    payload = encode_filter(prefixes)
    return encode_envelope(Envelope(sender, receiver, EnvelopeType.ROUTING_UPDATE, CONTROL_TOPIC, payload))


def encode_ping(sender: bytes, receiver: bytes, payload: bytes) -> bytes:
    """Return a ping as a frame. Its payload must not be empty: Broker before 2.8 takes no such envelope."""
    return encode_envelope(Envelope(sender, receiver, EnvelopeType.PING, CONTROL_TOPIC, payload))


def encode_pong(sender: bytes, receiver: bytes, payload: bytes) -> bytes:
    return encode_envelope(Envelope(sender, receiver, EnvelopeType.PONG, CONTROL_TOPIC, payload))
