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

from hub.errors import ConnectionLostError, RejectedError, RequestError
from peers.client import Client, connect
from peers.transport.endpoints import Endpoint
from tests.daemon.conftest import StartProcess
from tests.daemon.hub_process import HubProcess
from tests.hubs.authority import Authority, Files
from tests.workers.conftest import SpreadClients, StartWorkers, heard

pytestmark = pytest.mark.timeout(120)
POLICY = """
[roles.site]
link = { bring = ["*"], take = ["*"] }
[users]
alice = ["admin"]
site = ["site"]
[certificates]
"DNS:alice.example.org" = "alice"
"DNS:site.example.org" = "site"
"""


class Site:
    """A hub behind TLS that asks everybody for a certificate, and one elsewhere that is linked with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.authority = Authority(folder)
        self.alice, self.site, self.eve = (
            self.authority.issue(f"{name}.example.org") for name in ("alice", "site", "eve")
        )
        self.hub: HubProcess
        self.show_new()
        (folder / "policy.toml").write_text(POLICY)

    def show_new(self) -> None:
        files = self.authority.issue("localhost", "127.0.0.1")
        for source, name in ((files.certificate, "hub.pem"), (files.key, "hub.key")):
            shutil.copy(source, self._folder / f"{name}.new")
            (self._folder / f"{name}.new").replace(self._folder / name)

    @property
    def flags(self) -> list[str]:
        names = {"certificate": "hub.pem", "key": "hub.key"}
        files = [word for name, file in names.items() for word in (f"--tls-{name}", f"{self._folder}/{file}")]
        policy = ("--access-policy", f"{self._folder}/policy.toml")
        return [*files, "--tls-ca", self.authority.ca, "--tls-clients", "required", *policy]

    def proof(self, files: Files) -> dict[str, Any]:
        return {"ca": self.authority.ca, "certificate": files.certificate, "key": files.key}

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority.ca)
        context.load_cert_chain(self.alice.certificate, self.alice.key)
        return context

    async def shown(self, *endpoints: Endpoint) -> set[bytes]:
        found = set()
        for endpoint in endpoints * 8:
            _, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=self.context())
            found.add(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
            writer.transport.abort()
        return found


@pytest.fixture
async def site(start_workers: StartWorkers, tmp_path: Path) -> Site:
    site = Site(tmp_path)
    site.hub = await start_workers(*site.flags, listen=("tls://127.0.0.1:0", "wss://127.0.0.1:0"))
    return site


async def test_users_and_links_by_their_certificates(
    site: Site, start_process: StartProcess, spread: SpreadClients
) -> None:
    far = await start_process(
        *("--listen", "tcp://127.0.0.1:0", "--name", "far", "--peer", site.hub.endpoints[0].location),
        *("--tls-certificate", site.site.certificate, "--tls-key", site.site.key, "--tls-ca", site.authority.ca),
    )
    await far.wait_up()
    both = await spread(site.hub.endpoints[0].location, **site.proof(site.alice))
    async with connect(far.endpoints[0].location) as outside:
        for place, client in enumerate(both):
            await heard(client, outside, f"/to/{place}")
            await heard(outside, client, f"/from/{place}")
    for endpoint in site.hub.endpoints:
        one, two = await spread(endpoint.location, **site.proof(site.alice))
        await heard(one, two, "/a")
        await heard(two, one, "/b")
        for client in (one, two):
            assert client.hub is not None
            assert client.hub.until is not None, "his certificate ends"
            rows = {row["user"]: row for row in await client.request("$hub/users", None)}
            assert rows["alice"]["connections"] >= 2
        for _ in range(6):
            with pytest.raises(RejectedError, match="not recognised"):
                await connect(endpoint.location, reconnect=False, **site.proof(site.eve))
            with pytest.raises(ConnectionLostError):
                await connect(endpoint.location, reconnect=False, ca=site.authority.ca)

    def scrape() -> str:
        url = f"https://127.0.0.1:{site.hub.endpoints[1].port}/metrics"
        with urllib.request.urlopen(url, context=site.context(), timeout=60) as answer:
            return str(answer.read().decode())

    metrics = await asyncio.to_thread(scrape)
    assert all(f'hub_tls_failures_total{{worker="{process}"}}' in metrics for process in ("core", "1", "2"))


async def test_reloads(site: Site, spread: SpreadClients, tmp_path: Path) -> None:
    tls, wss = site.hub.endpoints
    (old,) = await site.shown(tls)
    options = site.proof(site.alice) | {"reconnect": False}
    both: list[Client] = await spread(wss.location, **options)
    site.show_new()
    assert await site.shown(tls) == {old}
    await both[0].request("$hub/reload", None)
    for _ in range(3):
        await site.hub.wait_logged("settings reloaded")
    (new,) = await site.shown(tls, wss)
    assert new != old
    await heard(both[0], both[1], "/a")
    (tmp_path / "hub.pem").write_text("no certificate")
    with pytest.raises(RequestError, match=r"hub\.pem"):
        await both[0].request("$hub/reload", None)
    assert await site.shown(tls) == {new}
    site.show_new()
    (tmp_path / "policy.toml").write_text(POLICY.replace("alice", "bob"))
    site.hub.signal(signal.SIGHUP)
    for client in both:
        with pytest.raises((ConnectionLostError, RejectedError)):
            await client.wait_closed()
