"""A client whose connection is lost: what comes back by itself, what does not, and what it says."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from hub.errors import CloseCode, ConnectionLostError, PeerError, ProtocolError, RejectedError, UsageError
from peers.client import Client, connect
from peers.client.connection import Ending
from peers.transport.endpoints import InvalidEndpointError
from peers.transport.timing import Backoff
from peers.wire.control import encode_close
from tests.client.scripted import ScriptedHub, Told
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.settings import settings_of


@pytest.mark.parametrize("code", [CloseCode.GOING_AWAY, CloseCode.TRY_AGAIN_LATER])
async def test_the_hub_says_when_to_come_back(code: CloseCode) -> None:
    told = Told()
    patient = Backoff(base_s=3600, cap_s=3600, source=_Highest())
    async with ScriptedHub() as hub, told.connect(hub.url, backoff=patient) as client:
        for connections in (2, 3):
            hub.send(encode_close(code, "the hub stops; retry after 0.0 s"))
            await eventually(lambda connections=connections: client.statistics().connections == connections)  # type: ignore[misc]
        assert patient.next_s() == 3600  # it was not asked


class _Highest(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


async def test_subscriptions_made_without_a_connection(start_hub: StartHub, hub: Hub) -> None:
    told = Told()
    async with told.connect(hub.url, name="me") as client:
        kept, closed = client.subscribe("/kept"), client.subscribe("/closed")
        await kept.open()
        await closed.open()
        await hub.stop()
        await told.disconnected.get()
        new, given_up = client.subscribe("/new", "/kept"), client.subscribe("/given up")
        opening = asyncio.ensure_future(new.open())
        giving_up = asyncio.ensure_future(given_up.open())
        await asyncio.sleep(0)
        giving_up.cancel()
        await closed.close()
        hub = await start_hub(hub.endpoint)
        await opening
        await eventually(lambda: hub.prefixes("me") == {"/new": 1, "/kept": 1})


async def test_refused_when_coming_back(start_hub: StartHub, hub: Hub) -> None:
    told = Told()
    async with told.connect(hub.url) as client, client.subscribe("/a", "/b") as messages:
        await hub.stop()
        await told.disconnected.get()
        await start_hub(hub.endpoint, settings=settings_of(prefixes_per_client=1))
        with pytest.raises(RejectedError, match="rejects what it accepted before: 2 prefixes"):
            await messages.batch()
        with pytest.raises(RejectedError):
            await client.wait_closed()


async def test_without_reconnecting(hub: Hub) -> None:
    async with connect(hub.url, reconnect=False) as client, client.subscribe("/a") as messages:
        client.publish_nowait("/a", 1)
        await eventually(lambda: messages.buffered_bytes)
        waiting = asyncio.ensure_future(client.wait_closed())
        await hub.crash()
        with pytest.raises(ConnectionLostError):
            await waiting
        assert (await anext(messages)).value == 1
        for _ in range(2):
            with pytest.raises(ConnectionLostError):
                await anext(messages)
        with pytest.raises(ConnectionLostError):
            client.publish_nowait("/a", 2)
        with pytest.raises(ConnectionLostError):
            await client.drain()
        with pytest.raises(ConnectionLostError):
            await client.subscribe("/b").open()


async def test_waiting_calls_when_it_ends(start_hub: StartHub) -> None:
    hub = await start_hub()
    async with connect(hub.url, reconnect=False, buffer_bytes=5000) as client:
        (connection,) = hub.server.connections
        connection.transport.pause_reading()  # type: ignore[attr-defined]
        opening = asyncio.ensure_future(client.subscribe("/a").open())
        draining: list[asyncio.Task[None]] = []
        while not draining:
            publishing = asyncio.ensure_future(client.publish("/a", bytes(4000)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if not publishing.done():
                draining.append(asyncio.ensure_future(client.drain()))
        await asyncio.sleep(0)
        await hub.crash()
        results = await asyncio.gather(opening, publishing, *draining, return_exceptions=True)
        assert [type(result) for result in results] == [ConnectionLostError] * 3


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("tcp://127.0.0.1:{port}", "nothing listens on tcp://127.0.0.1:{port}: is the hub running?"),
        ("ws://127.0.0.1:{port}/v1/hub", "start it with `hub run`"),
        ("unix://{folder}/none.sock", "there is no socket {folder}/none.sock"),
        ("tcp://no-such-host.invalid:7400", "host name 'no-such-host.invalid' is not known"),
    ],
)
async def test_nothing_listens(url: str, advice: str, tmp_path: Path, start_hub: StartHub) -> None:
    hub = await start_hub()
    await hub.stop()
    place = {"port": hub.endpoint.port, "folder": tmp_path}
    with pytest.raises(ConnectionLostError) as caught:
        await connect(url.format(**place))
    assert advice.format(**place) in caught.value.text
    assert isinstance(caught.value, ConnectionError)


async def test_bad_arguments() -> None:
    for url in ("tcp://127.0.0.1:0", "http://127.0.0.1:7400", "tcp://127.0.0.1:7400?messages=5", "127.0.0.1"):
        with pytest.raises(InvalidEndpointError):
            connect(url)
    with pytest.raises(UsageError, match="the limit is 64"):
        connect("tcp://127.0.0.1:7400", name="x" * 65)


async def test_not_a_hub(start_hub: StartHub) -> None:
    tcp, ws = await start_hub("tcp://127.0.0.1:0"), await start_hub("ws://127.0.0.1:0")
    with pytest.raises(ProtocolError, match="does not speak WebSocket"):
        await connect(f"ws://127.0.0.1:{tcp.endpoint.port}")
    with pytest.raises(ConnectionLostError, match=r"does not answer as a hub within 0\.2 s; .* ws://"):
        await connect(f"tcp://127.0.0.1:{ws.endpoint.port}", connect_timeout_s=0.2)
    with pytest.raises(RejectedError, match="HTTP 404"):
        await connect(f"ws://127.0.0.1:{ws.endpoint.port}/elsewhere")


async def test_a_function_that_fails(hub: Hub) -> None:
    failures: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))

    def fail(_: object) -> None:
        raise ZeroDivisionError

    async with connect(hub.url, on_connect=fail) as client, client.subscribe("/a") as messages:
        client.publish_nowait("/a", 1)
        assert (await anext(messages)).value == 1
    assert [type(failure["exception"]) for failure in failures] == [ZeroDivisionError]


async def test_closing_is_cancelled(start_hub: StartHub) -> None:
    hub = await start_hub()
    client: Client = await connect(hub.url, buffer_bytes=64 * 1024 * 1024)
    (connection,) = hub.server.connections
    connection.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(400):
        client.publish_nowait("/a", bytes(100_000))
    closing = asyncio.ensure_future(client.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    assert client.ended
    connection.transport.resume_reading()  # type: ignore[attr-defined]
    await hub.server.wait_released()


FINAL = {
    CloseCode.NOT_ALLOWED: RejectedError,
    CloseCode.NOT_RECOGNISED: RejectedError,
    CloseCode.FORBIDDEN: RejectedError,
    CloseCode.PROTOCOL_ERROR: ProtocolError,
    CloseCode.WRONG_KIND: ProtocolError,
    CloseCode.BAD_DATA: ProtocolError,
    CloseCode.TOO_BIG: ProtocolError,
}


@pytest.mark.parametrize("code", list(CloseCode))
def test_codes(code: CloseCode) -> None:
    ending = Ending(code, "because")
    assert ending.final == (code in FINAL)
    error = ending.error()
    expected: type[PeerError] = FINAL.get(code, ConnectionLostError)
    assert type(error) is expected
    assert (error.code, error.text) == (int(code), "because")
    assert str(ending) == f"because ({int(code)})"


def test_overslept() -> None:
    ending = Ending(CloseCode.PROTOCOL_ERROR, "no answer to PING", overslept=True)
    assert not ending.final
    assert type(ending.error()) is ConnectionLostError


@pytest.mark.parametrize("code", FINAL.keys() - {CloseCode.PROTOCOL_ERROR})
def test_sent_away_while_asleep(code: CloseCode) -> None:
    """A sleep excuses nothing else: whose user is gone, or who was kicked, does not try again, and is told why."""
    ending = Ending(code, "you are gone", overslept=True)
    assert ending.final
    assert type(ending.error()) is FINAL[code]
