"""Users by their certificates, over `tls://` and `wss://`; and clients with the wrong thing at each door."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hub.errors import CloseCode, RejectedError
from peers.client import connect
from peers.connections.connection import Connection
from peers.daemon.daemon import Daemon
from tests.daemon.conftest import StartDaemon
from tests.hubs.authority import Authority, Files
from tests.hubs.eventually import eventually

POLICY = """
[users]
alice = ["member"]

[certificates]
"DNS:alice.example.org" = "alice"
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Files:
    return authority.issue("alice.example.org")


@pytest.fixture(scope="module")
def eve(authority: Authority) -> Files:
    return authority.issue("eve.example.org")


@pytest.fixture
async def hub(start_daemon: StartDaemon, authority: Authority, tmp_path: Path) -> Daemon:
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    files = authority.issue("localhost", "127.0.0.1")
    tls = {"certificate": files.certificate, "key": files.key, "ca": authority.ca, "clients": "asked"}
    return await start_daemon(
        "tls://127.0.0.1:0", "wss://127.0.0.1:0", f"unix://{tmp_path}/hub.sock", tls=tls, access={"policy": str(policy)}
    )


@pytest.mark.parametrize("place", [0, 1], ids=["tls", "wss"])
async def test_a_certificate(hub: Daemon, authority: Authority, alice: Files, place: int) -> None:
    url = hub.endpoints[place].location
    async with (
        connect(url, ca=authority.ca, certificate=alice.certificate, key=alice.key, name="me") as client,
        client.subscribe("/a") as messages,
    ):
        await client.publish("/a", 1)
        assert (await anext(messages)).value == 1
        (handler,) = [one for one in hub.node.core.handlers.values() if one.name == "me"]
        assert handler.rights is not None
        assert handler.rights.user.name == "alice"
        (connection,) = hub.node.connections
        assert isinstance(connection, Connection)
        assert connection.how == "certificate"
        assert client.hub is not None
        assert client.hub.until is not None
        assert client.hub.until > 0


@pytest.mark.parametrize("place", [0, 1], ids=["tls", "wss"])
async def test_the_end_of_a_certificate(hub: Daemon, authority: Authority, alice: Files, place: int) -> None:
    url = hub.endpoints[place].location
    ends: asyncio.Queue[str] = asyncio.Queue()
    async with (
        connect(
            url, ca=authority.ca, certificate=alice.certificate, key=alice.key, on_disconnect=ends.put_nowait
        ) as client,
        client.subscribe("/a") as messages,
    ):
        (connection,) = hub.node.connections
        assert isinstance(connection, Connection)
        assert connection.identity is not None
        connection.identity = connection.identity._replace(until_s=0.0)
        connection.look_in(0.0)
        assert "(4401)" in await ends.get()
        await eventually(lambda: client.statistics().connected)
        await client.publish("/a", 1)
        assert (await anext(messages)).value == 1
        assert client.statistics().connections == 2


@pytest.mark.parametrize("place", [0, 1], ids=["tls", "wss"])
@pytest.mark.parametrize("shown", ["nothing", "a token", "another certificate", "a token beside the certificate"])
async def test_the_wrong_thing(  # noqa: PLR0917 -- fixtures
    hub: Daemon, authority: Authority, alice: Files, eve: Files, place: int, shown: str
) -> None:
    files = {"another certificate": eve, "a token beside the certificate": alice}.get(shown, Files("", ""))
    token = "hub_c2VjcmV0" if "token" in shown else ""
    url = hub.endpoints[place].location
    with pytest.raises(RejectedError, match="not recognised") as refused:
        await connect(url, ca=authority.ca, certificate=files.certificate, key=files.key, token=token)
    assert refused.value.code == CloseCode.NOT_RECOGNISED
    assert "c2VjcmV0" not in str(refused.value)


async def test_the_hubs_own_account(hub: Daemon) -> None:
    url = hub.endpoints[2].location
    async with connect(url, name="me"):
        (connection,) = hub.node.connections
        assert isinstance(connection, Connection)
        assert connection.how == "local"
    with pytest.raises(RejectedError, match="not recognised"):
        await connect(url, token="hub_c2VjcmV0")
