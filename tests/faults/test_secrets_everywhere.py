"""Secrets that are shown at every door, right and wrong: none of them stands in what a hub, or a client, tells."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hub.errors import HubError
from peers.client import connect
from peers.client.client import Client
from peers.transport.endpoints import Endpoint
from peers.users.tokens import TokenFile
from peers.wire.control import Renewal, encode_token
from peers.wire.hello import Hello
from tests.daemon.hub_process import HubProcess
from tests.faults.kills import DEADLINE_S
from tests.hubs.mesh_peer import hub_hello
from tests.hubs.raw_client import RawClient
from tests.hubs.raw_websocket import RawWebSocket, request, text, upgrade
from tests.users.keys import SECRET, jwk, jwks, token

_CLAIMS = {"iss": "https://login.example.org/", "aud": "hub", "sub": "carol", "roles": ["member"]}
_PASSWORD = "bWFsbG9yeTpvcGVuLXNlc2FtZS1vcGVu"


_NOBODY = "Authorization: Bearer nobody"


def _pieces(secret: str) -> Iterator[str]:
    """What must not stand anywhere: a secret, a good part of it, both as digits; of a JWT, what makes it one."""
    if secret.count(".") == 2:
        yield secret.rpartition(".")[2][:40]
    else:
        yield secret[8:30]
        yield secret[8:30].encode().hex()


async def _show(tcp: Endpoint, ws: Endpoint, secret: str, other: str) -> list[str]:
    """Show a secret wherever one can be shown, and where none belongs; return what clients say of it."""
    lines = [f"Authorization: {word} {secret}" for word in ("Bearer", "Basic", "Digest")]
    lines += [f"authorization:{secret}", f"Cookie: token={secret}", f"Sec-WebSocket-Protocol: {secret}"]
    for number, line in enumerate(lines):
        streams = (
            upgrade("hub.v1.json", line) + text({"type": "subscribe", "prefixes": ["/a"], "request": 1}),
            # Of somebody who is let in, statistics would tell what he has subscribed to.
            upgrade("hub.v1.json", _NOBODY) + text({"type": "subscribe", "prefixes": [secret], "request": 1}),
            upgrade("hub.v1.json", line, path="/v1/messages/json"),
            request("/metrics", "GET", line),
            request(f"/?token={secret}", "GET", line),
            upgrade("hub.v1.json") + text({"type": "hello", "token": secret}) + text({"type": "token", "token": other}),
            b"GET / HTTP/1.1\r\n" + line.encode() + b"\r\n\xff\r\n\r\n",
        )
        for stream in (streams[0], streams[1 + number]):  # each line at one door, and another
            web = await RawWebSocket.connect(ws)
            await web.send(stream)
            await web.turn()
            web.close()
    for stream in (
        Hello(protocol=1, role="client", token=secret).encode() + encode_token(Renewal(1, other)),
        hub_hello(token=secret),
        encode_token(Renewal(1, secret)),
        Hello(protocol=1, role="client", token=secret).encode()[:-1] + b"\xff",
    ):
        raw = await RawClient.connect(tcp)
        await raw.send(stream)
        raw.close()
    said: list[str] = []
    for endpoint in (tcp, ws):
        connecting = connect(endpoint.location, token=secret, name="me", reconnect=False)
        said.append(repr(connecting))
        try:
            async with connecting as client:
                said += [repr(client), repr(client.statistics()), repr(client.hub)]
        except (HubError, ValueError) as error:
            said += [repr(error), str(error), *traceback.format_exception(error)]
    return said


def _metrics(ws: Endpoint, secret: str) -> str:
    asked = urllib.request.Request(f"http://{ws.host}:{ws.port}/metrics", headers={"Authorization": f"Bearer {secret}"})
    try:
        with urllib.request.urlopen(asked, timeout=DEADLINE_S) as response:  # noqa: S310 -- as above
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.read().decode()}"


async def _listen(admin: Client, said: list[str]) -> None:
    async with admin.subscribe("$hub/") as messages:
        async for message in messages:
            said.append(repr(message))  # noqa: PERF401 -- it is ended in the middle


@pytest.mark.slow
async def test_nothing_tells_a_secret(tmp_path: Path) -> None:
    known, _ = TokenFile(str(tmp_path / "tokens")).add("alice", datetime.now(UTC), roles=("admin",))
    now = time.time()
    secrets = {
        "a token": known,
        "a token of nobody": "hub_" + "c2VjcmV0" * 5,
        "a JWT": token(_CLAIMS | {"exp": now + 600}),
        "a JWT that has ended": token(_CLAIMS | {"exp": now - 600}),
        "a JWT of another key": token(_CLAIMS | {"exp": now + 600}, key=SECRET[::-1]),
        "a password": _PASSWORD,
    }
    keys = jwks(tmp_path / "jwks.json", jwk("HS256"))
    flags = ["--access-tokens", str(tmp_path / "tokens"), "--access-jwt-keys", keys]
    flags += ["--access-jwt-issuer", _CLAIMS["iss"], "--access-jwt-audience", "hub"]
    listen = ["tcp://127.0.0.1:0", "ws://127.0.0.1:0", f"unix://{tmp_path}/hub.sock"]
    words = [word for url in listen for word in ("--listen", url)]
    process = await HubProcess.start([*words, *flags, "--log-level", "debug", "--log-format", "json"], {})
    said: list[str] = []
    logged: list[bytes] = []
    try:
        hub = await process.wait_up(3)
        stderr = hub._process.stderr
        assert stderr is not None
        reading = asyncio.create_task(_read(stderr, logged))
        tcp, ws, unix = hub.endpoints
        async with asyncio.timeout(4 * DEADLINE_S), connect(unix.location, name="admin") as admin:
            listening = asyncio.create_task(_listen(admin, said))
            # Together: whoever is not recognised is told so late.
            shown = await asyncio.gather(*(_show(tcp, ws, one, secrets["a JWT"]) for one in secrets.values()))
            said += [word for words in shown for word in words]
            for service in ("$hub/who", "$hub/users", "$hub/names"):
                said.append(repr(await admin.request(service, None)))
            with contextlib.suppress(HubError):
                await admin.request("$hub/kick", {"user": "alice"})
            said += [await asyncio.to_thread(_metrics, ws, secrets[name]) for name in ("a JWT", "a token")]
            await asyncio.sleep(1.1)  # what is announced once a second
            listening.cancel()
        said.append(await asyncio.to_thread(Path(f"/proc/{hub.pid}/cmdline").read_text))
        hub.signal(signal.SIGTERM)
        await reading
        assert await hub._process.wait() == 0
    finally:
        await process.kill()
    events = [json.loads(line) for line in logged]
    assert sum(event["event"] == "not recognised" for event in events) > 20
    assert any("audit" in one for one in said)
    assert any("hub_users_refused_total" in one for one in said)
    assert any("carol" in one for one in said)
    everything = "".join(said) + b"".join(logged).decode()
    found = [name for name, secret in secrets.items() for piece in _pieces(secret) if piece in everything]
    assert not found
    assert SECRET.decode() not in everything
    assert jwk("HS256")["k"] not in everything


async def _read(stream: asyncio.StreamReader, lines: list[bytes]) -> None:
    async for line in stream:
        lines.append(line)  # noqa: PERF401 -- they are looked at while more come
