"""Real hubs that dial each other so that their mesh does not fall apart; and what nobody gets by that."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import combinations
from pathlib import Path

import pytest
import structlog

from hub.mesh.announcement import Announcement, Digest
from hub.settings.access import AccessSettings, TlsSettings
from peers.transport.tls import server_context
from peers.wire.routing import encode_routing
from tests.hubs.authority import Authority
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient
from tests.links.spared import Spared, looking_until, spare_settings, start_spared

SECRET = "hub_token_that_nobody_else_must_see"

_PEER = b"peer" * 4


def fake(number: int) -> bytes:
    """The id of a hub that does not exist."""
    return bytes([200]) + number.to_bytes(15, "big")


async def advertise(hub: Hub, *addresses: tuple[str, ...]) -> RawClient:
    """A peer of a hub that tells of further hubs, linked with itself, which have these addresses."""
    peer = await hub.client(role="hub", id=_PEER, name="peer", mesh=1)
    fakes = [fake(number) for number in range(len(addresses))]
    links = ((hub.node.id, 1), *((one, 1) for one in fakes))
    told = [Announcement(_PEER, 0, 1, "peer", links)]
    for one, its in zip(fakes, addresses, strict=True):
        told.append(Announcement(one, 0, 1, "fake", ((_PEER, 1),), addresses=its))
    for item in (Digest(()), *told):
        await peer.send(*encode_routing(item, 1 << 20))
    await eventually(lambda: all(one in hub.node.core.mesh.graph.reached for one in fakes))
    return peer


class Listener:
    """Somebody who answers nothing, and keeps what he is told."""

    def __init__(self) -> None:
        self.heard = b""
        self.connections = 0
        self.certificates: list[object] = []
        self.port = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections += 1
        self.certificates.append(writer.get_extra_info("peercert"))
        self.heard += await reader.read(65_536)
        writer.close()


@asynccontextmanager
async def listening(context: ssl.SSLContext | None = None) -> AsyncIterator[Listener]:
    """Listen on this machine."""
    listener = Listener()
    server = await asyncio.start_server(listener.take, "127.0.0.1", 0, ssl=context)
    listener.port = server.sockets[0].getsockname()[1]
    async with server:
        yield listener


# They stay together.


async def test_a_row_of_hubs_survives_any_of_them(start_hub: StartHub) -> None:
    """Each was told of one other. One in the middle goes, and messages still reach both ends."""
    a, b, c, d, e = members = await start_spared(start_hub, "a", "b", "c", "d", "e")
    for near, far in ((b, a), (c, b), (d, c), (e, d)):
        near.hub.dial(far.hub)
    reader = await e.hub.client("/x")
    await looking_until(members, lambda: all(one.has_ways(other) for one, other in combinations(members, 2)))
    assert sum(len(member.spares) for member in members) <= len(members)
    await c.hub.stop()
    left = [a, b, d, e]
    await eventually(lambda: all(len(member.hub.node.core.mesh.graph.reached) == len(left) for member in left))
    await eventually(lambda: a.hub.node.core.mesh.is_settled and e.hub.node.core.mesh.is_settled)
    await (await a.hub.client()).publish("/x", 1)
    assert await reader.values(1) == [("/x", 1)]
    await looking_until(left, lambda: all(one.has_ways(other) for one, other in combinations(left, 2)))


async def test_two_that_dial_each_other_have_one_link(start_hub: StartHub) -> None:
    """The one in the middle is all that links them; both look at the same time."""
    a, b, c = await start_spared(start_hub, "a", "b", "c")
    a.hub.dial(b.hub)
    c.hub.dial(b.hub)
    await eventually(lambda: c.id in a.hub.node.core.mesh.graph.reached)
    await looking_until([a, c], lambda: a.spares or c.spares)
    await looking_until([a, c], lambda: c.id in a.hub.node.links and a.id in c.hub.node.links)
    links = [len(hub.hub.node.core.mesh.links) for hub in (a, b, c)]
    assert links == [2, 2, 2]
    assert len(a.spares) + len(c.spares) == 1


async def test_a_spare_that_nobody_needs_is_let_go(start_hub: StartHub) -> None:
    """Another link is there now. Messages take that first, so that none is lost with the spare itself."""
    a, b, c, d = members = await start_spared(start_hub, "a", "b", "c", "d")
    for near, far in ((a, b), (b, c), (c, d)):
        near.hub.dial(far.hub)
    # a and d stand beside each other on the ring; the others have more ways as soon as these two are linked.
    await looking_until([d], lambda: d.spares == {a.id})
    b.hub.dial(d.hub)
    a.hub.dial(c.hub)
    reader, publisher = await a.hub.client("/x"), await d.hub.client()
    await eventually(lambda: d.hub.wanted_by(a.hub) == {"/x"})
    published = 0
    with structlog.testing.capture_logs() as logs:
        while d.id in a.hub.node.links or published < 100:
            await publisher.publish("/x", published)
            published += 1
            for member in members:
                member.look()
            await asyncio.sleep(0.01)
    await eventually(lambda: all(member.hub.node.core.mesh.is_settled for member in members))
    await publisher.publish("/x", published)
    arrived: list[object] = []
    while published not in arrived:
        arrived += [value for _, value in await reader.values(1)]
    assert arrived == sorted(set(arrived), key=int)  # type: ignore[call-overload]
    assert [member.hub.node.accounts.lost_messages for member in members] == [0] * 4
    assert [line["event"] for line in logs if "let go" in line["event"]] == ["spare link let go"]
    assert any(line.get("reason") == "this spare link is not needed any more (1001)" for line in logs)
    assert d.hub.node.spares.statistics().let_go_total == 1
    assert d.hub.node.spares.statistics().failed_total == 0
    assert all(one.has_ways(other) for one, other in combinations(members, 2))
    for _ in range(30):
        for member in members:
            member.look()
        await asyncio.sleep(0)
    assert [member.spares for member in members] == [set()] * 4


async def test_without_degree_nothing_is_dialled(start_hub: StartHub) -> None:
    """That is how hubs are set up."""
    a, b, c = members = await start_spared(start_hub, "a", "b", "c", degree=0)
    a.hub.dial(b.hub)
    b.hub.dial(c.hub)
    await eventually(lambda: c.id in a.hub.node.core.mesh.graph.reached)
    for _ in range(30):
        for member in members:
            member.look()
    assert [member.attempts for member in members] == [0, 0, 0]


# Nothing is given away.


async def test_an_address_that_was_heard_of_never_sees_the_token(start_hub: StartHub, tmp_path: Path) -> None:
    """It is for the hub that somebody has chosen."""
    file = tmp_path / "peer.token"
    file.write_text(SECRET)
    settings = spare_settings(access=AccessSettings(peer_token=str(file)))
    (near,) = await start_spared(start_hub, "near", settings=settings)
    async with listening() as listener:
        await advertise(near.hub, (f"tcp://127.0.0.1:{listener.port}",))
        await looking_until([near], lambda: listener.heard)
        assert b"near" in listener.heard  # it has said HELLO
        assert SECRET.encode() not in listener.heard
        assert b"token" not in listener.heard


async def test_the_certificate_is_shown_to_those_whom_the_authority_vouches_for(
    start_hub: StartHub, tmp_path: Path
) -> None:
    """Others see no certificate, and not a word; and what has no authority is not dialled at all."""
    ours = Authority(tmp_path)
    (tmp_path / "other").mkdir()
    theirs = Authority(tmp_path / "other")
    own = ours.issue("near.example")
    tls = TlsSettings(certificate=own.certificate, key=own.key, ca=ours.ca)
    (near,) = await start_spared(start_hub, "near", settings=spare_settings(tls=tls))
    stranger, known = theirs.issue("127.0.0.1"), ours.issue("127.0.0.1")
    contexts = []
    for files, ca in ((stranger, ours.ca), (known, ours.ca)):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
        context.load_cert_chain(files.certificate, files.key)
        context.verify_mode = ssl.CERT_OPTIONAL
        contexts.append(context)
    with structlog.testing.capture_logs() as logs:
        async with listening(contexts[0]) as bad, listening(contexts[1]) as good, listening() as plain:
            await advertise(
                near.hub,
                (f"tls://127.0.0.1:{bad.port}",),
                (f"tls://127.0.0.1:{good.port}",),
                (f"tcp://127.0.0.1:{plain.port}",),
            )
            await looking_until([near], lambda: good.heard)
            await looking_until([near], lambda: any("no known authority" in str(line) for line in logs))
    assert b"near" in good.heard
    assert good.certificates[0]
    assert (bad.heard, bad.connections) == (b"", 0)
    assert plain.connections == 0
    told = [line for line in logs if line["event"] == "the address of another hub is not dialled"]
    assert [line["address"] for line in told] == [f"tcp://127.0.0.1:{plain.port}"]
    assert "nobody vouches for who answers" in told[0]["reason"]


POLICY = """
[roles.site]
link = { bring = ["/site"], take = ["/site"] }

[roles.guest]
subscribe = ["/site"]

[roles.stranger]
subscribe = ["/site", "/other"]
link = { bring = ["/site"], take = ["/site"] }

[users]
far-site = ["site"]
guest-site = ["guest"]

[certificates]
"DNS:far.example" = "far-site"
"DNS:guest.example" = "guest-site"
"""


@pytest.mark.parametrize(("name", "may_link"), [("far.example", True), ("guest.example", False), ("no.example", False)])
async def test_who_answers_has_the_rights_of_his_certificate(
    start_hub: StartHub, tmp_path: Path, name: str, *, may_link: bool
) -> None:
    """As if he had dialled: he needs a role with `link`, and brings what it lets him bring."""
    authority = Authority(tmp_path)
    (tmp_path / "policy.toml").write_text(POLICY)
    own, others = authority.issue("near.example"), authority.issue(name, "127.0.0.1")
    access = AccessSettings(policy=str(tmp_path / "policy.toml"), anonymous="stranger")
    tls = TlsSettings(certificate=own.certificate, key=own.key, ca=authority.ca)
    (near,) = await start_spared(start_hub, "near", settings=spare_settings(access=access, tls=tls))
    far = await start_hub(name="far")
    context = server_context(TlsSettings(certificate=others.certificate, key=others.key, ca=authority.ca))
    place = await far.listen_secured(context)
    await advertise(near.hub, (f"tls://127.0.0.1:{place.port}",))
    if not may_link:
        await looking_until([near], lambda: near.hub.node.spares.statistics().failed_total)
        assert not near.spares
        assert far.node.id not in near.hub.node.links
        return
    await looking_until([near], lambda: near.spares == {far.node.id})
    rights = near.hub.handler("far").rights
    assert rights is not None
    assert rights.user.name == "far-site"
    reader = await near.hub.client("/site/a", "/other/a")
    await eventually(lambda: near.hub.node.id in far.node.core.mesh.records)
    await eventually(lambda: far.wanted_by(near.hub) == {"/site/a", "/other/a"})
    publisher = await far.client()
    await publisher.publish("/other/a", 0)
    await publisher.publish("/site/a", 1)
    assert await reader.values(1) == [("/site/a", 1)]


# Whoever tells lies of addresses is one line in the log, and nobody else suffers.


async def test_addresses_that_lead_nowhere(start_hub: StartHub) -> None:
    """They are dialled less and less often, and a hub that can be dialled takes their place."""
    near, middle, far = await start_spared(start_hub, "near", "middle", "far")
    near.hub.dial(middle.hub)
    far.hub.dial(middle.hub)
    async with listening() as gone:
        url = f"tcp://127.0.0.1:{gone.port}"
    with structlog.testing.capture_logs() as logs:
        await advertise(near.hub, (url,), ("tcp://no.such.name.invalid:7400",), ("gibberish",), ("unix:///run/x",))
        await looking_until([near], lambda: near.has_ways(far))
        for _ in range(100):
            near.look()
            await asyncio.sleep(0.002)
    told = [(line["event"], line["address"]) for line in logs if line["event"].startswith(("no spare", "the address"))]
    assert len(told) == len(set(told))
    assert ("the address of another hub is not dialled", "unix:///run/x") in told
    assert near.attempts < 40


async def test_one_address_for_many_hubs(start_hub: StartHub) -> None:
    """Somebody else answers there than the hub that is meant: no link comes of it, and one line."""
    near, other = await start_spared(start_hub, "near", "other")
    near.hub.dial(other.hub)
    await eventually(lambda: other.id in near.hub.node.links)
    with structlog.testing.capture_logs() as logs:
        await advertise(near.hub, *[(other.hub.url,)] * 50)
        for _ in range(200):
            near.look()
            await asyncio.sleep(0.001)
    assert not near.spares
    assert 0 < near.attempts < 15
    lines = [line["reason"] for line in logs if line["event"] == "no spare link"]
    assert lines == ["another hub answers there than the one that has advertised the address (1000)"]


async def test_somebody_answers_who_is_not_known(start_hub: StartHub) -> None:
    """He is linked with, as that may join two meshes; and is not taken for the one that was meant."""
    (near,) = await start_spared(start_hub, "near")
    other = await start_hub(name="other")
    await advertise(near.hub, (other.url,))
    await looking_until([near], lambda: near.spares == {other.node.id})
    await looking_until([near], lambda: near.attempts > 2)
    assert near.spares == {other.node.id}
    await other.stop()
    await eventually(lambda: not near.spares)
    await looking_until([near], lambda: near.attempts > 3)


async def test_addresses_of_this_machine(start_hub: StartHub) -> None:
    """A hub that advertises none itself does not connect to whatever else listens beside it, by name or by number."""
    near = Spared(await start_hub(name="near", settings=spare_settings()))
    with structlog.testing.capture_logs() as logs:
        async with listening() as listener:
            port = listener.port
            numbers = [f"tcp://{host}:{port}" for host in ("127.0.0.1", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]")]
            await advertise(near.hub, *((url,) for url in (*numbers, f"tcp://localhost:{port}")))
            for _ in range(60):
                near.look()
                await asyncio.sleep(0.001)
            assert listener.connections == 0
    told = {line["address"]: line["reason"] for line in logs if "is not dialled" in line["event"]}
    assert set(told.values()) == {"it is this machine, where this hub advertises no address"}
    assert near.attempts == 0


async def test_a_name_that_leads_to_this_machine(start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found out when it is resolved."""
    near = Spared(await start_hub(name="near", settings=spare_settings()))

    async def found(*_: object) -> list[str]:
        return ["127.0.0.1"]

    monkeypatch.setattr("peers.connections.learned.resolve", found)
    with structlog.testing.capture_logs() as logs:
        async with listening() as listener:
            await advertise(near.hub, (f"tcp://hub.example:{listener.port}",))
            await looking_until([near], lambda: near.hub.node.spares.statistics().failed_total)
            assert listener.connections == 0
    assert [line["reason"] for line in logs if line["event"] == "no spare link"] == ["it leads to this machine"]


async def test_oneself(start_hub: StartHub) -> None:
    """Another hub has this hub's own address: that is not dialled, as this hub knows it for its own."""
    (near,) = await start_spared(start_hub, "near")
    near.dialler = Spared(near.hub).dialler
    await advertise(near.hub, (near.hub.url,))
    for _ in range(30):
        near.look()
        await asyncio.sleep(0)
    assert near.attempts == 0


async def test_what_somebody_was_told_to_dial_is_dialled_by_him_alone(start_hub: StartHub) -> None:
    """It needs no spare: he tries again and again anyway, and shows his token there."""
    near, far = await start_spared(start_hub, "near", "far")
    near.dialler = Spared(near.hub, [far.hub.endpoint]).dialler
    await advertise(near.hub, (far.hub.url,))
    for _ in range(30):
        near.look()
        await asyncio.sleep(0)
    assert near.attempts == 0


async def test_a_hub_that_comes_back_is_told_of_again(start_hub: StartHub) -> None:
    """What was said of an address is said again once there was a link, and once only."""
    a, b, c = await start_spared(start_hub, "a", "b", "c")
    a.hub.dial(b.hub)
    c.hub.dial(b.hub)
    await eventually(lambda: c.id in a.hub.node.core.mesh.graph.reached)
    await c.hub.stop_listening()
    with structlog.testing.capture_logs() as logs:
        await looking_until([a], lambda: a.attempts > 3)
    assert len([line for line in logs if line["event"] == "no spare link"]) == 1
    url = c.hub.url
    await c.hub.listen(url)
    await looking_until([a], lambda: a.spares == {c.id})
