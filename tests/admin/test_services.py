"""`$hub/who`, `$hub/users` and `$hub/kick` of a hub that listens."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.client import connect as connect_websocket

from hub.delivery import Role
from hub.errors import CloseCode, NotAllowedError, RejectedError, RequestFailedError
from hub.handler import Handler
from hub.overflow import QueueLimits
from hub.policy.language import read_policy
from peers.admin import who as who_module
from peers.admin.steps import in_steps
from peers.client import Client, connect
from peers.wire.hello import SOFTWARE
from tests.admin.conftest import POLICY, give_rights
from tests.hubs.eventually import eventually
from tests.hubs.hub import Hub


async def test_who(hub: Hub) -> None:
    websocket = await hub.listen("ws://127.0.0.1:0")
    async with (
        connect(hub.endpoint.location, name="asks") as client,
        connect(websocket.location, name="web") as other,
        other.subscribe("/a", "/b") as messages,
    ):
        hub.node.core.attach(Handler(hub.connections[0], role=Role.LOCAL, limits=QueueLimits(), name="journal"))
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
        await eventually(lambda: any(one.prefixes for one in hub.node.core.handlers.values()))
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
        now_s = int(hub.node.loop.time())
        for second in (now_s - 10, now_s - 5, now_s):
            hub.node.pulse.beat(float(second), 0.0)
            await eventually(lambda: not hub.node.pulse.is_looking)
        (row,) = await client.request("$hub/who", {"id": row["id"], "history": True})
        assert set(row["rates"]) == {"in_messages", "out_messages", "dropped_messages", "out_bytes", "offered_messages"}
        assert len(row["history"]["figures"]["in_messages"]) == row["history"]["points"] == 120
        assert row["history"]["clock_s"] > 0


async def test_what_a_browser_runs(hub: Hub) -> None:
    websocket = await hub.listen("ws://127.0.0.1:0")
    browser = connect_websocket(
        f"{websocket.location.rstrip('/')}/v1/hub",
        user_agent_header="Mozilla/5.0 " + "x" * 500,
        subprotocols=["hub.v1.json"],  # type: ignore[list-item]
    )
    async with connect(hub.endpoint.location) as client, browser as socket:
        await socket.send('{"type": "hello"}')
        await eventually(lambda: len(hub.node.core.handlers) == 2)
        _, row = await client.request("$hub/who", None)
        assert row["software"] == "Mozilla/5.0 " + "x" * 116


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
        for handler in hub.node.core.handlers.values():
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
        await eventually(lambda: sum(one.published_messages for one in hub.node.core.handlers.values()) == 1)
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


async def test_kicking_in_steps(hub: Hub) -> None:
    for number in range(120):
        handler = Handler(_Silent(), role=Role.CLIENT, limits=QueueLimits(), name=f"n{number}")
        hub.node.core.attach(handler)
        handler.rights = None
    give_rights(hub, **{f"n{number}": "bob" for number in range(120)})
    many = [one for one in hub.node.core.handlers.values() if one.name.startswith("n")]
    async with connect(hub.endpoint.location) as client:
        assert await client.request("$hub/kick", {"user": "bob"}) == {"kicked": 120}
    assert all(one.closed for one in many)


class _Silent:
    def send(self, batches: list[Any]) -> None: ...

    def send_gap(self, lost_messages: int) -> None: ...

    def close(self, code: int, text: str) -> None: ...


async def test_a_service_with_a_bug(hub: Hub) -> None:
    def broken() -> Any:
        yield
        raise ZeroDivisionError

    services = hub.node.core.requests.hub_services
    services.add("$hub/broken", lambda *_: in_steps(hub.node, broken()))
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
        hub.node.core.authority.adopt(POLICY)
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
