"""History of another hub's journal: over one link and over several, by name and by id, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hub.errors import CloseCode, GoneError, RejectedError, UsageError
from hub.settings.sections import JournalSettings, Limits
from hub.settings.settings import Settings
from peers.client import Client, connect
from peers.client.journal import History, Record
from peers.journal import far_journals
from peers.journal.far_journals import PIECE_BYTES
from peers.transport.backoff import Backoff
from tests.connections.rights.conftest import recognise
from tests.hub.rights.hall import policy_of
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub

Chain = Callable[..., Awaitable[list[Hub]]]

QUICK = Backoff(base_s=0.001, cap_s=0.01)


@pytest.fixture
async def chain(start_hub: StartHub, tmp_path: Path) -> Chain:
    async def start(count: int, *, of: str = "", limits: Limits | None = None, **journal: Any) -> list[Hub]:
        path = str(tmp_path / "journal")
        recording = JournalSettings(path=path, **({"commit_s": 0.001} | journal))
        plain = Settings(limits=limits or Limits())
        rows = [Settings(journal=JournalSettings(of=of)), *[plain] * (count - 2)]
        rows.append(Settings(journal=recording, limits=limits or Limits()))
        hubs = [await start_hub(name=f"hub-{number}", settings=row) for number, row in enumerate(rows)]
        for near, far in pairwise(hubs):
            near.dial(far)
        await known(hubs)
        return hubs

    return start


async def known(hubs: list[Hub]) -> None:
    ids = {hub.node.id for hub in hubs}
    await eventually(lambda: all(ids <= set(hub.node.core.mesh.graph.reached) for hub in hubs))


async def record(hub: Hub, *values: Any, topic: str = "/n") -> None:
    async with connect(hub.url, buffer_bytes=64 << 20) as client:
        for value in values[:-1]:
            await client.publish(topic, value)
        await client.publish_confirmed(topic, values[-1])


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


@pytest.mark.parametrize("count", [2, 4])
async def test_by_name_and_by_id(chain: Chain, count: int) -> None:
    hubs = await chain(count)
    far = hubs[-1]
    await record(far, *range(100))
    async with connect(far.url) as client:
        own = [one async for one in client.read("/n")]
        state = await client.journal()
        assert [one async for one in client.read("/n", hub=far.node.name)] == own
    assert [one.value for one in own] == list(range(100))
    browser = await hubs[0].listen("ws://127.0.0.1:0")
    for url in (hubs[0].url, browser.location):
        async with connect(url) as client:
            assert [one async for one in client.read("/n", hub=far.node.name)] == own
            assert [one async for one in client.read("/n", hub=far.node.id.hex())] == own
            assert await client.journal(hub=far.node.name) == state
            assert state.id == far.node.journal.id
            with pytest.raises(RejectedError, match="this hub has no journal"):
                await client.journal()


async def test_much_by_prefix_and_time_beside_a_live_stream(chain: Chain) -> None:
    hubs = await chain(3)
    near, far = hubs[0], hubs[2]
    body = "x" * 300
    async with connect(far.url) as source, connect(near.url) as client, client.subscribe("/live/") as live:
        await eventually(lambda: "/live/" in far.wanted_by(near))
        for number in range(2_000):
            await source.publish("/old/a", number)
        await source.publish_confirmed("/old/a", 2_000)
        (first,) = [one async for one in client.read("/old/", start=2_000, hub="hub-2")]
        since_us = first.time_us + 1
        await eventually(lambda: far.node.wall_us() > since_us)
        for number in range(10_000):
            await source.publish("/old/b", [number, body])
            await source.publish("/other", number)
        await source.publish_confirmed("/other", None)

        async def stream() -> None:
            for number in range(3_000):
                await source.publish("/live/n", number)
                if not number % 100:
                    await asyncio.sleep(0)

        publishing = asyncio.ensure_future(stream())
        since = datetime.fromtimestamp(since_us / 1e6, UTC)
        pieces = 0
        found: list[Record] = []
        history = client.read("/old/", start_time=since, hub="hub-2", piece_bytes=1 << 30)
        async for piece in history.pieces():
            pieces += 1
            assert sum(map(len, piece.blocks)) < 6 * PIECE_BYTES
        assert pieces > 3
        found = [one async for one in client.read("/old/", start_time=since, hub="hub-2")]
        assert [one.value for one in found] == [[number, body] for number in range(10_000)]
        assert {one.topic for one in found} == {"/old/b"}
        assert all(one.time_us >= since_us for one in found)
        await publishing
        assert [(await anext(live)).value for _ in range(3_000)] == list(range(3_000))
        assert live.lost_messages == 0


@pytest.mark.parametrize("size_bytes", [5_000_000, 16_000_000])
async def test_huge_records(chain: Chain, size_bytes: int) -> None:
    hubs = await chain(3)
    await record(hubs[2], b"a", b"x" * size_bytes, b"z")
    async with connect(hubs[0].url) as client:
        assert [len(value) for value in await values(client, "/n", hub="hub-2")] == [1, size_bytes, 1]


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
        await eventually(lambda: len(hubs[0].node.core.mesh.graph.reached) == 2)
        error = await refused(client, hub="hub-2")
        assert (error.code, error.text) == (1013, "hub 'hub-2' cannot be reached now")
        with pytest.raises(RejectedError, match="hub 'hub-2' cannot be reached now"):
            await client.subscribe("/n", from_offset=0, hub="hub-2").open()
        with pytest.raises(UsageError, match="give from_offset"):
            client.subscribe("/n", hub="hub-2")


async def test_a_name_that_two_hubs_have(chain: Chain, start_hub: StartHub, tmp_path: Path) -> None:
    hubs = await chain(2)
    settings = Settings(journal=JournalSettings(path=str(tmp_path / "other"), commit_s=0.001))
    twin = await start_hub(name="hub-1", settings=settings)
    hubs[0].dial(twin)
    await known([hubs[0], twin])
    await record(hubs[1], "one")
    await record(twin, "two", topic="/m")
    async with connect(hubs[0].url) as client:
        error = await refused(client, hub="hub-1")
        assert error.code == CloseCode.BAD_DATA
        assert hubs[1].node.id.hex() in error.text
        assert twin.node.id.hex() in error.text
        assert await values(client, "/n", hub=hubs[1].node.id.hex()) == ["one"]
        assert await values(client, "/m", hub=twin.node.id.hex()) == ["two"]
        await hubs[0].stop_dialling()
        await twin.crash()
        hubs[0].dial(hubs[1])
        await eventually(lambda: set(hubs[0].node.core.mesh.graph.reached) == {hub.node.id for hub in hubs})
        assert await values(client, "/n", hub="hub-1") == ["one"]


# What happens meanwhile.


async def test_the_way_is_lost_and_found_again(chain: Chain) -> None:
    hubs = await chain(3)
    await record(hubs[2], *([number, "x" * 300] for number in range(5_000)))
    async with connect(hubs[0].url) as client:
        history = client.read("/n", hub="hub-2", piece_bytes=20_000)
        seen: list[list[Any]] = []
        with pytest.raises(RejectedError) as caught:
            await read_into(history, seen, 2_000, hubs[1].stop_dialling)
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
        await eventually(lambda: hubs[0].node.core.requests.statistics().pending)
        await hubs[1].stop_dialling()
        await eventually(lambda: not hubs[0].node.core.requests.statistics().pending)
        await record(hubs[2], 2, 3)
        hubs[1].dial(hubs[2])
        assert [(await anext(messages)).value for _ in range(2)] == [2, 3]
        await eventually(lambda: messages.position == 2)
        assert (messages.breaks, messages.lost_messages) == (0, 0)


async def test_nobody_waits_for_it_any_more(chain: Chain) -> None:
    hubs = await chain(2)
    await record(hubs[1], 0)
    async with connect(hubs[0].url) as client:
        async with client.subscribe("/n", from_offset=1, hub="hub-1") as messages:
            await eventually(lambda: messages.live)
            await eventually(lambda: hubs[0].node.far_journals.pending)
        await record(hubs[1], 1)  # the answer that comes now is nobody's
        await eventually(lambda: not hubs[0].node.far_journals.pending)
        await eventually(lambda: not hubs[0].node.core.requests.statistics().pending)


@pytest.mark.parametrize("goes", ["stream", "client"])
async def test_a_reader_that_has_gone_leaves_its_place_with_the_hubs(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, goes: str
) -> None:
    monkeypatch.setattr(far_journals, "WAIT_MS", 1)
    hubs = await chain(3)
    near, far = hubs[0].node, hubs[2].node
    await record(hubs[2], 0)
    async with connect(hubs[0].url) as staying, connect(hubs[0].url) as client:
        async with staying.subscribe("/n", from_offset=1, hub="hub-2") as messages:
            async with client.subscribe("/n", "/m", from_offset=1, hub="hub-2"):
                await eventually(lambda: far.far_journals.answering == 2)
                if goes == "client":
                    await client.close()
            answered = far.far_journals.answered_total
            await eventually(lambda: far.far_journals.answered_total >= answered + 4)
            await record(hubs[2], 1)
            assert (await anext(messages)).value == 1
        await eventually(lambda: not far.far_journals.answering)
        await eventually(lambda: not near.core.requests.statistics().pending)


async def test_what_is_not_there(chain: Chain) -> None:
    hubs = await chain(3)
    await record(hubs[2], 0, 1)
    async with connect(hubs[0].url) as client:
        with pytest.raises(GoneError) as caught:
            await values(client, start=10, hub="hub-2")
        assert caught.value.first == 0
        assert caught.value.text.startswith("journal of hub 'hub-2': ")


async def test_what_was_deleted(chain: Chain) -> None:
    hubs = await chain(3, keep_bytes=64 * 1024, compression="none")
    async with connect(hubs[2].url) as source, connect(hubs[0].url) as client:
        for number in range(20):
            await source.publish_confirmed("/n", [number, "x" * 10_000])
        with pytest.raises(GoneError) as caught:
            await values(client, hub="hub-2")
        first = caught.value.first
        assert first == (await client.journal(hub="hub-2")).first > 0
        left = await values(client, start=first, hub="hub-2")
        assert [number for number, _ in left] == list(range(first, 20))


async def test_another_journal_under_the_same_name(chain: Chain, start_hub: StartHub, tmp_path: Path) -> None:
    hubs = await chain(2)
    await record(hubs[1], 0, 1)
    async with connect(hubs[0].url, backoff=QUICK) as client:
        stream = client.subscribe("/n", from_offset=0, hub="hub-1")
        async with stream as messages:
            assert [(await anext(messages)).value for _ in range(2)] == [0, 1]
            settings = Settings(journal=JournalSettings(path=str(tmp_path / "other"), commit_s=0.001))
            other = await start_hub(name="hub-1", settings=settings)
            await record(other, "a", "b", "c")
            await hubs[0].stop_dialling()
            await hubs[1].crash()
            hubs[0].dial(other)
            with pytest.raises(RejectedError, match="another journal than before") as caught:
                await anext(messages)
            assert caught.value.code == CloseCode.GONE


# A hub without a journal that names one.


async def test_a_hub_without_a_journal_names_one(chain: Chain) -> None:
    hubs = await chain(3, of="hub-2")
    await record(hubs[2], *range(10))
    async with connect(hubs[0].url) as client:
        assert await values(client) == list(range(10))
        assert (await client.journal()).id == hubs[2].node.journal.id
        async with client.subscribe("/n", from_offset=8) as messages:
            assert [(await anext(messages)).value for _ in range(2)] == [8, 9]
            await eventually(lambda: messages.live)
            await record(hubs[2], 10, 11)
            assert [(await anext(messages)).value for _ in range(2)] == [10, 11]
        text = "this hub does not record; batches are for the hub 'hub-2', whose journal is read here"
        with pytest.raises(RejectedError, match=text):
            await client.stage("t", 0, b"")


async def test_the_hub_that_is_named_comes_later(start_hub: StartHub, tmp_path: Path) -> None:
    settings = Settings(journal=JournalSettings(of="core"))
    near = await start_hub(name="worker", settings=settings)
    async with connect(near.url, backoff=QUICK) as client:
        error = await refused(client)
        assert error.code == CloseCode.TRY_AGAIN_LATER
        assert error.text == "journal.of: no hub of the mesh has the name or the id 'core', as far as this hub knows"
        stream = client.subscribe("/n", from_offset=0)
        opening = asyncio.ensure_future(stream.open())
        recording = Settings(journal=JournalSettings(path=str(tmp_path / "journal"), commit_s=0.001))
        core = await start_hub(name="core", settings=recording)
        await record(core, 1)
        near.dial(core)
        await opening
        assert (await anext(stream)).value == 1
        stream.close_nowait()


async def test_hubs_that_name_each_other(start_hub: StartHub) -> None:
    first = await start_hub(name="first", settings=Settings(journal=JournalSettings(of="second")))
    second = await start_hub(name="second", settings=Settings(journal=JournalSettings(of="first")))
    first.dial(second)
    await known([first, second])
    async with connect(first.url) as client:
        error = await refused(client)
        assert (error.code, error.text) == (1008, "journal of hub 'second': that hub has no journal of its own")
    alone = await start_hub(name="alone", settings=Settings(journal=JournalSettings(of="alone")))
    async with connect(alone.url) as client:
        assert "hub 'alone' has no journal of its own" in (await refused(client)).text


# Who may.

TOPICS = ("/open", "/secret", "/half/a", "/half/b")


async def _recorded(hub: Hub) -> None:
    for topic in TOPICS:
        await record(hub, topic, topic=topic)


def link_policy(**users: tuple[list[str], list[str]]) -> Any:
    roles = [f"[roles.{name}]\nlink = {{ bring = {bring}, take = {take} }}" for name, (bring, take) in users.items()]
    held = [f'{name.replace("_", "-")} = ["{name}"]' for name in users]
    return policy_of("\n".join([*roles, "[users]", *held]))


@pytest.mark.parametrize(
    ("count", "at"), [(2, "far"), (2, "near"), *((count, at) for count in (3, 4) for at in ("far", "near", "middle"))]
)
async def test_what_links_may_take_and_bring(chain: Chain, count: int, at: str) -> None:
    hubs = await chain(count)
    far = hubs[-1]
    await _recorded(far)
    everything, some = ["*"], ["/open", "/half/b"]
    for hub in hubs:
        await hub.stop_dialling()
    if at == "far":
        recognise(far, link_policy(**{f"hub_{count - 2}": (everything, some)}))
    elif at == "near":
        recognise(hubs[0], link_policy(hub_1=(some, everything)))
    else:
        recognise(hubs[1], link_policy(hub_0=(everything, some), hub_2=(everything, everything)))
    for near, other in pairwise(hubs):
        near.dial(other)
    await known(hubs)
    async with connect(hubs[0].url) as client:
        assert await values(client, hub=far.node.name) == ["/open", "/half/b"]
        assert await values(client, "/half/", "/secret", hub=far.node.name) == ["/half/b"]
        assert await values(client, "/secret", hub=far.node.name) == []
        assert await values(client, "/open", hub=far.node.id.hex()) == ["/open"]


async def test_each_link_leaves_out_what_is_its_own(chain: Chain) -> None:
    hubs = await chain(4)
    await _recorded(hubs[3])
    for hub in hubs:
        await hub.stop_dialling()
    everything = ["*"]
    recognise(hubs[0], link_policy(hub_1=(["/open", "/half", "/secret"], everything)))
    recognise(hubs[1], link_policy(hub_0=(everything, ["/open", "/half"]), hub_2=(["/open", "/half/a"], everything)))
    recognise(hubs[3], link_policy(hub_2=(everything, ["/half", "/secret"])))
    for near, other in pairwise(hubs):
        near.dial(other)
    await known(hubs)
    async with connect(hubs[0].url) as client:
        assert await values(client, hub="hub-3") == ["/half/a"]


async def test_a_link_that_may_take_nothing(chain: Chain) -> None:
    hubs = await chain(3)
    await _recorded(hubs[2])
    for hub in hubs:
        await hub.stop_dialling()
    recognise(hubs[1], link_policy(hub_0=(["*"], []), hub_2=(["*"], ["*"])))
    recognise(hubs[2], link_policy(hub_1=(["*"], ["*"])))
    for near, other in pairwise(hubs):
        near.dial(other)
    await known(hubs)
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
            assert error.text.startswith("journal '': not granted as a whole to user 'alice'; granted beneath: ")
            assert "not granted" in (await refused(client, "/half/", **named)).text
            assert await values(client, "/open/", **named) == []
            assert await values(client, "/half/a/", **named) == []
        async with connect(hubs[0].url, name="alice", narrow=True) as client:
            assert await values(client, **named) == ["/open", "/half/a"]
            assert await values(client, "/secret", **named) == []
    async with connect(hubs[0].url, name="alice") as client:
        assert "not granted" in (await refused(client, "/secret", hub="nobody")).text
