"""The form of a batch for Zeek's WebSocket API: one text frame a message, made once for all who want it.

```
Batch (MESSAGES frames) ── encoding Broker ─────────────────────▶ JSON text ─▶ text frame
                        └─ encoding msgpack ── from_msgpack ─▶ Broker ─▶ JSON text ─▶ text frame
```

The values of a BATCH frame travel one by one. What has no form is lost: bodies that are not what they say, a BATCH of
Broker values (they do not say where they end), one of too many values. It is counted, but the API has no word for it:
the log and `$hub/unreadable` tell.

Owner and bound of memory: `peers.values.forms`. Cost: that of `peers.values.encode_message` a message.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from websockets.frames import Opcode

from hub.batch import Batch, value_ends
from hub.frame import BATCH_COUNT, FLAG_BATCH, Encoding, Frame
from peers.values import encode_message, from_msgpack
from peers.values.forms import Form
from peers.websocket.framing import encode_message as encode_frame

__all__ = ["SPLIT_LIMIT_MESSAGES", "texts", "zeek_form"]

SPLIT_LIMIT_MESSAGES = 16_384
"""Most values of one BATCH frame that are converted. The smallest cost 2.5 µs each: 40 ms."""


def zeek_form(_: Batch) -> Form:
    """Give a batch its form for `/v1/messages/json`. For `Batch.form`."""
    return Form(_make)


def _make(batch: Batch) -> tuple[bytes, int]:
    found, lost = texts(batch)
    return b"".join([encode_frame(Opcode.TEXT, text) for text in found]), lost


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
