"""Watchers that do not read, and very many of them: neither is in anybody's way."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hub.overflow import QueueLimits
from hub.settings.sections import StoresSettings
from hub.settings.settings import Settings
from hub.stores.command import StoreLimits
from hub.turn import WRITES_PER_TURN
from peers.client import connect
from peers.client import replica as watch
from peers.stores.keeping import InMemory
from peers.stores.wire import changes_topic, heard
from peers.wire.control import encode_subscription
from peers.wire.kinds import Kind
from tests.connections.pretend import HELLO
from tests.connections.test_crowds import Crowd
from tests.hubs.fixtures import StartHub
from tests.stores.packed import SECOND_NS, command, unpack

_VALUE = "x" * 4_000
_ROUNDS = 100
_KEYS = 50
WATCHERS = 10_000


async def test_a_watcher_that_does_not_read(start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queue overflows, which is counted and told to it; others hear each change, and it has the end state."""
    monkeypatch.setattr(watch, "HELD_CHANGES", 50)
    stores = StoresSettings(open=("s=:memory:",), changes=100)
    hub = await start_hub(settings=Settings(stores=stores, queue=QueueLimits(messages=10)))
    async with (
        connect(hub.url, name="writer") as writer,
        connect(hub.url, name="quick") as quick,
        connect(hub.url, name="slow", stream_bytes=1_000) as slow,
        quick.store("s").watch() as heard,
        slow.store("s").watch() as unread,
    ):
        store = writer.store("s")
        versions: list[int] = []
        for number in range(_ROUNDS):
            written = await store.put_many({key: [number, _VALUE] for key in range(_KEYS)})
            while not versions or versions[-1] < written[-1]:
                versions.append((await anext(heard)).version)
        assert versions == list(range(versions[0], versions[0] + _ROUNDS * _KEYS))
        assert hub.handler("quick").dropped_messages == 0
        assert hub.handler("slow").dropped_messages > 0
        state: dict[Any, Any] = {}
        while state != {key: [_ROUNDS - 1, _VALUE] for key in range(_KEYS)}:
            change = await anext(unread)
            assert change.old == state.get(change.key)
            state[change.key] = change.value
        assert slow.statistics().dropped_messages > 0


@pytest.mark.slow
async def test_ten_thousand_watchers() -> None:
    """Each hears of a change, once; they are written to in several turns, and requests are answered in between."""
    crowd = Crowd()
    master = crowd.node.stores.add("s", StoreLimits(), InMemory(lambda: 1))
    for _ in range(WATCHERS):
        watcher = crowd.connect()
        watcher.data_received(HELLO + encode_subscription(Kind.SUBSCRIBE, [changes_topic("s")]))
        while crowd.loop.ready:
            crowd.loop.play_turn()
    watchers = list(crowd.transports)
    for transport in watchers:
        transport.far.incoming.clear()
    master.apply([command("put", "k", 1)], lambda *_: None)
    most = crowd.most_in_a_turn(lambda: sum(bool(one.far.incoming) for one in watchers), WATCHERS)
    assert most <= WRITES_PER_TURN
    told = {bytes(one.far.incoming.popleft() or b"") for one in watchers}
    assert len(told) == 1
    (frame,) = told
    _, rows = msgspec.msgpack.decode(frame[8 + len(changes_topic("s")) :])
    (change,) = heard(rows, SECOND_NS)
    assert (unpack(change.key), unpack(change.value)) == ("k", 1)
    assert master.statistics().published_total == 1
    assert not any(handler.dropped_messages for handler in crowd.node.core.handlers.values())
    master.stop()
