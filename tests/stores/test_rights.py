"""Who may read, write and watch a store is said by the policy, by the store's topics."""

from __future__ import annotations

import pytest

from hub.errors import NotAllowedError, RejectedError, RequestFailedError
from hub.policy.language import read_policy
from hub.settings.sections import StoresSettings
from hub.settings.settings import Settings
from peers.client import connect
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.known_tokens import KnownTokens

_POLICY = {
    "roles": {
        "reader": {"request": ["$store/s/read"], "subscribe": ["$store/s/changes"]},
        "getter": {"request": ["$store/s/read"]},
        "writer": {"request": ["$store/s"], "publish": ["$store/s/write"]},
        "member_of_all": {"request": ["*"], "subscribe": ["*"], "publish": ["*"]},
    },
    "users": {"rita": ["reader"], "gert": ["getter"], "walt": ["writer"], "mary": ["member_of_all"]},
}


@pytest.fixture
async def users(start_hub: StartHub) -> KnownTokens:
    hub = await start_hub(settings=Settings(stores=StoresSettings(open=("s=:memory:", "t=:memory:"), user_entries=2)))
    known = KnownTokens(hub)
    known._users = known._users._replace(policy=read_policy(_POLICY, "test"))
    hub.node.core.authority.adopt(known._users.policy)
    return known


def _entries(hub: Hub) -> int:
    master = hub.node.stores.get("s")
    assert master is not None
    return len(master.store)


async def test_who_may_read_may_not_write(users: KnownTokens) -> None:
    async with (
        connect(users.hub.url, token=users.token("rita")) as reader,
        connect(users.hub.url, token=users.token("gert")) as getter,
        connect(users.hub.url, token=users.token("walt"), name="w") as writer,
    ):
        await writer.store("s").put("k", 1)
        writer.store("s").put_nowait("l", 2)
        await eventually(lambda: _entries(users.hub) == 2)
        for client in (reader, getter):
            assert await client.store("s").get("k") == 1
            with pytest.raises(NotAllowedError):
                await client.store("s").put("k", 2)
        async with reader.store("s").watch() as changes:
            assert {(await anext(changes)).key, (await anext(changes)).key} == {"k", "l"}
            await writer.store("s").erase("k")
            assert (await anext(changes)).publisher == "walt"
        with pytest.raises(RejectedError):
            await getter.store("s").watch().open()
        with pytest.raises(NotAllowedError):
            await reader.store("t").get("k")


async def test_everything_covers_stores(users: KnownTokens) -> None:
    async with connect(users.hub.url, token=users.token("mary")) as client:
        await client.store("t").put("k", 1)
        async with client.store("t").replica() as replica:
            assert replica.get("k") == 1


async def test_a_user_has_a_share(users: KnownTokens) -> None:
    token = users.token("walt")
    async with connect(users.hub.url, token=token) as one, connect(users.hub.url, token=token) as other:
        await one.store("s").put(1, 1)
        await other.store("s").put(2, 2)
        with pytest.raises(RequestFailedError, match="2 entries of user 'walt'"):
            await one.store("s").put(3, 3)
        async with connect(users.hub.url, token=users.token("mary")) as mary:
            await mary.store("s").put(3, 3)
