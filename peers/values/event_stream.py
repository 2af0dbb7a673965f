"""Messages as server-sent events, for `GET /v1/events` (docs/http.md).

```
id: 1795468563-17                              the epoch of the journal and the offset of its record, where it is one
data: {"topic":"/a","value":1}
                                               an empty line ends an event
event: dropped
data: {"count":3}
```

JSON is written without line breaks, so an event has one line of data.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import msgspec

from hub.journal.block import Block
from hub.labels.envelope import Envelope
from hub.messages.batch import Batch, value_ends
from hub.messages.frame import BATCH_COUNT, BROKER_FLAGS, FLAG_BATCH, FLAG_TAGGED, KIND_MESSAGES, Encoding, Frame
from peers.values.conversion import json_of, json_of_broker
from peers.values.forms import Form, Made

COMMENT = b":\n\n"  # Keeps proxies from closing an idle stream
_SINGLY_LIMIT = 4096  # Most values of one frame that are converted: 3 µs each, 12 ms
_ENCODING = 0b110  # flags of a body that is not msgpack
_text = msgspec.json.Encoder().encode


def dropped_event(messages: int) -> bytes:
    """Report missing messages."""
    return b'event: dropped\ndata: {"count":%d}\n\n' % messages


def gone_event(first: int, following: int) -> bytes:
    """Report records that were deleted before they were read."""
    return b'event: gone\ndata: {"from":%d,"to":%d}\n\n' % (first, following)


def cut_event(position: int, start: int) -> bytes:
    """Report that the journal has lost records that were sent already, and has given their offsets to others."""
    return b'event: cut\ndata: {"from":%d,"to":%d}\n\n' % (position, start)


def closed_event(code: int, text: str) -> bytes:
    """Report the end of the stream."""
    return b"event: closed\ndata: %b\n\n" % _text({"code": int(code), "text": text})


def events_form(_: Batch) -> Form:
    """Return a batch's form for streams of events."""
    return Form(_make)


def _make(batch: Batch) -> Made:
    texts: list[bytes] = []
    lost = gap = 0
    for frame in batch.parts():
        opening = _opening(frame)
        for value in _values(frame):
            if isinstance(value, int):
                lost += value
                gap += value
                continue
            if gap:
                texts.append(dropped_event(gap))
                gap = 0
            texts.append(b'%b,"value":%b}\n\n' % (opening, value))
    if gap:
        texts.append(dropped_event(gap))
    return b"".join(texts), lost


def _opening(frame: Frame) -> bytes:
    if not frame.flags & FLAG_TAGGED:
        return b'data: {"topic":' + _text(frame.key.decode())
    topic, labels, sender, destination = Envelope.decode(frame.key)
    fields = {"topic": topic, "labels": labels, "sender": sender, "to": destination}
    return b"data: " + _text({name: value for name, value in fields.items() if value})[:-1]


def _values(frame: Frame) -> Iterator[bytes | int]:
    """Yield the JSON of each value of a frame, or how many have none."""
    flags = frame.flags & ~FLAG_TAGGED
    if flags & _ENCODING:
        yield (json_of_broker(frame.body) if flags == BROKER_FLAGS else None) or frame.messages
    elif flags & FLAG_BATCH:
        plain = Frame(KIND_MESSAGES, FLAG_BATCH, frame.key, frame.body)
        ends = value_ends(plain) if frame.messages <= _SINGLY_LIMIT else None
        if ends is None:
            yield frame.messages
            return
        for start, end in pairwise([BATCH_COUNT.size, *ends]):
            yield json_of(frame.body[start:end]) or 1
    else:
        yield json_of(frame.body) or 1


def recorded_events(blocks: list[bytes], limit_bytes: int, epoch: int) -> tuple[list[bytes], int | None]:
    """Return records of checked blocks as events, and the offset of the first one beyond `limit_bytes` of bodies."""
    texts: list[bytes] = []
    gap = 0
    left_bytes = limit_bytes
    following = None
    topics: dict[str, bytes] = {}
    records = (record for data in blocks for record in Block.parse(data, verify=False).records())
    for offset, time_us, topic, encoding, body in records:
        if left_bytes <= 0:
            following = offset
            break
        left_bytes -= len(body)
        value = json_of(body) if encoding == Encoding.MSGPACK else None
        if encoding == Encoding.BROKER:
            value = json_of_broker(body)
        if value is None:
            gap += 1
            continue
        if gap:
            texts.append(dropped_event(gap))
            gap = 0
        shown = topics.get(topic) or topics.setdefault(topic, _text(topic))
        texts.append(
            b'id: %d-%d\ndata: {"topic":%b,"time_ms":%d.%03d,"value":%b}\n\n'
            % (epoch, offset, shown, time_us // 1000, time_us % 1000, value)
        )
    if gap:
        texts.append(dropped_event(gap))
    return texts, following
