"""The journal of another hub, over links: its history, confirmations, consumers and events, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hub.errors import (
    CloseCode,
    GoneError,
    NotAllowedError,
    RejectedError,
    RequestFailedError,
    ResponderGoneError,
    UsageError,
)
from hub.settings.settings import JournalSettings, Settings
from peers.client import Client, connect
from peers.client.journal import History
from peers.journal import remote_journals
from peers.journal.remote_journals import PIECE_BYTES
from peers.transport.timing import Backoff
from tests.connections.rights.conftest import recognise
from tests.hub.rights.hall import policy_of
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_http import RawHttp, follow, http
from tests.hubs.raw_websocket import request
from tests.hubs.slow_journal import SlowJournal
from tests.links.meshes import know_each_other as known

Chain = Callable[..., Awaitable[list[Hub]]]
QUICK = Backoff(base_s=0.001, cap_s=0.01)


def recording(folder: Path, **journal: Any) -> Settings:
    return Settings(journal=JournalSettings(path=str(folder), **({"commit_s": 0.001} | journal)))


@pytest.fixture
async def chain(start_hub: StartHub, tmp_path: Path) -> Chain:
    """Hubs in a row, the last of which has a journal; `of` is what the others name."""

    async def start(count: int, *, of: str = "", **journal: Any) -> list[Hub]:
        rows = [Settings(journal=JournalSettings(of=of))] * (count - 1)
        rows.append(recording(tmp_path / "journal", **journal))
        hubs = [await start_hub(name=f"hub-{number}", settings=row) for number, row in enumerate(rows)]
        await linked(hubs)
        return hubs

    return start


async def linked(hubs: list[Hub]) -> None:
    for near, far in pairwise(hubs):
        near.dial(far)
    await known(hubs)


def link_policy(**users: tuple[list[str], list[str]]) -> Any:
    roles = [f"[roles.{name}]\nlink = {{ bring = {bring}, take = {take} }}" for name, (bring, take) in users.items()]
    held = [f'{name.replace("_", "-")} = ["{name}"]' for name in users]
    return policy_of("\n".join([*roles, "[users]", *held]))


async def judge(hubs: list[Hub], policies: dict[int, Any]) -> None:
    """Have hubs link again, as far as these policies let them."""
    for hub in hubs:
        await hub.stop_dialling()
    for number, policy in policies.items():
        recognise(hubs[number], policy)
    await linked(hubs)


EVERYTHING = ["*"]


async def record(hub: Hub, *values: Any, topic: str = "/n") -> list[int]:
    async with connect(hub.url, buffer_bytes=64 << 20) as client:
        for value in values[:-1]:
            await client.publish(topic, value)
        last = await client.publish_confirmed(topic, values[-1])
    return [*range(last + 1 - len(values), last + 1)]


async def values(client: Client, *prefixes: str, **fields: Any) -> list[Any]:
    return [one.value async for one in client.read(*prefixes, **fields)]


async def read_into(
    history: History, seen: list[Any], at: int = 0, act: Callable[[], Awaitable[None]] | None = None
) -> None:
    async for one in history:
        seen.append(one.value)
        if act is not None and len(seen) == at:
            await act()


async def refused(client: Client, *prefixes: str, **fields: Any) -> RejectedError:
    with pytest.raises(RejectedError) as caught:
        await values(client, *prefixes, **fields)
    return caught.value


async def test_by_name_and_by_id(chain: Chain) -> None:
    hubs = await chain(3)
    far = hubs[-1]
    await record(far, *range(100))
    async with connect(far.url) as client:
        own = [one async for one in client.read("/n")]
        state = await client.journal()
        assert [one async for one in client.read("/n", hub=far.server.name)] == own
    assert [one.value for one in own] == list(range(100))
    browser = await hubs[0].listen("ws://127.0.0.1:0")
    for url in (hubs[0].url, browser.location):
        async with connect(url) as client:
            assert [one async for one in client.read("/n", hub=far.server.name)] == own
            assert [one async for one in client.read("/n", hub=far.server.id.hex())] == own
            assert await client.journal(hub=far.server.name) == state
            assert state.id == far.server.journal.id
            with pytest.raises(RejectedError, match="this hub has no journal"):
                await client.journal()


async def test_much_by_prefix_and_time(chain: Chain) -> None:
    hubs = await chain(3)
    body = "x" * 2_000
    async with connect(hubs[2].url) as source, connect(hubs[0].url) as client:
        await source.publish_confirmed("/old/a", 0)
        (first,) = [one async for one in client.read("/old/", hub="hub-2")]
        since_us = first.time_us + 1
        await eventually(lambda: hubs[2].server.wall_us() > since_us)
        for number in range(1_500):
            await source.publish("/old/b", [number, body])
            await source.publish("/other", number)
        await source.publish_confirmed("/other", None)
        since = datetime.fromtimestamp(since_us / 1e6, UTC)
        history = client.read("/old/", start_time=since, hub="hub-2", piece_bytes=1 << 30)
        pieces = [sum(map(len, piece.blocks)) async for piece in history.pieces()]
        assert len(pieces) > 3
        assert max(pieces) < 6 * PIECE_BYTES
        found = [one async for one in client.read("/old/", start_time=since, hub="hub-2")]
        assert [(one.topic, one.value) for one in found] == [("/old/b", [number, body]) for number in range(1_500)]
        assert all(one.time_us >= since_us for one in found)


async def test_a_record_too_large_for_a_link(chain: Chain) -> None:
    hubs = await chain(3)
    await record(hubs[2], b"a", b"x" * (16 * 1024 * 1024 - 5), b"z")
    async with connect(hubs[0].url) as client:
        history = client.read("/n", hub="hub-2", piece_bytes=1)
        seen: list[bytes] = []
        with pytest.raises(RejectedError) as caught:
            await read_into(history, seen)
        assert caught.value.code == CloseCode.TOO_BIG
        assert "journal of hub 'hub-2'" in caught.value.text
        assert (seen, history.next) == ([b"a"], 1)
        assert await values(client, "/n", start=2, hub="hub-2") == [b"z"]


# Which hub.


async def test_no_such_hub(chain: Chain) -> None:
    hubs = await chain(3)
    await record(hubs[2], 1)
    async with connect(hubs[0].url) as client:
        error = await refused(client, hub="nobody")
        assert error.code == CloseCode.BAD_DATA
        assert "no hub of the mesh has the name or the id 'nobody'" in error.text
        error = await refused(client, hub="hub-1")
        assert (error.code, error.text) == (1008, "journal of hub 'hub-1': that hub has no journal of its own")
        error = await refused(client, hub="hub-0")
        assert (error.code, error.text) == (1008, "hub 'hub-0' has no journal of its own")
        await hubs[1].stop_dialling()
        await eventually(lambda: len(hubs[0].server.core.mesh.graph.reached) == 2)
        error = await refused(client, hub="hub-2")
        assert (error.code, error.text) == (1013, "hub 'hub-2' cannot be reached now")
        with pytest.raises(RejectedError, match="hub 'hub-2' cannot be reached now"):
            await client.subscribe("/n", from_offset=0, hub="hub-2").open()
        with pytest.raises(UsageError, match="give from_offset"):
            client.subscribe("/n", hub="hub-2")


# What happens meanwhile.


async def test_the_way_is_lost_and_found_again(chain: Chain) -> None:
    hubs = await chain(3)
    await record(hubs[2], *([number, "x" * 300] for number in range(5_000)))
    async with connect(hubs[0].url) as client:
        history = client.read("/n", hub="hub-2", piece_bytes=20_000)
        seen: list[list[Any]] = []
        with pytest.raises(RejectedError) as caught:
            await read_into(history, seen, 500, hubs[1].stop_dialling)
        assert caught.value.code == CloseCode.TRY_AGAIN_LATER
        assert "hub-2" in caught.value.text
        assert [number for number, _ in seen] == list(range(history.next))
        hubs[1].dial(hubs[2])
        await known(hubs)
        seen += await values(client, "/n", start=history.next, hub="hub-2")
    assert [number for number, _ in seen] == list(range(5_000))


async def test_the_hub_is_lost_while_it_is_waited_for(chain: Chain) -> None:
    hubs = await chain(3)
    await record(hubs[2], 0, 1)
    async with (
        connect(hubs[0].url, backoff=QUICK) as client,
        client.subscribe("/n", from_offset=0, hub="hub-2") as messages,
    ):
        assert [(await anext(messages)).value for _ in range(2)] == [0, 1]
        await eventually(lambda: messages.live)
        await eventually(lambda: hubs[0].server.core.requests.statistics().pending)
        await hubs[1].stop_dialling()
        await eventually(lambda: not hubs[0].server.core.requests.statistics().pending)
        await record(hubs[2], 2, 3)
        hubs[1].dial(hubs[2])
        assert [(await anext(messages)).value for _ in range(2)] == [2, 3]
        await eventually(lambda: messages.position == 2)
        assert (messages.breaks, messages.lost_messages) == (0, 0)


@pytest.mark.parametrize("goes", ["stream", "client"])
async def test_a_reader_that_has_gone_leaves_its_place_with_the_hubs(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, goes: str
) -> None:
    monkeypatch.setattr(remote_journals, "WAIT_MS", 1)
    hubs = await chain(3)
    near, far = hubs[0].server, hubs[2].server
    await record(hubs[2], 0)
    async with connect(hubs[0].url) as staying, connect(hubs[0].url) as client:
        async with staying.subscribe("/n", from_offset=1, hub="hub-2") as messages:
            async with client.subscribe("/n", "/m", from_offset=1, hub="hub-2"):
                await eventually(lambda: far.remote_journals.answering == 2)
                if goes == "client":
                    await client.close()
            answered = far.remote_journals.answered_total
            await eventually(lambda: far.remote_journals.answered_total >= answered + 4)
            await record(hubs[2], 1)
            assert (await anext(messages)).value == 1
        await eventually(lambda: not far.remote_journals.answering)
        await eventually(lambda: not near.core.requests.statistics().pending)


async def test_what_was_deleted(chain: Chain) -> None:
    hubs = await chain(3, keep_bytes=64 * 1024, compression="none")
    async with connect(hubs[2].url) as source, connect(hubs[0].url) as client:
        for number in range(20):
            await source.publish_confirmed("/n", [number, "x" * 10_000])
        with pytest.raises(GoneError) as caught:
            await values(client, hub="hub-2")
        first = caught.value.first
        assert caught.value.text.startswith("journal of hub 'hub-2': ")
        with pytest.raises(GoneError):
            await values(client, start=1_000, hub="hub-2")
        assert first == (await client.journal(hub="hub-2")).first > 0
        left = await values(client, start=first, hub="hub-2")
        assert [number for number, _ in left] == list(range(first, 20))


# A hub without a journal that names one.


async def test_a_hub_without_a_journal_names_one(chain: Chain) -> None:
    hubs = await chain(3, of="hub-2")
    await record(hubs[2], *range(10))
    async with connect(hubs[0].url) as client:
        assert await values(client) == list(range(10))
        assert (await client.journal()).id == hubs[2].server.journal.id
        async with client.subscribe("/n", from_offset=8) as messages:
            assert [(await anext(messages)).value for _ in range(2)] == [8, 9]
            await eventually(lambda: messages.live)
            await record(hubs[2], 10, 11)
            assert [(await anext(messages)).value for _ in range(2)] == [10, 11]
        text = "this hub does not record; batches are for the hub 'hub-2', whose journal is read here"
        with pytest.raises(RejectedError, match=text):
            await client.stage("t", 0, b"")


async def test_the_hub_that_is_named_comes_later(start_hub: StartHub, tmp_path: Path) -> None:
    near = await start_hub(name="worker", settings=Settings(journal=JournalSettings(of="core")))
    async with connect(near.url, backoff=QUICK) as client:
        error = await refused(client)
        assert error.code == CloseCode.TRY_AGAIN_LATER
        assert error.text == "journal.of: no hub of the mesh has the name or the id 'core', as far as this hub knows"
        stream = client.subscribe("/n", from_offset=0)
        opening = asyncio.ensure_future(stream.open())
        core = await start_hub(name="core", settings=recording(tmp_path / "journal"))
        await record(core, 1)
        near.dial(core)
        await opening
        assert (await anext(stream)).value == 1
        stream.close_nowait()


# Who may.

TOPICS = ("/open", "/secret", "/half/a", "/half/b")


async def _recorded(hub: Hub) -> None:
    for topic in TOPICS:
        await record(hub, topic, topic=topic)


SOME = ["/open", "/half/b"]


@pytest.mark.parametrize(
    ("policies", "found"),
    [
        ({2: {"hub_1": (EVERYTHING, SOME)}}, SOME),
        ({0: {"hub_1": (SOME, EVERYTHING)}}, SOME),
        ({1: {"hub_0": (EVERYTHING, SOME), "hub_2": (EVERYTHING, EVERYTHING)}}, SOME),
        (
            {
                0: {"hub_1": (["/open", "/half", "/secret"], EVERYTHING)},
                1: {"hub_0": (EVERYTHING, ["/open", "/half"]), "hub_2": (["/open", "/half/a"], EVERYTHING)},
                2: {"hub_1": (EVERYTHING, ["/half", "/secret"])},
            },
            ["/half/a"],
        ),
    ],
    ids=["far", "near", "middle", "each leaves out what is its own"],
)
async def test_what_links_may_take_and_bring(
    chain: Chain, policies: dict[int, dict[str, tuple[list[str], list[str]]]], found: list[str]
) -> None:
    hubs = await chain(3)
    await _recorded(hubs[2])
    await judge(hubs, {number: link_policy(**users) for number, users in policies.items()})
    async with connect(hubs[0].url) as client:
        assert await values(client, hub="hub-2") == found
        assert await values(client, "/half/", "/secret", hub="hub-2") == [one for one in found if one != "/open"]
        assert await values(client, "/secret", hub=hubs[2].server.id.hex()) == []


async def test_a_link_that_may_take_nothing(chain: Chain) -> None:
    hubs = await chain(3)
    await judge(hubs, {1: link_policy(hub_0=(EVERYTHING, []), hub_2=(EVERYTHING, EVERYTHING))})
    async with connect(hubs[0].url) as client:
        error = await refused(client, hub="hub-2")
        text = "journal of hub 'hub-2': take: nothing is granted to the link of user 'hub-0'"
        assert (error.code, error.text) == (CloseCode.NOT_ALLOWED, text)
        with pytest.raises(RejectedError, match="nothing is granted"):
            await client.journal(hub="hub-2")


async def test_what_a_reader_may_read(chain: Chain) -> None:
    hubs = await chain(3, of="hub-2")
    await _recorded(hubs[2])
    recognise(
        hubs[0],
        policy_of('[roles.r]\njournal = { allow = ["/open", "/half"], deny = ["/half/b"] }\n[users]\nalice = ["r"]'),
    )
    for named in ({"hub": "hub-2"}, {}):
        async with connect(hubs[0].url, name="alice") as client:
            error = await refused(client, **named)
            assert error.text.startswith("journal '': not granted as a whole to user 'alice'; granted below: ")
            assert "not granted" in (await refused(client, "/half/", **named)).text
            assert await values(client, "/open/", **named) == []
            assert await values(client, "/half/a/", **named) == []
        async with connect(hubs[0].url, name="alice", narrow=True) as client:
            assert await values(client, **named) == ["/open", "/half/a"]
            assert await values(client, "/secret", **named) == []
    async with connect(hubs[0].url, name="alice") as client:
        assert "not granted" in (await refused(client, "/secret", hub="nobody")).text


# Confirmations.


async def test_the_offset_is_that_of_the_record(chain: Chain) -> None:
    near, _, far = await chain(3, of="hub-2")
    await eventually(lambda: near.wanted_by(far))
    browser = await near.listen("ws://127.0.0.1:0")
    async with connect(near.url) as one, connect(browser.location) as other:
        for number in range(3):
            assert await one.publish_confirmed("/a", number) == 2 * number
            assert await other.publish_confirmed("/b", number) == 2 * number + 1
        found = [(record.offset, record.topic, record.value) async for record in one.read("/")]
    assert found == [(place, "/ab"[0] + "ab"[place % 2], place // 2) for place in range(6)]
    marks, asked = far.server.marks, near.server.remote_confirmations
    assert (marks.expected, marks.confirmed_total, marks.refused_total) == (0, 6, 0)
    assert (asked.pending, asked.taken, asked.refused_total) == (0, 6, 0)


async def test_order_is_kept_among_messages_that_nobody_confirms(chain: Chain) -> None:
    hubs = await chain(3, of="hub-2")
    near, far = hubs[0], hubs[-1]
    await eventually(lambda: near.wanted_by(far))
    total = 150
    async with (
        connect(near.url, buffer_bytes=64 << 20) as publisher,
        connect(near.url) as here,
        connect(far.url) as there,
        here.subscribe("/n") as at_near,
        there.subscribe("/n") as at_far,
    ):
        waiting = []
        for number in range(total):
            if number % 3:
                await publisher.publish("/n", number)
            else:
                waiting.append(asyncio.ensure_future(publisher.publish_confirmed("/n", number)))
                await asyncio.sleep(0)
        offsets = await asyncio.gather(*waiting)
        for messages in (at_near, at_far):
            assert [(await anext(messages)).value for _ in range(total)] == list(range(total))
        await publisher.publish_confirmed("/n", total)
        records = {record.offset: record.value async for record in there.read("/n")}
    assert list(records.values()) == list(range(total + 1))
    assert [records[offset] for offset in offsets] == list(range(0, total, 3))


async def test_what_is_not_recorded(chain: Chain) -> None:
    hubs = await chain(2, of="hub-1", topics=("/kept",))
    await eventually(lambda: hubs[0].wanted_by(hubs[1]))
    async with connect(hubs[0].url) as client, client.subscribe("/other") as messages:
        with pytest.raises(RejectedError) as refused:
            await client.publish_confirmed("/other", 1)
        assert refused.value.code == CloseCode.NOT_ALLOWED
        assert refused.value.text == "journal of hub 'hub-1': topic not recorded there; see journal.topics of that hub"
        assert (await anext(messages)).value == 1
        assert await client.publish_confirmed("/kept", 2) == 0


async def test_a_hub_that_is_lost_confirms_nothing(chain: Chain) -> None:
    hubs = await chain(3, of="hub-2")
    near, _, far = hubs
    await eventually(lambda: near.wanted_by(far))
    far.server.journal = SlowJournal(far.server.core, "/")
    async with connect(near.url) as client:
        waiting = [asyncio.ensure_future(client.publish_confirmed("/a", number)) for number in range(50)]
        await eventually(lambda: far.server.marks.expected)
        await far.crash()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(outcome, RejectedError) for outcome in outcomes)
        assert "may be recorded or not" in str(outcomes[0])
        await eventually(lambda: far.server.id not in near.server.core.mesh.graph.reached)
        with pytest.raises(RejectedError, match=r"journal\.of: hub 'hub-2' cannot be reached now"):
            await client.publish_confirmed("/a", 1)
    assert near.server.remote_confirmations.pending == 0


# Consumers.


def members(hub: Hub) -> int:
    statistics = hub.server.journal.statistics()
    assert statistics is not None
    return sum(one.members for one in statistics.consumers.each)


async def test_consumed_over_links(chain: Chain) -> None:
    near, _, far = await chain(3, of="hub-2")
    browser = await near.listen("ws://127.0.0.1:0")
    async with connect(near.url) as one, connect(browser.location) as other, connect(far.url) as there:
        for number in range(6):
            await there.publish_confirmed(f"/a/{number % 2}", number)
        got: list[tuple[int, Any]] = []
        for client in (one, other, there):
            async with client.consume("c", "/a/", from_offset=0, prefetch=2) as stream:
                for message in [await stream.receive(), await stream.receive()]:
                    got.append((message.offset, message.value))
                    await message.ack()
        assert got == [(number, number) for number in range(6)]
        assert members(far) == 0
        late = datetime.fromtimestamp([record.time_us async for record in one.read("/a/")][4] / 1e6, UTC)
        async with one.consume("late", "/a/", from_time=late) as stream:
            assert (await stream.receive()).value == 4
        stream = one.consume("c")
        await stream.open()
        assert members(far) == 1
    await eventually(lambda: members(far) == 0)


async def test_a_consumer_whose_link_is_lost(chain: Chain) -> None:
    near, far = await chain(2, of="hub-1")
    async with connect(near.url) as client, connect(far.url) as there:
        for number in range(4):
            await there.publish_confirmed("/a", number)
        async with client.consume("c", "/a", from_offset=0, redeliver_s=1000.0) as stream:
            assert [(await stream.receive()).value for _ in range(2)] == [0, 1]
            await near.stop_dialling()
            await eventually(lambda: far.server.core.mesh.hub not in near.server.core.mesh.graph.reached)
            with pytest.raises(ResponderGoneError, match=r"journal\.of: hub 'hub-1' cannot be reached now"):
                await client.consume("d", "/a").open()
            near.dial(far)
            values: list[Any] = []
            while values[-4:] != [0, 1, 2, 3]:
                message = await stream.receive()
                values.append(message.value)
                await message.ack()


@pytest.mark.parametrize("at", ["far", "near", "middle"])
async def test_what_links_let_consumers_do(chain: Chain, at: str) -> None:
    hubs = await chain(3, of="hub-2")
    some = ["/open"]
    users = {"far": (2, {"hub_1": (some, some)}), "near": (0, {"hub_1": (some, some)})}
    users["middle"] = (1, {"hub_0": (some, some), "hub_2": (EVERYTHING, EVERYTHING)})
    await judge(hubs, {users[at][0]: link_policy(**users[at][1])})
    async with connect(hubs[0].url) as client, connect(hubs[2].url) as there:
        await there.publish_confirmed("/open/x", 1)
        with pytest.raises(NotAllowedError, match="not granted"):
            await client.consume("c", "/").open()
        with pytest.raises(NotAllowedError, match="'/dead': not granted"):
            await client.consume("c", "/open/", deliveries=1, dead_letters="/dead").open()
        async with client.consume("c", "/open/", from_offset=0) as stream:
            assert (await stream.receive()).value == 1
        async with there.consume("d", "/", from_offset=0):
            if at == "far":  # consumers of that link's user are others
                with pytest.raises(RequestFailedError, match="there is no consumer"):
                    await client.consume("d").open()
            else:
                with pytest.raises(NotAllowedError, match="not granted"):
                    await client.consume("d").open()


async def test_what_users_may_consume(chain: Chain) -> None:
    hubs = await chain(2, of="hub-1")
    grants = '[roles.r]\njournal = {{ allow = {} }}\npublish = {{ allow = ["*"] }}\n[users]\nalice = ["r"]\nbob = ["r"]'
    recognise(hubs[0], policy_of(grants.format('["/a", "/b"]')))
    async with connect(hubs[0].url, name="alice") as alice, connect(hubs[0].url, name="bob") as bob:
        with pytest.raises(NotAllowedError, match="journal '/': not granted as a whole to user 'alice'"):
            await alice.consume("c", "/").open()
        async with (
            alice.consume("c", "/a/", from_offset=0) as of_alice,
            bob.consume("c", "/b/", from_offset=0) as of_bob,
            connect(hubs[1].url) as there,
        ):
            for topic in ("/a/x", "/b/x"):
                await there.publish_confirmed(topic, topic)
            assert (await of_alice.receive()).value == "/a/x"
            assert (await of_bob.receive()).value == "/b/x"
            rows = await there.request("$hub/consumers", None)
            assert isinstance(rows, list)
            assert [one["name"] for one in rows] == ["alice/c", "bob/c"]
            hubs[0].handler("alice").rights = policy_of(grants.format('["/b"]')).rights("alice")
            await there.publish_confirmed("/a/x", "secret")
            with pytest.raises(NotAllowedError, match="journal '/a/': not granted"):
                await of_alice.receive()


# GET /v1/events: events have ids there, too, and nothing is missed.


async def events(client: RawHttp, count: int) -> list[tuple[int | None, object]]:
    found = []
    for _ in range(count):
        event = await client.event()
        assert event.name == "message", event
        found.append((event.id, event.value["value"]))
    return found


async def test_history_goes_over_into_what_comes(chain: Chain) -> None:
    near, far = await chain(2, of="hub-1")
    endpoint = await near.listen("ws://127.0.0.1:0")
    await record(far, *range(6), topic="/a")
    queries = [("prefix=/a&from=2", []), ("prefix=/a&from=2001-01-01", []), ("prefix=/a", ["Last-Event-ID: 3"])]
    clients = [await follow(near, query, *lines, endpoint=endpoint) for query, lines in queries]
    await record(near, 6, topic="/a")
    for client, first in zip(clients, (2, 0, 4), strict=True):
        assert await events(client, 7 - first) == [(number, number) for number in range(first, 7)]


async def test_a_hub_that_is_not_there(start_hub: StartHub) -> None:
    near = await start_hub(name="near", settings=Settings(journal=JournalSettings(of="far")))
    endpoint = await near.listen("ws://127.0.0.1:0")
    client = await http(near, endpoint)
    await client.send(request("/v1/events?prefix=/a&from=0"))
    answer = await client.answer()
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert not any(handler.prefixes for handler in near.server.core.handlers.values())
    live = await follow(near, "prefix=/a&overflow=drop-oldest", endpoint=endpoint)
    async with connect(near.url) as publisher:
        await publisher.publish("/a", 1)
    assert await events(live, 1) == [(None, 1)]
