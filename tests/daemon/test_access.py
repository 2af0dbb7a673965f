"""Safe by default: where strangers could come in, nobody does unless let in; and no token is ever written."""

from __future__ import annotations

import asyncio
import os
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hub.errors import CloseCode, PeerError, RejectedError
from hub.settings.settings import Settings, TlsSettings, ZeekSettings
from peers.client import connect
from peers.daemon.sources import guarded, load, reaches_strangers
from peers.transport.endpoints import Endpoint
from peers.users.tokens import AdminToken, TokenFile
from tests.daemon.conftest import StartDaemon, StartProcess
from tests.users import keys
from tests.users.keys import jwk, jwks

LOCAL = ["tcp://127.0.0.1:0", "ws://localhost:0", "tcp://[::1]:0", "unix:///tmp/hub.sock", "zeek://127.0.0.1:0"]
OPEN = ["tcp://0.0.0.0:0", "ws://[::]:0", "tls://192.0.2.1:0", "wss://hub.example.org:0", "zeek+tcp://0.0.0.0:0"]


@pytest.mark.parametrize("url", [*LOCAL, *OPEN])
def test_who_reaches_a_listener(url: str) -> None:
    assert reaches_strangers(Endpoint.parse(url), Settings()) is (url in OPEN)


def test_listeners_that_take_only_whom_an_authority_vouches_for() -> None:
    vouched = Settings(tls=TlsSettings(clients="required"), zeek=ZeekSettings(ca="ca.pem", curve_key="hub.key"))
    for url in (
        "tls://0.0.0.0:0",
        "wss://0.0.0.0:0",
        "zeek://0.0.0.0:0",
        "zeek+zmq://0.0.0.0:0",
        "zeek+log://0.0.0.0:0",
    ):
        assert not reaches_strangers(Endpoint.parse(url), vouched)
    assert reaches_strangers(Endpoint.parse("ws://0.0.0.0:0"), vouched)


@pytest.mark.parametrize("url", LOCAL)
def test_this_machine_needs_no_set_up(url: str, tmp_path: Path) -> None:
    loaded = load({"listen": [url]}, {})
    assert guarded(loaded, {"XDG_STATE_HOME": str(tmp_path)}) == (loaded, False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "access", [{"anonymous": "reader"}, {"policy": "policy.toml"}, {"tokens": "tokens"}, {"jwt_keys": "keys"}]
)
def test_what_somebody_has_said_holds(access: dict[str, str], tmp_path: Path) -> None:
    loaded = load({"listen": ["tcp://0.0.0.0:0"], "access": access}, {})
    assert guarded(loaded, {"XDG_STATE_HOME": str(tmp_path)}) == (loaded, False)


@pytest.mark.parametrize("url", OPEN)
def test_a_token_is_made_at_the_first_start(url: str, tmp_path: Path) -> None:
    loaded = load({"listen": ["tcp://127.0.0.1:0", url]}, {})
    for is_first in (True, False, False):
        found, is_new = guarded(loaded, {"XDG_STATE_HOME": str(tmp_path)})
        assert is_new is is_first
        assert found.settings.access.admin_token == f"{tmp_path}/topichub/admin-token"
    assert (found.listen, found.peers, found.origins) == (loaded.listen, loaded.peers, loaded.origins)


def test_a_place_for_it(tmp_path: Path) -> None:
    place = str(tmp_path / "here")
    loaded = load({"listen": ["tcp://127.0.0.1:0"], "access": {"admin_token": place}}, {})
    assert guarded(loaded, {}) == (loaded, True)
    assert guarded(loaded, {}) == (loaded, False)


async def test_a_reload_opens_nothing(start_daemon: StartDaemon) -> None:
    daemon = await start_daemon("tcp://0.0.0.0:0")
    assert daemon.has_new_admin
    assert not daemon.server.access.is_open
    flags: dict[str, Any] = {"listen": ["tcp://0.0.0.0:0"]}
    assert daemon.take_over(daemon.prepare(load(flags, {}))) == ([], [])
    assert not daemon.server.access.is_open
    daemon.take_over(daemon.prepare(load({"listen": ["tcp://127.0.0.1:0"]}, {})))  # a restart would be needed for that
    assert not daemon.server.access.is_open
    daemon.take_over(daemon.prepare(load(flags | {"access": {"anonymous": "reader"}}, {})))
    assert daemon.server.access.anonymous == "reader"
    assert daemon.server.settings.access.admin_token == ""


async def test_the_first_start_shows_a_link(start_process: StartProcess) -> None:
    listen = ["--listen", "tcp://0.0.0.0:0", "--listen", "ws://0.0.0.0:0"]
    hub = await (await start_process(*listen)).wait_up(2)
    token = AdminToken(f"{os.environ['XDG_STATE_HOME']}/topichub/admin-token").secret()
    page, _, fragment = hub.page.partition("#")
    assert page == f"http://127.0.0.1:{hub.endpoints[1].port}/"
    assert fragment == f"token={token}"
    again = await (await start_process(*listen)).wait_up(2)
    assert "#" not in again.page
    assert not [line for line in (*hub.log, *again.log) if token in str(line)]


async def test_strangers_stay_out(start_daemon: StartDaemon) -> None:
    """By whatever door they come; the admin gets in by each, and everybody sees the page, which asks for the token."""
    daemon = await start_daemon("tcp://0.0.0.0:0", "ws://0.0.0.0:0")
    ports = [endpoint.port for endpoint in daemon.endpoints]
    urls = [f"tcp://127.0.0.1:{ports[0]}", f"ws://127.0.0.1:{ports[1]}"]
    token = AdminToken(daemon.server.settings.access.admin_token).secret()
    for url in urls:
        for wrong in ("", token[:-1]):
            with pytest.raises(PeerError):
                async with connect(url, token=wrong) as client:
                    await client.publish("/a", 1)
        async with connect(url, token=token) as client, client.subscribe("/a") as messages:
            await client.publish("/a", url)
            assert (await anext(messages)).value == url

    def status(path: str, **headers: str) -> int:
        asked = urllib.request.Request(f"http://127.0.0.1:{ports[1]}{path}", headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310 -- loopback
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    bearer = {"Authorization": f"Bearer {token}"}
    found = [await asyncio.to_thread(status, path) for path in ("/", "/hub.js", "/healthz", "/metrics")]
    assert found == [200, 200, 200, 401]
    assert await asyncio.to_thread(status, "/metrics", **bearer) == 200
    assert await asyncio.to_thread(status, "/metrics", Authorization="Bearer hub_x") == 401
    assert await asyncio.to_thread(status, f"/metrics?token={token}") == 401
    assert await asyncio.to_thread(status, "/metrics", Host="evil.example.org", **bearer) == 421
    assert await asyncio.to_thread(status, "/", Host="evil.example.org") == 421


async def test_files_are_read_again(start_daemon: StartDaemon, tmp_path: Path) -> None:
    tokens, now = TokenFile(str(tmp_path / "tokens")), datetime.now(UTC)
    old, entry = tokens.add("alice", now, roles=("member",))
    claims = {"iss": "i", "aud": "hub", "sub": "dora", "roles": ["reader"], "exp": now.timestamp() + 3600}
    signed = keys.token(claims)
    access = {"tokens": str(tmp_path / "tokens"), "jwt_keys": jwks(tmp_path / "jwks.json", jwk("HS256"), jwk("ES256"))}
    flags: dict[str, Any] = {"access": access | {"jwt_issuer": "i", "jwt_audience": "hub"}}
    daemon = await start_daemon(**flags)

    async def refusals(*shown: str) -> list[int]:
        found = []
        for token in shown:
            try:
                async with connect(daemon.endpoints[0].location, token=token):
                    found.append(0)
            except RejectedError as error:
                found.append(error.code)
        return found

    tokens.revoke(entry.id)
    fresh, _ = tokens.add("alice", now, roles=("member",))
    jwks(tmp_path / "jwks.json", jwk("ES256"))
    assert await refusals(old, signed, "", fresh, old[:-1]) == [0, 0, *[CloseCode.NOT_RECOGNISED] * 3]
    daemon.take_over(daemon.prepare(load({"listen": ["tcp://127.0.0.1:0"]} | flags, {})))
    assert await refusals(old, signed, fresh) == [*[CloseCode.NOT_RECOGNISED] * 2, 0]
