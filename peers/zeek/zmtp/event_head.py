"""`EventHead`: what stands in front of the payload of a Zeek event, on the wire of ZeroMQ and in the hub.

```
ZeroMQ   topic │ sender │ serializer │ payload      4 parts
the hub  routing key: topic, labels `zeek-node=SENDER` and, for JSON, `zeek-serializer=NAME` │ body: the payload
```

So an event is an ordinary message of the hub in the data model of `zeek://`: everybody reads it as one, rules may ask
for those of a node, and nodes that have it from the hub get the parts as they came. An event of somebody else, which
bears no such label, is sent in the name of the hub, in Broker's binary format.

The payload in that format is kept byte for byte. In JSON, which a cluster may be told to use, it is converted where it
comes in and again where it goes out: equal data, not equal bytes.

No state. Source: shared notes on Zeek's backend, section 3.1; recordings in `tests/zeek/zmtp`. Not here: payloads
(`peers.zeek.zmtp.event_reading`, `peers.zeek.zmtp.event_writing`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hub.errors import CloseCode, HubError, RejectedError
from hub.frame import FLAG_TAGGED, HEADER, HEADER_BYTES, KIND_MESSAGES, Encoding, topic_of
from hub.labels import LABEL_LIMIT_BYTES
from hub.tags.envelope import Envelope, tagged
from peers.zeek.zmtp.frames import MORE, encode_frame

__all__ = [
    "BINARY",
    "EVENT_BEGINNING",
    "HUB_ID",
    "JSON",
    "NODE_LABEL",
    "SERIALIZERS",
    "EventHead",
    "is_of_node",
    "node_labels",
]

BINARY: Final = b"broker-bin-v1"
JSON: Final = b"broker-json-v1"
SERIALIZERS: Final = (BINARY, JSON)
"""What Zeek may be told to use; every node of a cluster uses the same."""

EVENT_BEGINNING: Final = bytes.fromhex("0e03 020000000000000001 020000000000000001 0e")
"""What every event begins with in Broker's binary format: a vector of format 1, kind 1, and the vector of the event."""

NODE_LABEL: Final = "zeek-node="
"""What the label begins with that says which node has sent a message."""

_NODE_LABELS: Final = (NODE_LABEL, "zeek-node-2=", "zeek-node-3=")
"""What those begin with that hold an id together: ids of ZeroMQ have up to 255 bytes, a label 128."""

HUB_ID: Final = b"topichub_"
"""What the node ids of hubs begin with."""

_SERIALIZER: Final = "zeek-serializer="

_FLAGS: Final = Encoding.BROKER << 1


class EventHead(NamedTuple):
    """The first three parts of an event."""

    topic: bytes
    sender: bytes
    """The id of the node that has published it; its own messages are no news to a node."""
    serializer: bytes = BINARY

    def encode(self) -> bytes:
        """Return the three parts as frames of ZMTP; the payload's follows."""
        return b"".join([encode_frame(part, MORE) for part in self])

    @property
    def routing_key(self) -> bytes:
        """Bytes by which the route cache knows the event.

        Raises:
            RejectedError: The topic, or the sender, is none that the hub takes, or nobody knows the serializer.
        """
        if self.serializer not in SERIALIZERS:
            shown = self.serializer[:40].decode("utf-8", "backslashreplace")
            raise RejectedError(CloseCode.BAD_DATA, f"the serializer is {shown!r}, not {BINARY.decode()} or JSON's")
        try:
            labels = node_labels(self.sender)
            if self.serializer != BINARY:
                labels.append(_SERIALIZER + self.serializer.decode())
            key = tagged(self.topic.decode(), labels).encode()
        except UnicodeDecodeError as error:
            raise RejectedError(CloseCode.BAD_DATA, f"a topic or sender is not UTF-8: {error.reason}") from error
        except HubError as error:
            raise RejectedError(CloseCode.BAD_DATA, str(error)) from error
        return HEADER.pack(0, KIND_MESSAGES, _FLAGS | FLAG_TAGGED, len(key))[4:] + key

    @classmethod
    def of(cls, routing_key: bytes, own: bytes) -> EventHead:
        """Read what a message of the hub is sent with.

        Args:
            routing_key: Bytes 4 to 8 + K of its frame, which the hub has checked.
            own: The sender of what no node of a cluster has published.
        """
        flags, key = routing_key[1], routing_key[HEADER_BYTES - 4 :]
        if not flags & FLAG_TAGGED:
            return cls(key, own)
        parts: dict[str, str] = {}
        serializer = BINARY
        for label in Envelope.decode(key).labels:
            name, equals, rest = label.partition("=")
            if name + equals in _NODE_LABELS:
                parts[name + equals] = rest
            elif label.startswith(_SERIALIZER) and label[len(_SERIALIZER) :].encode() in SERIALIZERS:
                serializer = label[len(_SERIALIZER) :].encode()
        sender = "".join([parts.get(name, "") for name in _NODE_LABELS]).encode() if NODE_LABEL in parts else own
        return cls(topic_of(flags, key), sender, serializer)


def node_labels(sender: bytes) -> list[str]:
    """Return the labels that say which node has sent a message: one, for a long id more.

    Raises:
        UnicodeDecodeError: The id is not UTF-8.
    """
    left = sender.decode()
    labels = []
    for beginning in _NODE_LABELS[:-1]:
        room = LABEL_LIMIT_BYTES - len(beginning)
        part = left if len(left) * 4 <= room else left.encode()[:room].decode(errors="ignore")
        labels.append(beginning + part)
        left = left[len(part) :]
        if not left:
            return labels
    return [*labels, _NODE_LABELS[-1] + left]


def is_of_node(routing_key: bytes) -> bool:
    """Return whether a node of a cluster has published a message of the hub; the argument is that of `EventHead.of`."""
    if not routing_key[1] & FLAG_TAGGED:
        return False
    return any(label.startswith(NODE_LABEL) for label in Envelope.decode(routing_key[HEADER_BYTES - 4 :]).labels)
