"""Stores that keep the last message of each topic."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from hub.batch import Batch, encode_values
from hub.errors import InvalidTopicError, UsageError
from hub.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from hub.settings.sections import StoresSettings
from hub.settings.settings import Settings
from hub.stores.naming import parse_feed
from peers.client import connect
from peers.client.values import encode_value
from peers.values import Count, encode, value_of
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub


async def _fed(start_hub: StartHub, *urls: str, **settings: Any) -> Hub:
    stores = StoresSettings(open=("last=:memory:", "idle=:memory:"), feeds=("last=/status/", "last=/x"), **settings)
    return await start_hub(*urls, settings=Settings(stores=stores))


def _counts(hub: Hub) -> list[tuple[int, int]]:
    return [(feed.messages_total, feed.lost_total) for feed in hub.node.stores.feeds]


async def test_a_late_comer_has_the_last_messages_first_and_then_what_comes(start_hub: StartHub) -> None:
    """The key is the topic, the value that of its last message, with its type; others are left alone."""
    hub = await _fed(start_hub)
    async with connect(hub.url) as client:
        for value in range(1_000):
            client.publish_nowait("/status/a", value)
        client.publish_nowait("/status/b", Count(7), ["label"])
        client.publish_nowait("/status", "not under the prefix")
        client.publish_nowait("/x/y", {"deep": [None]})
        store = client.store("last")

        await eventually(lambda: _counts(hub) == [(1_001, 0), (1, 0)])
        assert {entry.key: entry.value async for entry in store.entries()} == {
            "/status/a": 999,
            "/status/b": Count(7),
            "/x/y": {"deep": [None]},
        }
        async with store.watch("/status/") as changes:
            present = [await anext(changes), await anext(changes)]
            assert {change.key: change.value for change in present} == {"/status/a": 999, "/status/b": Count(7)}
            client.publish_nowait("/status/a", "next")
            change = await anext(changes)
            assert (change.key, change.value, change.old, change.present) == ("/status/a", "next", 999, False)
        assert await client.store("idle").keys() == []
        (listed,) = [each for each in await client.request("$hub/stores", None) if each["name"] == "last"]
        assert listed["fed_from"] == ["/status/", "/x"]


async def test_entries_expire(start_hub: StartHub) -> None:
    hub = await _fed(start_hub, feed_expires_s=0.2)
    async with connect(hub.url) as client:
        store = client.store("last")
        async with store.watch() as changes:
            client.publish_nowait("/status/a", 1)
            assert [(await anext(changes)).kind.value for _ in range(2)] == ["put", "expire"]


async def test_forms(start_hub: StartHub) -> None:
    """What Zeeks publish is converted; what has no msgpack form, or is too large, is counted and changes nothing."""
    hub = await _fed(start_hub, entry_bytes=100)
    feed = hub.node.stores.feeds[0]

    def publish(frame: bytes) -> None:
        feed.send([Batch(frame, 1)])

    publish(encode_frame(KIND_MESSAGES, encode(value_of(Count(3))), key=b"/status/zeek", flags=BROKER_FLAGS))
    publish(encode_values(b"/status/batch", [encode_value(1), encode_value([2])]))
    for bad in (
        encode_frame(KIND_MESSAGES, b"\xff\xff", key=b"/status/zeek", flags=BROKER_FLAGS),
        encode_frame(KIND_MESSAGES, b"\xc1", key=b"/status/batch"),
        encode_frame(KIND_MESSAGES, struct.pack("<I", 5) + b"\x01", key=b"/status/batch", flags=1),
        encode_frame(KIND_MESSAGES, b"\x01", key=b"/status/batch", flags=3 << 1),
        encode_frame(KIND_MESSAGES, encode_value("x" * 200), key=b"/status/batch"),
    ):
        publish(bad)
    await eventually(lambda: _counts(hub)[0] == (7, 5))
    async with connect(hub.url) as client:
        store = client.store("last")
        assert (await store.get("/status/zeek"), await store.get("/status/batch")) == (Count(3), [2])


async def test_shared_memory(start_hub: StartHub, tmp_path: Path) -> None:
    hub = await _fed(start_hub, f"unix://{tmp_path}/hub.sock")
    picture = b"\x01" * 200_000
    async with connect(hub.url) as client, client.store("last").watch() as changes:
        client.publish_nowait("/status/picture", picture)
        assert (await anext(changes)).value == picture


async def test_it_ends_with_the_hub(start_hub: StartHub) -> None:
    hub = await _fed(start_hub)
    before = len(hub.node.core.handlers)
    await hub.node.stores.stop()
    assert len(hub.node.core.handlers) == before - 4


@pytest.mark.parametrize("text", ["last", "=/a", "a/b=/a", "last=$store/", "last=$store/x/"])
def test_no_feed(text: str) -> None:
    with pytest.raises((UsageError, InvalidTopicError)):
        parse_feed(text)
