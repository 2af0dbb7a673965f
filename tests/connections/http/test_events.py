"""GET /v1/events without a journal: what a stream tells, what a slow reader loses, and how it ends."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from hub.errors import CloseCode, JournalUnavailableError, RejectedError
from hub.policy.language import read_policy
from peers.connections.http import LEAST_PAUSE_S, MOST_PAUSE_S, Stream
from peers.daemon.reviewing import review
from peers.users.tokens import Tokens
from tests.connections.http.conftest import StartRecording
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.known_tokens import KnownTokens
from tests.hubs.raw_http import Event, RawHttp, follow, http
from tests.hubs.raw_websocket import flood
from tests.hubs.settings import settings_of
from tests.journal.files import crashed, lose_power, segments

HELD = 50


async def test_messages_are_events(hub: Hub) -> None:
    client = await follow(hub, "prefix=/a&prefix=/b")
    publisher = await hub.websocket()
    await publisher.publish("/a/x", 1, [2])
    await publisher.publish("/c", 3)
    await publisher.say("publish", topic="/b", value={"q": "\u00e9\n"}, labels=["l"])
    assert await client.event() == Event("message", {"topic": "/a/x", "value": 1})
    assert await client.event() == Event("message", {"topic": "/a/x", "value": [2]})
    assert await client.event() == Event("message", {"topic": "/b", "labels": ["l"], "value": {"q": "\u00e9\n"}})


async def test_publishing_and_following_over_one_connection(hub: Hub) -> None:
    client = await http(hub)
    await client.publish("/a", 1)
    await client.send(b"GET /v1/events?prefix=/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
    status, headers = await client.head()
    assert (status, "Date" in headers) == (200, True)
    await (await http(hub)).publish("/a", 2)
    assert await client.values(1) == [2]
    assert len(hub.server.core.handlers) == 2


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("", 400, "prefix="),
        ("prefix=/a&from=1", 403, "no journal"),
        ("&".join(f"prefix=/{number}" for number in range(11)), 403, "10"),
    ],
)
async def test_no_stream(start_hub: StartHub, query: str, status: int, text: str) -> None:
    hub = await start_hub(settings=settings_of(prefixes_per_client=10))
    client = await http(hub)
    answer = await client.ask("GET", f"/v1/events?{query}")
    assert answer.status == status
    assert text in answer.value["error"]["text"]


# Who does not read.


async def stalled(hub: Hub, query: str) -> RawHttp:
    client = await follow(hub, f"prefix=/flood&name=stalled&{query}", receive_bytes=4096)
    hub.shrink_buffers()
    return client


async def test_who_is_there_and_who_is_not(hub: Hub) -> None:
    reads, stops = await follow(hub, "prefix=/a&name=reads"), await stalled(hub, "overflow=drop-oldest&messages=10")
    await flood(await hub.websocket(), hub.handler("stalled"), 20)
    for _ in range(4):
        hub.later(21)
        hub.later(9)
        hub.later(2)
    assert not any(one.name == "stalled" for one in hub.server.core.handlers.values())
    assert any(one.name == "reads" for one in hub.server.core.handlers.values())
    while b":\n\n" not in reads._buffer:
        await reads.read()
    stops.close()


# Ends.


async def test_a_token_that_ends(hub: Hub) -> None:
    known = KnownTokens(hub)
    token = known.token("alice", seconds=30)
    client = await follow(hub, "prefix=/a", f"Authorization: Bearer {token}")
    assert next(iter(hub.server.core.handlers.values())).rights is not None
    hub.later(31)
    last = await client.event()
    assert (last.name, last.value["code"]) == ("closed", CloseCode.NOT_RECOGNISED)


async def test_no_room(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(connections=1))
    await follow(hub, "prefix=/a")
    client = await http(hub)
    answer = await client.publish("/a", 1)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")


AHEAD = 200  # records of 10 kB: more than is read for somebody who takes nothing, however quickly it is


async def record(hub: Hub, topic: str, *values: object) -> None:
    lines = b"".join(msgspec.json.encode(value) + b"\n" for value in values)
    assert (await (await http(hub)).publish_lines(f"{topic}?confirm=1", lines)).status == 200


async def numbered(client: RawHttp, count: int) -> list[tuple[int | None, object]]:
    found = []
    for _ in range(count):
        event = await client.event()
        assert event.name == "message", event
        assert "time_ms" in event.value
        found.append((event.id, event.value["value"]))
    return found


async def test_a_stream_begins_where_it_is_asked_to(start_recording: StartRecording) -> None:
    hub = await start_recording()
    await record(hub, "/a", *range(10))
    for query in ("from=7", "from=2001-01-01", "from=0"):
        client = await follow(hub, f"prefix=/a&{query}")
        first = 7 if query == "from=7" else 0
        assert await numbered(client, 10 - first) == [(number, number) for number in range(first, 10)]
    await record(hub, "/a", 10)
    assert await numbered(client, 1) == [(10, 10)]


async def test_whoever_comes_back_misses_nothing(start_recording: StartRecording) -> None:
    hub = await start_recording()
    publisher = await hub.websocket()
    found: list[int] = []
    last = ""
    sent = 0
    for _ in range(12):
        client = await follow(hub, "prefix=/a&from=0", *([f"Last-Event-ID: {last}"] if last else []))
        for _ in range(20):
            await publisher.publish("/a", sent)
            await publisher.publish("/other", -1)
            sent += 1
        for _ in range(13):
            event = await client.event()
            found.append(event.value["value"])
            last = str(event.id)
        client.reset()
    client = await follow(hub, "prefix=/a", f"Last-Event-ID: {last}")
    found += await client.values(sent - len(found))
    assert found == list(range(sent))


async def test_whoever_has_read_what_a_power_loss_took_gets_all_that_comes_since(
    start_recording: StartRecording, tmp_path: Path
) -> None:
    hub = await start_recording()
    journal = tmp_path / "journal.db"
    await record(hub, "/a", 0, 1)
    written_bytes = segments(journal)[-1].stat().st_size
    await record(hub, "/a", 2, 3, 4)
    client = await follow(hub, "prefix=/a&from=0")
    ids = [(await client.event()).last_id for _ in range(5)]
    lost = crashed(journal, tmp_path / "lost")
    lose_power(lost, written_bytes)
    await hub.stop()
    shutil.rmtree(journal)
    lost.rename(journal)
    hub = await start_recording()
    ahead = await follow(hub, "prefix=/a", f"Last-Event-ID: {ids[4]}")
    assert (await ahead.event())[:2] == ("cut", {"from": 5, "to": 2})
    await record(hub, "/a", *range(10, 16))
    assert await numbered(ahead, 6) == [(offset, 8 + offset) for offset in range(2, 8)]
    late = await follow(hub, "prefix=/a", f"Last-Event-ID: {ids[3]}")
    assert (await late.event())[:2] == ("cut", {"from": 4, "to": 2})
    assert await numbered(late, 6) == [(offset, 8 + offset) for offset in range(2, 8)]
    for query in (f"from={ids[1]}", "from=1"):
        assert await numbered(await follow(hub, f"prefix=/a&{query}"), 2) == [(1, 1), (2, 10)]


async def test_a_slow_reader_that_retention_overtakes(start_recording: StartRecording) -> None:
    hub = await start_recording(keep_bytes=64 * 1024, compression="none")
    client = await follow(hub, "prefix=/a&name=slow", receive_bytes=4096)
    hub.shrink_buffers()
    assert hub.journal is not None
    last = 0
    while hub.journal.statistics().recorder.at.first <= AHEAD:
        await record(hub, "/a", *([number, "x" * 10_000] for number in range(last, last + 10)))
        last += 10
    due, gaps = 0, 0
    while due < last:
        event = await client.event()
        if event.name == "gone":
            assert event.value["from"] == due
            due = event.value["to"]
            gaps += 1
        else:
            assert (event.id, event.value["value"][0]) == (due, due)
            due += 1
    assert gaps


async def test_a_queue_makes_it_live(start_recording: StartRecording) -> None:
    hub = await start_recording()
    client = await follow(hub, "prefix=/flood&overflow=drop-oldest&messages=10&name=live", receive_bytes=4096)
    hub.shrink_buffers()
    await flood(await hub.websocket(), hub.handler("live"), 150)
    assert hub.handler("live").dropped_messages > 0
    assert (await client.event()).id is None


async def test_what_is_not_recorded(start_recording: StartRecording) -> None:
    hub = await start_recording("/a")
    client = await follow(hub, "prefix=/a&prefix=/b")
    await (await http(hub)).publish("/a", 1)
    assert (await client.event()).id is None
    answer = await (await http(hub)).ask("GET", "/v1/events?prefix=/b&from=0")
    assert answer.status == 403
    assert "not recorded here" in answer.value["error"]["text"]


async def test_another_journal(start_recording: StartRecording) -> None:
    hub = await start_recording()
    client = await http(hub)
    answer = await client.ask("GET", "/v1/events?prefix=/a&name=late", "Last-Event-ID: 5")
    assert (answer.status, answer.value["error"]["code"]) == (410, CloseCode.GONE)
    assert hub.prefixes("late") == {}
    assert (await client.publish("/a", 1)).status == 200


async def test_a_right_to_subscribe_is_none_to_read(start_recording: StartRecording) -> None:
    hub = await start_recording()
    known = KnownTokens(hub)
    token = f"Authorization: Bearer {known.token('alice')}"  # may subscribe to everything
    client = await follow(hub, "prefix=/a", token)
    answer = await (await http(hub)).ask("GET", "/v1/events?prefix=/a&from=0", token)
    assert answer.status == 403
    await (await http(hub)).publish("/a", 1, token)
    assert (await client.event()).id is None


async def test_records_without_a_form(start_recording: StartRecording) -> None:
    hub = await start_recording()
    publisher = await hub.client(endpoint=await hub.listen())
    await publisher.publish("/a", 1)
    await publisher.send(b"\x00\x00\x00\x01\x02\x00\x00\x02/a\xc1")
    await publisher.publish("/a", 2)
    await publisher.ping()
    client = await follow(hub, "prefix=/a&from=0")
    found = [await client.event() for _ in range(3)]
    assert [(event.name, event.id) for event in found] == [("message", 0), ("dropped", None), ("message", 2)]


async def test_a_reader_that_is_busy_is_asked_again(
    start_recording: StartRecording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peers.connections.http.AGAIN_S", 0.01)
    hub = await start_recording()
    await record(hub, "/a", 0)
    assert hub.journal is not None
    read = hub.journal._pieces._read
    refused = []

    def busy_at_first(order: Any, deliver: Any, turn: Any) -> None:
        if len(refused) < 3:
            refused.append(order)
            deliver(RejectedError(CloseCode.TRY_AGAIN_LATER, "busy"))
        else:
            read(order, deliver, turn)

    monkeypatch.setattr(hub.journal._pieces, "_read", busy_at_first)
    client = await follow(hub, "prefix=/a&from=0")
    assert await numbered(client, 1) == [(0, 0)]
    assert len(refused) == 3


async def test_a_journal_that_fails(start_recording: StartRecording) -> None:
    hub = await start_recording()
    client = await follow(hub, "prefix=/a")
    assert hub.journal is not None
    recorder = hub.journal.recorder
    with capture_logs():
        recorder._failed(JournalUnavailableError("the disk is full"), recorder._next)
        await (await http(hub)).publish("/a", 1)
        last = await client.event()
        assert (last.name, last.value["code"]) == ("closed", CloseCode.JOURNAL_FAILED)
        answer = await (await http(hub)).ask("GET", "/v1/events?prefix=/a")
        assert (answer.status, answer.value["error"]["code"]) == (503, CloseCode.JOURNAL_FAILED)


class Looking(Stream):
    def __init__(self) -> None:
        self._is_elsewhere = self.is_recorded = True
        self._position = self._target = self._look_number = 0
        self._is_look_soon, self._pause_s = False, LEAST_PAUSE_S
        self.planned: list[tuple[float, Callable[[], object]]] = []
        self.looks = 0

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        self.planned.append((seconds, act))

    def go_on(self) -> None:
        self.looks += 1


def test_looks_become_rare_until_a_bell_rings() -> None:
    stream = Looking()
    stream._read_or_rest(0)
    for number in range(20):
        stream.planned[-1][1]()
        assert stream.looks == number + 1
        stream._target = 0
        stream._read_or_rest(0)
    pauses = [pause_s for pause_s, _ in stream.planned]
    assert pauses[:3] == [LEAST_PAUSE_S, 2 * LEAST_PAUSE_S, 4 * LEAST_PAUSE_S]
    assert pauses[-1] == MOST_PAUSE_S
    assert stream.render([]) == []
    assert stream.planned[-1][0] == LEAST_PAUSE_S


async def test_the_newest_stay(hub: Hub) -> None:
    client = await stalled(hub, f"overflow=drop-oldest&messages={HELD}")
    handler = hub.handler("stalled")
    total = await flood(await hub.websocket(), handler, 150)
    while (event := await client.event()).name == "message":
        pass
    assert event == Event("dropped", {"count": handler.dropped_messages})
    assert [number for number, _ in await client.values(HELD)] == list(range(total - HELD, total))


async def test_a_right_that_is_taken(hub: Hub) -> None:
    known = KnownTokens(hub)
    client = await follow(hub, "prefix=/a&name=alice", f"Authorization: Bearer {known.token('alice')}")
    policy = read_policy({"users": {"alice": ["writer"]}, "roles": {"writer": {"publish": ["/b"]}}}, "test")
    hub.server.access.adopt(known._users._replace(policy=policy, tokens=Tokens(dict(known._tokens))))
    hub.server.core.authority.adopt(policy)
    await review(hub.server, was_open=False)
    last = await client.event()
    assert (last.name, last.value["code"]) == ("closed", CloseCode.NOT_ALLOWED)
