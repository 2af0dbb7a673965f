"""A hub behind `tls://` and `wss://`: its clients and links, certificates that change, and all that can be wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import ssl
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

import peers.client.blocking
from hub.errors import ConnectionLostError
from peers.client import connect
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.node.metrics import exposition
from peers.transport.tls import TlsError, client_context
from tests.daemon.conftest import StartDaemon, StartProcess
from tests.hubs.authority import Authority, Files
from tests.hubs.eventually import eventually
from tests.suite.imports import python_path

BOTH = ["tls", "wss"]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="session")
def hub_files(authority: Authority) -> Files:
    return authority.issue("localhost", "127.0.0.1")


async def start(start_daemon: StartDaemon, files: Files, *schemes: str, **tls: str) -> Daemon:
    urls = [f"{scheme}://127.0.0.1:0" for scheme in schemes]
    return await start_daemon(*urls, tls={"certificate": files.certificate, "key": files.key, **tls})


async def say_and_hear(url: str, **options: Any) -> Any:
    async with (
        connect(url, **options) as publisher,
        connect(url, **options) as reader,
        reader.subscribe("/a") as messages,
    ):
        await publisher.publish("/a", "over TLS")
        return (await anext(messages)).value


@pytest.mark.parametrize("scheme", BOTH)
async def test_a_client(start_daemon: StartDaemon, authority: Authority, hub_files: Files, scheme: str) -> None:
    hub = await start(start_daemon, hub_files, scheme)
    url = hub.endpoints[0].location
    assert await say_and_hear(url, ca=authority.ca) == "over TLS"
    assert await say_and_hear(url.replace("127.0.0.1", "localhost"), ca=authority.ca) == "over TLS"


async def test_links(start_daemon: StartDaemon, authority: Authority, hub_files: Files) -> None:
    required = {"ca": authority.ca, "clients": "required"}
    near = await start(start_daemon, hub_files, "tls", "wss", **required)
    tls = {"certificate": hub_files.certificate, "key": hub_files.key, "ca": authority.ca}
    far = await start_daemon("tcp://127.0.0.1:0", peers=[near.endpoints[0].location], tls=tls)
    await eventually(lambda: len(far.node.links) == 1)
    own = {"ca": authority.ca, "certificate": hub_files.certificate, "key": hub_files.key}
    async with (
        connect(near.endpoints[1].location, **own) as publisher,
        connect(far.endpoints[0].location) as reader,
        reader.subscribe("/a") as messages,
    ):
        await eventually(lambda: near.node.core.routes.find("/a").handlers)
        await publisher.publish("/a", 1)
        assert (await anext(messages)).value == 1


async def test_a_page(start_daemon: StartDaemon, authority: Authority, hub_files: Files) -> None:
    port = (await start(start_daemon, hub_files, "wss")).endpoints[0].port
    context = ssl.create_default_context(cafile=authority.ca)

    def fetch(path: str) -> bytes:
        with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", context=context, timeout=60) as answer:
            body: bytes = answer.read()
            return body

    assert b"<html" in await asyncio.to_thread(fetch, "/")
    assert b"hub_tls_failures_total 0.0" in await asyncio.to_thread(fetch, "/metrics")


async def command(*arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "peers.cli",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ | python_path(),
    )
    said, _ = await process.communicate()
    return await process.wait(), said.decode()


async def test_the_command_line(
    start_process: StartProcess, authority: Authority, stranger: Authority, hub_files: Files
) -> None:
    files = ["--tls-certificate", hub_files.certificate, "--tls-key", hub_files.key]
    process = await start_process("--listen", "tls://127.0.0.1:0", "--listen", "wss://127.0.0.1:0", *files)
    hub = await process.wait_up(2)
    assert hub.page.startswith("https://127.0.0.1:")
    for endpoint in hub.endpoints:
        url = endpoint.location
        code, said = await command("check", url, "--ca", authority.ca)
        assert (code, said.partition(":")[0]) == (0, "ok")
        code, said = await command("check", url, "--ca", stranger.ca)
        assert code == 2
        assert "no known authority vouches for its certificate" in said
        async with connect(url, ca=authority.ca) as reader, reader.subscribe("/a") as messages:
            assert await command("pub", "/a", "7", "--url", url, "--ca", authority.ca) == (0, "")
            assert (await anext(messages)).value == 7
    assert (await command("check", hub.page, "--ca", authority.ca))[0] == 0


# Who is let in.


async def test_clients_that_must_have_a_certificate(
    start_daemon: StartDaemon, authority: Authority, stranger: Authority, hub_files: Files
) -> None:
    hub = await start(start_daemon, hub_files, "tls", ca=authority.ca, clients="required")
    url = hub.endpoints[0].location
    own, foreign = authority.issue("client.example"), stranger.issue("client.example")
    assert await say_and_hear(url, ca=authority.ca, **own._asdict()) == "over TLS"
    with pytest.raises(ConnectionLostError):
        await say_and_hear(url, ca=authority.ca)
    with pytest.raises(ConnectionLostError):
        await say_and_hear(url, ca=authority.ca, **foreign._asdict())
    await eventually(lambda: hub.node.tls_failures == 2)


async def test_clients_that_may_have_a_certificate(
    start_daemon: StartDaemon, authority: Authority, stranger: Authority, hub_files: Files
) -> None:
    hub = await start(start_daemon, hub_files, "tls", ca=authority.ca, clients="asked")
    url = hub.endpoints[0].location
    assert await say_and_hear(url, ca=authority.ca) == "over TLS"
    assert await say_and_hear(url, ca=authority.ca, **authority.issue("client.example")._asdict()) == "over TLS"
    with pytest.raises(ConnectionLostError):
        await say_and_hear(url, ca=authority.ca, **stranger.issue("client.example")._asdict())


async def test_strangers_at_listeners_with_tls(
    start_daemon: StartDaemon, authority: Authority, hub_files: Files
) -> None:
    for clients, is_open in [("any", True), ("asked", True), ("required", False)]:
        tls = {**hub_files._asdict(), "ca": authority.ca, "clients": clients}
        hub = await start_daemon("tls://0.0.0.0:0", "wss://0.0.0.0:0", tls=tls)
        assert hub.node.access.is_open is not is_open


@pytest.mark.parametrize("scheme", BOTH)
async def test_hubs_that_a_client_does_not_trust(
    start_daemon: StartDaemon, authority: Authority, stranger: Authority, scheme: str
) -> None:
    for files, told in [
        (
            stranger.issue("127.0.0.1"),
            "no known authority vouches for its certificate: give the authority's file as ca",
        ),
        (authority.issue("other.example"), "its certificate is not for 127.0.0.1"),
        (authority.issue("127.0.0.1", expired=True), "its certificate has expired"),
    ]:
        hub = await start(start_daemon, files, scheme)
        with pytest.raises(ConnectionLostError, match=told):
            await say_and_hear(hub.endpoints[0].location, ca=authority.ca)
        await eventually(lambda hub=hub: hub.node.tls_failures == 1)  # type: ignore[misc]


async def test_the_system_does_not_know_the_authority(start_daemon: StartDaemon, hub_files: Files) -> None:
    hub = await start(start_daemon, hub_files, "tls")
    with pytest.raises(ConnectionLostError, match="give the authority's file as ca"):
        await say_and_hear(hub.endpoints[0].location)


# Silence, and certificates that change.


async def test_a_silent_handshake(start_daemon: StartDaemon, authority: Authority, hub_files: Files) -> None:
    # Long enough for the one who speaks, on a busy machine, too.
    hub = await start_daemon("tls://127.0.0.1:0", tls=hub_files._asdict(), limits={"tls_handshake_s": 3.0})
    silent = [await asyncio.open_connection("127.0.0.1", hub.endpoints[0].port) for _ in range(20)]
    assert await say_and_hear(hub.endpoints[0].location, ca=authority.ca) == "over TLS"
    for reader, writer in silent:
        assert await reader.read() == b""
        writer.close()
    await eventually(lambda: hub.node.tls_failures == 20)


async def test_a_far_side_that_wants_to_shake_hands_again(
    start_daemon: StartDaemon, authority: Authority, hub_files: Files
) -> None:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("OPENSSL IS MISSING: renegotiation was NOT tried")
    hub = await start(start_daemon, hub_files, "tls")
    address = f"127.0.0.1:{hub.endpoints[0].port}"
    client = await asyncio.create_subprocess_exec(
        program,
        *("s_client", "-connect", address, "-tls1_2", "-CAfile", authority.ca),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    await eventually(lambda: hub.node.connections)
    said, _ = await client.communicate(b"R\n")
    assert b"RENEGOTIATING" in said
    assert b"no renegotiation" in said
    assert await say_and_hear(hub.endpoints[0].location, ca=authority.ca) == "over TLS"


async def test_silent_handshakes_keep_nobody_out(
    start_daemon: StartDaemon, authority: Authority, hub_files: Files
) -> None:
    hub = await start_daemon("tls://127.0.0.1:0", tls=hub_files._asdict(), limits={"tls_handshakes": 8})
    silent = [await asyncio.open_connection("127.0.0.1", hub.endpoints[0].port) for _ in range(50)]
    await eventually(lambda: hub.node.handshakes.evicted == 42)
    assert await say_and_hear(hub.endpoints[0].location, ca=authority.ca) == "over TLS"
    figures = exposition(hub.node).decode()
    assert "hub_tls_handshakes 7.0" in figures
    assert "hub_tls_handshakes_limit 8.0" in figures
    assert "hub_tls_handshakes_evicted_total 43.0" in figures
    assert hub.node.tls_failures == 0
    for _, writer in silent:
        writer.close()


async def test_the_hub_stops_within_handshakes(start_daemon: StartDaemon, hub_files: Files) -> None:
    hub = await start(start_daemon, hub_files, "tls")
    silent = [await asyncio.open_connection("127.0.0.1", hub.endpoints[0].port) for _ in range(3)]
    silent[0][1].write(b"\x16\x03\x01\x02")
    await eventually(lambda: len(hub.node.handshakes) == 3)
    tasks = asyncio.all_tasks()
    await hub.stop()
    assert not len(hub.node.handshakes)
    assert not hub.node.handshakes._timers
    assert asyncio.all_tasks() <= tasks
    for reader, writer in silent:
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_a_new_certificate(
    start_daemon: StartDaemon, authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    """A reload reads the files again: who is there stays, who comes is shown the new; broken ones change nothing."""
    files = Files(str(tmp_path / "hub.pem"), str(tmp_path / "hub.key"))

    def put(issued: Files) -> None:
        for here, there in zip(issued, files, strict=True):
            shutil.copyfile(here, there)

    put(authority.issue("127.0.0.1"))
    hub = await start(start_daemon, files, "tls")
    url = hub.endpoints[0].location
    flags = {"listen": ["tls://127.0.0.1:0"], "tls": files._asdict()}
    async with connect(url, ca=authority.ca) as client, client.subscribe("/a") as messages:
        put(stranger.issue("127.0.0.1"))
        hub.take_over(hub.prepare(load(flags, {})))
        async with connect(url, ca=stranger.ca) as publisher:
            await publisher.publish("/a", 1)
        assert (await anext(messages)).value == 1
        assert await say_and_hear(url, ca=stranger.ca) == "over TLS"
        with pytest.raises(ConnectionLostError, match="give the authority's file as ca"):
            await say_and_hear(url, ca=authority.ca)
        shutil.copyfile(authority.issue("127.0.0.1").key, files.key)
        with pytest.raises(TlsError, match="the key does not belong to the certificate"):
            hub.take_over(hub.prepare(load(flags, {})))
        assert await say_and_hear(url, ca=stranger.ca) == "over TLS"


def _join(ca: Path, *files: str) -> None:
    ca.write_bytes(b"".join(Path(file).read_bytes() for file in files))


async def test_an_authority_that_is_taken_away(
    start_daemon: StartDaemon, authority: Authority, stranger: Authority, hub_files: Files, tmp_path: Path
) -> None:
    """After a reload nobody comes in by its certificates, and clients and links that came by them are closed."""
    ca = tmp_path / "ca.pem"
    _join(ca, authority.ca, stranger.ca)
    tls = hub_files._asdict() | {"ca": str(ca), "clients": "required"}
    hub = await start_daemon("tls://127.0.0.1:0", "wss://127.0.0.1:0", tls=tls)
    tcp, web = (endpoint.location for endpoint in hub.endpoints)
    old, new = authority.issue("old.example.org")._asdict(), stranger.issue("new.example.org")._asdict()
    far = await start_daemon("tcp://127.0.0.1:0", peers=[tcp], tls=tls)
    async with (
        connect(tcp, ca=authority.ca, reconnect=False, **old) as gone,
        connect(web, ca=authority.ca, reconnect=False, **old) as gone_too,
        connect(tcp, ca=authority.ca, **new) as client,
        client.subscribe("/a") as messages,
    ):
        await eventually(lambda: len(hub.node.links) == 1)
        _join(ca, stranger.ca)
        hub.take_over(hub.prepare(load({"listen": ["tls://127.0.0.1:0"], "tls": tls}, {})))
        assert await hub.review(was_open=False) == 3
        for one in (gone, gone_too):
            with pytest.raises(ConnectionLostError, match="no authority that this hub knows vouches for it"):
                await one.wait_closed()
        await eventually(lambda: not far.node.links)
        for url in (tcp, web):
            with pytest.raises(ConnectionLostError):
                await say_and_hear(url, ca=authority.ca, **old)
        await client.publish("/a", 1)
        assert (await anext(messages)).value == 1
        assert await say_and_hear(tcp, ca=authority.ca, **new) == "over TLS"


async def test_a_certificate_that_is_revoked(
    start_daemon: StartDaemon, authority: Authority, hub_files: Files, tmp_path: Path
) -> None:
    crl = tmp_path / "crl.pem"
    crl.write_bytes(authority.revoke())
    tls = hub_files._asdict() | {"ca": authority.ca, "crl": str(crl), "clients": "required"}
    hub = await start_daemon("tls://127.0.0.1:0", tls=tls)
    url = hub.endpoints[0].location
    good, lost = authority.issue("good.example.org")._asdict(), authority.issue("lost.example.org")
    async with (
        connect(url, ca=authority.ca, **good) as client,
        connect(url, ca=authority.ca, reconnect=False, **lost._asdict()) as thief,
    ):
        await eventually(lambda: len(hub.node.core.handlers) == 2)
        crl.write_bytes(authority.revoke(lost))
        hub.take_over(hub.prepare(load({"listen": ["tls://127.0.0.1:0"], "tls": tls}, {})))
        assert await hub.review(was_open=False) == 1
        with pytest.raises(ConnectionLostError, match="your certificate was revoked"):
            await thief.wait_closed()
        assert client.hub is not None
        assert await say_and_hear(url, ca=authority.ca, **good) == "over TLS"
        with pytest.raises(ConnectionLostError):
            await say_and_hear(url, ca=authority.ca, **lost._asdict())
    crl.write_text("nothing")
    with pytest.raises(TlsError, match=r"tls.crl .*crl.pem: no PEM of the expected kind"):
        hub.prepare(load({"listen": ["tls://127.0.0.1:0"], "tls": tls}, {}))


async def test_a_peer_whose_certificate_is_revoked(
    start_daemon: StartDaemon, authority: Authority, tmp_path: Path
) -> None:
    crl, shown = tmp_path / "crl.pem", authority.issue("127.0.0.1")
    crl.write_bytes(authority.revoke())
    near = await start(start_daemon, shown, "tls")
    flags: dict[str, Any] = {"peers": [near.endpoints[0].location], "tls": {"ca": authority.ca, "crl": str(crl)}}
    far = await start_daemon("tcp://127.0.0.1:0", **flags)
    await eventually(lambda: len(far.node.links) == 1)
    crl.write_bytes(authority.revoke(shown))
    far.take_over(far.prepare(load({"listen": ["tcp://127.0.0.1:0"], **flags}, {})))
    assert await far.review(was_open=False) == 1
    await eventually(lambda: not far.node.links)


# What is missing or broken.


@pytest.fixture
def locked_key(hub_files: Files, tmp_path: Path) -> str:
    key = serialization.load_pem_private_key(Path(hub_files.key).read_bytes(), None)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = tmp_path / "locked.key"
    locked.write_bytes(key.private_bytes(pem, pkcs8, serialization.BestAvailableEncryption(b"phrase")))
    return str(locked)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"certificate": ""}, "tls.certificate is missing"),
        ({"certificate": "nowhere.pem"}, "tls.certificate nowhere.pem.*: there is no file nowhere.pem"),
        ({"key": "nowhere.key"}, "tls.key nowhere.key: there is no file nowhere.key"),
        ({"key": ""}, "no PEM of the expected kind"),
        ({"certificate": "empty"}, "no PEM of the expected kind"),
        ({"ca": "nowhere.pem"}, "tls.ca nowhere.pem: there is no such file$"),
        ({"ca": "empty"}, "tls.ca empty: no PEM of the expected kind"),
        ({"clients": "required"}, "tls.ca is missing"),
    ],
)
async def test_a_hub_that_cannot_start(
    start_daemon: StartDaemon, hub_files: Files, change: dict[str, str], told: str
) -> None:
    Path("empty").touch()  # noqa: ASYNC240 -- nobody waits
    with pytest.raises(TlsError, match=told):
        await start_daemon("tls://127.0.0.1:0", tls=hub_files._asdict() | change)


def test_options_that_make_no_sense(authority: Authority) -> None:
    with pytest.raises(TlsError, match="this URL has no TLS"):
        peers.client.blocking.connect("tcp://127.0.0.1:1", ca=authority.ca)
    with pytest.raises(TlsError, match="a key without its certificate"):
        peers.client.blocking.connect("tls://127.0.0.1:1", key="client.key")
    with pytest.raises(TlsError, match=r"ca nowhere\.pem: there is no such file$"):
        peers.client.blocking.connect("wss://127.0.0.1:1", ca="nowhere.pem")


async def test_files_are_read_for_each_connection(
    start_daemon: StartDaemon, authority: Authority, hub_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ssl.SSLContext] = []

    def counted(*files: str) -> ssl.SSLContext:
        made.append(client_context(*files))
        return made[-1]

    monkeypatch.setattr("peers.client.dial.client_context", counted)
    hub = await start(start_daemon, hub_files, "tls")
    async with connect(hub.endpoints[0].location, ca=authority.ca) as client:
        assert len(made) == 1
        for connection in list(hub.node.connections):
            connection.abort()
        await eventually(lambda: len(made) == 2)
        await client.publish("/a", 1)
    assert len(made) == 2
