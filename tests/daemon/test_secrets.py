"""What a hub as a process writes while tokens are shown to it at every door: none of them, whatever the level is."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hub.errors import PeerError
from peers.client import connect
from peers.users.tokens import TokenFile
from peers.wire.control import Renewal, encode_token
from peers.wire.hello import Hello
from tests.daemon.conftest import StartProcess
from tests.hubs.mesh_peer import hub_hello
from tests.hubs.raw_client import RawClient
from tests.hubs.raw_websocket import RawWebSocket, request, text, upgrade

UNKNOWN = "hub_" + "c2VjcmV0" * 5

WORDS = ("Bearer", "bearer", "Basic")


def pieces(token: str) -> Iterator[str]:
    for part in (token, token[8:30]):
        yield part
        yield part.encode().hex()


@pytest.fixture
def token(tmp_path: Path) -> str:
    secret, _ = TokenFile(str(tmp_path / "tokens")).add("alice", datetime.now(UTC), roles=("member",))
    return secret


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "text"])
async def test_no_token_is_written(start_process: StartProcess, tmp_path: Path, token: str, form: str) -> None:
    hub = await start_process(
        "--listen",
        "tcp://127.0.0.1:0",
        "--listen",
        "ws://127.0.0.1:0",
        "--access-tokens",
        str(tmp_path / "tokens"),
        HUB_LOG_LEVEL="debug",
        HUB_LOG_FORMAT=form,
    )
    await hub.wait_up(2)
    tcp, ws = hub.endpoints
    for shown in (token, UNKNOWN):
        lines = [f"Authorization: {word} {shown}" for word in WORDS]
        lines += [f"Authorization: Bearer {shown}\0", f"authorization:{shown}", f"X-Token: {shown}"]
        for line in lines:
            for stream in (
                upgrade("hub.v1.json", line),
                upgrade("hub.v1.json", line, path="/v1/messages/json"),
                request("/metrics", "GET", line),
                request(f"/metrics?token={shown}", "GET", line),
                upgrade("hub.v1.json") + text({"type": "hello", "token": shown}) + text({"type": "token", "token": 7}),
                upgrade("hub.v1.json") + text({"type": "hello", "token": [shown]}) + b"\xff" * 20,
                b"GET / HTTP/1.1\r\n" + line.encode() + b"\r\n" + b"\xff\r\n\r\n",
            ):
                web = await RawWebSocket.connect(ws)
                await web.send(stream)
                await web.turn()
                web.close()
        for stream in (
            Hello(protocol=1, role="client", token=shown).encode() + encode_token(Renewal(1, UNKNOWN)),
            hub_hello(token=shown),
            encode_token(Renewal(1, shown)),
            Hello(protocol=1, role="client", token=shown).encode()[:-1] + b"\xff",
            b"\x00\x00\x00\x40" + shown.encode() + bytes(100),
        ):
            client = await RawClient.connect(tcp)
            await client.send(stream)
            client.close()
        for endpoint in (tcp, ws):
            try:
                async with connect(endpoint.location, token=shown, name="me"):
                    assert shown == token
            except PeerError:
                assert shown == UNKNOWN
    hub.signal(signal.SIGTERM)
    code, log = await asyncio.wait_for(hub.wait_ended(), 60)
    assert code == 0
    assert log.count("not recognised") > 10
    assert "client connected" in log
    for shown in (token, UNKNOWN):
        for piece in pieces(shown):
            assert piece not in log
