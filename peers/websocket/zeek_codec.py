"""Zeek's WebSocket API, `/v1/messages/json`, as Broker and Zeek speak it; see docs/zeek.md.

```
["/zeek/", "/other"]           first, once    ──▶
                                              ◀──   {"type":"ack","endpoint":"<uuid>","version":"2.8.0-dev"}
{"type":"data-message","topic":..,            ◀─▶   the same
 "@data-type":..,"data":..}                   ◀──   {"type":"error","code":"deserialization_failed","context":".."}
```

Errors count inputs from 1, the failed ones too, the array not. A topic that the hub does not take is answered by an
error; Broker takes it silently.
"""

from __future__ import annotations

import re
import uuid
from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

import msgspec
from websockets.datastructures import Headers
from websockets.frames import Opcode
from websockets.http11 import Request

from hub.errors import CloseCode
from hub.messages.batch import Batch, value_ends
from hub.messages.frame import BATCH_COUNT, BROKER_FLAGS, FLAG_BATCH, KIND_MESSAGES, Encoding, Frame, encode_frame
from hub.prefixes import Change
from hub.topics import TOPIC_LIMIT_BYTES, printable
from peers.commands.commands import Publication
from peers.values import InvalidInputError, decode_message, encode_message, from_msgpack
from peers.values.conversion import is_nested_too_deep
from peers.values.forms import Form
from peers.websocket.batches import ITEMS_LIMIT
from peers.websocket.batches import encode_message as framed
from peers.websocket.codec import Codec
from peers.websocket.messages import ClientMessage, Error, HubMessage, RefusedError, Welcome
from peers.websocket.session import AnsweredError
from peers.wire.control import MALFORMED
from peers.wire.events import SubscriptionChange
from peers.wire.hello import NAME_LIMIT_BYTES, fitting_name


class Wanted:
    """The minimal filter of the hub, and the prefixes that a Zeek was asked for."""

    def __init__(self) -> None:
        self._prefixes: set[str] = set()
        self._asked: list[str] = []
        self._uncovered: set[str] = set()

    def change(self, change: Change) -> None:
        self._prefixes.difference_update(change.removed)
        self._uncovered.difference_update(change.removed)
        for prefix in change.added:
            self._prefixes.add(prefix)
            if not self._covers(prefix):
                self._uncovered.add(prefix)

    def ask(self) -> list[str]:
        self._asked = sorted(self._prefixes)
        self._uncovered.clear()
        return self._asked

    @property
    def is_covered(self) -> bool:
        return not self._uncovered

    def _covers(self, prefix: str) -> bool:
        # These prefixes are minimal, so only the left neighbour can cover; see `hub.prefixes`.
        place = bisect_right(self._asked, prefix)
        return place > 0 and prefix.startswith(self._asked[place - 1])


SPLIT_LIMIT_MESSAGES = 16_384  # most values of a BATCH frame that are converted: the smallest cost 2.5 µs, 40 ms


def zeek_form(_: Batch) -> Form:
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

VERSION = "2.8.0-dev"  # version of Broker whose API this is; clients may look at it
_BROKERS_OWN = b"<$>"  # Broker's own topics begin so
_CODE = "deserialization_failed"  # of all errors; clients may rely on it and on `type`, not on the context

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

INVALID_PATH = _encode(_Failure("invalid_uri", INVALID_PATH_TEXT))  # as Zeek's server


class _Messages:
    """The messages of one client; see `peers.websocket.codec.Codec`."""

    __slots__ = ("_inputs", "_subscribed")

    def __init__(self) -> None:
        self._subscribed = False
        self._inputs = 0

    def decode(self, payload: bytes) -> ClientMessage:
        """Read a message of the client.

        Raises:
            AnsweredError: The first message is no array of strings.
            RefusedError: A later one cannot be published; the text follows `input #N `.
        """
        if not self._subscribed:
            self._subscribed = True
            return SubscriptionChange(subscribe=True, prefixes=_prefixes(payload), request=0)
        self._inputs += 1
        try:
            topic, body = decode_message(payload)
        except InvalidInputError as error:
            raise RefusedError(CloseCode.BAD_DATA, str(error), self._inputs, 1) from error
        self._check_topic(topic)
        frame = encode_frame(KIND_MESSAGES, body, key=topic, flags=BROKER_FLAGS)
        return Publication(frame, 1, self._inputs)

    def encode(self, message: HubMessage) -> bytes:
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
        """Refuse a topic that cannot be subscribed to; `hub.routing.routes` checks all others."""
        if topic.startswith(_BROKERS_OWN):
            shown = printable(topic.decode("utf-8", "replace"))
            text = f"topic {shown}: <$> is Broker's own"
        elif len(topic) > TOPIC_LIMIT_BYTES:
            text = f"a topic of {len(topic)} bytes, the limit is {TOPIC_LIMIT_BYTES} bytes"
        else:
            return
        raise refusal_of(text, self._inputs)


def zeek_codec() -> Codec:
    messages = _Messages()
    return Codec(Opcode.TEXT, zeek_form, messages.decode, messages.encode)


def refusal_of(text: str, number: int) -> RefusedError:
    """Return the API's refusal of an input that could be read, but is not taken."""
    return RefusedError(CloseCode.BAD_DATA, f"was refused -> {text}", number, 1)


def _prefixes(payload: bytes) -> list[str]:
    if payload.count(b",") >= ITEMS_LIMIT:  # before a list of millions is made
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


INTERNAL_ERROR = 1011  # broker closes so when a buffer is full, and Zeek's server when a ping is not answered

_APPLICATION_NAME = re.compile(rf"[A-Za-z0-9\-/_.=:*@]{{1,{NAME_LIMIT_BYTES}}}")


def endpoint_of(hub: bytes, client: int) -> str:
    """Return the id of a client in hexadecimal digits: programs made for Zeek distinguish clients by it."""
    return uuid.uuid5(uuid.UUID(bytes=hub), str(client)).hex


def is_astray(request: Request) -> bool:
    """Return whether a request with another path was meant for the API: a WebSocket without a subprotocol.

    Zeek's server takes such a handshake, says which path is right, and closes; programs made for it expect that.
    """
    headers = request.headers
    upgrades = [value.strip().lower() for line in headers.get_all("Upgrade") for value in line.split(",")]
    return "websocket" in upgrades and not headers.get_all("Sec-WebSocket-Protocol")


def client_name(headers: Headers) -> str:
    """Return a client's name: its application's if that is one, else its software, else nothing."""
    for name in headers.get_all("X-Application-Name"):
        if _APPLICATION_NAME.fullmatch(name):
            return name
    for agent in headers.get_all("User-Agent"):
        if agent.isprintable():
            return fitting_name(agent)
    return ""
