"""The journal over `/v1/hub`: the id, offsets of subscriptions, confirmations, and pieces that are fetched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub.errors import CloseCode, JournalUnavailableError
from hub.frame import encode_frame
from hub.journal.block import Block
from hub.journal.excerpt import whole_of
from hub.settings.sections import JournalSettings
from hub.settings.settings import Settings
from peers.websocket.codec import FETCH_LIMIT_BYTES
from peers.wire.control import Notice, encode_notice
from peers.wire.kinds import Kind
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import RawWebSocket, text
from tests.hubs.slow_journal import SlowJournal

JSON, MSGPACK = "hub.v1.json", "hub.v1.msgpack"

ID = bytes(range(16)).hex()

StartRecording = Callable[..., Awaitable[Hub]]


@pytest.fixture
def start_recording(start_hub: StartHub, tmp_path: Path) -> StartRecording:
    async def start(*topics: str) -> Hub:
        path = str(tmp_path / "journal")
        return await start_hub(
            settings=Settings(journal=JournalSettings(path=path, topics=topics or ("/",), commit_s=0.001))
        )

    return start


def slow(hub: Hub, *topics: str, buffer_bytes: int = 1_000_000) -> SlowJournal:
    journal = SlowJournal(hub.node.core, *topics, buffer_bytes=buffer_bytes)
    hub.node.journal = journal
    return journal


async def record(client: RawWebSocket, *messages: tuple[str, Any]) -> int:
    offset = 0
    for topic, value in messages:
        await client.say("publish", topic=topic, value=value, confirm=True, request=77)
        recorded = await client.message()
        assert recorded["type"] == "recorded", recorded
        offset = recorded["offset"] + 1
    return offset


def records_of(answer: dict[str, Any]) -> list[tuple[int, str, Any]]:
    if "records" in answer:
        return [(one["offset"], one["topic"], one["value"]) for one in answer["records"]]
    return [
        (one.offset, one.topic, msgspec.msgpack.decode(one.body))
        for block in answer["blocks"]
        for one in Block.parse(block).records()
    ]


# Who has a journal, and where a subscription begins.


async def test_welcome_bears_the_journal(hub: Hub, subprotocol: str) -> None:
    without = await hub.raw_websocket()
    await without.shake_hands(subprotocol)
    assert "journal" not in await without.message()
    slow(hub)
    client = await hub.raw_websocket()
    await client.shake_hands(subprotocol)
    welcome = await client.message()
    assert (welcome["journal"], welcome["software"].split()[0]) == (ID, "topichub")


async def test_a_subscription_knows_where_it_begins(hub: Hub, subprotocol: str) -> None:
    slow(hub)
    client, other = await hub.websocket(subprotocol=subprotocol), await hub.websocket()
    await other.publish("/a", 1, 2, 3)
    await other.barrier()
    await client.say("subscribe", prefixes=["/a"], request=5)
    await client.say("publish", topic="/a", value=4)
    assert await client.message() == {"type": "confirmed", "request": 5, "offset": 103}
    assert await client.messages(1) == [("/a", 4)]
    await client.say("unsubscribe", prefixes=["/a"], request=6)
    assert await client.message() == {"type": "confirmed", "request": 6}


async def test_a_subscription_between_publications_of_one_read(hub: Hub) -> None:
    slow(hub)
    client = await hub.websocket()
    messages = [text({"type": "publish", "topic": f"/{number % 3}", "value": number}) for number in range(9)]
    messages.insert(4, text({"type": "subscribe", "prefixes": ["/"], "request": 1}))
    await client.send(*messages)
    assert await client.message() == {"type": "confirmed", "request": 1, "offset": 104}
    assert [value for _, value in await client.messages(5)] == [4, 5, 6, 7, 8]


async def test_a_journal_that_fails_has_no_offset(hub: Hub) -> None:
    journal = slow(hub)
    journal.recorder.on_failed(JournalUnavailableError("the disk is full"), 100)
    client = await hub.websocket()
    await client.say("subscribe", prefixes=["/a"], request=5)
    assert await client.message() == {"type": "confirmed", "request": 5}


# Confirmed publications.


async def test_recorded(hub: Hub, subprotocol: str) -> None:
    journal = slow(hub)
    client = await hub.websocket(subprotocol=subprotocol)
    await client.say("publish", topic="/a", value=1, confirm=True, request=1)
    await client.say("publish", topic="/b", values=[2, 3], confirm=True, request=2)
    await client.say("publish", topic="/c", value=4, request=3)
    assert await client.barrier() == [{"type": "confirmed", "request": 3}]
    journal.write()
    assert [await client.message() for _ in range(2)] == [
        {"type": "recorded", "request": 1, "offset": 100, "count": 1},
        {"type": "recorded", "request": 2, "offset": 101, "count": 2},
    ]
    assert await client.barrier() == []


async def test_not_recorded(hub: Hub, subprotocol: str) -> None:
    journal = slow(hub, "/recorded")
    client = await hub.websocket(subprotocol=subprotocol)
    await client.say("publish", topic="/other", value=1, confirm=True, request=1)
    error = await client.message()
    assert (error["type"], error["code"], error["request"]) == ("error", CloseCode.NOT_ALLOWED, 1)
    await client.say("publish", topic="$hub/x", value=1, confirm=True, request=2)
    error = await client.message()
    assert (error["type"], error["code"], error["request"]) == ("error", CloseCode.NOT_ALLOWED, 2)
    await client.say("publish", topic="/recorded", value=1, confirm=True, request=3)
    assert await client.barrier() == []
    journal.recorder.on_failed(JournalUnavailableError("the disk is full"), 100)
    error = await client.message()
    assert (error["code"], error["request"]) == (CloseCode.JOURNAL_FAILED, 3)
    assert "the disk is full" in error["text"]


async def test_without_a_journal_nothing_is_recorded(hub: Hub, subprotocol: str) -> None:
    client = await hub.websocket("/a", subprotocol=subprotocol)
    await client.say("publish", topic="/a", value=1, confirm=True, request=1)
    error = await client.message()
    assert (error["code"], error["request"]) == (CloseCode.NOT_ALLOWED, 1)
    assert "--journal" in error["text"]
    assert await client.messages(1) == [("/a", 1)]


async def test_what_is_to_be_confirmed_bears_a_request(hub: Hub, subprotocol: str) -> None:
    client = await hub.websocket("/a", subprotocol=subprotocol)
    await client.say("publish", topic="/a", value=1, confirm=True)
    error = await client.message()
    assert (error["code"], error["text"]) == (1007, "publish: what is to be confirmed bears a `request`")
    assert await client.barrier() == []


async def test_who_has_gone_is_not_answered(hub: Hub) -> None:
    journal = slow(hub)
    client = await hub.websocket(name="me")
    await client.say("publish", topic="/a", value=1, confirm=True, request=1)
    await client.barrier()
    (connection,) = hub.connections
    connection.end(CloseCode.GOING_AWAY, "test")
    journal.write()
    assert await client.end() == (CloseCode.GOING_AWAY, "test")


# Pieces of the journal.


async def test_fetching(start_recording: StartRecording, subprotocol: str) -> None:
    hub = await start_recording()
    client = await hub.websocket(subprotocol=subprotocol)
    await record(client, ("/a", {"n": 1}), ("/b", 2), ("/ab", [3]), ("/a", 4))
    await client.say("fetch", request=9, start=1, end=4, prefixes=["/a"])
    answer = await client.message()
    assert records_of(answer) == [(2, "/ab", [3]), (3, "/a", 4)]
    places = {key: answer[key] for key in ("type", "request", "start", "next", "first", "head")}
    assert places == {"type": "records", "request": 9, "start": 1, "next": 4, "first": 0, "head": 4}
    assert "dropped" not in answer
    await client.say("fetch", request=10, bytes=0)
    answer = await client.message()
    assert (records_of(answer), answer["next"], answer["head"]) == ([], 0, 4)


async def test_fetching_some_columns(start_recording: StartRecording, subprotocol: str) -> None:
    hub = await start_recording()
    client = await hub.websocket(subprotocol=subprotocol)
    await record(client, ("/a", "value"), ("/b", "value"))
    await client.say("fetch", request=9, columns=["topic", "offset"])
    answer = await client.message()
    if "records" in answer:
        assert answer["records"] == [{"offset": 0, "topic": "/a"}, {"offset": 1, "topic": "/b"}]
        return
    assert b"value" not in b"".join(answer["blocks"])
    found = [one for block in answer["blocks"] for one in Block.parse(whole_of(block)).records()]
    assert [(one.offset, one.topic, one.body) for one in found] == [(0, "/a", b""), (1, "/b", b"")]


async def test_by_time(start_recording: StartRecording, subprotocol: str) -> None:
    hub = await start_recording()
    client = await hub.websocket()
    await record(client, *(("/a", number) for number in range(3)))
    await client.say("fetch", request=1)
    times = [one["time_ms"] for one in (await client.message())["records"]]
    reader = await hub.websocket(subprotocol=subprotocol)
    for number, time_ms in enumerate(times):
        await reader.say("fetch", request=2, time_ms=time_ms)
        assert (await reader.message())["start"] == times.index(time_ms) <= number
    await reader.say("fetch", request=3, time_ms=times[-1] + 0.001)
    answer = await reader.message()
    assert (records_of(answer), answer["start"], answer["next"]) == ([], 3, 3)
    await reader.say("fetch", request=4, time_ms=2**63 / 1000, bytes=0)
    assert (await reader.message())["start"] == 3


async def test_piece_by_piece(start_recording: StartRecording, subprotocol: str) -> None:
    hub = await start_recording()
    client = await hub.websocket(subprotocol=subprotocol)
    values = ["x" * number for number in range(100)]
    await record(client, *(("/a", value) for value in values))
    found: list[Any] = []
    start, answers = 0, 0
    while start < 100:
        await client.say("fetch", request=1, start=start, bytes=300)
        answer = await client.message()
        assert answer["next"] > start
        found += records_of(answer)
        start = answer["next"]
        answers += 1
    assert found == [(number, "/a", value) for number, value in enumerate(values)]
    assert answers > 3


async def test_json_answers_are_small_by_default(start_recording: StartRecording) -> None:
    hub = await start_recording()
    client = await hub.websocket()
    await client.say("publish", topic="/a", values=["x" * 10_000] * 150, confirm=True, request=1)
    assert (await client.message())["type"] == "recorded"
    await client.say("fetch", request=2)
    assert len(records_of(await client.message())) == 6
    await client.say("fetch", request=3, bytes=10_000_000)
    assert 99 < len(records_of(await client.message())) <= 105


async def test_waiting_for_more(start_recording: StartRecording, subprotocol: str) -> None:
    hub = await start_recording()
    client, other = await hub.websocket(subprotocol=subprotocol), await hub.websocket()
    end = await record(other, ("/a", 1))
    await client.say("fetch", request=1, start=end)
    assert records_of(await client.message()) == []
    await client.say("fetch", request=2, start=end, wait_ms=60_000)
    await client.barrier()
    await record(other, ("/a", 2))
    assert records_of(await client.message()) == [(1, "/a", 2)]


async def test_what_has_no_json_form(start_recording: StartRecording) -> None:
    hub = await start_recording()
    client, other = await hub.websocket(), await hub.websocket(subprotocol=MSGPACK)
    extension = msgspec.msgpack.Ext(0x70, b"x")
    await record(other, ("/a", 1), ("/a", extension), ("/a", 3))
    await client.say("fetch", request=1)
    answer = await client.message()
    assert (records_of(answer), answer["dropped"]) == ([(0, "/a", 1), (2, "/a", 3)], 1)
    await other.say("fetch", request=1)
    assert records_of(await other.message()) == [(0, "/a", 1), (1, "/a", extension), (2, "/a", 3)]


async def test_an_offset_that_is_not_there(start_recording: StartRecording, subprotocol: str) -> None:
    hub = await start_recording()
    client = await hub.websocket(subprotocol=subprotocol)
    await client.say("fetch", request=4, start=5)
    error = await client.message()
    assert (error["type"], error["code"], error["request"], error["offset"]) == ("error", CloseCode.GONE, 4, 0)


async def test_no_journal_to_fetch_from(hub: Hub, subprotocol: str) -> None:
    client = await hub.websocket(subprotocol=subprotocol)
    await client.say("fetch", request=4)
    error = await client.message()
    assert (error["code"], error["request"]) == (CloseCode.NOT_ALLOWED, 4)
    assert "--journal" in error["text"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "missing required field `request`"),
        ({"request": 0}, "`int` >= 1"),
        ({"request": 2**32}, "`int` <="),
        ({"request": 1, "start": -1}, "`int` >= 0"),
        ({"request": 1, "start": 1.5}, "got `float`"),
        ({"request": 1, "prefixes": []}, "length >= 1"),
        ({"request": 1, "prefixes": [""] * 10_001}, "length <= 10000"),
        ({"request": 1, "wait_ms": 60_001}, "`int` <= 60000"),
        ({"request": 1, "time_ms": 2e16}, "`float` <="),
        ({"request": 1, "columns": ["size"]}, "Invalid enum value 'size'"),
    ],
)
async def test_what_cannot_be_fetched(hub: Hub, subprotocol: str, fields: dict[str, Any], said: str) -> None:
    slow(hub)
    client = await hub.websocket(subprotocol=subprotocol)
    await client.say("fetch", **fields)
    error = await client.message()
    assert (error["type"], error["code"]) == ("error", 1007)
    assert said in error["text"]
    assert await client.barrier() == []


async def test_prefixes_that_are_none(start_recording: StartRecording, subprotocol: str) -> None:
    hub = await start_recording()
    client = await hub.websocket(subprotocol=subprotocol)
    for request in range(1, 20):
        await client.say("fetch", request=request, prefixes=["/\x00"])
        error = await client.message()
        assert (error["code"], error["request"]) == (1007, request)


async def test_what_readers_are_told(hub: Hub) -> None:
    journal = slow(hub)
    one, other = await hub.websocket(), await hub.websocket(subprotocol=MSGPACK)
    await one.say("fetch", request=1, time_ms=1.5, prefixes=["/a", "/b"], wait_ms=5)
    await other.say("fetch", request=2, start=7, end=9, bytes=10**12)
    await one.barrier()
    await other.barrier()
    (first, _), (second, _) = journal.orders
    assert (first.form, first.time, first.prefixes, first.wait_ms, first.bytes) == (
        "json",
        1500,
        ("/a", "/b"),
        5,
        65536,
    )
    assert (second.form, second.start, second.end) == ("msgpack", 7, 9)
    assert 2**21 < second.bytes <= FETCH_LIMIT_BYTES


async def test_answers_of_readers(hub: Hub) -> None:
    journal = slow(hub)
    client = await hub.websocket()
    for request in (1, 2, 3):
        await client.say("fetch", request=request)
    await client.barrier()
    ready, large, damaged = (deliver for _, deliver in journal.orders)
    ready(encode_frame(Kind.RECORDS, b'{"type":"records","what":"ever"}'))
    assert await client.message() == {"type": "records", "what": "ever"}
    large(bytearray(encode_frame(Kind.RECORDS, bytes(hub.node.settings.limits.frame_bytes + 100_000))))
    error = await client.message()
    assert (error["code"], error["request"]) == (CloseCode.TOO_BIG, 2)
    damaged(encode_notice(Notice("error", request=3, code=CloseCode.JOURNAL_FAILED, text="damaged")))
    assert await client.message() == {"type": "error", "code": 4012, "text": "damaged", "request": 3}


async def test_who_does_not_read_the_answers_is_not_read_on(hub: Hub) -> None:
    journal = slow(hub)
    client = await hub.websocket(receive_bytes=4096)
    hub.shrink_buffers()
    payload = encode_frame(Kind.RECORDS, b'"' + b"x" * 500_000 + b'"')
    (connection,) = hub.connections
    sent = 0
    while connection.transport.is_reading():
        await client.say("fetch", request=sent + 1)
        sent += 1
        await eventually(lambda: len(journal.orders) == sent)  # noqa: B023 -- used before it changes
        journal.orders[-1][1](payload)
        await client.turn()
        await client.turn()
    assert sent < 5
    for _ in range(sent):
        assert await client.message() == "x" * 500_000
    await eventually(connection.transport.is_reading)
    assert await client.barrier() == []
