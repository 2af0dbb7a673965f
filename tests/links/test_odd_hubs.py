"""Real hubs in odd situations: each is one clear line, and a quiet pair of clients gets every message meanwhile."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterable, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from peers.client import connect
from tests.cli.programs import run_hub
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.settings import settings_of
from tests.links.quiet_pair import QuietPair

_DAY_S = 86_400.0
_FLAPS = 40
_BURST = 8
"""So many changes of links a hub announces at once, and then one a second (docs/mesh.md)."""


@pytest.fixture
async def pair(start_hub: StartHub) -> AsyncIterator[QuietPair]:
    near, far = await start_hub(name="near"), await start_hub(name="far")
    near.dial(far)
    pair = await QuietPair.of(near, far)
    await pair.exchange()
    yield pair
    await pair.exchange()


def warnings(logs: Iterable[MutableMapping[str, Any]]) -> list[str]:
    return [line["event"] for line in logs if line["log_level"] not in {"debug", "info"}]


async def test_two_hubs_with_one_id(pair: QuietPair, start_hub: StartHub) -> None:
    twins = [await start_hub(name=name, hub_id=b"twin" * 4) for name in ("one", "other")]
    with capture_logs() as logs:
        async with pair.busy():
            for twin, hub in zip(twins, (pair.near, pair.far), strict=True):
                twin.dial(hub)
            await eventually(lambda: all(twin.node.core.mesh.clashes >= 3 for twin in twins))
    assert [line["hub"] for line in logs if line["log_level"] == "warning"] == [(b"twin" * 4).hex()] * 2
    assert {text[:35] for text in warnings(logs)} == {"another hub has the id of this one,"}


async def test_a_hub_that_dials_itself(pair: QuietPair) -> None:
    with capture_logs() as logs:
        async with pair.busy():
            dialler = pair.near.dial(pair.near)
            await eventually(lambda: sum(line["event"] == "connection closed" for line in logs) == 2)
    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert (line["event"], line["reason"], dialler.attempts) == ("no link to peer", dialler.last_reason, 1)
    assert "that is yourself" in dialler.last_reason


async def test_a_link_that_flaps(pair: QuietPair, start_hub: StartHub) -> None:
    flapping = await start_hub(name="flapping")
    mesh, clock = pair.far.node.core.mesh, pair.far.clock
    before, since_s = mesh.statistics().announcements_total, clock.time()
    async with pair.busy():
        flapping.dial(pair.near)
        for _ in range(_FLAPS):
            await eventually(lambda: len(flapping.node.links) == 1)
            await flapping.crash()
    told = mesh.statistics().announcements_total - before
    assert 0 < told <= 2 * (_BURST + 1 + clock.time() - since_s)


@pytest.mark.parametrize("jump_s", [-9_000 * _DAY_S, 9_000 * _DAY_S])
async def test_clocks_that_are_set(pair: QuietPair, monkeypatch: pytest.MonkeyPatch, jump_s: float) -> None:
    hubs = (pair.near, pair.far)
    await eventually(lambda: all(hub.node.core.mesh.is_settled for hub in hubs))
    epochs = [hub.node.core.mesh.epoch for hub in hubs]
    links = [list(hub.node.core.mesh.links) for hub in hubs]
    with capture_logs() as logs:
        async with pair.busy():
            wall_us = pair.near.node.wall_us() + round(jump_s * 1e6)
            monkeypatch.setattr(pair.near.node, "wall_us", lambda: wall_us)
            for hub in hubs:
                hub.later(1.5)
            reader = await pair.near.client("/late")
            await eventually(lambda: "/late" in pair.far.wanted_by(pair.near))
            await (await pair.far.client()).publish("/late", 1)
            assert await reader.values(1) == [("/late", 1)]
    assert [hub.node.core.mesh.epoch for hub in hubs] == epochs
    assert [list(hub.node.core.mesh.links) for hub in hubs] == links
    assert warnings(logs) == []


async def test_a_hub_that_wakes_up_after_a_day(pair: QuietPair) -> None:
    hub = pair.near
    with capture_logs() as logs:
        for _ in range(3):
            hub.later(_DAY_S)
            await pair.exchange()
    assert warnings(logs) == []
    await eventually(lambda: hub.node.core.mesh.is_settled)
    assert pair.far.node.id in hub.node.core.mesh.graph.reached


async def test_a_hub_that_is_stopped_for_long(pair: QuietPair, start_hub: StartHub, tmp_path: Path) -> None:
    settings = settings_of(ping_after_s=0.3, ping_timeout_s=0.2)
    ends = [await start_hub(name=name, settings=settings) for name in ("west", "east")]
    peers = [flag for hub in ends for flag in ("--peer", hub.url)]
    with run_hub(tmp_path, *peers, "--name", "middle") as middle:
        async with (
            pair.busy(),
            connect(ends[1].url) as reader,
            connect(ends[0].url) as writer,
            reader.subscribe("/way") as messages,
        ):
            west = ends[0].node.core.mesh
            await eventually(lambda: ends[0].wanted_by(ends[1]) == {"/way"} and len(west.graph.reached) == 3)
            await writer.publish("/way", 1)
            assert (await messages.receive()).value == 1
            middle.process.send_signal(signal.SIGSTOP)
            while any(hub.node.core.mesh.links for hub in ends):
                for hub in ends:
                    hub.later(0.1)
                await asyncio.sleep(0.01)
            middle.process.send_signal(signal.SIGCONT)
            await eventually(lambda: len(west.graph.reached) == 3 and west.is_settled)
            await writer.publish("/way", 2)
            assert (await messages.receive()).value == 2
