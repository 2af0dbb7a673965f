"""Encrypted Zeek clusters: the hub as their broker, as a node, and as a logger, with libzmq at the other end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
import zmq
import zmq.auth

from hub.settings.keys import ConfigError
from peers.client import connect
from peers.transport.endpoints import Endpoint
from peers.users.files import write_public, write_secret
from peers.values import Count
from peers.values.event import Event
from peers.zeek.zmtp.z85 import decode_key, encode_key
from tests.connections.zeek_cluster.nodes import HELLO, ZmqBroker, ZmqNode, running
from tests.hubs.eventually import eventually

pytest.importorskip("nacl", reason="part of the extra `test`")

Socket = zmq.Socket[bytes]
Secure = Callable[[Socket], None]

SERVER_PUBLIC, SERVER_SECRET = zmq.curve_keypair()
CLIENT_PUBLIC, CLIENT_SECRET = zmq.curve_keypair()
OTHER_PUBLIC, OTHER_SECRET = zmq.curve_keypair()

BATCHES = Path(__file__).parents[2] / "zeek" / "zmtp" / "recorded" / "z03-log-batches.jsonl"


def as_client(public: bytes = CLIENT_PUBLIC, secret: bytes = CLIENT_SECRET, server: bytes = SERVER_PUBLIC) -> Secure:
    def secure(socket: Socket) -> None:
        socket.curve_publickey, socket.curve_secretkey, socket.curve_serverkey = public, secret, server

    return secure


def as_server(socket: Socket) -> None:
    socket.curve_server = True
    socket.curve_secretkey = SERVER_SECRET


@pytest.fixture
def zeek(tmp_path: Path) -> dict[str, Any]:
    for name, key in (("broker", SERVER_SECRET), ("node", CLIENT_SECRET)):
        write_secret(tmp_path / f"{name}.key", decode_key(key.decode()))
    write_public(tmp_path / "broker.pub", decode_key(SERVER_PUBLIC.decode()))
    (tmp_path / "clients").write_text(f"# nodes\n{CLIENT_PUBLIC.decode()}\n")
    return {
        "stores": [],
        "curve_key": str(tmp_path / "broker.key"),
        "curve_clients": str(tmp_path / "clients"),
        "curve_broker": str(tmp_path / "broker.pub"),
        "curve_node_key": str(tmp_path / "node.key"),
    }


def broker_url(endpoint: Endpoint) -> str:
    return f"zeek+zmq://127.0.0.1:{endpoint.port}?xsub={endpoint.xsub}"


# What works.


async def test_nodes_of_an_encrypted_cluster(zeek: dict[str, Any], start: Callable[..., ZmqNode]) -> None:
    async with (
        running("hub", (), "zeek+zmq://127.0.0.1:0", zeek=zeek) as hub,
        connect(hub.endpoints[0].location) as client,
    ):
        broker = hub.endpoints[1]
        sender = start(broker, "sender", secure=as_client())
        reader = start(broker, "reader", "zeek.a", secure=as_client())
        await eventually(lambda: sender.is_told("zeek.a"))
        async with client.subscribe("zeek.") as messages:
            await eventually(lambda: sender.is_told("zeek."))
            sent = [Event("Demo::number", Count(number), "x" * (70_000 * (number % 50 == 7))) for number in range(200)]
            for event in sent:
                sender.publish_event("zeek.a.b", event)
            await eventually(lambda: len(reader.events) == len(sent))
            assert reader.events == [[b"zeek.a.b", b"sender", b"broker-bin-v1", event.encode()] for event in sent]
            assert [Event.of((await anext(messages)).value) for _ in sent] == sent
            await client.publish("zeek.a.hub", HELLO)
        await eventually(lambda: len(reader.events) == len(sent) + 1)
        assert reader.events[-1][3] == HELLO.encode()
        assert {identity.how for one in hub.server.connections if (identity := one.identity)} == {"local", "curve"}
        sender.close()
        reader.close()
        assert not hub.server.zeek.failed_handshakes


async def test_a_node_of_an_encrypted_cluster(
    context: zmq.Context[Socket], zeek: dict[str, Any], start: Callable[..., ZmqNode]
) -> None:
    broker = ZmqBroker(context, as_server)
    try:
        async with running("hub", (broker_url(broker.endpoint),), zeek=zeek) as hub:
            node = start(broker.endpoint, "node", "zeek.to.", secure=as_client())
            async with connect(hub.endpoints[0].location) as client, client.subscribe("zeek.from.") as messages:
                for _ in range(2):
                    await eventually(lambda: node.is_told("zeek.from."))
                    node.publish_event("zeek.from.node")
                    assert Event.of((await anext(messages)).value) == HELLO
                    before = len(node.events)

                    async def publish(before: int = before) -> None:
                        while len(node.events) == before:
                            await client.publish("zeek.to.node", HELLO)
                            await asyncio.sleep(0.01)

                    await publish()
                    broker.stop()
                    await eventually(lambda: not [one for one in hub.server.connections if one.protocol == "zeek+zmq"])
                    node.told.clear()
                    broker.start()
    finally:
        broker.stop()


async def test_logs_of_an_encrypted_cluster(zeek: dict[str, Any], context: zmq.Context[Socket]) -> None:
    async with running("hub", (), "zeek+log://127.0.0.1:0", zeek=zeek) as hub:
        push = context.socket(zmq.PUSH)
        as_client()(push)
        push.connect(f"tcp://127.0.0.1:{hub.endpoints[1].port}")
        async with connect(hub.endpoints[0].location) as client, client.subscribe("/zeek/LOG/") as messages:
            for line in BATCHES.read_text().splitlines():
                push.send_multipart([bytes.fromhex(part) for part in json.loads(line)["parts"]])
            assert (await anext(messages)).topic == "/zeek/LOG/conn"
        push.close(linger=0)


# Who is not let in.


@pytest.mark.parametrize(
    ("secure", "kind", "told"),
    [
        (
            as_client(OTHER_PUBLIC, OTHER_SECRET),
            "key",
            f"the key of the other side is not allowed: {OTHER_PUBLIC.decode()}",
        ),
        (as_client(server=OTHER_PUBLIC), "key", "HELLO does not open: the other side has another public key"),
        (lambda _: None, "mechanism", "the other side uses the mechanism NULL, this side CURVE"),
    ],
    ids=["another key", "another server", "no key"],
)
async def test_strangers_at_an_encrypted_port(
    zeek: dict[str, Any], start: Callable[..., ZmqNode], secure: Secure, kind: str, told: str
) -> None:
    async with running("hub", (), "zeek+zmq://127.0.0.1:0", "zeek+log://127.0.0.1:0", zeek=zeek) as hub:
        with structlog.testing.capture_logs() as logs:
            stranger = start(hub.endpoints[1], "stranger", "zeek.secret", secure=secure)
            stranger.publish_event("zeek.a")
            await eventually(lambda: hub.server.zeek.failed_handshakes[kind] >= 2)
            node = start(hub.endpoints[1], "node", "zeek.a", secure=as_client())
            await eventually(lambda: node.is_told("zeek.a"))
            node.publish_event("zeek.a")
            await eventually(lambda: node.events)
        assert [parts[1] for parts in node.events] == [b"node"]
        assert {topic for _, topic in node.told} == {"zeek.a"}
        failures = [line for line in logs if line["event"] == "handshake with a Zeek node failed"]
        assert [(told in line["reason"], line["kind"], line["handshakes"]) for line in failures] == [(True, kind, 1)]
        closed = [line for line in logs if line["event"] == "connection closed" and line["log_level"] == "info"]
        assert not closed  # that would be a second line for the same


async def test_brokers_that_do_not_fit(context: zmq.Context[Socket], zeek: dict[str, Any], tmp_path: Path) -> None:
    plain, encrypted = ZmqBroker(context), ZmqBroker(context, as_server)
    write_public(tmp_path / "other.pub", decode_key(OTHER_PUBLIC.decode()))
    wrong_key = zeek | {"curve_broker": str(tmp_path / "other.pub")}
    no_key: dict[str, Any] = {"stores": []}
    try:
        for settings, broker, told in (
            (zeek, plain, "it may use another mechanism than CURVE"),
            (no_key, encrypted, "it may use another mechanism than NULL"),
            (wrong_key, encrypted, "its public key may be another one than configured"),
        ):
            with structlog.testing.capture_logs() as logs:
                async with running("hub", (broker_url(broker.endpoint),), zeek=settings) as hub:
                    await eventually(lambda hub=hub: hub.server.zeek.failed_handshakes["ended"] >= 3)  # type: ignore[misc]
            lines = [line for line in logs if line["event"] == "no link to peer"]
            assert any(told in line["reason"] for line in lines), logs
    finally:
        plain.stop()
        encrypted.stop()


async def test_a_key_that_is_taken_away(zeek: dict[str, Any], tmp_path: Path, start: Callable[..., ZmqNode]) -> None:
    clients = tmp_path / "clients"
    clients.write_text(f"{CLIENT_PUBLIC.decode()} leaves\n{encode_key(bytes(32))} nobody\n")
    async with running("hub", (), "zeek+zmq://127.0.0.1:0", zeek=zeek) as hub:
        leaves = start(hub.endpoints[1], "leaves", "zeek.a", secure=as_client())
        await eventually(lambda: leaves.is_told("zeek.a"))
        comes = start(hub.endpoints[1], "comes", "zeek.b", secure=as_client(OTHER_PUBLIC, OTHER_SECRET))
        await eventually(lambda: hub.server.zeek.failed_handshakes["key"])
        clients.write_text(OTHER_PUBLIC.decode())
        hub.take_over(hub.prepare(hub._loaded))
        assert await hub.review(was_open=False) == 2
        # Libzmq repeats its subscriptions when it is asked for something.
        await eventually(lambda: not comes.events and comes.is_told("zeek.b"))
        assert not comes.is_told("zeek.a")
        clients.write_text("nonsense")
        with pytest.raises(ConfigError, match="line 1 is not a CURVE key"):
            hub.prepare(hub._loaded)


# Settings.


async def test_settings_that_belong_together(zeek: dict[str, Any]) -> None:
    for taken in ("curve_clients", "curve_key", "curve_broker", "curve_node_key"):
        left = {name: value for name, value in zeek.items() if name != taken}
        with pytest.raises(ConfigError, match=f"zeek.{taken}: missing"):
            async with running("hub", (), "zeek+zmq://127.0.0.1:0", zeek=left):
                pass
