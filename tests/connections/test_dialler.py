"""Diallers: a link comes up when the far hub does, comes back when it was lost, and says why it is not there."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog

from hub.errors import CloseCode
from hub.limits import QueueLimits
from peers.connections.dialler import ADDRESSES_LIMIT, Dialler, HubDialler, NameDialler, is_name, resolve
from peers.connections.listener import ListenError
from peers.transport.endpoints import Endpoint
from peers.transport.timing import Backoff
from tests.garbage import leaves_nothing
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import LOOPBACK, Hub
from tests.hubs.raw_client import publication


async def test_a_link_heals(start_hub: StartHub) -> None:
    near = await start_hub(name="near")
    watcher = await near.client("$hub/peer/")
    far = await start_hub(name="far")
    dialler = near.dial(far)
    assert [topic for topic, _ in await watcher.values(1)] == ["$hub/peer/joined"]
    url = f"tcp://127.0.0.1:{far.endpoint.port}"
    for _ in range(2):
        await far.stop()
        ((topic, value),) = await watcher.values(1)
        assert (topic, value["name"], value["role"]) == ("$hub/peer/left", "far", "link")
        assert value["reason"]
        attempts = dialler.attempts
        await eventually(lambda attempts=attempts: dialler.attempts > attempts + 2)  # type: ignore[misc]
        far = await start_hub(url, name="far")
        ((topic, value),) = await watcher.values(1)
        assert (topic, value["name"], value["address"]) == ("$hub/peer/joined", "far", url)
        reader, publisher = await far.client("/a"), await near.client()
        await eventually(lambda: set(near.handler("far").shown_prefixes) == {"/a"})
        await publisher.publish("/a", 1)
        assert await reader.values(1) == [("/a", 1)]


async def test_over_a_unix_socket(start_hub: StartHub, tmp_path: Path) -> None:
    near = await start_hub(name="near")
    far = await start_hub(f"unix://{tmp_path}/far.sock", name="far")
    reader = await far.client("/a")
    near.dial(far)
    await eventually(lambda: len(near.server.links) == 1 and set(near.handler("far").shown_prefixes) == {"/a"})
    await (await near.client()).publish("/a", 1)
    assert await reader.values(1) == [("/a", 1)]
    assert near.handler("far").address == f"unix://{tmp_path}/far.sock"


def cost(hub: Hub, one: Hub, other: Hub) -> int | None:
    return hub.server.core.mesh.graph.links.get(one.server.id, {}).get(other.server.id)


@pytest.mark.parametrize(
    ("listened", "dialled", "counts"), [("", None, 1), ("", 5, 5), ("?cost=7", 5, 7), ("?cost=7", 9, 9)]
)
async def test_the_larger_cost_of_both_ends_counts(
    start_hub: StartHub, listened: str, dialled: int | None, counts: int
) -> None:
    near, far = await start_hub(name="near"), await start_hub(LOOPBACK + listened, name="far")
    near.dial(far, cost=dialled)
    await eventually(lambda: cost(near, near, far) and cost(far, near, far))
    assert (cost(near, near, far), cost(far, near, far)) == (counts, counts)


UNREACHABLE = {
    "tcp://a..b:7400": "label empty",
    "tcp://" + "x" * 70 + ":7400": "label too long",
    "unix:///nowhere/at/all.sock": "No such file or directory",
}


@pytest.mark.parametrize("url", UNREACHABLE)
async def test_an_address_that_cannot_be_reached(hub: Hub, url: str) -> None:
    dialler = HubDialler(hub.server, Endpoint.parse(url), QueueLimits(), Backoff(0.001, 0.001))
    task = asyncio.ensure_future(dialler.run())
    await eventually(lambda: dialler.attempts > 2 or task.done())
    assert not task.done()
    assert UNREACHABLE[url] in dialler.last_reason
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_refusal_is_not_repeated_quickly(start_hub: StartHub) -> None:
    """A far side that says "already connected" says so as long as that link stands; then the dialler is there."""
    near, far = await start_hub(name="near"), await start_hub(name="far")
    near.dial(far)
    await eventually(lambda: len(near.server.links) == 1)
    dialler = near.dial(far, backoff=Backoff(base_s=0.0, cap_s=0.0))
    await eventually(lambda: "(4009)" in dialler.last_reason)
    await settle()
    assert dialler.attempts == 1
    (first, *_) = far.connections
    first.end(CloseCode.GOING_AWAY, "make room")
    await eventually(lambda: dialler.attempts > 1)


async def test_success_begins_anew(start_hub: StartHub) -> None:
    near, far = await start_hub(name="near"), await start_hub(name="far")
    await far.stop()
    backoff = Backoff(base_s=0.0001, cap_s=0.01)
    dialler = near.dial(far, backoff=backoff)
    await eventually(lambda: backoff._bound_s == 0.01)
    far = await start_hub(far.endpoint.location, name="far")
    await eventually(lambda: len(near.server.links) == 1)
    attempts = dialler.attempts
    (connection,) = far.connections
    connection.end(CloseCode.GOING_AWAY, "restart")
    await eventually(lambda: dialler.attempts == attempts + 1)
    assert backoff._bound_s <= 0.0002


async def test_a_link_drains(start_hub: StartHub) -> None:
    near, far = await start_hub(name="near"), await start_hub(name="far")
    reader = await far.client("/a")
    dialler = HubDialler(near.server, far.endpoint, QueueLimits())
    task = asyncio.ensure_future(dialler.run())
    await eventually(lambda: len(near.server.links) == 1 and set(near.handler("far").shown_prefixes) == {"/a"})
    publisher = await near.client()
    await publisher.send(*(publication("/a", number) for number in range(5000)))
    await publisher.ping()
    near.server.draining = True
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for connection in list(near.server.connections):
        connection.drain()
    assert await reader.values(5000) == [("/a", number) for number in range(5000)]
    assert (await publisher.end())[0] == CloseCode.GOING_AWAY
    await eventually(lambda: not len(far.server.links))


async def test_refused_diallers_do_not_wake_each_other(start_hub: StartHub) -> None:
    near, far = await start_hub(name="near"), await start_hub(name="far")
    near.dial(far)
    await eventually(lambda: len(near.server.links) == 1)
    diallers = [near.dial(far, backoff=Backoff(base_s=0.0, cap_s=0.0)) for _ in range(3)]
    await eventually(lambda: all("(4009)" in dialler.last_reason for dialler in diallers))
    await settle()
    assert [dialler.attempts for dialler in diallers] == [1, 1, 1]


# Names of several hubs: each address is dialled, whoever comes or leaves; oneself among them is left alone.


class Names:
    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)

    async def find(self, _: str, __: int) -> list[str]:
        if not self.addresses:
            raise OSError("nobody knows that name")
        return self.addresses


@asynccontextmanager
async def dialling(hub: Hub, port: int, names: Names) -> AsyncIterator[NameDialler]:
    peer = Endpoint.parse(f"tcp://hubs.example:{port}")

    def make(address: str) -> Dialler:
        return HubDialler(hub.server, peer, hub.server.settings.queue, Backoff(0.001, 0.005), address=address)

    dialler = NameDialler(hub.server, peer, make, names.find)
    task = asyncio.ensure_future(dialler.run())
    try:
        yield dialler
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def linked(hub: Hub) -> set[str]:
    return {handler.name for handler in hub.server.core.handlers.values()}


async def start_on_one_port(start_hub: StartHub, *names: str) -> tuple[list[Hub], int]:
    for _ in range(20):
        port = random.randrange(10_000, 30_000)  # noqa: S311 -- below none of it is random
        try:
            started = [
                await start_hub(f"tcp://127.0.0.{number}:{port}", name=name) for number, name in enumerate(names, 1)
            ]
        except ListenError:  # somebody has it on one of these addresses
            continue
        return started, port
    raise AssertionError("no port was free on several addresses")


async def test_each_address_of_a_name_is_dialled(start_hub: StartHub) -> None:
    (near, *_), port = await start_on_one_port(start_hub, "near", "b", "c")
    with structlog.testing.capture_logs() as logs:
        async with dialling(near, port, Names("127.0.0.1", "127.0.0.2", "127.0.0.3")) as dialler:
            await eventually(lambda: linked(near) == {"b", "c"})
            assert dialler.addresses == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
            await eventually(lambda: any("peer with itself" in str(line.get("reason")) for line in logs))
            await dialler.look()
    told = [line for line in logs if line["event"] == "no link to peer"]
    assert [line["peer"] for line in told] == [f"tcp://hubs.example:{port} (127.0.0.1)"]


async def test_who_comes_is_dialled_and_who_leaves_is_let_go_once_it_is_lost(start_hub: StartHub) -> None:
    (near, b, c), port = await start_on_one_port(start_hub, "near", "b", "c")
    names = Names("127.0.0.2", "127.0.0.9")
    async with dialling(near, port, names) as dialler:
        await eventually(lambda: linked(near) == {"b"})
        names.addresses = ["127.0.0.3"]
        await dialler.look()
        await eventually(lambda: linked(near) == {"b", "c"})
        await eventually(lambda: dialler.addresses == ["127.0.0.2", "127.0.0.3"])  # 127.0.0.9 was never linked
        assert near.handler("b").address == f"tcp://127.0.0.2:{port}"
        await b.crash()
        await eventually(lambda: dialler.addresses == ["127.0.0.3"])
        assert linked(near) == {"c"}
        names.addresses = []
        await c.crash()
        await dialler.look()
        await eventually(lambda: linked(near) == {"c"})


async def test_too_many_addresses(start_hub: StartHub) -> None:
    near = await start_hub(name="near")
    names = Names(*(f"127.0.{number // 250}.{number % 250 + 1}" for number in range(500)))
    with structlog.testing.capture_logs() as logs:
        async with dialling(near, 1, names) as dialler:
            await eventually(lambda: len(dialler.addresses) == ADDRESSES_LIMIT)
            await dialler.look()
    (told,) = [line for line in logs if "too many" in line["event"]]
    assert (told["addresses"], told["limit"]) == (500, ADDRESSES_LIMIT)


@pytest.mark.parametrize(
    ("found", "addresses"),
    [
        ([(socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1")], ["::1"]),
        (
            [(socket.AF_INET6, "fd00::1"), (socket.AF_INET, "10.0.0.1"), (socket.AF_INET, "10.0.0.2")],
            ["10.0.0.1", "10.0.0.2"],
        ),
        ([(socket.AF_INET, "10.0.0.1"), (socket.AF_INET, "10.0.0.1")], ["10.0.0.1"]),
        ([], []),
    ],
)
async def test_one_family_counts(
    monkeypatch: pytest.MonkeyPatch, found: list[tuple[int, str]], addresses: list[str]
) -> None:
    async def answer(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(family, socket.SOCK_STREAM, 6, "", (address, 7400)) for family, address in found]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", answer, raising=False)
    assert await resolve("hubs.example", 7400) == addresses


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("tcp://hubs.example:7400", True),
        ("tls://localhost:7400", True),
        ("tcp://10.0.0.1:7400", False),
        ("tcp://[fd00::1]:7400", False),
        ("unix:///run/hub.sock", False),
        ("zeek://manager:9999", False),
    ],
)
def test_what_is_a_name(url: str, *, named: bool) -> None:
    assert is_name(Endpoint.parse(url)) is named


async def link_and_part(dialling: Hub, dialled: Hub) -> None:
    readers = [await hub.client("/a") for hub in (dialling, dialled)]
    dialling.dial(dialled)
    for hub, far in ((dialling, dialled), (dialled, dialling)):
        await eventually(lambda hub=hub: len(hub.server.links) == 1)  # type: ignore[misc]
        await eventually(lambda hub=hub, far=far: "/a" in hub.wanted_by(far))  # type: ignore[misc]
    await readers[0].publish("/a", 1)
    for reader in readers:
        assert await reader.values(1) == [("/a", 1)]
        reader.close()
    await dialling.stop_dialling()
    for hub in (dialling, dialled):
        await eventually(lambda hub=hub: not hub.server.connections)  # type: ignore[misc]
        hub.connections.clear()
    await settle()


async def test_links(start_hub: StartHub) -> None:
    dialling, dialled = await start_hub(name="dialling"), await start_hub(name="dialled")
    await leaves_nothing(lambda: link_and_part(dialling, dialled))
