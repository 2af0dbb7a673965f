"""Who comes in over TCP and Unix sockets: known tokens and accounts, and nobody else; and when a proof ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hub.errors import CloseCode, NotRecognisedError
from hub.policy.language import read_policy
from hub.settings.settings import AccessSettings, Settings
from peers.client import connect
from peers.connections.connection import Connection
from peers.wire.control import (
    TOKEN_LIMIT_BYTES,
    Notice,
    Renewal,
    decode_close,
    decode_notice,
    encode_subscription,
    encode_token,
)
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.known_tokens import SECRET, KnownTokens
from tests.hubs.mesh_peer import hub_hello
from tests.hubs.raw_client import RawClient, publication

UNKNOWN = NotRecognisedError()


@pytest.fixture
def known(hub: Hub) -> KnownTokens:
    return KnownTokens(hub)


def hello(token: Any = "", **fields: Any) -> bytes:
    return Hello(**({"protocol": 1, "role": "client", "token": token} | fields)).encode()


async def end_of(client: RawClient) -> tuple[int, str]:
    frames = [frame async for frame in client.frames()]
    assert [frame.kind for frame in frames] == [Kind.CLOSE], frames
    return decode_close(frames[0].body)


def the_connection(hub: Hub) -> Connection:
    (found,) = hub.server.connections
    assert isinstance(found, Connection)
    return found


SHOWN: dict[str, str] = {
    "unknown": SECRET,
    "blank": " ",
    "a NUL": SECRET + "\0",
    "the longest": "x" * TOKEN_LIMIT_BYTES,
    "a JWT of nobody": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.",
}


@pytest.mark.parametrize("token", SHOWN.values(), ids=SHOWN.keys())
async def test_a_token_that_is_not_known(hub: Hub, known: KnownTokens, token: str) -> None:
    known.token("alice")
    client = await hub.raw()
    with capture_logs() as lines:
        await client.send(hello(token))
        assert await end_of(client) == (4401, UNKNOWN.text)
    assert known.failures == 1
    (line,) = [line for line in lines if line["event"] == "not recognised"]
    assert line["address"]
    assert token.strip() == "" or token not in str(lines)


async def test_the_log_has_the_user(start_hub: StartHub) -> None:
    hub = await start_hub("tcp://127.0.0.1:0")
    await hub.listen("ws://127.0.0.1:0")
    token = KnownTokens(hub).token("alice")
    with capture_logs() as lines:
        for endpoint in hub.endpoints:
            async with connect(endpoint.location, token=token, name="me"):
                pass
    found = [(line["name"], line["user"]) for line in lines if line["event"] == "client connected"]
    assert found == [("me", "alice")] * 2


async def test_the_hubs_own_account(start_hub: StartHub, tmp_path: Path) -> None:
    hub = await start_hub(f"unix://{tmp_path}/hub.sock")
    KnownTokens(hub, knows_itself=True)
    tcp = await hub.listen("tcp://127.0.0.1:0")
    await hub.client("/a", name="me")
    identity = the_connection(hub).identity
    assert identity is not None
    assert (identity.user, identity.how) == ("local", "local")
    stranger = await hub.raw(tcp)
    await stranger.send(hello())
    assert await end_of(stranger) == (4401, UNKNOWN.text)


# Nothing of what a stranger says is looked at.


@pytest.mark.parametrize("delay_s", [0.0, 3.0])
async def test_what_stands_behind_an_unknown_hello(hub: Hub, known: KnownTokens, delay_s: float) -> None:
    witness = await hub.client("", name="witness", token=known.token("alice"))
    known.answer_after(delay_s)
    stranger = await hub.raw()
    stream = publication("/a", "from a stranger") + encode_subscription(Kind.SUBSCRIBE, ["/a"], 1)
    await stranger.send(hello(SECRET) + stream * 100 + encode_token(Renewal(1, known.token("bob"))))
    await eventually(lambda: known.failures == 1)
    await stranger.send(stream)
    hub.later(delay_s + 1)
    assert (await end_of(stranger))[0] == 4401
    assert await witness.ping() == []
    assert len(hub.server.core.handlers) == 1
    assert hub.server.rejected_messages == 0


async def test_an_answer_that_waits(hub: Hub, known: KnownTokens) -> None:
    known.answer_after(3.0)
    client = await hub.raw()
    await client.send(hello(SECRET))
    await eventually(lambda: known.failures == 1)
    connection = the_connection(hub)
    assert hub.server.admission.newcomers == 1
    assert not connection.transport.is_reading()
    hub.later(1.5)
    assert not connection.conversation.session.closed
    hub.later(3.0)
    assert await end_of(client) == (4401, UNKNOWN.text)
    client.close()
    await hub.server.wait_released()
    assert hub.server.admission.newcomers == 0


async def test_the_hub_stops_while_strangers_wait(hub: Hub, known: KnownTokens) -> None:
    known.answer_after(60.0)
    client = await hub.raw()
    await client.send(hello(SECRET))
    await eventually(lambda: known.failures == 1)
    hub.server.draining = True
    late = await hub.raw()
    await late.send(hello(known.token("alice")))
    assert (await end_of(late))[0] == CloseCode.TRY_AGAIN_LATER
    for connection in list(hub.server.connections):
        connection.drain()
    assert await end_of(client) == (CloseCode.GOING_AWAY, "the hub stops")


# The end of a proof.


async def test_a_renewal_with_other_roles(hub: Hub, known: KnownTokens) -> None:
    client = await hub.raw()
    await client.greet(token=known.token("carol", roles=("sensor",)), name="me")
    await client.subscribe("/a")
    await client.send(encode_token(Renewal(7, known.token("carol", roles=("site",)))))
    told = [decode_notice(frame.body) for frame in await client.ping()]
    assert Notice("confirmed", request=7) in told
    await client.publish("/a", 1)
    refused = [decode_notice(frame.body) for frame in await client.ping()]
    assert [notice.code for notice in refused if notice.count] == [CloseCode.NOT_ALLOWED]


async def test_tokens_are_not_tried_quicker_from_within(hub: Hub, known: KnownTokens) -> None:
    client = await hub.raw()
    await client.greet(token=known.token("alice"))
    known.answer_after(0.05)
    wrong = encode_token(Renewal(1, SECRET))
    await client.send(wrong + wrong)
    before = await client.ping()
    assert [decode_notice(frame.body).code for frame in before] == [CloseCode.NOT_RECOGNISED] * 2
    known.answer_after(1000.0)
    await client.send(wrong * 100)
    assert decode_notice((await client.frame()).body).code == CloseCode.NOT_RECOGNISED
    assert not the_connection(hub).transport.is_reading()
    assert known.failures == 3
    other = await hub.client(token=known.token("alice"))
    assert await other.ping() == []
    client.close()
    other.close()


async def test_a_proof_ends_while_the_client_does_not_read(hub: Hub, known: KnownTokens) -> None:
    stalled = await hub.raw(receive_bytes=4096)
    await stalled.greet(token=known.token("alice", seconds=15.0), name="stalled")
    await stalled.subscribe("/a")
    hub.shrink_buffers()
    publisher = await hub.client(token=known.token("bob"))
    handler = hub.handler("stalled")
    while handler.writable:
        await publisher.publish("/a", *(["x" * 1000] * 20))
        assert await publisher.ping() == []
    hub.later(16.0)
    assert handler.closed or handler.id not in hub.server.core.handlers
    await publisher.publish("/a", "too late")
    assert await publisher.ping() == []
    frames = [frame async for frame in stalled.frames()]
    assert decode_close(frames[-1].body)[0] == 4401
    assert not any(b"too late" in frame.body for frame in frames)


# Peer hubs.


async def test_a_hub_needs_a_role_with_link(start_hub: StartHub, tmp_path: Path) -> None:
    hub = await start_hub(name="near")
    known = KnownTokens(hub)
    file = tmp_path / "peer.token"
    settings = Settings(access=AccessSettings(peer_token=str(file)))
    far = await start_hub(settings=settings, name="far")
    assert far.server.access.is_open
    dialler = far.dial(hub)
    with capture_logs() as lines:
        await eventually(lambda: "there is no such file" in dialler.last_reason)
        file.write_text("two\nlines\n")
        await eventually(lambda: "holds no token" in dialler.last_reason)
        assert known.failures == 0
        file.write_text(SECRET)
        await eventually(lambda: "(4401)" in dialler.last_reason)
        file.write_text(known.token("alice"))
        await eventually(lambda: "no role of this user has `link`" in dialler.last_reason)
        assert "(1008)" in dialler.last_reason
        file.write_text(known.token("far") + "\n")
        await eventually(lambda: len(hub.server.links) == len(far.server.links) == 1)
    rights = hub.handler("far").rights
    assert rights is not None
    assert rights.user.name == "far"
    assert far.handler("near").rights is None
    assert SECRET not in str(lines)


async def test_a_link_shows_its_token_afresh(start_hub: StartHub, tmp_path: Path) -> None:
    hub = await start_hub(name="near")
    known = KnownTokens(hub)
    file = tmp_path / "peer.token"
    file.write_text(known.token("far", seconds=100.0))
    far = await start_hub(settings=Settings(access=AccessSettings(peer_token=str(file))), name="far")
    dialler = far.dial(hub)
    await eventually(lambda: len(hub.server.links) == len(far.server.links) == 1)
    with capture_logs() as lines:
        file.unlink()
        far.later(81.0)
        assert [line["event"] for line in lines] == ["no fresh token for a peer"]
        file.write_text(SECRET)
        far.later(10.0)
        await eventually(lambda: known.failures == 1)
        await eventually(lambda: lines[-1]["event"] == "notice from peer")
        file.write_text(known.token("far", seconds=1000.0))
        far.later(5.0)
        (connection,) = hub.server.connections
        assert isinstance(connection, Connection)
        await eventually(lambda: connection.proof_left_s() > 900.0)
    hub.later(19.0)
    hub.later(19.0)
    assert SECRET not in str(lines)
    assert dialler.attempts == 1
    assert len(hub.server.links) == 1


async def test_a_hub_that_was_dialled_shows_nothing(hub: Hub, known: KnownTokens) -> None:
    client = await hub.raw()
    await client.send(hub_hello(token=known.token("far")))
    assert (await client.frame()).kind == Kind.HELLO
    await client.send(encode_token(Renewal(7, known.token("alice"))))
    async for frame in client.frames():
        if frame.kind == Kind.NOTICE:
            break
    notice = decode_notice(frame.body)
    assert (notice.request, notice.code) == (7, CloseCode.NOT_ALLOWED)


async def test_a_link_that_waits_while_the_policy_changes(start_hub: StartHub) -> None:
    hub = await start_hub()
    known = KnownTokens(hub)
    token = known.token("far")
    first, second = await hub.raw(), await hub.raw()
    await first.send(hub_hello(token=token, link=b"1" * 8))
    assert (await first.frame()).kind == Kind.HELLO
    await second.send(hub_hello(token=token, link=b"2" * 8))
    await eventually(lambda: any(not one.transport.is_reading() for one in map(_shell, hub.server.connections)))
    users = hub.server.access._users
    policy = read_policy({"roles": {"site": {"publish": ["*"]}}, "users": {"far": ["site"]}}, "test")
    hub.server.access.adopt(users._replace(policy=policy))
    hub.server.core.authority.adopt(policy)
    first.close()
    frames = [frame async for frame in second.frames()]
    assert [frame.kind for frame in frames] == [Kind.HELLO, Kind.CLOSE]
    code, text = decode_close(frames[1].body)
    assert code == CloseCode.NOT_ALLOWED
    assert "may not be a peer hub" in text
    assert not hub.server.core.handlers


def _shell(connection: object) -> Connection:
    assert isinstance(connection, Connection)
    return connection
