"""A policy that is swapped while very many subscriptions stand by it and messages flow."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from hub.batch import decode_values
from hub.errors import CloseCode
from peers.wire.control import decode_notice
from peers.wire.kinds import Kind
from tests.daemon.hub_process import HubProcess
from tests.faults.hubs import DEADLINE_S
from tests.hubs.raw_client import RawClient

_PREFIXES = 100
_AFTERWARDS = 20
_ALL, _QUIET = "/crowd/all", "/quiet/one"


def _policy(path: Path, *granted: str) -> Path:
    paths = ", ".join(f'"{one}"' for one in granted)
    path.write_text(f'[roles.some]\npublish = ["*"]\nsubscribe = [{paths}]\n')
    return path


async def _client(hub: HubProcess, *prefixes: str) -> RawClient:
    client = await RawClient.connect(hub.endpoints[0])
    await client.greet()
    if prefixes:
        await client.subscribe(*prefixes)
    return client


async def _publish(publisher: RawClient, stop: asyncio.Event) -> int:
    """Publish numbers to the crowd and to the quiet reader, until told to stop; return how many."""
    number = 0
    while not stop.is_set():
        for topic in (_ALL, _QUIET):
            await publisher.publish(topic, number)
        number += 1
        await asyncio.sleep(0.005)
    return number


@pytest.mark.parametrize("clients", [50, pytest.param(1000, marks=pytest.mark.slow)])
async def test_nothing_is_delivered_behind_the_swap(tmp_path: Path, clients: int) -> None:
    """Of what was published since the hub has said that it is done; each client is told what was taken away, once.

    A quiet reader, whose prefix is granted before and after, gets every number in order.
    """
    policy = _policy(tmp_path / "policy.toml", "/quiet", "/crowd")
    flags = ["--access-policy", str(policy), "--anonymous", "some", "--log-format", "json"]
    wide = ["--limits-connections-per-address", "5000", "--quotas-prefixes", "1000000"]
    wide += ["--limits-ping-after-s", "600"]  # the crowd answers no pings, as it reads only in the end
    process = await HubProcess.start(["--listen", "tcp://127.0.0.1:0", *flags, *wide], {})
    try:
        hub = await process.wait_up()
        crowd = [
            await _client(hub, _ALL, *(f"/crowd/{number}/{n}" for n in range(_PREFIXES - 1)))
            for number in range(clients)
        ]
        quiet, publisher = await _client(hub, _QUIET), await _client(hub)
        stop = asyncio.Event()
        publishing = asyncio.create_task(_publish(publisher, stop))
        await asyncio.sleep(0)
        _policy(policy, "/quiet")
        hub.signal(signal.SIGHUP)
        async with asyncio.timeout(2 * DEADLINE_S):
            await hub.wait_logged("settings reloaded")
            stop.set()
            behind = await publishing
            for number in range(behind, behind + _AFTERWARDS):
                for topic in (_ALL, _QUIET):
                    await publisher.publish(topic, number)
            await publisher.ping()
            assert [value for _, value in await quiet.values(behind + _AFTERWARDS)] == [*range(behind + _AFTERWARDS)]
            for client in crowd:
                before = await client.ping()
                notices = [decode_notice(frame.body) for frame in before if frame.kind == Kind.NOTICE]
                values = [value for frame in before if frame.kind == Kind.MESSAGES for value in decode_values(frame)]
                assert values == [*range(len(values))]
                assert len(values) <= behind
                (notice,) = notices
                assert notice.code == CloseCode.NOT_ALLOWED
                assert "no longer granted to user 'anonymous', and taken away: subscribe '/crowd/" in notice.text
        for client in (*crowd, quiet, publisher):
            client.close()
    finally:
        await process.kill()
