"""The recorded conversations with Broker's server, had with this hub: the same frames, but for what is listed."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from websockets.frames import Opcode

from peers.values import CONVERTED_LIMIT_BYTES
from tests.connections.websocket.zeek.clients import Watcher, ZeekClient
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import frame

_RECORDINGS = Path(__file__).parents[3] / "zeek" / "recordings"

_WRAPPED = '{"type": "data-message", "topic": "/up", "@data-type": "string", "data": "%s"}'


@dataclass
class Session:
    """One connection.

    Attributes:
        request: The HTTP request.
        answer: The HTTP answer.
        sent: The client's frames.
        heard: The server's: opcode and payload.
        ended: Whether the server has closed the connection.
    """

    request: bytes = b""
    answer: bytes = b""
    sent: list[bytes] = field(default_factory=list)
    heard: list[tuple[int, bytes]] = field(default_factory=list)
    ended: bool = False


def _payload(step: dict[str, Any]) -> bytes:
    text = step.get("text")
    if text is None:
        return bytes.fromhex(step["hex"])
    if not text.endswith(" bytes>"):
        found: bytes = text.encode()
        return found
    size = int(text[1:].split()[0])  # only the size was written down
    made = nested(200) if size < 10_000 else (_WRAPPED % ("x" * (size - len(_WRAPPED) + 2))).encode()
    assert len(made) == size
    return made


def nested(depth: int) -> bytes:
    inner: Any = {"@data-type": "integer", "data": 1}
    for _ in range(depth):
        inner = {"@data-type": "vector", "data": [inner]}
    return json.dumps({"type": "data-message", "topic": "/up"} | inner, separators=(",", ":")).encode()


def sessions(name: str) -> dict[str, Session]:
    found: dict[str, Session] = {}
    for line in (_RECORDINGS / f"{name}.jsonl").read_text().splitlines():
        step = json.loads(line)
        if "session" in step:
            session = found[step["session"]] = Session()
        elif "conn" in step:
            session.ended = True
        elif "http" in step:
            setattr(session, "request" if step["dir"] == "client" else "answer", step["http"].encode())
        elif step.get("dir") == "server":
            session.heard.append((step["op"], _payload(step)))
        elif step.get("dir") == "client":
            fin, rsv, masked = bool(step["fin"]), step.get("rsv", 0), not step.get("unmasked")
            session.sent.append(frame(step["op"], _payload(step), fin=fin, reserved=rsv, masked=masked))
    return found


def results(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((_RECORDINGS / f"{name}.json").read_text())
    return found


_FAULTS = sessions("w03-error-cases")
_FAULT_RESULTS = {result["case"]: result for result in results("w03-results")}


_REFUSED_TOPICS = {
    "missing topic": "topic is empty, it must have 1 to 1024 bytes",
    "empty topic": "topic is empty, it must have 1 to 1024 bytes",
    "topic not string": "topic is empty, it must have 1 to 1024 bytes",
    "internal topic": "topic '<$>/local/data/errors': <$> is Broker's own",
}
"""Broker takes these silently, and nobody can get the message."""

_NOT_AN_ARRAY = "subscriptions not an array"
_NOT_A_STRING = "individual subscription not a string"
_BAD_BEGINNINGS = {
    "first: object": _NOT_AN_ARRAY,
    "first: not json": _NOT_AN_ARRAY,
    "first: array of numbers": _NOT_A_STRING,
    "first: mixed": _NOT_A_STRING,
    "first: string": _NOT_AN_ARRAY,
    "first: null": _NOT_AN_ARRAY,
    "first: empty frame": _NOT_AN_ARRAY,
    "first: nested array": _NOT_A_STRING,
    "first: trailing garbage": _NOT_AN_ARRAY,
    "first: data message": _NOT_AN_ARRAY,
}
"""Broker leaves these without an answer."""

_CLOSED = {
    "binary frame with valid json": 1003,
    "first: binary frame": 1003,
    "unmasked client frame": 1002,
    "rsv1 set": 1002,
    "reserved opcode 3": 1002,
    "continuation without start": 1002,
    "new text while fragment open": 1002,
    "ping 126 bytes": 1002,
    "close 1000 from client": 1000,
    "close 1-byte payload": 1002,
}
"""Broker closes without a Close, or does not notice what RFC 6455 forbids (frames without a mask, long pings)."""

_TAKEN_APART = {"fragmented with ping in between", "big message 5 MB string", "close empty from client"}
"""Tests of their own: Broker lost the first (a bug), takes larger messages, and closes without an answer."""


def _without_fault(reply: str) -> str:
    return re.sub(r"(?<=contained )(malformed JSON -> .*|invalid data)(?=\"}$)", "no message", reply)


def _without_identity(text: bytes) -> Any:
    found = json.loads(text)
    if found["type"] == "ack":
        assert list(found) == ["type", "endpoint", "version"]
        uuid.UUID(found["endpoint"])
        return "ack"
    return _without_fault(text.decode(errors="surrogateescape"))


async def _open(hub: Hub, session: Session) -> ZeekClient:
    client = ZeekClient(await hub.raw_websocket())
    await client.shake_hands(session.request)
    for line in session.answer.rstrip().split(b"\r\n")[1:]:
        assert line in client.head.split(b"\r\n")
    assert b"Sec-WebSocket-Extensions" not in client.head
    assert b"Sec-WebSocket-Protocol" not in client.head
    return client


@pytest.mark.parametrize("name", sorted(_FAULTS.keys() - _BAD_BEGINNINGS.keys() - _CLOSED.keys() - _TAKEN_APART))
async def test_what_leaves_the_connection_open(hub: Hub, name: str) -> None:
    session, result = _FAULTS[name], _FAULT_RESULTS[name]
    watcher = Watcher(hub, "/up")
    client = await _open(hub, session)
    await client.raw.send(*session.sent)
    replies = [_without_identity(text) if opcode == Opcode.TEXT else text for opcode, text in await client.settle()]
    expected = [_without_identity(text) if opcode == Opcode.TEXT else text for opcode, text in session.heard]
    if name == "first: empty string topic":  # Broker tells of the client itself there, and of its peers
        expected = expected[:1]
    if name in _REFUSED_TOPICS:
        context = f"input #1 was refused -> {_REFUSED_TOPICS[name]}"
        error = {"type": "error", "code": "deserialization_failed", "context": context}
        expected.append(json.dumps(error, separators=(",", ":")))
    assert sorted(map(str, replies)) == sorted(map(str, expected))
    assert len(watcher.frames) == len(result["endpoint_received"])
    assert not session.ended


@pytest.mark.parametrize("name", _BAD_BEGINNINGS)
async def test_a_first_message_that_is_no_array_of_strings(hub: Hub, name: str) -> None:
    watcher = Watcher(hub, "/up")
    client = await _open(hub, _FAULTS[name])
    await client.raw.send(*_FAULTS[name].sent)
    context = _BAD_BEGINNINGS[name]
    assert await client.text() == b'{"type":"error","code":"deserialization_failed","context":"%b"}' % context.encode()
    assert await client.raw.end() == (1008, context)
    assert not watcher.frames
    assert not _FAULT_RESULTS[name]["endpoint_received"]


@pytest.mark.parametrize("name", _CLOSED)
async def test_what_ends_the_connection(hub: Hub, name: str) -> None:
    watcher = Watcher(hub, "/up")
    client = await _open(hub, _FAULTS[name])
    await client.raw.send(*_FAULTS[name].sent)
    code, _ = await client.raw.end()
    assert code == _CLOSED[name]
    assert not watcher.frames


async def test_a_close_without_a_code(hub: Hub) -> None:
    client = await _open(hub, _FAULTS["close empty from client"])
    await client.raw.send(*_FAULTS["close empty from client"].sent)
    assert (await client.reply())["type"] == "ack"
    assert await client.raw.frame() == (Opcode.CLOSE, b"")


async def test_a_ping_between_fragments(hub: Hub) -> None:
    watcher = Watcher(hub, "/up")
    session = _FAULTS["fragmented with ping in between"]
    client = await _open(hub, session)
    await client.raw.send(*session.sent)
    assert [opcode for opcode, _ in await client.settle()] == [Opcode.TEXT, Opcode.PONG]
    assert len(watcher.frames) == 2


async def test_five_megabytes(hub: Hub) -> None:
    watcher = Watcher(hub, "/up")
    session = _FAULTS["big message 5 MB string"]
    client = await _open(hub, session)
    await client.raw.send(*session.sent)
    assert (await client.reply())["type"] == "ack"
    assert (await client.reply())["context"] == f"input #1 is longer than {CONVERTED_LIMIT_BYTES} bytes"
    await client.settle()
    assert [frame.body for frame in watcher.frames] == [b"\x02" + (1).to_bytes(8, "big")]
