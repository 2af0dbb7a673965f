"""`ZeekCodec`: the messages of Zeek's WebSocket API, `/v1/messages/json`, as Broker and Zeek speak it.

```
client                                              hub
["/zeek/", "/other"]           first, once    ──▶
                                              ◀──   {"type":"ack","endpoint":"<uuid>","version":"2.8.0-dev"}
{"type":"data-message","topic":..,            ◀─▶   the same
 "@data-type":..,"data":..}
                                              ◀──   {"type":"error","code":"deserialization_failed","context":".."}
```

What a client sends becomes a `SubscriptionChange` (the first message) or a `Publication` (all others); what the hub has
to say and this API has no words for (confirmations, lost messages) is not said. Errors count inputs from 1, the failed
ones too, the array not. What is wrong with the JSON is told in Broker's own words; see `peers.values`.

Not as Broker does it: a topic that the hub does not take (empty or missing, under `<$>`, of control characters, too
long) is answered by an error. Broker takes it silently, and then nobody can get the message.

Owner: one session. State: whether the array came, and the number of inputs. No I/O.
Cost: that of `peers.values.decode_message`, and 2 µs.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

import msgspec
from websockets.frames import Opcode

from hub.batch import Batch, value_ends
from hub.errors import CloseCode
from hub.filter import Change
from hub.frame import BATCH_COUNT, BROKER_FLAGS, FLAG_BATCH, HEADER_BYTES, KIND_MESSAGES, Encoding, Frame, encode_frame
from hub.topics import TOPIC_LIMIT_BYTES, printable
from peers.values import InvalidInputError, decode_message, encode_message, from_msgpack
from peers.values.conversion import is_nested_too_deep
from peers.values.forms import Form
from peers.verbs.publish import Publication
from peers.websocket.batches import ITEMS_LIMIT
from peers.websocket.framing import encode_message as framed
from peers.websocket.messages import ClientMessage, Error, HubMessage, RefusedError, Welcome
from peers.websocket.session import AnsweredError
from peers.wire.events import SubscriptionChange
from peers.wire.reasons import MALFORMED


class Wanted:
    """The minimal filter of the hub, as `hub.core.Core.attach` tells it, and what was made of it."""

    __slots__ = ("_asked", "_prefixes", "_uncovered")

    def __init__(self) -> None:
        self._prefixes: set[str] = set()
        self._asked: list[str] = []
        self._uncovered: set[str] = set()

    def change(self, change: Change) -> None:
        """Take a change in."""
        self._prefixes.difference_update(change.removed)
        self._uncovered.difference_update(change.removed)
        for prefix in change.added:
            self._prefixes.add(prefix)
            if not self._covers(prefix):
                self._uncovered.add(prefix)

    def ask(self) -> list[str]:
        """Return what is wanted now, to be asked for."""
        self._asked = sorted(self._prefixes)
        self._uncovered.clear()
        return self._asked

    @property
    def is_covered(self) -> bool:
        """Whether all that is wanted was asked for, or is below something that was."""
        return not self._uncovered

    def _covers(self, prefix: str) -> bool:
        # What was asked for is minimal, so only the left neighbour can cover; see `hub.filter`.
        place = bisect_right(self._asked, prefix)
        return place > 0 and prefix.startswith(self._asked[place - 1])


SPLIT_LIMIT_MESSAGES = 16_384
"""Most values of one BATCH frame that are converted. The smallest cost 2.5 µs each: 40 ms."""


def zeek_form(_: Batch) -> Form:
    """Give a batch its form for `/v1/messages/json`. For `Batch.form`."""
    return Form(_make)


def _make(batch: Batch) -> tuple[bytes, int]:
    found, lost = texts(batch)
    return b"".join([framed(Opcode.TEXT, text) for text in found]), lost


def texts(batch: Batch) -> tuple[list[bytes], int]:
    """Return the JSON text of each message, and how many messages have none."""
    found: list[bytes] = []
    for frame in batch.parts():
        for body in _bodies(frame):
            text = _text(frame, body)
            if text is not None:
                found.append(text)
    return found, batch.messages - len(found)


def _bodies(frame: Frame) -> Iterable[bytes]:
    """Cut the values apart; none if that cannot be done."""
    body = frame.body
    if not frame.flags & FLAG_BATCH:
        return (body,)
    ends = value_ends(frame) if frame.messages <= SPLIT_LIMIT_MESSAGES else None
    return [body[start:end] for start, end in pairwise((BATCH_COUNT.size, *(ends or ())))]


def _text(frame: Frame, body: bytes) -> bytes | None:
    try:
        match frame.encoding:
            case Encoding.BROKER:
                return encode_message(frame.topic, body)
            case Encoding.MSGPACK:
                return encode_message(frame.topic, from_msgpack(body))
            case _:
                return None
    except ValueError:
        return None


PATH = "/v1/messages/json"

VERSION = "2.8.0-dev"
"""Version of Broker whose API this is. Clients may look at it, so it is what they know, and not the hub's own."""

_BROKERS_OWN = b"<$>"
"""Broker's own topics begin so: they say what goes on within one node."""

_CODE = "deserialization_failed"
"""Code of all errors. Clients may rely on it and on `type`, not on the context."""

_NOT_AN_ARRAY = "subscriptions not an array"
_NOT_A_STRING = "individual subscription not a string"

_strings_of = msgspec.json.Decoder(list[str]).decode
_items_of = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class _Ack(msgspec.Struct, frozen=True, tag="ack"):
    endpoint: str
    version: str = VERSION


class _Failure(msgspec.Struct, frozen=True, tag="error"):
    code: str
    context: str


INVALID_PATH_TEXT = f"Invalid URI - use {PATH}"

INVALID_PATH = _encode(_Failure("invalid_uri", INVALID_PATH_TEXT))
"""What Zeek's server says to a client that has asked for another path."""


class ZeekCodec:
    """What one client of the API says, and hears. See `peers.websocket.session.MessageCodec`."""

    __slots__ = ("_inputs", "_subscribed")

    opcode = Opcode.TEXT
    form = staticmethod(zeek_form)

    def __init__(self) -> None:
        self._subscribed = False
        self._inputs = 0

    def decode(self, payload: bytes) -> ClientMessage:
        """Read what the client sent.

        Raises:
            AnsweredError: The first message is no array of strings.
            RefusedError: A later one cannot be published; the text is what follows `input #N `.
        """
        if not self._subscribed:
            self._subscribed = True
            return SubscriptionChange(subscribe=True, prefixes=_prefixes(payload), request=0)
        self._inputs += 1
        try:
            topic, body = decode_message(payload)
        except InvalidInputError as error:
            raise RefusedError(CloseCode.BAD_DATA, error.context, self._inputs, 1) from error
        self._check_topic(topic)
        frame = encode_frame(KIND_MESSAGES, body, key=topic, flags=BROKER_FLAGS)
        return Publication(frame, frame[4 : HEADER_BYTES + len(topic)], 1, self._inputs)

    def encode(self, message: HubMessage) -> bytes:
        """Write what the hub says; empty if this API has no words for it."""
        match message:
            case Welcome():
                return _encode(_Ack(str(uuid.UUID(hex=message.hub))))
            case Error(request=0):
                return _encode(_Failure(_CODE, message.text))
            case Error():
                return _encode(_Failure(_CODE, f"input #{message.request} {message.text}"))
            case _:
                return b""

    def _check_topic(self, topic: bytes) -> None:
        """Refuse a topic that cannot even be asked for; all others are looked at once, see `hub.routes`."""
        if topic.startswith(_BROKERS_OWN):
            shown = printable(topic.decode("utf-8", "replace"))
            text = f"topic {shown}: <$> is Broker's own"
        elif len(topic) > TOPIC_LIMIT_BYTES:
            text = f"a topic of {len(topic)} bytes, the limit is {TOPIC_LIMIT_BYTES} bytes"
        else:
            return
        raise refusal_of(text, self._inputs)


def refusal_of(text: str, number: int) -> RefusedError:
    """Refuse an input that could be read, but is not taken, in the manner of the API.

    Args:
        text: The cause, for people.
        number: That of the input.
    """
    return RefusedError(CloseCode.BAD_DATA, f"was refused -> {text}", number, 1)


def _prefixes(payload: bytes) -> list[str]:
    if payload.count(b",") >= ITEMS_LIMIT:  # before a list is made of what may be millions
        raise AnsweredError(CloseCode.NOT_ALLOWED, f"more than {ITEMS_LIMIT} subscriptions")
    try:
        return _strings_of(payload)
    except MALFORMED as error:
        raise AnsweredError(CloseCode.NOT_ALLOWED, _what_is_wrong(payload)) from error


def _what_is_wrong(payload: bytes) -> str:
    if is_nested_too_deep(payload):  # how deep the reader goes is another matter on each Python
        return _NOT_AN_ARRAY
    try:
        _items_of(payload)
    except MALFORMED:
        return _NOT_AN_ARRAY
    return _NOT_A_STRING
