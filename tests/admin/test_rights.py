"""`$hub/rights` of a hub that listens: what whoever asks may do."""

from __future__ import annotations

from hub.errors import NotAllowedError, RequestFailedError
from peers.client import connect
from tests.admin.conftest import give_rights
from tests.hubs.hub import Hub

EVERYTHING = ["publish", "subscribe", "request", "serve", "claim", "journal"]


async def test_without_users(hub: Hub) -> None:
    async with connect(hub.endpoint.location) as client:
        told = await client.request("$hub/rights", None)
        assert (told["user"], told["roles"], told["admin"], told["may"]) == ("", [], True, EVERYTHING)
        assert told["hears"] == ["$hub/statistics", "$hub/audit"]
        assert {"$hub/who", "$hub/kick", "$hub/rights", "$hub/mesh/graph"} <= set(told["asks"])


async def test_of_an_admin(hub: Hub) -> None:
    async with connect(hub.endpoint.location, name="ada") as client:
        give_rights(hub, ada="ada")
        told = await client.request("$hub/rights", None)
        assert (told["user"], told["roles"], told["admin"]) == ("ada", ["admin"], True)
        assert {"$hub/who", "$hub/kick"} <= set(told["asks"])


async def test_what_is_told_is_what_holds(hub: Hub) -> None:
    async with connect(hub.endpoint.location) as client:
        everything = (await client.request("$hub/rights", None))["asks"]
    for user in ("ada", "bob", "eve"):
        async with connect(hub.endpoint.location, name=user) as client:
            give_rights(hub, **{user: user})
            told = await client.request("$hub/rights", None)
            for target in everything:
                try:
                    await client.request(target, "makes no sense")
                    is_answered = True
                except NotAllowedError:
                    is_answered = False
                except RequestFailedError:
                    is_answered = True
                assert is_answered is (target in told["asks"]), (user, target)


async def test_of_a_reader(hub: Hub) -> None:
    async with connect(hub.endpoint.location, name="eve") as client:
        give_rights(hub, eve="eve")
        told = await client.request("$hub/rights", None)
        assert (told["user"], told["roles"], told["admin"]) == ("eve", ["reader"], False)
        assert "subscribe" in told["may"]
        assert "publish" not in told["may"]
        assert "$hub/rights" in told["asks"]
        assert "$hub/who" not in told["asks"]
        assert told["hears"] == []
