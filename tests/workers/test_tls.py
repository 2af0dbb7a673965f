"""TLS at a hub of several processes: each worker shows the hub's certificate, and asks the same of whoever comes."""

from __future__ import annotations

import asyncio
import shutil
import signal
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from hub.errors import ConnectionLostError, RejectedError
from peers.client import Client, connect
from peers.transport.endpoints import Endpoint
from tests.daemon.conftest import StartProcess
from tests.daemon.hub_process import HubProcess
from tests.hubs.authority import Authority, Files
from tests.workers.conftest import SpreadClients, StartWorkers
from tests.workers.test_workers import heard

pytestmark = pytest.mark.timeout(120)

POLICY = """
[users]
alice = ["admin"]

[certificates]
"DNS:alice.example.org" = "alice"
"""

LISTEN = ("tls://127.0.0.1:0", "wss://127.0.0.1:0")
PLACES = pytest.mark.parametrize("place", [0, 1], ids=["tls", "wss"])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Files:
    return authority.issue("alice.example.org")


@pytest.fixture(scope="module")
def eve(authority: Authority) -> Files:
    return authority.issue("eve.example.org")


def shown(files: Files, folder: Path) -> None:
    for source, name in ((files.certificate, "hub.pem"), (files.key, "hub.key")):
        shutil.copy(source, folder / f"{name}.new")
        (folder / f"{name}.new").replace(folder / name)


@pytest.fixture
async def hub(start_workers: StartWorkers, authority: Authority, tmp_path: Path) -> HubProcess:
    shown(authority.issue("localhost", "127.0.0.1"), tmp_path)
    (tmp_path / "policy.toml").write_text(POLICY)
    (tmp_path / "hub.toml").write_text(
        f"""
[tls]
certificate = "{tmp_path}/hub.pem"
key = "{tmp_path}/hub.key"
ca = "{authority.ca}"
clients = "required"

[access]
policy = "{tmp_path}/policy.toml"
"""
    )
    return await start_workers(listen=LISTEN)


def proof(authority: Authority, files: Files) -> dict[str, str]:
    return {"ca": str(authority.ca), "certificate": str(files.certificate), "key": str(files.key)}


@PLACES
async def test_certificate_users(
    hub: HubProcess, spread: SpreadClients, authority: Authority, alice: Files, place: int
) -> None:
    one, two = await spread(hub.endpoints[place].location, **proof(authority, alice))
    await heard(one, two, "/a")
    await heard(two, one, "/b")
    for client in (one, two):
        assert client.hub is not None
        assert client.hub.until is not None, "his certificate ends"
        rows = {row["user"]: row for row in await client.request("$hub/users", None)}
        assert rows["alice"]["connections"] >= 2


@PLACES
async def test_who_is_nobody(hub: HubProcess, authority: Authority, eve: Files, place: int) -> None:
    url = hub.endpoints[place].location
    for _ in range(6):
        with pytest.raises(RejectedError, match="not recognised"):
            await connect(url, reconnect=False, **proof(authority, eve))
        with pytest.raises(ConnectionLostError):
            await connect(url, reconnect=False, ca=authority.ca)


async def test_tokens(start_workers: StartWorkers, spread: SpreadClients, authority: Authority, tmp_path: Path) -> None:
    shown(authority.issue("localhost", "127.0.0.1"), tmp_path)
    token = tmp_path / "admin.token"
    hub = await start_workers(
        *("--tls-certificate", f"{tmp_path}/hub.pem", "--tls-key", f"{tmp_path}/hub.key"),
        *("--access-admin-token", str(token)),
        listen=LISTEN,
    )
    for endpoint in hub.endpoints:
        both = await spread(endpoint.location, ca=authority.ca, token=token.read_text().strip())
        await heard(both[0], both[1], f"/{endpoint.scheme.value}")
        for _ in range(4):
            with pytest.raises(RejectedError, match="not recognised"):
                await connect(endpoint.location, reconnect=False, ca=authority.ca, token="wrong")


async def test_a_link_by_its_certificate(
    start_workers: StartWorkers,
    start_process: StartProcess,
    spread: SpreadClients,
    authority: Authority,
    tmp_path: Path,
) -> None:
    shown(authority.issue("localhost", "127.0.0.1"), tmp_path)
    (tmp_path / "policy.toml").write_text(
        """
[roles.site]
link = { bring = ["*"], take = ["*"] }
[users]
alice = ["admin"]
site = ["site"]
[certificates]
"DNS:alice.example.org" = "alice"
"DNS:site.example.org" = "site"
"""
    )
    tls = ("--tls-certificate", f"{tmp_path}/hub.pem", "--tls-key", f"{tmp_path}/hub.key", "--tls-ca", authority.ca)
    hub = await start_workers(
        *tls, "--tls-clients", "required", "--access-policy", f"{tmp_path}/policy.toml", listen=LISTEN
    )
    url = hub.endpoints[0].location
    site, alice = authority.issue("site.example.org"), authority.issue("alice.example.org")
    far = await start_process(
        *("--listen", "tcp://127.0.0.1:0", "--name", "far", "--peer", url),
        *("--tls-certificate", site.certificate, "--tls-key", site.key, "--tls-ca", authority.ca),
    )
    await far.wait_up()
    both = await spread(url, **proof(authority, alice))
    async with connect(far.endpoints[0].location) as outside:
        for place, client in enumerate(both):
            await heard(client, outside, f"/to/{place}")
            await heard(outside, client, f"/from/{place}")


async def certificates(endpoint: Endpoint, authority: Authority, files: Files, wanted: int) -> set[bytes]:
    context = ssl.create_default_context(cafile=authority.ca)
    context.load_cert_chain(files.certificate, files.key)
    found = set()
    for _ in range(wanted):
        _, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context)
        found.add(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        writer.transport.abort()
    return found


async def test_a_reload_lets_all_show_the_new_certificate(
    hub: HubProcess, spread: SpreadClients, authority: Authority, alice: Files, tmp_path: Path
) -> None:
    tls, wss = hub.endpoints
    (old,) = await certificates(tls, authority, alice, 8)
    one, two = await spread(tls.location, **proof(authority, alice))
    shown(authority.issue("localhost", "127.0.0.1"), tmp_path)
    assert await certificates(tls, authority, alice, 8) == {old}
    await one.request("$hub/reload", None)
    for _ in range(3):
        await hub.wait_logged("settings reloaded")
    (new,) = await certificates(tls, authority, alice, 16) | await certificates(wss, authority, alice, 16)
    assert new != old
    await heard(one, two, "/a")
    assert one.statistics().connections == two.statistics().connections == 1


async def test_a_reload_with_a_broken_certificate(
    hub: HubProcess, authority: Authority, alice: Files, tmp_path: Path
) -> None:
    (old,) = await certificates(hub.endpoints[0], authority, alice, 4)
    (tmp_path / "hub.pem").write_text("no certificate")
    async with connect(hub.endpoints[0].location, **proof(authority, alice)) as client:
        with pytest.raises(Exception, match=r"hub\.pem"):
            await client.request("$hub/reload", None)
    assert await certificates(hub.endpoints[0], authority, alice, 12) == {old}


async def test_a_reload_lets_all_forget_a_user(
    hub: HubProcess, spread: SpreadClients, authority: Authority, alice: Files, tmp_path: Path
) -> None:
    options: dict[str, Any] = proof(authority, alice) | {"reconnect": False}
    both: list[Client] = await spread(hub.endpoints[1].location, **options)
    (tmp_path / "policy.toml").write_text(POLICY.replace("alice", "bob"))
    hub.signal(signal.SIGHUP)
    for client in both:
        with pytest.raises((ConnectionLostError, RejectedError)):
            await client.wait_closed()


async def test_metrics_over_tls(hub: HubProcess, authority: Authority, alice: Files) -> None:
    context = ssl.create_default_context(cafile=authority.ca)
    context.load_cert_chain(alice.certificate, alice.key)

    def fetch() -> str:
        port = hub.endpoints[1].port
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/metrics", context=context, timeout=60) as answer:
            body: bytes = answer.read()
            return body.decode()

    found = await asyncio.to_thread(fetch)
    for process in ("core", "1", "2"):
        assert f'hub_tls_failures_total{{worker="{process}"}}' in found
