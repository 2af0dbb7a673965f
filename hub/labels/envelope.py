"""`Envelope`: the routing key of a TAGGED message.

```
0    u16  length of the topic          all integers big-endian
2         topic
     u8   length of the sender's name, name       0: it bears none
     u8   length of the destination, name         0: it is for all subscribers
     then, up to the end of the key, each label: u8 length, label
```

Labels ascend and none is there twice, so that equal envelopes are equal bytes: the route cache compares them.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import lt
from struct import Struct, error
from typing import Any, NamedTuple

from hub.errors import CloseCode, InvalidNameError, InvalidTopicError, RejectedError
from hub.messages.batch import Message
from hub.messages.frame import FLAG_TAGGED, KEY_LIMIT_BYTES, KIND_MESSAGES, Frame
from hub.names.claim import (
    LABEL_LIMIT_BYTES,
    LABELS_LIMIT,
    NAME_LIMIT_BYTES,
    check_label,
    check_labels,
    check_name,
    decode_name,
)
from hub.topics import RESERVED, TOPIC_LIMIT_BYTES, check_topic, decode_topic, printable


class TaggedMessage(Message):
    """A topic and a value, with labels and names beside them."""

    _envelope: Envelope
    origin: bytes = b""

    def __new__(cls, envelope: Envelope, value: Any) -> TaggedMessage:  # noqa: PYI034 -- not of classes made of it
        made = tuple.__new__(cls, (envelope.topic, value))
        made._envelope = envelope  # noqa: SLF001 -- our own
        return made

    @property
    def labels(self) -> tuple[str, ...]:
        return self._envelope.labels

    @property
    def sender(self) -> str:
        """Name of the publisher; empty if it is unknown."""
        return self._envelope.sender

    @property
    def destination(self) -> str:
        """Name of the only receiver; empty for none."""
        return self._envelope.destination

    def __repr__(self) -> str:
        named = "".join(
            f", {name}={value!r}" for name, value in self._envelope._asdict().items() if name != "topic" and value
        )
        return f"TaggedMessage(topic={self.topic!r}, value={self.value!r}{named})"


_LENGTH = Struct(">H")
_NAMES = 2

# Longest envelope: the longest topic, two names and 32 labels
ENVELOPE_LIMIT_BYTES = (
    _LENGTH.size + TOPIC_LIMIT_BYTES + _NAMES * (1 + NAME_LIMIT_BYTES) + LABELS_LIMIT * (1 + LABEL_LIMIT_BYTES)
)

assert ENVELOPE_LIMIT_BYTES <= KEY_LIMIT_BYTES  # noqa: S101 -- else no hub would take it


class Envelope(NamedTuple):
    """The topic, labels and names of a message."""

    topic: str
    labels: tuple[str, ...] = ()  # Ascending, each once
    sender: str = ""  # Name of the publisher, which must own it; empty for none
    destination: str = ""  # Name of the only receiver; empty for all subscribers

    def encode(self) -> bytes:
        topic, sender, destination = self.topic.encode(), self.sender.encode(), self.destination.encode()
        parts = [
            _LENGTH.pack(len(topic)),
            topic,
            bytes((len(sender),)),
            sender,
            bytes((len(destination),)),
            destination,
        ]
        for label in self.labels:
            raw = label.encode()
            parts += (bytes((len(raw),)), raw)
        return b"".join(parts)

    @property
    def routing_key(self) -> bytes:
        """Bytes by which the route cache knows a frame with this envelope and one value."""
        return Frame(KIND_MESSAGES, FLAG_TAGGED, self.encode(), b"").routing_key

    @classmethod
    def decode(cls, key: bytes) -> Envelope:
        """Read an envelope from a key.

        Raises:
            RejectedError: It is malformed; the text says where.
        """
        try:
            topic_end = _LENGTH.size + _LENGTH.unpack_from(key)[0]
            sender_end = topic_end + 1 + key[topic_end]
            position = sender_end + 1 + key[sender_end]
        except (IndexError, error):
            raise RejectedError(CloseCode.BAD_DATA, f"tagged: the key ends at byte {len(key)}, too soon") from None
        try:
            return cls(
                decode_topic(key[_LENGTH.size : topic_end]),
                _labels(key, position) if position != len(key) else (),
                decode_name(key[topic_end + 1 : sender_end]) if key[topic_end] else "",
                decode_name(key[sender_end + 1 : position]) if key[sender_end] else "",
            )
        except (InvalidTopicError, InvalidNameError) as invalid:
            raise RejectedError(CloseCode.BAD_DATA, f"tagged: {invalid}") from invalid


def tagged(topic: str, labels: Iterable[str] = (), sender: str = "", destination: str = "") -> Envelope:
    """Make the envelope of a message that a client publishes.

    Raises:
        InvalidTopicError: No client may publish to this topic.
        InvalidNameError: A label or a name is invalid, or the labels are too many.
    """
    if check_topic(topic).startswith(RESERVED):
        raise InvalidTopicError(f"topic {printable(topic)}: {RESERVED} is the hub's own, clients do not publish to it")
    return _checked(topic, labels, sender, destination)


def key_of(topic: str, labels: Iterable[str] = (), sender: str = "", destination: str = "") -> tuple[bytes, int]:
    """Return the key of a message, and the flag that goes with it: a topic alone needs no envelope.

    Raises:
        InvalidTopicError: The topic is invalid.
        InvalidNameError: A label or a name is invalid, or the labels are too many.
    """
    check_topic(topic)
    if not (labels or sender or destination):
        return topic.encode(), 0
    return _checked(topic, labels, sender, destination).encode(), FLAG_TAGGED


def _checked(topic: str, labels: Iterable[str], sender: str, destination: str) -> Envelope:
    return Envelope(
        topic,
        check_labels(labels),
        check_name(sender) if sender else "",
        check_name(destination) if destination else "",
    )


def _labels(key: bytes, position: int) -> tuple[str, ...]:
    raw = []
    end = len(key)
    while position < end:
        start = position + 1
        position = start + key[position]
        raw.append(key[start:position])
    if position != end:
        raise InvalidNameError(f"the key ends at byte {end}, within a field that ends at {position}")
    if len(raw) > LABELS_LIMIT:
        raise InvalidNameError(f"{len(raw)} labels, the limit is {LABELS_LIMIT}")
    if not all(map(lt, raw, raw[1:])):
        raise InvalidNameError("labels must be sorted by their bytes, each once")
    try:
        text = b"\n".join(raw).decode()
    except UnicodeDecodeError as invalid:
        raise InvalidNameError(f"labels are not UTF-8: {invalid.reason}") from invalid
    labels = text.split("\n")
    is_sound = len(labels) == len(raw) and raw[0] and max(map(len, raw)) <= LABEL_LIMIT_BYTES
    if is_sound and "".join(labels).isprintable():
        return tuple(labels)
    return tuple([check_label(label.decode()) for label in raw])
