"""Requests and services with a hub that says what the test wants: what a real one does not, or not in time."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, RejectedError
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH
from hub.messages.request_frame import Reply, Request, Status
from peers.client import Client, RequestFailedError, RequestTimeoutError, connect
from peers.client import requests as module
from peers.client.conversation import SERVICES
from peers.client.requests import Block, Pending
from peers.client.service import Replies
from peers.client.values import InvalidValueError, read_values
from peers.wire.control import Notice, decode_subscription, encode_notice, reason_of
from peers.wire.kinds import Kind
from tests.client.scripted import ScriptedHub, quick_backoff
from tests.hubs.eventually import eventually

pack = msgspec.msgpack.encode


async def asked(hub: ScriptedHub) -> Request:
    return Request.decode(await hub.next(Kind.REQUEST))


def answer(request: Any) -> list[Any]:
    return [request.topic, request.value]


async def served(hub: ScriptedHub, client: Client, *prefixes: str, by: Any = answer, **options: Any) -> Any:
    service = client.serve(prefixes, by, **options)
    opening = asyncio.ensure_future(service.open())
    number, wanted = decode_subscription(Kind.SERVE, (await hub.next(Kind.SERVE)).body)
    assert (wanted, number in SERVICES) == (list(prefixes), True)
    hub.send(encode_notice(Notice("confirmed", request=number)))
    await opening
    return service


async def test_one_turn_is_one_frame_for_each_target(scripted: ScriptedHub) -> None:
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


async def test_a_service_answers_in_few_frames(scripted: ScriptedHub) -> None:
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


async def test_a_reply_for_a_lost_connection(scripted: ScriptedHub) -> None:
    go = asyncio.Event()

    async def wait(request: Any) -> Any:
        await go.wait()
        return request.value

    async with connect(scripted.url, backoff=quick_backoff()) as client:
        service = await served(scripted, client, "/a", by=wait, concurrency=1)
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
        service = await served(scripted, client, "/a", by=fail)
        with caplog.at_level(logging.WARNING, "peers.client"):
            values = BATCH_COUNT.pack(10) + bytes(range(10))
            scripted.send(Request(b"/a", 5, 0, values, FLAG_BATCH).encode())
            await eventually(lambda: service.failures == 10)
    assert len([message for message in caplog.messages if "has failed" in message]) == 2


def taken(replies: Replies) -> list[tuple[int, list[object]]]:
    return [
        (one.first, [f"{one.requests}: {reason_of(one)}"] if one.status else read_values(one.flags, one.values))
        for one in replies.take()
    ]


def test_frames_are_bounded() -> None:
    replies = Replies()
    for number in range(5000):
        replies.put_one(number, 0)
    assert [(first, len(values)) for first, values in taken(replies)] == [(0, 4096), (4096, 904)]
    for number in range(4):
        replies.put_one(number, bytes(30_000))
    replies.put_one(4, bytes(100_000))
    assert [(first, len(values)) for first, values in taken(replies)] == [(0, 2), (2, 2), (4, 1)]


def test_what_the_hub_does_not_take() -> None:
    replies = Replies()
    replies.frame_limit_bytes = 1000
    for values in ([1, bytes(2000)], [bytes(2000)], [object()]):
        with pytest.raises(InvalidValueError):
            replies.put(1, values)
    with pytest.raises(InvalidValueError, match="accepts at most 991"):
        replies.put_one(1, bytes(2000))
    assert not replies
    replies.put(1, [bytes(300)] * 7)
    frames = list(replies.take())
    assert sum(frame.requests for frame in frames) == 7
    assert all(frame.size_bytes <= 1000 for frame in frames)
    assert [frame.first for frame in frames] == [1, 4, 6]


def test_reasons() -> None:
    """A reason is cut, and is Unicode whatever the exception said; what is no text is told as Python writes it."""
    replies = Replies()
    replies.fail(1, 1, "x" * 10_000)
    replies.fail(2, 1, "\ud800")
    reasons = [reason_of(reply) for reply in replies.take()]
    assert reasons == ["x" * 4096, "?"]
    assert reason_of(Reply(1, Status.FAILED, msgspec.msgpack.encode({"a": 1}))) == "{'a': 1}"
    assert reason_of(Reply(1, Status.FAILED, b"\xc1")) == "the reason that was given cannot be read"


def block_of(requests: int, deadline_s: float = 0.0) -> tuple[Block, list[asyncio.Future[Any]]]:
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[Any]] = [loop.create_future() for _ in range(requests)]
    block = Block(b"/a", 0, 1.0, deadline_s)
    block.futures.extend(futures)
    block.requests = requests
    return block, futures


def values(futures: list[asyncio.Future[Any]]) -> list[Any]:
    return [future.result() if future.done() else None for future in futures]


async def test_numbers_begin_anew() -> None:
    pending = Pending()
    pending._next = 2**32 - 2
    last, _ = block_of(2)
    first, futures = block_of(3)
    assert (pending.add(last), pending.add(first)) == (2**32 - 2, 1)
    pending.answer(2, ["b"])
    pending.answer(0, ["nobody's", "a"])
    assert values(futures) == ["a", "b", None]
    pending.answer(2**32 - 2, ["y", "z"])
    pending.answer(3, ["c"])
    assert not pending


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 8)), max_size=40),
)
def test_as_a_dictionary_would(frames: list[int], replies: list[tuple[int, int]]) -> None:
    async def run() -> None:
        pending = Pending()
        futures: dict[int, asyncio.Future[Any]] = {}
        for requests in frames:
            block, some = block_of(requests)
            first = pending.add(block)
            futures.update(zip(range(first, first + requests), some, strict=True))
        expected: dict[int, str] = {}
        late = 0
        for number, (first, count) in enumerate(replies):
            answers = [f"{number} {place}" for place in range(count)]
            pending.answer(first, answers)
            for place, answer in enumerate(answers):
                if first + place in futures and first + place not in expected:
                    expected[first + place] = answer
                else:
                    late += 1
        assert {number: future.result() for number, future in futures.items() if future.done()} == expected
        assert (pending.requests, pending.late) == (len(futures) - len(expected), late)

    asyncio.run(run())


async def test_what_comes_for_nobody(scripted: ScriptedHub) -> None:
    async with connect(scripted.url):
        scripted.send(Request(b"/x", 5, 0, pack(1)).encode())
        reply = Reply.decode(await scripted.next(Kind.REPLY))
        assert (reply.first, reply.status) == (5, Status.FAILED)
        assert "no longer serves" in msgspec.msgpack.decode(reply.values)


async def test_opening_is_cancelled(scripted: ScriptedHub) -> None:
    async with connect(scripted.url) as client:
        opening = asyncio.ensure_future(client.serve("/a", lambda _: None).open())
        number, _ = decode_subscription(Kind.SERVE, (await scripted.next(Kind.SERVE)).body)
        opening.cancel()
        await scripted.next(Kind.UNSERVE)
        scripted.send(encode_notice(Notice("confirmed", request=number)))
        await served(scripted, client, "/a")
