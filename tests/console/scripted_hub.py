"""A hub that speaks `hub.v1.json` as documented, and misbehaves when a test says so; it keeps all that it received."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from peers.console import page

PATIENCE_S = 20
"""How long a test waits for what must come: long enough for a busy machine, never reached by a good run."""

QUEUE = {"messages": 8192, "bytes": 67_108_864, "overflow": "drop-oldest"}


RIGHTS = {
    "user": "",
    "roles": [],
    "admin": True,
    "may": ["publish", "subscribe", "request", "serve", "claim", "journal"],
    "asks": ["$hub/history", "$hub/kick", "$hub/losses", "$hub/rights", "$hub/state", "$hub/users", "$hub/who"],
    "hears": ["$hub/statistics", "$hub/audit"],
}
"""What whoever asks may do, as the hub tells it of somebody who may do everything."""


class ScriptedHub:
    """One listening hub.

    Attributes:
        received: Every message of every client, with the number of its connection (from 1).
        refusals: Prefix or topic → (code, text) of the error that answers it.
        confirms: Whether requests are confirmed.
        answers_pings: Whether `ping` is answered.
        refused_connections: So many further connections are answered by HTTP 503, and files until then.
        until: How many seconds it says that what was shown holds; None for good.
        anonymous: The role in which it lets in those who show nothing; empty: it says nothing of that.
        name: What it is called.
        closes_hello: Code and text with which every `hello` is closed; None where it is answered.
        frame_bytes: The largest message it says it takes.
        answers: Topic → the answer to each value that is asked of it, or a function of the value that gives it; what is
            not there is never answered.
        reading: While cleared, nothing further is read from any client.
    """

    def __init__(self) -> None:
        self.received: list[tuple[int, dict[str, Any]]] = []
        self.refusals: dict[str, tuple[int, str]] = {}
        self.confirms = True
        self.answers_pings = True
        self.refused_connections = 0
        self.until: float | None = None
        self.anonymous = ""
        self.name = "scripted"
        self.closes_hello: tuple[int, str] | None = None
        self.frame_bytes = 16 * 1024 * 1024
        self.answers: dict[str, Any] = {"$hub/rights": RIGHTS}
        self.reading = asyncio.Event()
        self.reading.set()
        self._connections: dict[ServerConnection, Counter[str]] = {}
        self._connected = 0
        self._changed = asyncio.Condition()
        self._server: Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._talk,
            "127.0.0.1",
            0,
            process_request=self._answer_http,
            subprotocols=["hub.v1.json"],  # type: ignore[list-item]
            compression=None,
            max_queue=4,
            ping_interval=None,
            close_timeout=1,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self.reading.set()
        self._server.close()
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(next(iter(self._server.sockets)).getsockname()[1])

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/hub"

    @property
    def page_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [message for _, message in self.received if message["type"] == kind]

    async def wait_until(self, true: Callable[[Self], object]) -> None:
        """Wait until `true(hub)`, looked at whenever something was received or someone came or left."""
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: true(self))

    async def wait_received(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until `count` messages of a type have come; return all of that type."""
        await self.wait_until(lambda hub: len(hub.of_type(kind)) >= count)
        return self.of_type(kind)

    async def wait_connections(self, count: int) -> None:
        await self.wait_until(lambda hub: hub._connected >= count)

    @property
    def live_connections(self) -> int:
        return len(self._connections)

    async def send(self, **message: Any) -> None:
        await self.send_text(json.dumps(message))

    async def send_text(self, text: str) -> None:
        for connection in list(self._connections):
            await connection.send(text)

    def drop_connections(self) -> None:
        for connection in list(self._connections):
            connection.transport.abort()

    async def close_connections(self, code: int, reason: str) -> None:
        for connection in list(self._connections):
            await connection.close(code, reason)

    async def _answer_http(self, connection: ServerConnection, request: Request) -> Response | None:
        if self.refused_connections > 0:
            self.refused_connections -= request.path == "/v1/hub"
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "not now\n")
        if request.path == "/v1/hub":
            return None
        found = page(request.path.partition("?")[0])
        if found is None:
            return connection.respond(HTTPStatus.NOT_FOUND, "no such page\n")
        body = found.body
        headers = Headers({"Content-Type": found.content_type, "Content-Length": str(len(body)), "Connection": "close"})
        if request.path == "/hub.js":
            headers["Access-Control-Allow-Origin"] = "*"
        return Response(HTTPStatus.OK, "OK", headers, body)

    async def _talk(self, connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            await connection.send(json.dumps(self._welcome()))
            async with self._joined(connection) as number:
                async for text in connection:
                    message = json.loads(text)
                    self.received.append((number, message))
                    await self._obey(connection, message)
                    await self._tell_changed()
                    await self.reading.wait()

    @contextlib.asynccontextmanager
    async def _joined(self, connection: ServerConnection) -> AsyncIterator[int]:
        self._connected += 1
        self._connections[connection] = Counter()
        await self._tell_changed()
        try:
            yield self._connected
        finally:
            del self._connections[connection]
            await self._tell_changed()

    async def _tell_changed(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _welcome(self, wished: dict[str, Any] | None = None) -> dict[str, Any]:
        return {
            "type": "welcome",
            "hub": "0123456789abcdef" * 2,
            "name": self.name,
            "software": "scripted 1",
            "queue": QUEUE | (wished or {}),
            "frame": self.frame_bytes,
            **({} if self.until is None else {"until": self.until}),
            **({"anonymous": self.anonymous} if self.anonymous else {}),
        }

    async def _obey(self, connection: ServerConnection, message: dict[str, Any]) -> None:  # noqa: C901 -- one case a type
        request = message.get("request")
        refusal = next((self.refusals[name] for name in _names(message) if name in self.refusals), None)
        if refusal is not None:
            code, text = refusal
            answer = {"type": "error", "code": code, "text": text} | ({"request": request} if request else {})
            if message["type"] == "request":
                answer["about"] = "request"
            await _answer(connection, answer)
            return
        match message["type"]:
            case "hello" if self.closes_hello is not None:
                await connection.close(*self.closes_hello)
            case "hello":
                await _answer(connection, self._welcome(message.get("queue")))
            case "subscribe":
                self._connections[connection].update(message["prefixes"])
            case "unsubscribe":
                self._connections[connection].subtract(message["prefixes"])
            case "publish":
                await self._publish(message)
            case "request" if message.get("topic", "") in self.answers:
                await self._reply(connection, message)
            case "ping" if self.answers_pings:
                await _answer(connection, {"type": "pong", "request": request})
        if request and self.confirms and message["type"] not in {"ping", "request", "reply"}:
            confirmed = {"type": "confirmed", "request": request}
            if message["type"] == "token" and self.until is not None:
                confirmed["until"] = self.until
            await _answer(connection, confirmed)

    async def _reply(self, connection: ServerConnection, message: dict[str, Any]) -> None:
        answer = self.answers[message["topic"]]
        asked = message.get("values", [message.get("value")])
        answers = [answer(value) if callable(answer) else answer for value in asked]
        await _answer(connection, {"type": "reply", "request": message["request"], "values": answers})

    async def _publish(self, message: dict[str, Any]) -> None:
        topic = message["topic"]
        values = message["values"] if "values" in message else [message["value"]]
        for connection, prefixes in list(self._connections.items()):
            if any(count > 0 and topic.startswith(prefix) for prefix, count in prefixes.items()):
                await _answer(connection, {"type": "messages", "topic": topic, "values": values})


async def _answer(connection: ServerConnection, message: dict[str, Any]) -> None:
    """Send, unless the client is closing: what it said before that is read and obeyed nevertheless."""
    with contextlib.suppress(ConnectionClosed):
        await connection.send(json.dumps(message))


def _names(message: dict[str, Any]) -> list[str]:
    """What a refusal may be about: the prefixes, the topic, the name of the client, or its token."""
    return [*message.get("prefixes", []), message.get("topic", ""), message.get("name", ""), message.get("token", "")]


def row(number: int, **changes: Any) -> dict[str, Any]:
    """Return a connection as `$hub/who` tells of it."""
    return {
        "id": number,
        "role": "client",
        "name": f"sensor-{number:05}",
        "address": f"10.0.0.1:{number}",
        "prefixes": 1,
        "sample": [f"/site/{number}"],
        "published_messages": 0,
        "delivered_messages": 0,
        "delivered_bytes": 0,
        "queued_messages": 0,
        "queued_bytes": 0,
        "dropped_messages": 0,
        "overflow": "drop-oldest",
        "paused": False,
        "user": "",
        "how": "",
        "protocol": "ws",
        "since": 1_700_000_000.0,
        "rules": 0,
        "queue": {"messages": 100, "bytes": 1_000_000},
        "received_bytes": 0,
        "software": "topichub 1.0.0",
        "rates": None,
        "history": None,
    } | changes
