"""`$hub/topics` of a hub that listens: which topics bring how much."""

from __future__ import annotations

from typing import Any

import pytest

from hub.policy.language import read_policy
from peers.admin import topics as topics_module
from peers.client import Client, connect
from tests.hubs.eventually import eventually
from tests.hubs.hub import Hub


async def publish(client: Client, *topics: str) -> None:
    for topic in topics:
        client.publish_nowait(topic, 1)
    await client.drain()


def prefixes(answer: dict[str, Any]) -> list[tuple[str, int]]:
    return [(row["prefix"], row["messages"]) for row in answer["rows"]]


async def test_a_tree_with_rates_and_subscribers(hub: Hub) -> None:
    """A level at a time, the busiest first; rows say what subscribing there would bring, and how many have done so."""
    core = hub.server.core
    async with (
        connect(hub.endpoint.location) as client,
        connect(hub.endpoint.location) as other,
        other.subscribe("/zeek/"),
        client.subscribe("/zeek/dns"),
    ):
        now_s = hub.server.loop.time()
        core.tick(now_s)
        await publish(client, "/zeek/dns/a", "/zeek/dns/a", "/zeek/dns/b", "/zeek/conn", "/other")
        await eventually(lambda: len(core.topic_rates) == 4)
        core.tick(now_s + 1)
        answer = await client.request("$hub/topics", None)
        assert prefixes(answer) == [("/zeek/", 4), ("/other", 1)]
        first = answer["rows"][0]
        assert (first["is_topic"], first["topics"], first["subscribers"]) == (False, 3, 1)
        assert 3 < first["messages_per_s"] < 5, "four messages in the first second"
        assert first["bytes_per_s"] > 8 * first["messages_per_s"]
        assert (answer["counted"], answer["others"]) == (4, None)
        answer = await client.request("$hub/topics", {"under": "/zeek/"})
        assert prefixes(answer) == [("/zeek/dns/", 3), ("/zeek/conn", 1)]
        assert [row["subscribers"] for row in answer["rows"]] == [2, 1]
        answer = await client.request("$hub/topics", {"search": "DNS/"})
        assert prefixes(answer) == [("/zeek/dns/a", 2), ("/zeek/dns/b", 1)]


async def test_what_a_topic_brought_before(hub: Hub) -> None:
    async with connect(hub.endpoint.location, name="bob") as client:
        await publish(client, "/open/a", "/open/a/b", "/shut")
        await eventually(lambda: len(hub.server.core.topic_rates) == 3)
        now_s = int(hub.server.loop.time())
        hub.server.core.tick(now_s - 1)
        hub.server.core.tick(now_s)
        for second in (now_s - 5, now_s):
            hub.server.ticker.beat(float(second), 0.0)
            await eventually(lambda: hub.server.ticker._looking is None)
        history = (await client.request("$hub/topics", {"under": "/open/a"}))["history"]
        assert (history["step_s"], list(history["figures"])) == (5, ["in_messages", "in_bytes"])
        assert history["figures"]["in_messages"][-1] > 0
        assert history["now_s"] > history["clock_s"]
        for question in (None, {"under": "/open/"}, {"search": "/open/a"}, {"under": "/none"}):
            assert (await client.request("$hub/topics", question))["history"] is None
        policy = read_policy(
            {"roles": {"watcher": {"subscribe": ["/open"], "request": ["$hub"]}}, "users": {"bob": ["watcher"]}},
            "a test",
        )
        for handler in hub.server.core.handlers.values():
            if handler.name == "bob":
                handler.rights = policy.rights("bob")
        assert (await client.request("$hub/topics", {"under": "/open/a"}))["history"] is not None
        assert (await client.request("$hub/topics", {"under": "/shut"}))["history"] is None


async def test_many_rows(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics_module, "ROWS", 3)
    monkeypatch.setattr(topics_module, "TOPICS_PER_STEP", 2)
    async with connect(hub.endpoint.location) as client:
        await publish(client, *[f"/{number}" for number in range(9) for _ in range(9 - number)])
        await eventually(lambda: len(hub.server.core.topic_rates) == 9)
        answer = await client.request("$hub/topics", None)
        assert prefixes(answer) == [("/0", 9), ("/1", 8), ("/2", 7)]
        assert (answer["others"]["nodes"], answer["others"]["topics"]) == (6, 6)


async def test_who_may_see_a_part_is_told_of_that_part(hub: Hub) -> None:
    """Sums leave out what he may not see, and only admins hear how many others listen, and what else there is."""
    policy = read_policy(
        {
            "roles": {"watcher": {"subscribe": {"allow": ["/open"], "deny": ["/open/not"]}}},
            "users": {"eve": ["watcher"], "ada": ["admin"], "nobody": []},
        },
        "a test",
    )
    async with (
        connect(hub.endpoint.location, name="eve") as eve,
        connect(hub.endpoint.location, name="ada") as ada,
        connect(hub.endpoint.location, name="nobody") as nobody,
    ):
        await publish(ada, "/open/a", "/open/not/this", "/secret/a", "/open/b")
        await eventually(lambda: len(hub.server.core.topic_rates) == 4)
        for handler in hub.server.core.handlers.values():
            handler.rights = policy.rights(handler.name)
        answer = await eve.request("$hub/topics", None)
        assert prefixes(answer) == [("/open/", 2)]
        assert (answer["counted"], answer["rows"][0]["subscribers"]) == (2, None)
        assert (await eve.request("$hub/topics", {"search": "secret"}))["rows"] == []
        assert prefixes(await ada.request("$hub/topics", None)) == [("/open/", 3), ("/secret/", 1)]
        answer = await nobody.request("$hub/topics", None)
        assert (answer["rows"], answer["counted"]) == ([], 0)
