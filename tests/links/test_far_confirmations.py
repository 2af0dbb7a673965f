"""Messages that the journal of another hub confirms: over one link and over several, in order, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hub.errors import CloseCode, RejectedError
from hub.settings.sections import JournalSettings
from hub.settings.settings import Settings
from peers.client import connect
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.slow_journal import SlowJournal
from tests.links.test_far_history import known

Chain = Callable[..., Awaitable[list[Hub]]]


@pytest.fixture
async def chain(start_hub: StartHub, tmp_path: Path) -> Chain:
    async def start(count: int, **journal: Any) -> list[Hub]:
        names = [f"hub-{number}" for number in range(count)]
        recording = JournalSettings(path=str(tmp_path / "journal"), **({"commit_s": 0.001} | journal))
        rows = [Settings(journal=JournalSettings(of=names[-1]))] * (count - 1) + [Settings(journal=recording)]
        hubs = [await start_hub(name=name, settings=row) for name, row in zip(names, rows, strict=True)]
        for near, far in pairwise(hubs):
            near.dial(far)
        await known(hubs)
        return hubs

    return start


@pytest.mark.parametrize("count", [2, 4])
async def test_the_offset_is_that_of_the_record(chain: Chain, count: int) -> None:
    hubs = await chain(count)
    near, far = hubs[0], hubs[-1]
    await eventually(lambda: far.node.core.mesh.hub in near.node.core.mesh.graph.reached)
    await eventually(lambda: near.wanted_by(far))
    browser = await near.listen("ws://127.0.0.1:0")
    async with connect(near.url) as one, connect(browser.location) as other:
        for number in range(3):
            assert await one.publish_confirmed("/a", number) == 2 * number
            assert await other.publish_confirmed("/b", number) == 2 * number + 1
        found = [(record.offset, record.topic, record.value) async for record in one.read("/")]
    assert found == [(place, "/ab"[0] + "ab"[place % 2], place // 2) for place in range(6)]
    marks, asked = far.node.marks, near.node.far_confirmations
    assert (marks.expected, marks.confirmed_total, marks.refused_total) == (0, 6, 0)
    assert (asked.pending, asked.taken, asked.refused_total) == (0, 6, 0)


async def test_order_is_kept_among_messages_that_nobody_confirms(chain: Chain) -> None:
    hubs = await chain(3)
    near, far = hubs[0], hubs[-1]
    await eventually(lambda: near.wanted_by(far))
    total = 300
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
    hubs = await chain(2, topics=("/kept",))
    await eventually(lambda: hubs[0].wanted_by(hubs[1]))
    async with connect(hubs[0].url) as client, client.subscribe("/other") as messages:
        with pytest.raises(RejectedError) as refused:
            await client.publish_confirmed("/other", 1)
        assert refused.value.code == CloseCode.NOT_ALLOWED
        assert refused.value.text == "journal of hub 'hub-1': topic not recorded there; see journal.topics of that hub"
        assert (await anext(messages)).value == 1
        assert await client.publish_confirmed("/kept", 2) == 0


async def test_a_hub_that_is_lost_confirms_nothing(chain: Chain) -> None:
    hubs = await chain(3)
    near, _, far = hubs
    await eventually(lambda: near.wanted_by(far))
    far.node.journal = SlowJournal(far.node.core, "/")
    async with connect(near.url) as client:
        waiting = [asyncio.ensure_future(client.publish_confirmed("/a", number)) for number in range(50)]
        await eventually(lambda: far.node.marks.expected)
        await far.crash()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(outcome, RejectedError) for outcome in outcomes)
        assert "may be recorded or not" in str(outcomes[0])
        await eventually(lambda: far.node.id not in near.node.core.mesh.graph.reached)
        with pytest.raises(RejectedError, match=r"journal\.of: hub 'hub-2' cannot be reached now"):
            await client.publish_confirmed("/a", 1)
    assert near.node.far_confirmations.pending == 0
