"""`Command`: one command of a data store, as it stands in an envelope behind the topic; and the topics of stores.

```
 0  u64  seq        number of an action in its channel; the offset of an ack_clone; 0 for all other controls
 8  24   sender     an entity: the id of its node, 16 bytes, and a u64 that is unique in the node
32  24   receiver   an entity; nil: all readers of the topic
56  u8   kind       then the fields of the class, in their order, up to the end
```

Actions change a store, and are numbered; controls keep a channel together. Keys and values stay in Broker's binary
format, and are checked. Cost: 3 µs for most kinds, and 0.2 µs for each value within a key or a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from struct import Struct
from typing import Any, Final, NamedTuple

from peers.values.binary import Tag, length_bytes, read_length, value_end

ENTITY_BYTES: Final = 24
NIL_ENTITY: Final = bytes(ENTITY_BYTES)
SENDER_OFFSET: Final = 8
RECEIVER_OFFSET: Final = SENDER_OFFSET + ENTITY_BYTES
KIND_OFFSET: Final = RECEIVER_OFFSET + ENTITY_BYTES
_NODE_BYTES = 16
_HEADER = Struct(">Q24s24sB")
_U64 = Struct(">Q")
_I64 = Struct(">q")
_U16 = Struct(">H")
_ENTRY_BYTES = 2  # at least: key and value have a tag each


class InvalidCommandError(ValueError):
    """Bytes that are no command."""


def entity(node: bytes, number: int) -> bytes:
    return node + _U64.pack(number)


def node_of(of: bytes) -> bytes:
    return of[:_NODE_BYTES]


def object_of(of: bytes) -> int:
    number: int = _U64.unpack_from(of, _NODE_BYTES)[0]
    return number


# Actions. Keys and values are bodies in Broker's binary format; an expiry is in nanoseconds from when it is handled.


class Put(NamedTuple):
    """Set the value of a key."""

    key: bytes
    value: bytes
    expiry_ns: int | None
    publisher: bytes


class PutUnique(NamedTuple):
    """Set the value of a key that has none; entity entity `who` gets a result with this `request`."""

    key: bytes
    value: bytes
    expiry_ns: int | None
    who: bytes
    request: int
    publisher: bytes


class PutUniqueResult(NamedTuple):
    """Whether a `PutUnique` has set the value."""

    inserted: bool
    who: bytes
    request: int
    publisher: bytes


class Erase(NamedTuple):
    """Remove a key."""

    key: bytes
    publisher: bytes


class Expire(NamedTuple):
    """A key has expired."""

    key: bytes
    publisher: bytes


class Add(NamedTuple):
    """Add to a key's value; a missing key starts as the zero of `initial`."""

    key: bytes
    value: bytes
    initial: Tag
    expiry_ns: int | None
    publisher: bytes


class Subtract(NamedTuple):
    """Subtract from a key's value."""

    key: bytes
    value: bytes
    expiry_ns: int | None
    publisher: bytes


class Clear(NamedTuple):
    """Remove all keys."""

    publisher: bytes


# Controls.


class AttachWriter(NamedTuple):
    """A producer's handshake with the master: its actions begin behind `offset`."""

    offset: int
    heartbeat_ticks: int


class Keepalive(NamedTuple):
    """Last number that the producer has used."""

    number: int


class CumulativeAck(NamedTuple):
    """The consumer has all actions up to this number."""

    number: int


class Nack(NamedTuple):
    """Numbers that the consumer lacks; a lone 0 asks for the handshake."""

    numbers: tuple[int, ...]


class AckClone(NamedTuple):
    """The master's handshake with a clone: its whole content behind the action `offset`."""

    offset: int
    heartbeat_ticks: int
    entries: tuple[tuple[bytes, bytes], ...]


class RetransmitFailed(NamedTuple):
    """This number is lost for good."""

    number: int


Action = Put | PutUnique | PutUniqueResult | Erase | Expire | Add | Subtract | Clear
Content = Action | AttachWriter | Keepalive | CumulativeAck | Nack | AckClone | RetransmitFailed


class Command(NamedTuple):
    """A command between two entities."""

    seq: int
    sender: bytes
    receiver: bytes
    content: Content


# How fields are read and written.


class _Field(NamedTuple):
    read: Callable[[bytes, int], tuple[Any, int]]
    write: Callable[[Any], bytes]


def _fixed(layout: Struct) -> _Field:
    def read(data: bytes, position: int) -> tuple[Any, int]:
        end = position + layout.size
        if end > len(data):
            raise InvalidCommandError(f"a field of {layout.size} bytes is not complete at byte {position}")
        return layout.unpack_from(data, position)[0], end

    return _Field(read, layout.pack)


def _read_byte(data: bytes, position: int, most: int, expected: str) -> tuple[int, int]:
    if position >= len(data) or data[position] > most:
        shown = data[position : position + 1].hex() or "nothing"
        raise InvalidCommandError(f"{shown} at byte {position} is {expected}")
    return data[position], position + 1


def _read_flag(data: bytes, position: int) -> tuple[bool, int]:
    byte, position = _read_byte(data, position, 1, "neither 0 nor 1")
    return bool(byte), position


def _read_value(data: bytes, position: int) -> tuple[bytes, int]:
    end = value_end(data, position)
    return data[position:end], end


def _read_expiry(data: bytes, position: int) -> tuple[int | None, int]:
    is_there, position = _read_flag(data, position)
    return _NS.read(data, position) if is_there else (None, position)


def _read_tag(data: bytes, position: int) -> tuple[Tag, int]:
    byte, position = _read_byte(data, position, Tag.VECTOR, "no type of a value")
    return Tag(byte), position


def _read_count(data: bytes, position: int, least_bytes: int) -> tuple[int, int]:
    """Read a number of elements of at least so many bytes, before memory is allocated for any."""
    count, start = read_length(data, position)
    if count * least_bytes > len(data) - start:
        raise InvalidCommandError(f"{count} are claimed at byte {position}, {len(data) - start} bytes are left")
    return count, start


def _read_numbers(data: bytes, position: int) -> tuple[tuple[int, ...], int]:
    count, start = _read_count(data, position, _U64.size)
    return Struct(f">{count}Q").unpack_from(data, start), start + count * _U64.size


def _read_entries(data: bytes, position: int) -> tuple[tuple[tuple[bytes, bytes], ...], int]:
    count, start = _read_count(data, position, _ENTRY_BYTES)
    entries = {}
    for _ in range(count):
        middle = value_end(data, start)
        end = value_end(data, middle)
        entries[data[start:middle]] = data[middle:end]
        start = end
    if len(entries) != count:
        raise InvalidCommandError(f"two keys of the snapshot at byte {position} are the same")
    return tuple(entries.items()), start


_NUMBER, _NS, _TICKS, _ENTITY = _fixed(_U64), _fixed(_I64), _fixed(_U16), _fixed(Struct("24s"))
_VALUE = _Field(_read_value, bytes)
_EXPIRY = _Field(_read_expiry, lambda expiry_ns: b"\0" if expiry_ns is None else b"\1" + _I64.pack(expiry_ns))
_INSERTED = _Field(_read_flag, lambda flag: bytes((flag,)))
_TAG = _Field(_read_tag, lambda tag: bytes((tag,)))
_NUMBERS = _Field(_read_numbers, lambda numbers: length_bytes(len(numbers)) + b"".join(map(_U64.pack, numbers)))
_ENTRIES = _Field(_read_entries, lambda entries: length_bytes(len(entries)) + b"".join(chain.from_iterable(entries)))

# The fields of each kind, by its number.
_LAYOUTS: tuple[tuple[Callable[..., Content], tuple[_Field, ...]], ...] = (
    (Put, (_VALUE, _VALUE, _EXPIRY, _ENTITY)),
    (PutUnique, (_VALUE, _VALUE, _EXPIRY, _ENTITY, _NUMBER, _ENTITY)),
    (PutUniqueResult, (_INSERTED, _ENTITY, _NUMBER, _ENTITY)),
    (Erase, (_VALUE, _ENTITY)),
    (Expire, (_VALUE, _ENTITY)),
    (Add, (_VALUE, _VALUE, _TAG, _EXPIRY, _ENTITY)),
    (Subtract, (_VALUE, _VALUE, _EXPIRY, _ENTITY)),
    (Clear, (_ENTITY,)),
    (AttachWriter, (_NUMBER, _TICKS)),
    (Keepalive, (_NUMBER,)),
    (CumulativeAck, (_NUMBER,)),
    (Nack, (_NUMBERS,)),
    (AckClone, (_NUMBER, _TICKS, _ENTRIES)),
    (RetransmitFailed, (_NUMBER,)),
)
KINDS: dict[Any, int] = {layout[0]: kind for kind, layout in enumerate(_LAYOUTS)}


def encode_command(command: Command) -> bytes:
    seq, sender, receiver, content = command
    kind = KINDS[type(content)]
    fields = zip(_LAYOUTS[kind][1], content, strict=True)
    return _HEADER.pack(seq, sender, receiver, kind) + b"".join([field.write(value) for field, value in fields])


def decode_command(data: bytes) -> Command:
    """Decode the bytes behind the topic; raises `InvalidCommandError`."""
    if len(data) < _HEADER.size:
        raise InvalidCommandError(f"command of {len(data)} bytes, the shortest has more than {_HEADER.size}")
    seq, sender, receiver, kind = _HEADER.unpack_from(data)
    if kind >= len(_LAYOUTS):
        raise InvalidCommandError(f"command of the unknown kind {kind}")
    make, fields = _LAYOUTS[kind]
    position = _HEADER.size
    values = []
    try:
        for field in fields:
            value, position = field.read(data, position)
            values.append(value)
    except IndexError:
        raise InvalidCommandError(f"the command is not complete at byte {len(data)}") from None
    except ValueError as error:  # of the values and lengths within
        raise InvalidCommandError(str(error)) from error
    if position != len(data):
        raise InvalidCommandError(f"the command ends at byte {position}, {len(data) - position} bytes follow")
    return Command(seq, sender, receiver, make(*values))


# A Broker endpoint refuses to be a store's master while the filter of a direct peer covers the topic that masters read,
# since it takes the peer for another master: so a hub must not ask Zeeks for everything when a client does.

_INTERNAL = "<$>"  # a part of the topics of endpoints themselves
_MASTER = "/<$>/data/master"
_CLONE = "/<$>/data/clone"


def master_topic(name: str) -> str:
    """Return the topic that the master of a store reads; exactly one slash stands behind the name."""
    return name.rstrip("/") + _MASTER


def clone_topic(name: str) -> str:
    return name.rstrip("/") + _CLONE


def is_store_topic(topic: str) -> bool:
    return topic.endswith((_MASTER, _CLONE))


def store_of(topic: str) -> tuple[str, bool] | None:
    """Return the name of a topic's store, and whether its master reads it; None for other topics."""
    for end in (_MASTER, _CLONE):
        if topic.endswith(end):
            return topic.removesuffix(end), end is _MASTER
    return None


def announces_master(prefixes: Iterable[str], name: str) -> bool:
    """Return whether an endpoint with this filter may be the master of a store."""
    topic = master_topic(name)
    return any(topic.startswith(prefix) for prefix in prefixes)


def covers_stores(prefix: str, names: Iterable[str]) -> bool:
    """Return whether `prefix` matches topics of endpoints themselves, or of stores whose names have these prefixes."""
    if _INTERNAL in prefix or _INTERNAL.startswith(prefix):  # the empty prefix is one of the latter
        return True
    return any(name.startswith(prefix) or prefix.startswith(name) for name in names)
