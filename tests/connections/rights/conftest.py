"""A hub with a policy and all kinds of listeners, which takes the name that a far side gives itself for its user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.policy.policy import Policy
from hub.topics import RESERVED
from tests.connections.websocket.zeek.clients import Watcher
from tests.hub.policy.tricks import ROLE
from tests.hub.rights.hall import policy_of
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories
from tests.shm.hubs import shared_settings

__all__ = ["pytest_asyncio_loop_factories"]

POLICY = policy_of(f"""
[roles.tried]
publish = {ROLE}
subscribe = {ROLE}
request = {ROLE}
serve = {ROLE}
journal = {ROLE}
link = {{ bring = {ROLE}, take = {ROLE} }}

[users]
alice = ["tried"]
bob = []
""")


def recognise(hub: Hub, policy: Policy = POLICY) -> None:
    """Have a hub recognise users by the names that far sides give themselves."""
    core = hub.server.core
    core.authority.adopt(policy)
    attach = core.attach

    def attach_with_rights(handler: Handler, *more: Any) -> None:
        user = "alice" if handler.role is Role.LEAF else handler.name.removeprefix("narrow-")
        if user in policy:
            handler.rights = policy.rights(user)
            handler.narrows = handler.narrows or handler.name.startswith("narrow-")
        attach(handler, *more)

    core.attach = attach_with_rights  # type: ignore[method-assign]


class Guarded:
    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.web, self.tcp, self.unix = hub.endpoints
        self.core = hub.server.core
        self._watcher = Watcher(hub, "")

    @property
    def seen(self) -> list[str]:
        self.core.flush()
        topics = [frame.topic.decode() for frame in self._watcher.frames for _ in range(frame.messages)]
        return [topic for topic in topics if not topic.startswith(RESERVED)]

    @property
    def refused(self) -> int:
        return self.hub.server.audit.refused_total

    async def until(self, condition: Callable[[], bool]) -> None:
        await eventually(condition)


@pytest.fixture
async def guarded(start_hub: StartHub, tmp_path: Path) -> Guarded:
    hub = await start_hub("ws://127.0.0.1:0", settings=shared_settings())
    await hub.listen()
    await hub.listen(f"unix://{tmp_path}/hub.sock")
    recognise(hub)
    return Guarded(hub)
