"""Names of several hubs: each address is dialled, whoever comes or leaves; oneself among them is left alone."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog

from peers.connections.dialler import ADDRESSES_LIMIT, Dialler, NameDialler, hub_dialler, is_name, resolve
from peers.connections.listener import ListenError
from peers.transport.backoff import Backoff
from peers.transport.endpoints import Endpoint
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub


class Names:
    """A resolver that knows one name, and what it has been told of it."""

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
        return hub_dialler(hub.node, peer, hub.node.settings.queue, Backoff(0.001, 0.005), address=address)

    dialler = NameDialler(hub.node, peer, make, names.find)
    task = asyncio.ensure_future(dialler.run())
    try:
        yield dialler
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def linked(hub: Hub) -> set[str]:
    return {handler.name for handler in hub.node.core.handlers.values()}


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
            await eventually(lambda: any("yourself" in str(line.get("reason")) for line in logs))
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


async def test_an_address_that_comes_back_is_kept(start_hub: StartHub) -> None:
    (near, b, _), port = await start_on_one_port(start_hub, "near", "b", "c")
    names = Names("127.0.0.2", "127.0.0.3")
    async with dialling(near, port, names) as dialler:
        await eventually(lambda: linked(near) == {"b", "c"})
        link = near.node.links.find(b.node.id)
        names.addresses = ["127.0.0.3"]
        await dialler.look()
        names.addresses = ["127.0.0.2", "127.0.0.3"]
        await dialler.look()
        assert near.node.links.find(b.node.id) is link
        await b.crash()
        await eventually(lambda: near.node.links.find(b.node.id) not in {link, None})


async def test_a_name_of_one_address_is_dialled_as_such(start_hub: StartHub) -> None:
    near = await start_hub(name="near")
    names = Names()
    async with dialling(near, 7400, names) as dialler:
        await eventually(lambda: dialler.addresses == [""])
        names.addresses = ["127.0.0.2"]
        await dialler.look()
        assert dialler.addresses == [""]
        names.addresses = ["127.0.0.2", "127.0.0.3"]
        await dialler.look()
        assert set(dialler.addresses) >= {"127.0.0.2", "127.0.0.3"}


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
