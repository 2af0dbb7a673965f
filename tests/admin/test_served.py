"""`$hub/services`: who answers which requests."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from peers.admin import services as served_module
from peers.admin.services import add_services, together
from peers.client import ServiceRequest, connect
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub


async def test_who_serves_what(start_hub: StartHub) -> None:
    """Connections, each with what waits for it, and other hubs; nobody any more once he has left."""
    near, far = await start_hub(name="near"), await start_hub(name="far")
    add_services(near.node)
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
        await eventually(lambda: len(near.node.core.requests.prefixes_served()) == 2)
        await eventually(lambda: near.node.core.requests.who_serves("/a/").hubs)
        asking = asyncio.create_task(asker.request("/a/x", 1))
        await asked.wait()
        (number,) = [each.id for each in near.node.core.handlers.values() if each.name == "one"]
        there = far.node.id.hex()
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
        await eventually(lambda: not near.node.core.requests.prefixes_served())
        assert await asker.request("$hub/services", None) == []


async def test_pages(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_module, "PAGE", 4)
    monkeypatch.setattr(served_module, "_PREFIXES_PER_STEP", 3)
    async with connect(hub.endpoint.location) as client:
        prefixes = [f"/{number:02}/" for number in range(10)]
        for _ in hub.node.core.requests.serving(next(iter(hub.node.core.handlers.values())), prefixes[::-1]):
            pass
        found: list[str] = []
        while page := await client.request("$hub/services", {"after": found[-1]} if found else None):
            assert len(page) <= 4
            found += [row["prefix"] for row in page]
        assert found == prefixes


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
