"""Hubs for commands: one with a listener of each kind of client that a scenario runs over."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub.handlers.handler import Handler
from hub.settings.settings import JournalSettings, Settings
from peers.transport.endpoints import Endpoint
from tests.commands.talkers import KINDS, talker, url_of
from tests.hubs.fixtures import StartHub, default_url, start_hub, uncaught
from tests.hubs.hub import Hub
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories

__all__ = ["Place", "StartPlace", "default_url", "pytest_asyncio_loop_factories", "start_hub", "uncaught"]

CERTIFICATES = Path(__file__).parents[1] / "connections" / "certificates"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        without = getattr(metafunc.module, "EXCEPT_ON", {}) | getattr(metafunc.function, "except_on", {})
        assert all(without.values()), "each with a reason"
        metafunc.parametrize("kind", [kind for kind in KINDS if kind not in without])


class Place:
    def __init__(self, hub: Hub, kind: str, endpoint: Endpoint) -> None:
        self.hub = hub
        self.server = hub.server
        self.core = hub.server.core
        self.kind = kind
        self._endpoint = endpoint

    async def client(self, *prefixes: str, **hello: Any) -> Any:
        return await talker(self.hub, self.kind, self._endpoint, *prefixes, **hello)

    async def clients(self, count: int) -> list[Any]:
        return [await self.client() for _ in range(count)]

    async def stalled(self, *prefixes: str, name: str = "stalled", **hello: Any) -> tuple[Any, Handler]:
        client = await self.client(*prefixes, name=name, receive_bytes=4096, **hello)
        self.hub.shrink_buffers()
        return client, self.hub.handler(name)


StartPlace = Callable[..., Awaitable[Place]]


@pytest.fixture
def start(start_hub: StartHub, kind: str, tmp_path: Path) -> StartPlace:

    async def begin(settings: Settings | None = None, *, topics: tuple[str, ...] = (), **journal: Any) -> Place:
        settings = settings or Settings()
        if topics:
            recording = JournalSettings(path=str(tmp_path / "journal"), topics=topics, commit_s=0.001, **journal)
            settings = msgspec.structs.replace(settings, journal=recording)
        hub = await start_hub(url_of(kind, tmp_path), settings=settings)
        endpoint = hub.endpoint
        if kind == "tls":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATES / "hub.pem", CERTIFICATES / "hub.key")
            endpoint = await hub.listen_secured(context)
        return Place(hub, kind, endpoint)

    return begin


@pytest.fixture
async def place(start: StartPlace) -> Place:
    return await start()
