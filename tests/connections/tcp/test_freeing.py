"""A connection that is over is freed at once: thousands that come and go leave nothing to collect."""

from __future__ import annotations

from pathlib import Path

from hub.names.claim import Wish
from hub.request_frame import Request
from hub.tags.rules import Rule
from peers.wire.control import encode_rules, encode_subscription
from peers.wire.kinds import Kind
from peers.wire.names import NameClaim, encode_claim
from tests.garbage import leaves_nothing, left_for_the_collector
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub


async def come_and_go(hub: Hub) -> None:
    reader, publisher, stranger = await hub.client("/a"), await hub.client(), await hub.raw()
    await publisher.publish("/a", 1)
    await reader.values(1)
    await publisher.publish("/a", 2)
    for client in (reader, publisher, stranger):
        client.close()
    await eventually(lambda: not hub.node.connections)
    hub.connections.clear()
    await settle()


async def test_clients_over_tcp(hub: Hub) -> None:
    await leaves_nothing(lambda: come_and_go(hub))


async def leave_in_the_middle(hub: Hub) -> None:
    owner, waiting = await hub.client(), await hub.client()
    for client in (owner, waiting):
        await client.send(
            encode_claim(NameClaim(1, Wish("clock", ("a",), queue=True))),
            encode_rules(Kind.RULE, [Rule(("l",), "/a", "")], 2),
            encode_subscription(Kind.SERVE, ["/s"], 3),
            Request(b"/s", 4, 60_000, b"\x01").encode(),
            Request(b"/nobody", 5, 60_000, b"\x01").encode(),
        )
        await client.ping()
    assert hub.node.core.requests.statistics().pending == 2
    for client in (owner, waiting):
        client.close()
    await eventually(lambda: not hub.node.connections)
    hub.connections.clear()
    await settle()


async def test_clients_that_hold_something(hub: Hub) -> None:
    await leaves_nothing(lambda: leave_in_the_middle(hub))


async def test_clients_over_unix_sockets(start_hub: StartHub, tmp_path: Path) -> None:
    hub = await start_hub(f"unix://{tmp_path}/hub.sock")
    await leaves_nothing(lambda: come_and_go(hub))


async def link_and_part(dialling: Hub, dialled: Hub) -> None:
    readers = [await hub.client("/a") for hub in (dialling, dialled)]
    dialling.dial(dialled)
    for hub, far in ((dialling, dialled), (dialled, dialling)):
        await eventually(lambda hub=hub: len(hub.node.links) == 1)  # type: ignore[misc]
        await eventually(lambda hub=hub, far=far: "/a" in hub.wanted_by(far))  # type: ignore[misc]
    await readers[0].publish("/a", 1)
    for reader in readers:
        assert await reader.values(1) == [("/a", 1)]
        reader.close()
    await dialling.stop_dialling()
    for hub in (dialling, dialled):
        await eventually(lambda hub=hub: not hub.node.connections)  # type: ignore[misc]
        hub.connections.clear()
    await settle()


async def test_links(start_hub: StartHub) -> None:
    dialling, dialled = await start_hub(name="dialling"), await start_hub(name="dialled")
    await leaves_nothing(lambda: link_and_part(dialling, dialled))


async def test_attempts_that_fail(start_hub: StartHub) -> None:
    dialling, dialled = await start_hub(name="dialling"), await start_hub(name="dialled")
    dialled.node.draining = True
    with left_for_the_collector() as left:
        dialler = dialling.dial(dialled)
        await eventually(lambda: dialler.attempts >= 5)
        await dialling.stop_dialling()
        for hub in (dialling, dialled):
            hub.later(60)  # whoever lingers is cut
            await eventually(lambda hub=hub: not hub.node.connections)  # type: ignore[misc]
            hub.connections.clear()
        await settle()
    assert left == []
