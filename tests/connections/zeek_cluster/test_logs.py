"""The hub in the place of a logger: recorded batches become messages, one for each record."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog
import zmq

from peers.client import connect
from peers.daemon.daemon import Daemon
from tests.connections.zeek_cluster.nodes import running
from tests.hubs.eventually import eventually

FOLDER = Path(__file__).parents[2] / "zeek" / "zmtp" / "recordings"
BATCHES = [
    [bytes.fromhex(part) for part in json.loads(line)["parts"]]
    for line in (FOLDER / "z03-log-batches.jsonl").read_text().splitlines()
]
EXPECTED = [json.loads(line) for line in (FOLDER / "z03-log-batches.expected.ndjson").read_text().splitlines()]


@pytest.fixture
async def logger() -> AsyncIterator[Daemon]:
    async with running("hub", [], "zeek+log://127.0.0.1:0") as daemon:
        yield daemon


@pytest.fixture
def push(logger: Daemon) -> zmq.Socket[bytes]:
    socket = zmq.Context.instance().socket(zmq.PUSH)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(f"tcp://127.0.0.1:{logger.endpoints[1].port}")
    return socket


async def test_each_record_is_a_message(logger: Daemon, push: zmq.Socket[bytes]) -> None:
    async with connect(logger.endpoints[0].location) as client, client.subscribe("/zeek/LOG/") as messages:
        for parts in BATCHES:
            push.send_multipart(parts)
        found = [await anext(messages) for _ in EXPECTED]
    assert {message.topic for message in found} == {"/zeek/LOG/conn"}
    nodes = {"zeek-node=" + parts[1].decode() for parts in BATCHES}
    assert {label for message in found for label in message.labels} == nodes
    assert [str(message.value["id.orig_h"]) for message in found] == [record["id.orig_h"] for record in EXPECTED]
    assert found[0].value["id.orig_p"] == 33936
    push.close()


async def test_what_is_no_log_batch(logger: Daemon, push: zmq.Socket[bytes]) -> None:
    kind, node, serializer, batch = BATCHES[0]
    with structlog.testing.capture_logs() as logs:
        async with connect(logger.endpoints[0].location) as client, client.subscribe("/zeek/LOG/") as messages:
            push.send_multipart([kind, node, serializer])
            push.send_multipart([kind, node, b"zeek-bin-2", batch])
            push.send_multipart([kind, b"\xff", serializer, batch])
            push.send_multipart([kind, node, serializer, b""])
            push.send_multipart([kind, node, serializer, batch + b"x"])
            push.send_multipart([kind, node, serializer, batch])
            found = [await anext(messages) for _ in range(4)]
            assert [message.value["uid"] for message in found] == [record["uid"] for record in EXPECTED[:4]]
        await eventually(lambda: logger.server.rejected_messages == 5)
    told = [line["reason"] for line in logs if line["event"] == "skipped what a Zeek node sent"]
    assert len(told) == 5
    assert "1 bytes stand behind the last record" in told[4]
    push.close()
