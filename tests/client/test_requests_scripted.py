"""Requests and services with a hub that says what the test wants: what a real one does not, or not in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from hub.errors import CloseCode, RejectedError
from hub.frame import BATCH_COUNT, FLAG_BATCH
from hub.request_frame import Reply, Request, Status, failure
from peers.client import Client, NoResponderError, RequestFailedError, RequestTimeoutError, connect
from peers.client import requests as module
from peers.client.conversation import SERVICES
from peers.wire.control import Notice, decode_subscription, encode_notice
from peers.wire.kinds import Kind
from tests.client.scripted import ScriptedHub
from tests.client.told import quick_backoff
from tests.hubs.eventually import eventually

pack = msgspec.msgpack.encode


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedHub]:
    async with ScriptedHub() as hub:
        yield hub


async def asked(hub: ScriptedHub) -> Request:
    return Request.decode(await hub.next(Kind.REQUEST))


async def served(hub: ScriptedHub, client: Client, *prefixes: str, **options: Any) -> Any:
    service = client.serve(prefixes, lambda request: [request.topic, request.value], **options)
    opening = asyncio.ensure_future(service.open())
    number, wanted = decode_subscription(Kind.SERVE, (await hub.next(Kind.SERVE)).body)
    assert (wanted, number in SERVICES) == (list(prefixes), True)
    hub.send(encode_notice(Notice("confirmed", request=number)))
    await opening
    return service


async def test_one_turn_is_one_frame_for_each_target(scripted: ScriptedHub) -> None:
    """Their numbers follow one another; another time-out, or another kind of target, is another frame."""
    async with connect(scripted.url) as client:
        for number in range(3):
            client.request_nowait("/a", number)
            client.request_nowait("/b", number)
        client.request_nowait("/a", 3, timeout_s=1)
        client.request_nowait("org.example.A", 4, name=True)
        frames = [await asked(scripted) for _ in range(4)]
        assert sorted((frame.target, frame.requests) for frame in frames) == [
            (b"/a", 1),
            (b"/a", 3),
            (b"/b", 3),
            (b"org.example.A", 1),
        ]
        numbers = sorted(number for frame in frames for number in range(frame.first, frame.first + frame.requests))
        assert numbers == [*range(1, 9)]
        assert all(0 < frame.timeout_ms <= 30_000 for frame in frames)


async def test_what_is_in_a_reply_and_cannot_be_read(scripted: ScriptedHub) -> None:
    async with connect(scripted.url) as client:
        alone = client.request_nowait("/a", 1)
        first = (await asked(scripted)).first
        scripted.send(Reply(first, Status.OK, b"\xc1").encode())
        with pytest.raises(RequestFailedError, match="cannot be read"):
            await alone
        several = [client.request_nowait("/a", number) for number in range(3)]
        first = (await asked(scripted)).first
        values = BATCH_COUNT.pack(3) + pack("a") + b"\xa2\xff\xff" + pack("c")
        scripted.send(Reply(first, Status.OK, values, FLAG_BATCH).encode())
        answers = await asyncio.gather(*several, return_exceptions=True)
        assert (answers[0], answers[2]) == ("a", "c")
        assert isinstance(answers[1], RequestFailedError)
        several = [client.request_nowait("/a", number) for number in range(2)]
        first = (await asked(scripted)).first
        scripted.send(Reply(first, Status.OK, BATCH_COUNT.pack(2) + pack("a") + b"\xc1", FLAG_BATCH).encode())
        answers = await asyncio.gather(*several, return_exceptions=True)
        assert any(isinstance(answer, RequestFailedError) for answer in answers)


async def test_replies_that_nobody_waits_for(scripted: ScriptedHub) -> None:
    async with connect(scripted.url) as client:
        future = client.request_nowait("/a", 1)
        first = (await asked(scripted)).first
        scripted.send(Reply(first + 7, Status.OK, pack("whose?")).encode())
        scripted.send(failure(first, 3, Status.NO_RESPONDER, "nobody").encode())
        scripted.send(Reply(first, Status.OK, pack("late")).encode())
        with pytest.raises(NoResponderError, match="nobody"):
            await future
        await eventually(lambda: client.statistics().late_replies == 4)


async def test_a_hub_that_forgets(scripted: ScriptedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OVERDUE_S", 0.001)
    async with connect(scripted.url) as client:
        with pytest.raises(RequestTimeoutError, match="the hub has not answered"):
            await client.request("/a", 1, timeout_s=0.2)  # long enough to be sent, on a busy machine, too
        patient = client.request_nowait("/a", 1)
        impatient = client.request_nowait("/b", 1, timeout_s=0.001)
        with pytest.raises(RequestTimeoutError):
            await impatient
        assert not patient.done()


async def test_what_comes_for_nobody(scripted: ScriptedHub) -> None:
    """A request that this client does not serve, or no longer, is answered so: nobody is left waiting."""
    async with connect(scripted.url):
        scripted.send(Request(b"/x", 5, 0, pack(1)).encode())
        reply = Reply.decode(await scripted.next(Kind.REPLY))
        assert (reply.first, reply.status) == (5, Status.FAILED)
        assert "no longer serves" in msgspec.msgpack.decode(reply.values)


async def test_a_service_answers_in_few_frames(scripted: ScriptedHub) -> None:
    """Requests of one read, whose numbers follow one another, are answered by one frame; bad ones fail alone."""
    async with connect(scripted.url) as client:
        service = await served(scripted, client, "/a", "/b")
        frames = [Request(b"/a", 5, 0, pack(1)), Request(b"/b/c", 6, 0, BATCH_COUNT.pack(2) + pack(2) + pack(3), 1)]
        scripted.send(b"".join(frame.encode() for frame in frames))
        reply = Reply.decode(await scripted.next(Kind.REPLY))
        assert (reply.first, reply.requests) == (5, 3)
        assert msgspec.msgpack.decode(b"\xdd" + reply.values) == [["/a", 1], ["/b/c", 2], ["/b/c", 3]]
        bad = Request(b"/a", 2**32 - 1, 0, BATCH_COUNT.pack(3) + pack(1) + b"\xa2\xff\xff" + pack(3), FLAG_BATCH)
        scripted.send(bad.encode())
        replies = [Reply.decode(await scripted.next(Kind.REPLY)) for _ in range(3)]
        assert {(reply.first, reply.status) for reply in replies} == {(2**32 - 1, 0), (0, 1), (1, 0)}
        assert (service.requests, service.failures) == (6, 1)


async def test_a_service_that_is_refused(scripted: ScriptedHub) -> None:
    async with connect(scripted.url) as client:
        service = client.serve("/a", lambda _: None)
        opening = asyncio.ensure_future(service.open())
        number, _ = decode_subscription(Kind.SERVE, (await scripted.next(Kind.SERVE)).body)
        scripted.send(encode_notice(Notice("error", request=number, code=CloseCode.NOT_ALLOWED, text="not you")))
        with pytest.raises(RejectedError, match="not you"):
            await opening
        await service.close()
        await served(scripted, client, "/a")


async def test_opening_is_cancelled(scripted: ScriptedHub) -> None:
    async with connect(scripted.url) as client:
        opening = asyncio.ensure_future(client.serve("/a", lambda _: None).open())
        number, _ = decode_subscription(Kind.SERVE, (await scripted.next(Kind.SERVE)).body)
        opening.cancel()
        await scripted.next(Kind.UNSERVE)
        scripted.send(encode_notice(Notice("confirmed", request=number)))
        await served(scripted, client, "/a")


async def test_a_service_that_a_later_hub_refuses(scripted: ScriptedHub) -> None:
    client = await connect(scripted.url, backoff=quick_backoff())
    await served(scripted, client, "/a")
    scripted.hang_up()
    number, prefixes = decode_subscription(Kind.SERVE, (await scripted.next(Kind.SERVE)).body)
    assert prefixes == ["/a"]
    scripted.send(encode_notice(Notice("error", request=number, code=CloseCode.NOT_ALLOWED, text="no more")))
    with pytest.raises(RejectedError, match="no more"):
        await client.wait_closed()
    await client.close()


async def test_serving_waits_for_a_connection(scripted: ScriptedHub) -> None:
    client = await connect(scripted.url, backoff=quick_backoff())
    gone = await served(scripted, client, "/gone")
    scripted.hang_up()
    await eventually(lambda: not client.statistics().connected)
    await gone.close()
    await served(scripted, client, "/a")
    await client.close()
    assert scripted.connections == 2


async def test_a_reply_for_a_lost_connection(scripted: ScriptedHub) -> None:
    go = asyncio.Event()

    async def wait(request: Any) -> Any:
        await go.wait()
        return request.value

    async with connect(scripted.url, backoff=quick_backoff()) as client:
        service = client.serve("/a", wait, concurrency=1)
        opening = asyncio.ensure_future(service.open())
        number, _ = decode_subscription(Kind.SERVE, (await scripted.next(Kind.SERVE)).body)
        scripted.send(encode_notice(Notice("confirmed", request=number)))
        await opening
        for first in (5, 6):
            scripted.send(Request(b"/a", first, 0, pack("old")).encode())
        await eventually(lambda: service.requests == 2)
        scripted.hang_up()
        await scripted.next(Kind.SERVE)
        scripted.send(Request(b"/a", 5, 0, pack("new")).encode())
        await eventually(lambda: service.requests == 3)
        go.set()
        reply = Reply.decode(await scripted.next(Kind.REPLY))
        assert (reply.first, msgspec.msgpack.decode(reply.values)) == (5, "new")
        assert scripted.frames.empty()


async def test_failures_are_logged_once_for_each_kind(scripted: ScriptedHub, caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: Any) -> None:
        raise (KeyError if request.value % 2 else ValueError)(request.value)

    async with connect(scripted.url) as client:
        service = client.serve("/a", fail)
        opening = asyncio.ensure_future(service.open())
        number, _ = decode_subscription(Kind.SERVE, (await scripted.next(Kind.SERVE)).body)
        scripted.send(encode_notice(Notice("confirmed", request=number)))
        await opening
        with caplog.at_level(logging.WARNING, "peers.client"):
            values = BATCH_COUNT.pack(10) + bytes(range(10))
            scripted.send(Request(b"/a", 5, 0, values, FLAG_BATCH).encode())
            await eventually(lambda: service.failures == 10)
    assert len([message for message in caplog.messages if "has failed" in message]) == 2
