"""Hubs that answer admins, in the test's own loop."""

from __future__ import annotations

import pytest

from hub.policy.language import read_policy
from peers.admin.services import add_services
from tests.hubs.fixtures import StartHub, default_url, start_hub, uncaught
from tests.hubs.hub import Hub
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories

__all__ = ["default_url", "pytest_asyncio_loop_factories", "start_hub", "uncaught"]


@pytest.fixture
async def hub(start_hub: StartHub) -> Hub:
    hub = await start_hub()
    add_services(hub.server)
    return hub


POLICY = read_policy({"users": {"ada": ["admin"], "bob": ["member"], "eve": ["reader"]}}, "a test")


def give_rights(hub: Hub, **users: str) -> None:
    for handler in hub.server.core.handlers.values():
        if handler.name in users:
            handler.rights = POLICY.rights(users[handler.name])
