"""What hubs answer: connections, services, rights, the hub, its journal, and which topics bring how much."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from hub.errors import CloseCode, NotAllowedError, RejectedError, RequestFailedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.policy.language import read_policy
from hub.settings.settings import JournalSettings, Settings
from peers.admin import state as who_module
from peers.admin import topics as topics_module
from peers.admin.access import EVENTS
from peers.admin.services import add_services, together
from peers.admin.steps import in_steps
from peers.client import Client, ServiceRequest, connect
from peers.wire.hello import SOFTWARE
from tests.admin.conftest import POLICY, give_rights
from tests.hub.fakes import FakeOutlet
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub


async def look(hub: Hub, second: int) -> None:
    hub.server.ticker.beat(float(second), 0.0)
    await eventually(lambda: hub.server.ticker._looking is None)


async def test_who(hub: Hub) -> None:
    websocket = await hub.listen("ws://127.0.0.1:0")
    async with (
        connect(hub.endpoint.location, name="asks") as client,
        connect(websocket.location, name="web") as other,
        other.subscribe("/a", "/b") as messages,
    ):
        hub.server.core.attach(Handler(hub.connections[0], role=Role.LOCAL, limits=QueueLimits(), name="journal"))
        client.publish_nowait("/a", 1)
        assert len(await messages.batch()) == 1
        first, second = await client.request("$hub/who", None)
        assert (first["name"], first["protocol"], first["user"], first["how"]) == ("asks", "tcp", "", "local")
        assert (second["name"], second["protocol"], second["prefixes"]) == ("web", "ws", 2)
        assert first["published_messages"] == 1
        assert second["delivered_messages"] == 1
        assert 0 <= time.time() - first["since"] < 60
        assert first["address"].startswith("127.0.0.1:")


async def test_pages(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(who_module, "PAGE", 2)
    clients = [await connect(hub.endpoint.location, name=str(number)) for number in range(3)]
    give_rights(hub, **{"0": "ada", "1": "bob", "2": "bob"})
    page = await clients[0].request("$hub/who", None)
    assert [one["name"] for one in page] == ["0", "1"]
    page = await clients[0].request("$hub/who", {"after": page[-1]["id"]})
    assert [(one["name"], one["user"]) for one in page] == [("2", "bob")]
    assert [one["name"] for one in await clients[0].request("$hub/who", {"user": "bob"})] == ["1", "2"]
    assert [one["name"] for one in await clients[0].request("$hub/who", {"limit": 3})] == ["0", "1", "2"], "in steps"
    assert [one["name"] for one in await clients[0].request("$hub/who", {"limit": 1})] == ["0"]
    for client in clients:
        await client.close()


async def test_one_connection(hub: Hub) -> None:
    async with connect(hub.endpoint.location) as client, client.subscribe(*[f"/{n:02}" for n in range(20)]):
        await eventually(lambda: any(one.prefixes for one in hub.server.core.handlers.values()))
        (row,) = await client.request("$hub/who", None)
        (one,) = await client.request("$hub/who", {"id": row["id"]})
        assert (len(row["sample"]), one["sample"]) == (5, [f"/{n:02}" for n in range(20)])
        assert one["queue"] == {"messages": 8192, "bytes": 64 * 1024 * 1024}
        assert one["received_bytes"] > row["received_bytes"] > 0
        assert one["software"] == SOFTWARE
        assert await client.request("$hub/who", {"id": 4711}) == []


async def test_what_a_connection_does(hub: Hub) -> None:
    async with connect(hub.endpoint.location) as client:
        (row,) = await client.request("$hub/who", None)
        assert (row["rates"], row["history"]) == (None, None)
        for number in range(40):
            client.publish_nowait("/a", number)
        await client.drain()
        hub.connections[0].since_s -= 10
        now_s = int(hub.server.loop.time())
        for second in (now_s - 10, now_s - 5, now_s):
            await look(hub, second)
        (row,) = await client.request("$hub/who", {"id": row["id"], "history": True})
        assert set(row["rates"]) == {"in_messages", "out_messages", "dropped_messages", "out_bytes", "offered_messages"}
        assert len(row["history"]["figures"]["in_messages"]) == row["history"]["points"] == 120
        assert row["history"]["clock_s"] > 0


FOR_ADMINS: dict[str, list[Any]] = {
    "$hub/who": [7, {"before": 1}, {"after": "x"}],
    "$hub/users": [7, {"after": 1}],
    "$hub/kick": [None, {}, {"id": 1, "user": "bob"}, {"id": "x"}, {"id": 4711}, {"user": "nobody"}],
    "$hub/audit": [7, {"after": 1}, {"before": "x"}, {"limit": "x"}],
    "$hub/settings": [1],
    "$hub/mesh/trace": [
        *(None, "/a", {}, {"topic": ""}, {"topic": "$hub/mesh"}, {"topic": "/a", "after": "x"}),
        {"topic": "/a", "to": 1},
    ],
}
BY_GRANT: dict[str, list[Any]] = {
    "$hub/state": [7],
    "$hub/losses": [7, {"id": "x"}],
    "$hub/history": ["1m", {"after": "x"}],
    "$hub/services": [7],
    "$hub/journal": [7],
    "$hub/nodes": [7, {"after": 1}],
    "$hub/mesh/graph": [7, {"before": ""}, {"after": 1}, {"after": "no id"}],
}
FOR_EVERYBODY: dict[str, list[Any]] = {
    "$hub/topics": [7, {"over": "/"}, {"under": 1}, {"search": "x" * 1_025}],
    "$hub/rights": [{"user": "eve"}],
}
BAD = FOR_ADMINS | BY_GRANT | FOR_EVERYBODY


@pytest.mark.parametrize("topic", BAD)
async def test_what_makes_no_sense(hub: Hub, topic: str) -> None:
    async with connect(hub.endpoint.location) as client:
        for value in BAD[topic]:
            with pytest.raises(
                RequestFailedError, match=r"expected|there is no connection|topic is empty|do not cross"
            ) as failed:
                await client.request(topic, value)
            assert "\n" not in str(failed.value)
        assert len(await client.request("$hub/who", None)) == 1


@pytest.mark.parametrize("topic", BAD)
async def test_who_may_ask(hub: Hub, topic: str) -> None:
    policy = read_policy(
        {"roles": {"seer": {"request": [topic]}, "other": {}}, "users": {"bob": ["seer"], "eve": ["other"]}}, "a test"
    )
    async with connect(hub.endpoint.location, name="bob") as bob, connect(hub.endpoint.location, name="eve") as eve:
        for handler in hub.server.core.handlers.values():
            handler.rights = policy.rights(handler.name)
        for client, may in ((bob, topic not in FOR_ADMINS), (eve, topic in FOR_EVERYBODY)):
            for value in [None, *BAD[topic]]:
                with suppress(RequestFailedError) if may else pytest.raises(NotAllowedError):
                    await client.request(topic, value)


async def test_users(hub: Hub) -> None:
    async with (
        connect(hub.endpoint.location, name="ada") as client,
        connect(hub.endpoint.location, name="bob"),
        connect(hub.endpoint.location, name="bobby") as bobby,
        connect(hub.endpoint.location),
    ):
        give_rights(hub, ada="ada", bob="bob", bobby="bob")
        bobby.publish_nowait("/a", 1)
        await eventually(lambda: sum(one.published_messages for one in hub.server.core.handlers.values()) == 1)
        nobody, ada, bob = await client.request("$hub/users", None)
        assert (nobody["user"], nobody["connections"], nobody["roles"]) == ("", 1, [])
        assert (ada["user"], ada["connections"], ada["roles"]) == ("ada", 1, ["admin"])
        assert (bob["user"], bob["connections"], bob["published_messages"]) == ("bob", 2, 1)
        assert await client.request("$hub/users", {"after": "ada"}) == [bob]


async def closed_with(client: Client) -> tuple[int, str]:
    with pytest.raises(RejectedError) as ended:
        await client.wait_closed()
    return ended.value.code, ended.value.text


async def test_kicking(hub: Hub) -> None:
    async with connect(hub.endpoint.location, name="ada") as client:
        others = [await connect(hub.endpoint.location, name=name) for name in ("one", "two", "three", "four")]
        give_rights(hub, ada="ada", one="bob", two="bob", three="eve", four="ada")
        assert await client.request("$hub/kick", {"user": "bob", "text": "go"}) == {"kicked": 2}
        for other in others[:2]:
            assert await closed_with(other) == (CloseCode.FORBIDDEN, "go")
        (three,) = await client.request("$hub/who", {"user": "eve"})
        assert await client.request("$hub/kick", {"id": three["id"]}) == {"kicked": 1}
        assert await closed_with(others[2]) == (CloseCode.FORBIDDEN, "closed by an admin")
        assert await client.request("$hub/kick", {"user": "ada"}) == {"kicked": 1}
        assert (await closed_with(others[3]))[0] == CloseCode.FORBIDDEN
        assert len(await client.request("$hub/who", None)) == 1


async def test_a_service_with_a_bug(hub: Hub) -> None:
    def broken() -> Any:
        yield
        raise ZeroDivisionError

    services = hub.server.core.requests.hub_services
    services.add("$hub/broken", lambda *_: in_steps(hub.server, broken()))
    async with connect(hub.endpoint.location) as client:
        with pytest.raises(RequestFailedError, match="please report it"):
            await client.request("$hub/broken", None)
        assert len(await client.request("$hub/who", None)) == 1


async def test_what_is_refused_is_told(hub: Hub) -> None:
    """To admins, on `$hub/audit`: requests, publications and subscriptions, each with who it was."""
    async with (
        connect(hub.endpoint.location, name="ada") as client,
        connect(hub.endpoint.location, name="eve", on_rejected=lambda _: None) as eve,
        client.subscribe("$hub/audit") as audit,
    ):
        hub.server.core.authority.adopt(POLICY)
        give_rights(hub, ada="ada", eve="eve")
        with pytest.raises(NotAllowedError):
            await eve.request("$hub/who", None)
        eve.publish_nowait("/a", 1)
        with pytest.raises(RejectedError):
            await eve.subscribe("$hub/audit").open()
        told = []
        while len(told) < 3:
            told += [message.value for message in await audit.batch()]
        assert {(one["action"], one["user"], one["count"]) for one in told} == {
            ("request", "eve", 1),
            ("publish", "eve", 1),
            ("subscribe", "eve", 1),
        }
        assert {one["name"] for one in told} == {"eve"}
        assert await client.request("$hub/kick", {"user": "eve"}) == {"kicked": 1}
        (kick,) = [message.value for message in await audit.batch()]
        assert (kick["what"], kick["user"], kick["of"], kick["connections"]) == (
            "kick",
            "ada",
            {"id": None, "user": "eve"},
            1,
        )


# What was told on `$hub/audit` before.


async def test_pages_of_audit(hub: Hub) -> None:
    moments = iter(range(1, 10_000))
    hub.server.audit._now_s = lambda: float(next(moments))
    async with connect(hub.endpoint.location, name="ada") as client:
        give_rights(hub, ada="ada")
        (handler,) = hub.server.core.handlers.values()
        for number in range(EVENTS + 30):
            hub.server.audit.refused(handler, "publish", RejectedError(CloseCode.NOT_ALLOWED, f"no {number}"))
            hub.server.audit.tick()
        seen: list[str] = []
        page = await client.request("$hub/audit", {"limit": 7})
        assert len(page) == 7
        while page:
            seen += [event["text"] for event in page]
            page = await client.request("$hub/audit", {"before": page[-1]["at"]})
            assert len(page) <= EVENTS
        assert seen == [f"no {number}" for number in reversed(range(EVENTS + 30))]
        assert len(await client.request("$hub/audit", None)) == EVENTS


# What whoever asks may do.


EVERYTHING = ["publish", "subscribe", "request", "serve", "claim", "journal"]


async def test_without_users(hub: Hub) -> None:
    async with connect(hub.endpoint.location) as client:
        told = await client.request("$hub/rights", None)
        assert (told["user"], told["roles"], told["admin"], told["may"]) == ("", [], True, EVERYTHING)
        assert told["hears"] == ["$hub/statistics", "$hub/audit"]
        assert {"$hub/who", "$hub/kick", "$hub/rights", "$hub/mesh/graph"} <= set(told["asks"])


async def test_what_is_told_is_what_holds(hub: Hub) -> None:
    async with connect(hub.endpoint.location) as client:
        everything = (await client.request("$hub/rights", None))["asks"]
    for user in ("ada", "bob", "eve"):
        async with connect(hub.endpoint.location, name=user) as client:
            give_rights(hub, **{user: user})
            told = await client.request("$hub/rights", None)
            assert (told["user"], told["admin"]) == (user, user == "ada")
            assert ("$hub/who" in told["asks"], "publish" in told["may"]) == (user == "ada", user != "eve")
            for target in everything:
                try:
                    await client.request(target, "makes no sense")
                    is_answered = True
                except NotAllowedError:
                    is_answered = False
                except RequestFailedError:
                    is_answered = True
                assert is_answered is (target in told["asks"]), (user, target)


# Who answers which requests.


async def test_who_serves_what(start_hub: StartHub) -> None:
    """Connections, each with what waits for it, and other hubs; nobody any more once he has left."""
    near, far = await start_hub(name="near"), await start_hub(name="far")
    add_services(near.server)
    near.dial(far)
    asked, going_on = asyncio.Event(), asyncio.Event()

    async def wait(_: ServiceRequest) -> int:
        asked.set()
        await going_on.wait()
        return 1

    async with AsyncExitStack() as stack, connect(near.endpoint.location) as asker:
        one = await stack.enter_async_context(connect(near.endpoint.location, name="one"))
        other = await stack.enter_async_context(connect(far.endpoint.location))
        for client, prefix in ((one, "/a/"), (other, "/a/"), (other, "/b/")):
            await stack.enter_async_context(client.serve(prefix, wait))
        await eventually(lambda: len(near.server.core.requests.services.prefixes()) == 2)
        await eventually(lambda: near.server.core.requests.services.who_serves("/a/").hubs)
        asking = asyncio.create_task(asker.request("/a/x", 1))
        await asked.wait()
        (number,) = [each.id for each in near.server.core.handlers.values() if each.name == "one"]
        there = far.server.id.hex()
        nobody: dict[str, Any] = {"connections": [], "connections_total": 0, "pending": 0}
        assert await asker.request("$hub/services", None) == [
            {
                "prefix": "/a/",
                "connections": [{"id": number, "name": "one", "pending": 1}],
                "connections_total": 1,
                "pending": 1,
                "hubs": [there],
                "hubs_total": 1,
            },
            {"prefix": "/b/", "hubs": [there], "hubs_total": 1} | nobody,
        ]
        (row,) = await asker.request("$hub/services", {"after": "/a/"})
        assert row["prefix"] == "/b/"
        going_on.set()
        await asking
        await stack.aclose()
        await eventually(lambda: not near.server.core.requests.services.prefixes())
        assert await asker.request("$hub/services", None) == []


def part(hub: str, prefix: str, *names: str, hubs: tuple[str, ...] = ()) -> dict[str, Any]:
    connections = [{"id": number, "name": name, "pending": 1} for number, name in enumerate(names)]
    sums = {"connections_total": len(names), "pending": len(names), "hubs": list(hubs)}
    return {"hub": hub, "rows": [{"prefix": prefix, "connections": connections} | sums]}


def test_what_several_processes_know() -> None:
    many = [f"c{number}" for number in range(20)]
    parts = [
        part("core", "/a/", hubs=("west", "w1", "w2")),
        part("w1", "/a/", "one", hubs=("west", "w2", "core")),
        part("w2", "/a/", *many[:16], hubs=("w1",)),
        part("w2", "/gone/", hubs=("w1",)),
    ]
    (row,) = together(parts)
    assert [one["name"] for one in row["connections"]] == ["one", *many[:15]]
    assert (row["connections_total"], row["pending"], row["hubs"], row["hubs_total"]) == (17, 17, ["west"], 1)


# How the journal stands.


async def test_of_a_hub_that_records(start_hub: StartHub, tmp_path: Path) -> None:
    settings = Settings(journal=JournalSettings(path=str(tmp_path / "journal"), topics=("/a/",), keep_s=3600.0))
    hub = await start_hub(settings=settings)
    add_services(hub.server)
    async with connect(hub.endpoint.location) as client:
        before = await client.request("$hub/journal", None)
        assert (before["first"], before["committed"], before["tier"]) == (0, 0, None)
        for number in range(5):
            assert await client.publish_confirmed("/a/x", number) == number
        await client.publish("/b", "not recorded")
        told = await client.request("$hub/journal", None)
        assert told["id"] == hub.server.journal.id.hex()
        assert (told["first"], told["committed"], told["recorded_messages_total"]) == (0, 5, 5)
        assert (told["topics"], told["keep_s"], told["error"]) == (["/a/"], 3600.0, "")
        assert told["size_bytes"] > before["size_bytes"]
        assert told["at_s"] >= before["at_s"]


# The state, losses and history.


async def test_the_state(hub: Hub) -> None:
    async with connect(hub.endpoint.location) as client, client.subscribe("/a"):
        await eventually(lambda: any(one.prefixes for one in hub.server.core.handlers.values()))
        await look(hub, 1)
        told = await client.request("$hub/state", None)
        assert told["text"] == "The only subscriber keeps up, nothing was dropped in the last minute."
        assert (told["connections"], told["subscribers"], told["slow"], told["slow_ids"]) == (1, 1, 0, [])


async def test_losses(hub: Hub) -> None:
    async with connect(hub.endpoint.location) as client:
        now = int(hub.server.loop.time())
        for second, number in [(now - 2, 4), (now - 1, 5), (now, 4)]:
            event = {"id": number, "name": "", "address": f"a{number}", "lost": 3, "overflow": "drop-oldest"}
            hub.server.ticker.lose(second, event)
        told = await client.request("$hub/losses", None)
        assert [one["label"] for one in told] == ["a4", "a5", "a4"]
        assert {"messages": 3, "why": "drop-oldest", "id": 4}.items() <= told[0].items()
        assert abs(told[0]["at"] - time.time()) < 60
        assert [one["id"] for one in await client.request("$hub/losses", {"id": 4, "limit": 1})] == [4]


async def test_history(hub: Hub) -> None:
    async with connect(hub.endpoint.location) as client:
        for second in range(100, 104):
            await look(hub, second)
        minute = await client.request("$hub/history", None)
        assert (minute["step_s"], minute["points"], minute["first"] + 599) == (1, 600, 103)
        assert minute["figures"]["connections"][-4:] == [None, 1, 1, 1]
        assert abs(minute["now_s"] - time.time()) < 60
        assert minute["clock_s"] > 0
        newer = await client.request("$hub/history", {"after": 102})
        assert (newer["first"], newer["figures"]["connections"]) == (103, [1])


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
            await look(hub, second)
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


async def test_kicking_in_steps(hub: Hub) -> None:
    for number in range(120):
        handler = Handler(FakeOutlet(), role=Role.CLIENT, limits=QueueLimits(), name=f"n{number}")
        hub.server.core.attach(handler)
        handler.rights = None
    give_rights(hub, **{f"n{number}": "bob" for number in range(120)})
    many = [one for one in hub.server.core.handlers.values() if one.name.startswith("n")]
    async with connect(hub.endpoint.location) as client:
        assert await client.request("$hub/kick", {"user": "bob"}) == {"kicked": 120}
    assert all(one.closed for one in many)
