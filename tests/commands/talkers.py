"""Clients that say and hear the messages of `docs/websocket.md`, whatever goes over their socket.

A scenario is written once in these messages. `ask` numbers what it says and returns the answer; whatever else comes
before that is kept for `hear`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from websockets.frames import Opcode

from hub.journal.block import Block
from hub.journal.layout import whole_of
from hub.labels.envelope import Envelope
from hub.limits import Overflow
from hub.messages.batch import Batch, decode_values
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, FLAG_CONFIRM, FLAG_TAGGED, Frame, encode_frame, iterate_frames
from hub.messages.request_frame import FLAG_NAMED, Reply, Request, Status, failure
from peers.transport.endpoints import Endpoint
from peers.wire.control import decode_close, decode_notice, encode_close
from peers.wire.hello import Hello, QueueWish
from peers.wire.kinds import Kind
from peers.wire.records import Commit, Fetch, Stage, decode_records, encode_commit, encode_fetch, encode_stage
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient, SecuredClient
from tests.hubs.raw_http import RawHttp
from tests.hubs.raw_socket import Gap, RawSocket
from tests.hubs.raw_websocket import RawWebSocket, binary, text
from tests.hubs.raw_websocket import frame as raw_frame

FRAMES = ("tcp", "unix", "tls")
WEB = ("json", "msgpack")
KINDS = (*FRAMES, *WEB, "http")

Message = dict[str, Any]
Function = TypeVar("Function", bound=Callable[..., Any])
pack = msgspec.msgpack.encode


def except_on(**reasons: str) -> Callable[[Function], Function]:

    def mark(function: Function) -> Function:
        function.except_on = reasons  # type: ignore[attr-defined]
        return function

    return mark


class Talk:
    def __init__(self, raw: RawSocket) -> None:
        self.raw = raw
        self.welcome: Message = {}
        self._kept: deque[Message] = deque()
        self._number = 1000

    def encode(self, kind: str, **fields: Any) -> bytes:
        raise NotImplementedError

    async def _next(self) -> Message:
        raise NotImplementedError

    async def say(self, kind: str, **fields: Any) -> None:
        await self.raw.send(self.encode(kind, **fields))

    async def hear(self) -> Message:
        return self._kept.popleft() if self._kept else await self._next()

    async def ask(self, kind: str, **fields: Any) -> Message:
        self._number += 1
        await self.say(kind, request=self._number, **fields)
        while (answer := await self._next()).get("request") != self._number or answer["type"] == "request":
            self._kept.append(answer)
        del answer["request"]
        return answer

    async def done(self, kind: str, **fields: Any) -> Message:
        answer = await self.ask(kind, **fields)
        assert answer.pop("type") == "confirmed", answer
        return answer

    async def refused(self, kind: str, **fields: Any) -> tuple[int, str]:
        answer = await self.ask(kind, **fields)
        assert answer["type"] == "error", answer
        return answer["code"], answer["text"]

    async def publish(self, topic: str, *values: Any, **fields: Any) -> None:
        await self.say("publish", topic=topic, values=list(values), **fields)

    async def barrier(self) -> list[Message]:
        await self.ask("ping")
        before, self._kept = list(self._kept), deque()
        return before

    async def values(self, count: int) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        while len(found) < count:
            message = await self.hear()
            assert message["type"] == "messages", message
            found += [(message["topic"], value) for value in message["values"]]
        assert len(found) == count
        return found

    async def numbers_and_gaps(self, stop: int, start: int = 0) -> list[int | Gap]:
        """Read values from `start` to `stop` and notices of lost ones, each where they are missing, or to the end."""
        found: list[int | Gap] = []
        expected = start
        while expected < stop:
            message = await self.hear()
            if message["type"] == "close":
                self._kept.appendleft(message)
                break
            if message["type"] == "dropped":
                assert message["count"] > 0
                found.append(Gap(message["count"]))
                expected += message["count"]
                continue
            for number, _ in message["values"]:
                assert number == expected, f"{number} where {expected} should stand"
                found.append(number)
                expected += 1
        assert expected <= stop
        return found

    async def end(self) -> tuple[int, str]:
        while (message := await self.hear())["type"] != "close":
            pass
        return message["code"], message["text"]

    def close(self) -> None:
        self.raw.close()


class WebTalker(Talk):
    raw: RawWebSocket

    def encode(self, kind: str, **fields: Any) -> bytes:
        return self.raw._encode({"type": kind, **fields})

    async def goodbye(self, code: int, reason: str) -> None:
        await self.raw.send(raw_frame(Opcode.CLOSE, code.to_bytes(2, "big") + reason.encode()))

    async def _next(self) -> Message:
        opcode, payload = await self.raw.frame()
        while opcode in {Opcode.PING, Opcode.PONG}:
            opcode, payload = await self.raw.frame()
        if opcode == Opcode.CLOSE:
            return {"type": "close", "code": int.from_bytes(payload[:2], "big"), "text": payload[2:].decode()}
        message: Message = json.loads(payload) if opcode == Opcode.TEXT else msgspec.msgpack.decode(payload)
        if "blocks" in message:
            message["records"] = triples(message.pop("blocks"))
        elif "records" in message:
            message["records"] = [(one["offset"], one["topic"], one.get("value")) for one in message["records"]]
        return message


def triples(blocks: list[bytes]) -> list[tuple[int, str, Any]]:
    records = [one for block in blocks for one in Block.parse(whole_of(block)).records()]
    return [(one.offset, one.topic, msgspec.msgpack.decode(one.body) if one.body else None) for one in records]


class FrameTalker(Talk):
    raw: RawClient

    def __init__(self, raw: RawClient) -> None:
        super().__init__(raw)
        self._recording: deque[int] = deque()
        self._publishing: deque[int] = deque()

    def encode(self, kind: str, request: int = 0, **fields: Any) -> bytes:
        make = getattr(self, f"_{kind}", None)
        if make is not None:
            made: bytes = make(request, **fields)
            return made
        body: dict[str, Callable[..., Any]] = {
            "token": lambda token: (request, token),
            "rule": lambda rules: (request, list(map(_rule, rules))),
            "claim": lambda name, labels=(), queue=False: (request, name, labels, queue),
            "release": lambda name: (request, name),
            "serve": lambda prefixes: (request, prefixes),
        }
        like = {"subscribe": "serve", "unsubscribe": "serve", "unserve": "serve", "unrule": "rule"}
        return encode_frame(Kind[kind.upper()], pack(body[like.get(kind, kind)](**fields)))

    async def goodbye(self, code: int, reason: str) -> None:
        await self.raw.send(encode_close(code, reason))

    def _ping(self, request: int) -> bytes:
        return encode_frame(Kind.PING, b"%d" % request)

    def _publish(self, request: int, topic: str, *, confirm: bool = False, **fields: Any) -> bytes:
        values = fields["values"] if "values" in fields else [fields["value"]]
        given = {name: fields.get(name, "") for name in ("sender", "to")}
        if fields.get("labels") or any(given.values()):
            key = Envelope(topic, tuple(sorted(set(fields.get("labels", ())))), given["sender"], given["to"]).encode()
            flags = FLAG_TAGGED
        else:
            key, flags = topic.encode(), 0
        (frame,) = iterate_frames(Batch.of("/", values).frames)
        flags |= frame.flags | (FLAG_CONFIRM if confirm else 0)
        made = encode_frame(frame.kind, frame.body, key=key, flags=flags)
        if confirm:
            self._recording.append(request)
        elif request:
            self._publishing.append(request)
            made += encode_frame(Kind.PING, b"p")
        return made

    def _request(self, request: int, **fields: Any) -> bytes:
        flags, values = _packed(fields)
        named = "service" in fields
        target = fields["service" if named else "topic"].encode()
        return Request(
            target, request, fields.get("timeout_ms", 0), values, flags | (FLAG_NAMED if named else 0)
        ).encode()

    def _reply(self, request: int, *, status: int = 0, text: str = "", count: int = 1, **fields: Any) -> bytes:
        if status:
            return failure(request, count, status, text).encode()  # type: ignore[arg-type]
        flags, values = _packed(fields)
        return Reply(request, Status.OK, values, flags).encode()

    def _fetch(self, request: int, *, time_ms: float | None = None, **fields: Any) -> bytes:
        if {"prefixes", "columns"} & fields.keys():
            fields = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
        return encode_fetch(Fetch(request, time=None if time_ms is None else round(time_ms * 1000), **fields))

    def _stage(self, request: int, transaction: str, part: int, frames: bytes) -> bytes:
        return encode_stage(Stage(request, transaction, part, frames))

    def _commit(self, request: int, **fields: Any) -> bytes:
        return encode_commit(Commit(request, **fields))

    async def _next(self) -> Message:
        frame = await self.raw.frame()
        while frame.kind == Kind.PING:
            await self.raw.send(encode_frame(Kind.PONG, frame.body))
            frame = await self.raw.frame()
        if frame.kind == Kind.PONG and frame.body == b"p":
            request = self._publishing.popleft()
            return {"type": "confirmed", "request": request} if request else await self._next()  # it was refused
        return self._TOLD[Kind(frame.kind)](self, frame)

    def _told_pong(self, frame: Frame) -> Message:
        return {"type": "pong", "request": int(frame.body)}

    def _told_close(self, frame: Frame) -> Message:
        code, reason = decode_close(frame.body)
        return {"type": "close", "code": code, "text": reason}

    def _told_request(self, frame: Frame) -> Message:
        asked = Request.decode(frame)
        target = "service" if asked.flags & FLAG_NAMED else "topic"
        head = {"type": "request", "request": asked.first, target: asked.target.decode()}
        return head | {"timeout_ms": asked.timeout_ms} | _unpacked(asked)

    def _told_reply(self, frame: Frame) -> Message:
        reply = Reply.decode(frame)
        told: Message = {"type": "reply", "request": reply.first}
        if reply.status:
            return told | {"status": reply.status, "text": _text_of(reply), "count": reply.requests}
        return told | _unpacked(reply)

    def _told_records(self, frame: Frame) -> Message:
        found = decode_records(frame.body)
        head = {name: getattr(found, name) for name in ("request", "start", "next", "first", "head")}
        return {"type": "records", **head, "records": triples(found.blocks)}

    def _told_messages(self, frame: Frame) -> Message:
        told: Message = {"type": "messages"}
        if frame.flags & FLAG_TAGGED:
            topic, labels, sender, to = Envelope.decode(frame.key)
            named = {"labels": list(labels), "sender": sender, "to": to}
            told |= {"topic": topic} | {name: value for name, value in named.items() if value}
        else:
            told["topic"] = frame.key.decode()
        return told | {"values": decode_values(frame)}

    def _told_notice(self, frame: Frame) -> Message:
        notice = decode_notice(frame.body)
        told = {name: value for name, value in msgspec.to_builtins(notice).items() if name != "kind"}
        match notice.kind:
            case "recorded":
                return {"type": "recorded", "request": self._recording.popleft()} | told
            case "unrecorded":
                return {"type": "error", "request": self._recording.popleft()} | told
            case "owned" | "queued" | "lost":
                told.pop("code", None)
                return {"type": "name", "standing": notice.kind} | told
            case "error" if not notice.request and self._publishing and self._publishing[0]:
                told["request"], self._publishing[0] = self._publishing[0], 0
        if notice.kind == "error":
            told.pop("count", None)
        return {"type": notice.kind} | told

    _TOLD: ClassVar = {
        Kind.NOTICE: _told_notice,
        Kind.PONG: _told_pong,
        Kind.CLOSE: _told_close,
        Kind.REQUEST: _told_request,
        Kind.REPLY: _told_reply,
        Kind.RECORDS: _told_records,
        Kind.MESSAGES: _told_messages,
    }


def _rule(fields: Message) -> tuple[Any, ...]:
    return fields.get("labels", ()), fields.get("prefix", ""), fields.get("sender", "")


def _packed(fields: Message) -> tuple[int, bytes]:
    if "values" in fields:
        return FLAG_BATCH, BATCH_COUNT.pack(len(fields["values"])) + b"".join(map(pack, fields["values"]))
    return 0, pack(fields["value"])


def _unpacked(item: Request | Reply) -> Message:
    is_batch = bool(item.flags & FLAG_BATCH)
    values = decode_values(Frame(Kind.MESSAGES, FLAG_BATCH if is_batch else 0, b"/", item.values))
    return {"values": values} if is_batch else {"value": values[0]}


def _text_of(failed: Reply) -> str:
    text: str = msgspec.msgpack.decode(failed.values[BATCH_COUNT.size if failed.flags & FLAG_BATCH else 0 :])
    return text


class HttpTalker(Talk):
    raw: RawHttp

    def __init__(self, raw: RawHttp, stream: RawHttp, lines: tuple[str, ...]) -> None:
        super().__init__(raw)
        self._stream = stream
        self._lines = lines

    async def say(self, kind: str, **fields: Any) -> None:
        await self.ask(kind, **fields)

    async def ask(self, kind: str, **fields: Any) -> Message:
        if kind == "subscribe":
            query = urlencode([("prefix", prefix) for prefix in fields["prefixes"]])
            await self._stream.send(f"GET /v1/events?{query} HTTP/1.1\r\nHost: localhost\r\n".encode())
            await self._stream.send("".join(f"{line}\r\n" for line in self._lines).encode() + b"\r\n")
            status, headers = await self._stream.head()
            if status == 200:
                return {"type": "confirmed"}
            while len(self._stream._buffer) < int(headers["Content-Length"]):
                await self._stream.read()
            return {"type": "error"} | json.loads(self._stream._buffer)["error"]
        assert kind == "publish", kind
        values = fields["values"] if "values" in fields else [fields["value"]]
        query = urlencode(
            [("topic", fields["topic"])]
            + [("label", label) for label in fields.get("labels", ())]
            + [(name, fields[name]) for name in ("sender", "to") if fields.get(name)]
            + [("confirm", "1")] * bool(fields.get("confirm")),
            quote_via=quote,
        )
        if len(values) == 1:
            answer = await self.raw.publish(f"?{query}", values[0], *self._lines)
        else:
            body = b"".join(json.dumps(value).encode() + b"\n" for value in values)
            answer = await self.raw.publish_lines(f"?{query}", body, *self._lines)
        if "error" in answer.value:
            return {"type": "error"} | answer.value["error"]
        if "offsets" in answer.value:
            ((offset, count),) = answer.value["offsets"]
            return {"type": "recorded", "offset": offset, "count": count}
        return {"type": "confirmed"}

    async def _next(self) -> Message:
        event = await self._stream.event()
        kind = {"message": "messages", "closed": "close"}.get(event.name, event.name)
        told: Message = {"type": kind} | event.value
        if kind == "messages":
            told["values"] = [told.pop("value")]
            told.pop("time_ms", None)
        return told

    def close(self) -> None:
        self.raw.close()
        self._stream.close()


async def talker(
    hub: Hub, kind: str, endpoint: Endpoint, *prefixes: str, receive_bytes: int | None = None, **hello: Any
) -> Any:
    """Connect a client that is welcomed, and subscribed to some prefixes."""
    one: Any
    if kind == "http":
        headers = {"User-Agent": hello.get("name"), "Authorization": hello.get("token") and f"Bearer {hello['token']}"}
        lines = [f"{name}: {value}" for name, value in headers.items() if value]
        raw, stream = [await hub._dialled_in(RawHttp, endpoint, receive_bytes) for _ in range(2)]
        one = HttpTalker(raw, stream, tuple(lines))
    elif kind in WEB:
        web = await hub._dialled_in(RawWebSocket, endpoint, receive_bytes)
        await web.shake_hands(f"hub.v1.{kind}")
        web._encode = text if kind == "json" else binary
        one = WebTalker(web)
        one.welcome = await one.hear()
        if hello:
            await one.say("hello", **hello)
            one.welcome = await one.hear()
    else:
        raw_client = await hub._dialled_in(SecuredClient if kind == "tls" else RawClient, endpoint, receive_bytes)
        one = FrameTalker(raw_client)
        if "queue" in hello:
            wish = dict(hello["queue"])
            if "overflow" in wish:
                wish["overflow"] = Overflow(wish["overflow"])
            hello["queue"] = QueueWish(**wish)
        await raw_client.send(Hello(protocol=1, role="client", **hello).encode())
        frame = await raw_client.frame()
        if frame.kind == Kind.HELLO:
            said = Hello.decode(frame.body)
            one.welcome = {"type": "welcome", "hub": said.id.hex(), "name": said.name, "frame": said.frame}
            one.welcome |= {"software": said.software, "queue": msgspec.to_builtins(said.queue)}
            one.welcome |= {"journal": said.journal.hex()} if said.journal else {}
            one.welcome |= {} if said.until is None else {"until": said.until}
        else:
            code, reason = decode_close(frame.body)
            one.welcome = {"type": "close", "code": code, "text": reason}
    if prefixes:
        await one.done("subscribe", prefixes=list(prefixes))
    return one


def url_of(kind: str, folder: Path) -> str:
    if kind == "unix":
        return f"unix://{folder}/hub.sock"
    return "tcp://127.0.0.1:0" if kind in FRAMES else "ws://127.0.0.1:0"
