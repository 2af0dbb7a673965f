"""POST /v1/publish: what is published, what is answered, by whom it may be; and hostile clients."""

from __future__ import annotations

import pytest

from hub.errors import CloseCode
from hub.settings.settings import HttpSettings, Settings
from tests.connections.http.conftest import StartRecording
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.known_tokens import SECRET, KnownTokens
from tests.hubs.raw_http import JSON, NDJSON, RawHttp, follow, http
from tests.hubs.raw_websocket import request, upgrade
from tests.hubs.settings import settings_of


async def test_a_topic_without_a_slash_and_labels(hub: Hub) -> None:
    reader, client = await hub.websocket("t"), await http(hub)
    assert (await client.publish("?topic=t/x&label=l", 1)).status == 200
    message = await reader.message()
    assert (message["topic"], message["labels"], message["values"]) == ("t/x", ["l"], [1])


async def test_lines_are_published_as_they_come(hub: Hub) -> None:
    reader, client = await hub.websocket("/t"), await http(hub)
    await client.send(request("/v1/publish/t", "POST", NDJSON, "Transfer-Encoding: chunked"))
    for number in range(3):
        line = b"%d\n" % number
        await client.send(b"%x\r\n%b\r\n" % (len(line), line))
        assert await reader.messages(1) == [("/t", number)]
    await client.send(b"0\r\n\r\n")
    assert (await client.answer()).value == {"messages": 3}
    assert (await client.publish("/t", 3)).status == 200
    await client.send(b"GET\r\n\r\n")
    assert (await client.answer()).status == 400


async def test_a_line_that_is_wrong(hub: Hub) -> None:
    reader, client = await hub.websocket("/t"), await http(hub)
    answer = await client.publish_lines("/t", b'1\n2\n{"a":\n4\n')
    assert (answer.status, answer.headers["Connection"]) == (400, "close")
    assert answer.value["messages"] == 2
    assert answer.value["error"]["line"] == 3
    assert answer.value["error"]["text"].startswith("no JSON: ")
    assert await reader.messages(2) == [("/t", 1), ("/t", 2)]
    assert hub.server.rejected_messages == 1
    assert await client.ends() == b""


async def test_offsets(start_recording: StartRecording) -> None:
    hub = await start_recording()
    client, other = await http(hub), await http(hub)
    assert (await client.publish("/t?confirm=1", 1)).value == {"messages": 1, "offsets": [[0, 1]]}
    await other.publish("/t", 2)
    answer = await client.publish_lines("/t?confirm=1", b"1\n2\n3\n")
    assert answer.value == {"messages": 3, "offsets": [[2, 3]]}
    assert (await client.publish_lines("/t?confirm=1", b"")).value == {"messages": 0, "offsets": []}


async def test_offsets_where_nothing_is_recorded(hub: Hub, start_recording: StartRecording) -> None:
    recording = await start_recording("/r")
    for where, text in ((hub, "no journal"), (recording, "not recorded here")):
        reader, client = await where.websocket("/t"), await http(where)
        answer = await client.publish("/t?confirm=1", 1)
        assert answer.status == 403
        assert text in answer.value["error"]["text"]
        assert await reader.messages(1) == [("/t", 1)]


@pytest.mark.parametrize(
    ("method", "path", "lines", "body", "status"),
    [
        ("POST", "/v1/publish/t", (), b"1", 415),
        ("POST", "/v1/publish/t", ("Content-Type: text/plain",), b"1", 415),
        ("POST", "/v1/publish/t", (JSON, "Content-Encoding: gzip"), b"1", 415),
        ("POST", "/v1/publish/t", (JSON,), None, 411),
        ("POST", "/v1/publish/t", (JSON,), b"{", 400),
        ("POST", "/v1/publish/t", (JSON,), b"", 400),
        ("POST", "/v1/publish/t", (f"{JSON}; charset=latin-1",), b"1", 415),
        ("POST", "/v1/publish", (JSON,), b"1", 400),
        ("POST", "/v1/publish?topic=$hub/x", (JSON,), b"1", 403),
        ("PUT", "/v1/publish/t", (JSON,), b"1", 405),
        ("GET", "/v1/publish/t", (), None, 405),
        ("POST", "/v1/events", (JSON,), b"1", 405),
        ("DELETE", "/v1/events", (), None, 405),
        ("POST", "/v1/publish/t", (JSON, "Origin: https://evil.example"), b"1", 403),
        ("POST", "/v1/publish/t", (JSON, "Host: again"), b"1", 400),
    ],
)
async def test_what_is_refused(  # noqa: PLR0917 -- a request
    hub: Hub, method: str, path: str, lines: tuple[str, ...], body: bytes | None, status: int
) -> None:
    reader, client = await hub.websocket("/t"), await http(hub)
    answer = await client.ask(method, path, *lines, body=body)
    assert answer.status == status
    assert (answer.headers["Content-Type"], answer.value.keys()) == ("application/json", answer.value.keys())
    assert answer.value["error"]["text"].isprintable()
    assert await reader.barrier() == []


async def test_a_body_that_is_too_large(start_hub: StartHub) -> None:
    hub = await start_hub(settings=Settings(http=HttpSettings(body_bytes=100)))
    client = await http(hub)
    await client.send(request("/v1/publish/t", "POST", JSON, "Content-Length: 101"))
    answer = await client.answer()
    assert (answer.status, answer.value["error"]["code"]) == (413, CloseCode.TOO_BIG)
    client = await http(hub)
    await client.send(request("/v1/publish/t", "POST", NDJSON, "Transfer-Encoding: chunked"), b"3\r\n1\n\n\r\n" * 40)
    assert (await client.answer()).status == 413


async def test_a_value_that_is_too_large(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(frame_bytes=2000))
    client = await http(hub)
    answer = await client.publish_lines("/t", b"1\n" + b'"' + b"x" * 3000 + b'"\n')
    assert (answer.status, answer.value["error"]["line"], answer.value["messages"]) == (413, 2, 1)


async def test_what_stands_behind_a_websocket_request(hub: Hub) -> None:
    reader, client = await hub.websocket("/t"), await http(hub)
    post = request("/v1/publish/t", "POST", JSON, "Content-Length: 1") + b"1"
    await client.send(upgrade("hub.v1.json", f"Content-Length: {len(post)}"), post)
    assert (await client.head())[0] == 400
    assert await reader.barrier() == []


# Who may.


async def test_tokens(hub: Hub) -> None:
    known = KnownTokens(hub)
    alice = f"Authorization: Bearer {known.token('alice')}"
    bob = f"Authorization: Bearer {known.token('bob')}"
    for lines in ((), (f"Authorization: Bearer {SECRET}x",), ("Authorization: Basic eA==",)):
        answer = await (await http(hub)).publish("/t", 1, *lines)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="hub"')
        assert answer.value["error"]["code"] == CloseCode.NOT_RECOGNISED
    client = await http(hub)
    assert (await client.publish("/t", 1, alice)).status == 200
    assert (await client.publish("/t", 1, alice)).status == 200
    assert (await client.publish("/t", 1, bob)).status == 421


async def test_foreign_pages(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(origins=("https://good.example",)), loopback=False)
    good = "Origin: https://good.example"
    answer = await (await http(hub)).publish("/t", 1, good)
    assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, "https://good.example")
    KnownTokens(hub)
    client = await http(hub)
    answer = await client.ask("OPTIONS", "/v1/publish/t", good, "Access-Control-Request-Method: POST")
    assert (answer.status, answer.headers["Access-Control-Allow-Methods"]) == (204, "POST")
    assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
    answer = await client.ask("OPTIONS", "/v1/publish/t", "Origin: https://evil.example")
    assert answer.status == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


async def test_pages_of_this_hub(hub: Hub) -> None:
    client = await http(hub)
    answer = await client.publish("/t", 1, "Origin: http://127.0.0.1:7401")  # the host that requests name here
    assert (answer.status, answer.headers["Connection"]) == (200, "close")
    assert await client.ends() == b""
    client = await http(hub)
    for _ in range(2):
        assert "Connection" not in (await client.publish("/t", 1)).headers


async def test_a_name_that_was_made_to_point_here(hub: Hub) -> None:
    async def status(first: str, *lines: str) -> int:
        client = await http(hub)
        head = "\r\n".join((f"{first} HTTP/1.1", "Host: evil.example", JSON, "Content-Length: 1", *lines, "", ""))
        await client.send(head.encode(), b"1")
        return (await client.answer()).status

    for first in ("POST /v1/publish/t", "GET /v1/events?prefix=/"):
        assert await status(first) == 421
        assert await status(first, "Authorization: Bearer x") == 421
    token = KnownTokens(hub).token("bob")
    assert await status("POST /v1/publish/t") == 421
    assert await status("POST /v1/publish/t", f"Authorization: Bearer {token}") == 200
    assert await status("POST /v1/publish/t", "Authorization: Bearer x") == 401
    assert await status("POST /v1/publish/t", "Authorization: Basic x") == 401


# As all others.


async def test_closed_within_a_body(hub: Hub) -> None:
    client = await http(hub)
    await client.send(
        request("/v1/publish/t", "POST", NDJSON, "Transfer-Encoding: chunked", "User-Agent: x"), b"2\r\n1\n\r\n"
    )
    await eventually(
        lambda: any(one.name == "x" and one.published_messages for one in hub.server.core.handlers.values())
    )
    hub.handler("x").close(CloseCode.FORBIDDEN, "closed by an admin")
    answer = await client.answer()
    assert (answer.status, answer.value["messages"]) == (403, 1)
    assert answer.value["error"] == {"code": CloseCode.FORBIDDEN, "text": "closed by an admin"}


async def test_the_hub_stops(hub: Hub) -> None:
    idle, busy = await http(hub), await http(hub)
    await idle.publish("/t", 1)
    await busy.send(request("/v1/publish/t", "POST", NDJSON, "Transfer-Encoding: chunked", "User-Agent: x"))
    await eventually(lambda: any(one.name == "x" for one in hub.server.core.handlers.values()))
    for connection in list(hub.server.connections):
        connection.drain()  # type: ignore[attr-defined]
    assert (await busy.answer()).status == 503
    assert await idle.ends() == b""


async def test_the_page_is_on_a_connection_of_its_own(hub: Hub) -> None:
    client = await http(hub)
    await client.publish("/t", 1)
    assert (await client.ask("GET", "/metrics")).status == 404
    assert (await client.publish("/t", 1)).status == 200


async def test_a_unix_socket(start_hub: StartHub, tmp_path: object) -> None:
    hub = await start_hub(f"unix://{tmp_path}/hub.sock")
    reader = await hub.client("/t")
    client: RawHttp = await http(hub)
    await client.send(b"POST /v1/publish/t HTTP/1.1\r\nHost: any.example\r\n", f"{JSON}\r\n".encode())
    await client.send(b"Content-Length: 1\r\n\r\n1")
    assert (await client.answer()).status == 200
    assert await reader.values(1) == [("/t", 1)]
    for path in ("/readyz", "/metrics"):
        client = await http(hub)
        await client.send(f"GET {path} HTTP/1.1\r\nHost: any.example\r\n\r\n".encode())
        assert (await client.answer()).status == 200


POST = request("/v1/publish/t", "POST", JSON, "Content-Length: 1")


class QuietPair:
    def __init__(self, publisher: RawHttp, reader: RawHttp) -> None:
        self._publisher = publisher
        self._reader = reader
        self._number = 0

    @classmethod
    async def at(cls, hub: Hub) -> QuietPair:
        return cls(await http(hub), await follow(hub, "prefix=/quiet"))

    async def talk(self) -> None:
        self._number += 1
        assert (await self._publisher.publish("/quiet", self._number)).status == 200
        assert await self._reader.values(1) == [self._number]


@pytest.mark.parametrize(
    "attack",
    [
        request("/v1/publish/t", "POST", JSON, "Content-Length: 1", "Transfer-Encoding: chunked") + b"0\r\n\r\n" + POST,
        request("/v1/publish/t", "POST", JSON, "Transfer-Encoding: chunked") + b"1\n1\n0\n\n" + POST,
        request("/v1/publish/t", "POST", JSON, "Transfer-Encoding: chunked") + b"2\r\n11" + POST,
        request("/v1/publish/t", "POST", JSON, "Transfer-Encoding: chunked") + b"0\r\nX: 1\n\r\n" + POST,
        request("/v1/publish/t", "POST", JSON, "Content-Length: 3") + b"{{{" + POST,
        request("/v1/events?prefix=/t", "GET", f"Content-Length: {len(POST)}") + POST,
        request("/readyz", "GET", f"Content-Length: {len(POST)}") + POST,
        request("/v1/publish/t", "POST", JSON, f"Content-Length: {len(POST)}", version="HTTP/1.0") + POST + b"1" + POST,
    ],
)
async def test_nothing_is_smuggled(hub: Hub, attack: bytes) -> None:
    pair, reader = await QuietPair.at(hub), await hub.websocket("/t")
    client = await http(hub)
    await client.send(attack, b"1")
    assert (await client.answer()).status >= 400
    await client.ends()
    await pair.talk()
    assert await reader.barrier() == []


async def test_requests_drop_by_drop(hub: Hub) -> None:
    pair = await QuietPair.at(hub)
    heads, bodies = [await http(hub) for _ in range(30)], [await http(hub) for _ in range(30)]
    for client in bodies:
        await client.send(request("/v1/publish/t", "POST", NDJSON, "Transfer-Encoding: chunked"))
    for byte in b'5\r\n"aaaaaaaaaaaa':
        for client in (*heads, *bodies):
            await client.send(b"G" if client in heads else bytes([byte]))
        await pair.talk()
    hub.later(6)  # nobody has said who he is within `limits.handshake_s`
    for client in heads:
        assert (await client.ends()).startswith(b"HTTP/1.1 408 ")
    await pair.talk()
    hub.later(21)
    await pair.talk()
    hub.later(11)
    for client in bodies:
        assert (await client.answer()).status in {400, 408}
    await pair.talk()


async def test_a_flood_of_requests(hub: Hub) -> None:
    pair, client = await QuietPair.at(hub), await http(hub, receive_bytes=4096)
    await client.publish("/t", 1)
    hub.shrink_buffers()
    flood = request("/v1/publish/t", "POST", JSON, "Content-Length: 1") + b"1"
    connection = hub.connections[-1]
    sent = 0
    while connection.transport.is_reading():
        sent += client.send_nowait((flood * 50)[sent % len(flood) :])
        await pair.talk()
        assert connection.transport.get_write_buffer_size() < 400_000
    await pair.talk()
    while not connection.transport.is_reading():  # it is read, and so it goes on
        await client.answer()
