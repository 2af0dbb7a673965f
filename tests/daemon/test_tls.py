"""A hub behind `tls://` and `wss://`: clients, links, users, certificates that change or are odd, and mistakes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

import peers.client.blocking
from hub.errors import CloseCode, ConnectionLostError, RejectedError
from peers.client import connect
from peers.connections.connection import Connection
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.server.metrics import exposition
from peers.transport.tls import TlsError
from peers.users.access import Failures
from tests.daemon.conftest import StartDaemon, StartProcess
from tests.forked.program import run
from tests.hubs.authority import Authority, Files
from tests.hubs.eventually import eventually

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


async def test_links(start_daemon: StartDaemon, authority: Authority, hub_files: Files) -> None:
    required = {"ca": authority.ca, "clients": "required"}
    near = await start(start_daemon, hub_files, "tls", "wss", **required)
    tls = {"certificate": hub_files.certificate, "key": hub_files.key, "ca": authority.ca}
    far = await start_daemon("tcp://127.0.0.1:0", peers=[near.endpoints[0].location], tls=tls)
    await eventually(lambda: len(far.server.links) == 1)
    own = {"ca": authority.ca, "certificate": hub_files.certificate, "key": hub_files.key}
    async with (
        connect(near.endpoints[1].location, **own) as publisher,
        connect(far.endpoints[0].location) as reader,
        reader.subscribe("/a") as messages,
    ):
        await eventually(lambda: near.server.core.routes.find("/a").handlers)
        await publisher.publish("/a", 1)
        assert (await anext(messages)).value == 1


async def command(*arguments: str) -> tuple[int, str]:
    done = await asyncio.to_thread(run, *arguments, stdin=b"", timeout_s=60, env=dict(os.environ))
    return done.returncode, (done.stdout + done.stderr).decode()


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


@pytest.mark.parametrize("clients", ["required", "asked"])
async def test_certificates_of_clients(
    start_daemon: StartDaemon, authority: Authority, stranger: Authority, hub_files: Files, clients: str
) -> None:
    hub = await start(start_daemon, hub_files, "tls", ca=authority.ca, clients=clients)
    url = hub.endpoints[0].location
    own, foreign = authority.issue("client.example"), stranger.issue("client.example")
    assert await say_and_hear(url, ca=authority.ca, **own._asdict()) == "over TLS"
    with pytest.raises(ConnectionLostError):
        await say_and_hear(url, ca=authority.ca, **foreign._asdict())
    if clients == "asked":
        assert await say_and_hear(url, ca=authority.ca) == "over TLS"
        return
    with pytest.raises(ConnectionLostError):
        await say_and_hear(url, ca=authority.ca)
    await eventually(lambda: hub.server.tls_failures == 2)


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
        await eventually(lambda hub=hub: hub.server.tls_failures == 1)  # type: ignore[misc]
    with pytest.raises(ConnectionLostError, match="give the authority's file as ca"):
        await say_and_hear(hub.endpoints[0].location)  # the system does not know the authority


# Silence, and certificates that change.


async def test_silent_handshakes_keep_nobody_out(
    start_daemon: StartDaemon, authority: Authority, hub_files: Files
) -> None:
    hub = await start_daemon("tls://127.0.0.1:0", tls=hub_files._asdict(), limits={"tls_handshakes": 8})
    silent = [await asyncio.open_connection("127.0.0.1", hub.endpoints[0].port) for _ in range(50)]
    await eventually(lambda: hub.server.handshakes.evicted == 42)
    assert await say_and_hear(hub.endpoints[0].location, ca=authority.ca) == "over TLS"
    figures = exposition(hub.server).decode()
    assert "hub_tls_handshakes 7.0" in figures
    assert "hub_tls_handshakes_limit 8.0" in figures
    assert "hub_tls_handshakes_evicted_total 43.0" in figures
    assert hub.server.tls_failures == 0
    for _, writer in silent:
        writer.close()


async def test_the_hub_stops_within_handshakes(start_daemon: StartDaemon, hub_files: Files) -> None:
    hub = await start(start_daemon, hub_files, "tls")
    silent = [await asyncio.open_connection("127.0.0.1", hub.endpoints[0].port) for _ in range(3)]
    silent[0][1].write(b"\x16\x03\x01\x02")
    await eventually(lambda: len(hub.server.handshakes) == 3)
    tasks = asyncio.all_tasks()
    await hub.stop()
    assert not len(hub.server.handshakes)
    assert not hub.server.handshakes._timers
    assert asyncio.all_tasks() <= tasks
    for reader, writer in silent:
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_a_new_certificate(
    start_daemon: StartDaemon, authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    """A reload reads the files again: who is there stays, who comes is shown the new; broken ones change nothing.

    A client reads its own ones for each connection.
    """
    ca = tmp_path / "ca.pem"
    shutil.copyfile(authority.ca, ca)
    files = Files(str(tmp_path / "hub.pem"), str(tmp_path / "hub.key"))

    def put(issued: Files) -> None:
        for here, there in zip(issued, files, strict=True):
            shutil.copyfile(here, there)

    put(authority.issue("127.0.0.1"))
    hub = await start(start_daemon, files, "tls")
    url = hub.endpoints[0].location
    flags = {"listen": ["tls://127.0.0.1:0"], "tls": files._asdict()}
    async with connect(url, ca=str(ca)) as client, client.subscribe("/a") as messages:
        put(stranger.issue("127.0.0.1"))
        hub.take_over(hub.prepare(load(flags, {})))
        async with connect(url, ca=stranger.ca) as publisher:
            await publisher.publish("/a", 1)
        assert (await anext(messages)).value == 1
        assert await say_and_hear(url, ca=stranger.ca) == "over TLS"
        with pytest.raises(ConnectionLostError, match="give the authority's file as ca"):
            await say_and_hear(url, ca=authority.ca)
        shutil.copyfile(stranger.ca, ca)
        for connection in list(hub.server.connections):
            connection.abort()
        await eventually(lambda: client.statistics().connections == 2)
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
        await eventually(lambda: len(hub.server.links) == 1)
        _join(ca, stranger.ca)
        hub.take_over(hub.prepare(load({"listen": ["tls://127.0.0.1:0"], "tls": tls}, {})))
        assert await hub.review(was_open=False) == 3
        for one in (gone, gone_too):
            with pytest.raises(ConnectionLostError, match="no authority that this hub knows vouches for it"):
                await one.wait_closed()
        await eventually(lambda: not far.server.links)
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
        await eventually(lambda: len(hub.server.core.handlers) == 2)
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
    await eventually(lambda: len(far.server.links) == 1)
    crl.write_bytes(authority.revoke(shown))
    far.take_over(far.prepare(load({"listen": ["tcp://127.0.0.1:0"], **flags}, {})))
    assert await far.review(was_open=False) == 1
    await eventually(lambda: not far.server.links)


# What is missing or broken.


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


POLICY = """
[users]
alice = ["member"]

[certificates]
"DNS:alice.example.org" = "alice"
"""


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Files:
    return authority.issue("alice.example.org")


@pytest.fixture(scope="module")
def eve(authority: Authority) -> Files:
    return authority.issue("eve.example.org")


PLACES = pytest.mark.parametrize("place", [0, 1], ids=["tls", "wss"])


async def start_certified(start: StartDaemon, files: Files, ca: str, folder: Path, policy: str) -> Daemon:
    (folder / "policy.toml").write_text(policy)
    tls = {"certificate": files.certificate, "key": files.key, "ca": ca, "clients": "asked"}
    listen = ("tls://127.0.0.1:0", "wss://127.0.0.1:0", f"unix://{folder}/hub.sock")
    return await start(*listen, tls=tls, access={"policy": str(folder / "policy.toml")})


@pytest.fixture
async def hub(start_daemon: StartDaemon, authority: Authority, tmp_path: Path) -> Daemon:
    files = authority.issue("localhost", "127.0.0.1")
    return await start_certified(start_daemon, files, authority.ca, tmp_path, POLICY)


@PLACES
async def test_a_certificate_and_its_end(hub: Daemon, authority: Authority, alice: Files, place: int) -> None:
    url, ends = hub.endpoints[place].location, asyncio.Queue[str]()
    shown = alice._asdict() | {"ca": authority.ca, "name": "me", "on_disconnect": ends.put_nowait}
    async with connect(url, **shown) as client, client.subscribe("/a") as messages:
        handler = next(iter(hub.server.core.handlers.values()))
        assert handler.rights is not None
        assert handler.rights.user.name == "alice"
        assert client.hub is not None
        assert client.hub.until is not None
        assert client.hub.until > 0
        (connection,) = hub.server.connections
        assert isinstance(connection, Connection)
        assert connection.identity is not None
        assert connection.how == "certificate"
        connection.identity = connection.identity._replace(until_s=0.0)
        connection.look_in(0.0)
        assert "(4401)" in await ends.get()
        await eventually(lambda: client.statistics().connected)
        await client.publish("/a", 1)
        assert (await anext(messages)).value == 1
        assert client.statistics().connections == 2


@PLACES
async def test_the_wrong_thing(hub: Daemon, authority: Authority, alice: Files, eve: Files, place: int) -> None:
    """Nothing, a token, another certificate, and a token beside the certificate."""
    hub.server.access.failures = AtOnce()
    for files, token in ((None, ""), (None, "hub_c2VjcmV0"), (eve, ""), (alice, "hub_c2VjcmV0")):
        shown = {} if files is None else files._asdict()
        with pytest.raises(RejectedError, match="not recognised") as refused:
            await connect(hub.endpoints[place].location, ca=authority.ca, token=token, **shown)
        assert refused.value.code == CloseCode.NOT_RECOGNISED
        assert "c2VjcmV0" not in str(refused.value)


ODD_POLICY = r"""
[users]
alice = ["member"]
admin = ["admin"]
comma = ["member"]
whole = ["member"]
umlaut = ["member"]

[certificates]
"CN=alice" = "alice"
"DNS:alice.example.org" = "alice"
"email:alice@example.org" = "alice"
"CN=admin,O=Example" = "admin"
"CN=admin" = "admin"
"CN=a\\2C b\\3D c" = "comma"
"CN=whole,O=Example" = "whole"
"CN=müller" = "umlaut"
"""


def alternative(tag: int, *names: bytes) -> bytes:
    entries = b"".join(bytes([tag]) + length(name) + name for name in names)
    return b"\x30" + length(entries) + entries


def length(content: bytes) -> bytes:
    if len(content) < 128:
        return bytes([len(content)])
    size = (len(content).bit_length() + 7) // 8
    return bytes([0x80 | size]) + len(content).to_bytes(size, "big")


CN, ORGANISATION = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME


class Odd(NamedTuple):
    subject: list[tuple[x509.ObjectIdentifier, str]]
    names: bytes = b""
    user: str = ""


CASES = {
    "as it should be": Odd([(CN, "alice")], user="alice"),
    "NUL": Odd([(CN, "alice\0.evil")]),
    "newline": Odd([(CN, "alice\n")]),
    "a line of a log": Odd([(CN, 'x"}\n{"event": "recognised", "user": "admin"}')]),
    "very long": Odd([(CN, "alice" * 2000)]),
    "non-ASCII": Odd([(CN, "müller")], user="umlaut"),
    "a whole subject in another": Odd([(ORGANISATION, "Example,CN=admin")]),
    "comma and equals": Odd([(CN, "a, b= c")], user="comma"),
    "the whole subject": Odd([(ORGANISATION, "Example"), (CN, "whole")], user="whole"),
    "two users": Odd([(CN, "alice"), (CN, "müller")]),
    "no name": Odd([]),
    "host": Odd([(CN, "x")], alternative(0x82, b"ALICE.example.org"), "alice"),
    "host with NUL": Odd([(CN, "x")], alternative(0x82, b"alice.example.org\0.evil")),
    "host that is no text": Odd([(CN, "x")], alternative(0x82, b"\xff\xfe.example.org")),
    "one that is, beside one that is no text": Odd([(CN, "alice")], alternative(0x82, b"\xff", b"alice.example.org")),
    "an address of seven bytes": Odd([(CN, "x")], alternative(0x87, b"1234567")),
    "thousands of hosts": Odd([(CN, "x")], alternative(0x82, *(b"h%d.example.org" % n for n in range(3000)))),
}


class AtOnce(Failures):
    def note(self, address: str, now_s: float) -> float:
        super().note(address, now_s)
        return 0.0


@pytest.fixture
async def careful(start_daemon: StartDaemon, stranger: Authority, authority: Authority, tmp_path: Path) -> Daemon:
    return await start_certified(
        start_daemon, authority.issue("localhost", "127.0.0.1"), stranger.ca, tmp_path, ODD_POLICY
    )


@pytest.mark.filterwarnings("ignore:Attribute's length")  # of whoever makes such certificates
async def test_whose_it_is(careful: Daemon, stranger: Authority, authority: Authority) -> None:
    """Exactly the user's whose name it has, or nobody's; all of these are told the same, and logged in one line."""
    ca, url = authority.ca, careful.endpoints[0].location
    logged: list[str] = []
    issued: list[Files] = []
    careful.server.access.on_refused = lambda _, reason, text: logged.append(f"{reason.value}: {text}")
    careful.server.access.failures = AtOnce()
    users: dict[str, str] = {}
    told: set[tuple[int, str]] = set()

    async def show(name: str, files: Files) -> None:
        try:
            async with connect(url, ca=ca, certificate=files.certificate, key=files.key, name=name, reconnect=False):
                (handler,) = [one for one in careful.server.core.handlers.values() if one.name == name]
                assert handler.rights is not None
                users[name] = handler.rights.user.name
        except RejectedError as error:
            users[name] = ""
            told.add((error.code, error.text))

    for number, odd in enumerate(CASES.values()):
        attributes = [x509.NameAttribute(oid, value, _validate=False) for oid, value in odd.subject]
        issued.append(stranger.issue_odd(f"odd{number}", x509.Name(attributes), odd.names))
    await asyncio.gather(*map(show, CASES, issued))
    assert users == {name: odd.user for name, odd in CASES.items()}
    assert [(code, text.partition(": ")[2]) for code, text in told] == [
        (CloseCode.NOT_RECOGNISED, "not recognised: show a certificate or a token that this hub knows")
    ]
    assert len(logged) == sum(not user for user in users.values())
    assert all(line.isprintable() and line.isascii() and len(line) < 300 for line in logged)
    start = "certificate: a certificate that is not in [certificates]: "
    for shown in (
        r"'CN=alice\\00.evil'",
        r"'CN=alice\n'",
        r"'O=Example\\2CCN=admin'",
        "it says no name that can be read",
    ):
        assert start + shown in logged
    assert careful.server.failed_connections == 0
