"""The daemon: what it opens, how it stops, what it takes over at a reload, and what it does once a second."""

from __future__ import annotations

import asyncio
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from hub.errors import CloseCode
from hub.limits import Overflow
from hub.settings.keys import KEYS, Kind, value_at
from peers.cli.check import check
from peers.connections.listener import ListenError
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.server.metrics import exposition
from peers.transport.endpoints import Endpoint
from peers.wire.hello import QueueWish
from tests.daemon.conftest import Connect, StartDaemon
from tests.hubs.authority import Authority
from tests.hubs.clock import ShiftedLoop
from tests.hubs.eventually import eventually
from tests.hubs.raw_client import RawClient, numbered
from tests.users.keys import public_pem


def is_listening(endpoint: Endpoint) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((endpoint.host, endpoint.port)) == 0


async def test_an_address_that_fails_closes_the_others(start_daemon: StartDaemon) -> None:
    other = await start_daemon()
    daemon = Daemon(load({"listen": ["tcp://127.0.0.1:0", other.endpoints[0].location]}, {}), "hub")
    with pytest.raises(ListenError, match=f"port {other.endpoints[0].port} is in use"):
        await daemon.start()
    assert not is_listening(daemon.endpoints[0])
    assert is_listening(other.endpoints[0])
    assert not daemon.server.ready


async def test_listeners_have_queues_of_their_own(start_daemon: StartDaemon) -> None:
    daemon = await start_daemon(
        "tcp://127.0.0.1:0", "tcp://127.0.0.1:0?messages=7&overflow=disconnect", queue={"messages": 99}
    )
    granted = []
    for endpoint in daemon.endpoints:
        client = await RawClient.connect(endpoint)
        granted.append((await client.greet()).queue)
        client.close()
    assert granted == [QueueWish(99, 64 << 20, Overflow.DROP_OLDEST), QueueWish(7, 64 << 20, Overflow.DISCONNECT)]


async def test_open_listeners_are_told(start_daemon: StartDaemon, tmp_path: Path) -> None:
    listen = ["tcp://0.0.0.0:0", "ws://[::1]:0", "tcp://127.0.0.1:0", f"unix://{tmp_path}/hub.sock"]
    with structlog.testing.capture_logs() as lines:
        daemon = await start_daemon(*listen, access={"anonymous": "reader"})
    told = [(line["on"], line["role"]) for line in lines if line["event"] == "clients without credentials are admitted"]
    assert told == [(daemon.endpoints[0].location, "reader")]
    assert b'hub_anonymous_admitted{role="reader"} 1.0' in exposition(daemon.server)
    assert socket.gethostname().lower() in daemon.server.host_names


# Stopping.


async def test_stopping_in_order(start_daemon: StartDaemon, connect: Connect) -> None:
    daemon = await start_daemon(queue_max={"messages": 100_000})
    (endpoint,) = daemon.endpoints
    reader = await connect(endpoint, "/flood", queue=QueueWish(messages=100_000), receive_bytes=4096)
    publisher = await connect(endpoint)
    stranger = await RawClient.connect(endpoint)
    total = 0
    while next(one for one in daemon.server.core.handlers.values() if one.prefixes).statistics().queued_messages < 500:
        await publisher.send(numbered("/flood", range(total, total + 500), padding=1000))
        await publisher.ping()
        total += 500
    stopping = daemon.server.loop.create_task(daemon.stop())
    assert await reader.numbers_and_gaps(total) == list(range(total))
    for client in (reader, publisher, stranger):
        assert await client.end() == (CloseCode.GOING_AWAY, "the hub stops")
        client.close()
    await stopping
    assert not daemon.server.connections
    assert not daemon.server.core.handlers
    assert not is_listening(endpoint)


async def test_stopping_does_not_wait_for_who_does_not_read(start_daemon: StartDaemon, connect: Connect) -> None:
    daemon = await start_daemon(limits={"drain_s": 0})
    (endpoint,) = daemon.endpoints
    await connect(endpoint, "/flood", receive_bytes=4096)
    publisher = await connect(endpoint)
    while not any(not one.writable for one in daemon.server.core.handlers.values()):
        await publisher.send(numbered("/flood", range(500), padding=1000))
        await publisher.ping()
    await daemon.stop()
    await eventually(lambda: not daemon.server.connections)
    assert not daemon.server.core.handlers
    assert await publisher.end() == (CloseCode.GOING_AWAY, "the hub stops")


# Reloading.


async def test_a_reload_is_for_those_who_come(start_daemon: StartDaemon, connect: Connect) -> None:
    daemon = await start_daemon()
    listen = daemon.endpoints[0]
    old = await connect(listen, "/a", name="old")
    loaded = load({"listen": ["tcp://127.0.0.1:0"], "queue": {"messages": 11}, "limits": {"connections": 2}}, {})
    applied, needs_restart = daemon.take_over(daemon.prepare(loaded))
    assert (applied, needs_restart) == (["queue.messages", "limits.connections"], [])
    await connect(listen, "/a", name="new")
    limits = {one.name: one.limits.messages for one in daemon.server.core.handlers.values()}
    assert limits == {"old": 8192, "new": 11}
    third = await RawClient.connect(listen)
    assert (await third.end())[0] == CloseCode.TRY_AGAIN_LATER
    third.close()
    assert await old.ping() == []


# Values other than the default, of keys that take no value of their kind's.
OTHERS: dict[str, Any] = {
    "listen": ["tcp://127.0.0.1:1"],
    "peers": ["tcp://127.0.0.1:1"],
    "websocket.origins": ["https://a.org"],
    "websocket.hosts": ["a.org"],
    "unix.mode": "0660",
    "access.anonymous": "reader",
    "stores.open": ["other=:memory:"],
    "stores.feeds": ["other=/status/"],
    "zeek.masters": ["other"],
    "zeek.clones": ["other"],
}

# What must stand in the file that `another_value` names.
FILES: dict[str, Callable[[], bytes]] = {
    "access.policy": lambda: b"[users]\n",
    "access.tokens": lambda: b"",
    "access.jwt_keys": lambda: public_pem("ES256"),
    "tls.ca": lambda: Path(Authority(Path()).ca).read_bytes(),
    "tls.crl": lambda: Authority(Path()).revoke(),
}

# What must be set with a key.
BESIDE: dict[str, dict[str, dict[str, Any]]] = {
    "access.jwt_keys": {"access": {"jwt_issuer": "here", "jwt_audience": "hub"}},
    "journal.tier": {"journal": {"path": "journal"}},
    "stores.feeds": {"stores": {"open": ["other=:memory:"]}},
    "zeek.masters": {"stores": {"open": ["other=:memory:"]}},
    "zeek.clones": {"stores": {"open": ["other=:memory:"]}},
}


def another_value(path: str) -> Any:
    key = KEYS[path]
    if path in OTHERS:
        return OTHERS[path]
    if path in FILES:
        file = Path("other")
        file.touch(0o600)
        file.write_bytes(FILES[path]())
    match key.kind:
        case Kind.CHOICE:
            return next(choice for choice in key.choices if choice != key.default)
        case Kind.TEXT:
            return "other"
        case Kind.TEXTS:
            return ["/other/"]
        case _:
            return key.most if path.startswith("queue_max.") or key.default == key.least else key.least


@pytest.mark.parametrize("path", KEYS)
async def test_a_reload_changes_what_is_live_and_names_the_rest(path: str) -> None:
    beside: dict[str, dict[str, Any]] = BESIDE.get(path, {})
    daemon = Daemon(load({"listen": ["tcp://127.0.0.1:0"], **beside}, {}), "hub")
    section, _, name = path.rpartition(".")
    value = another_value(path)
    flags: dict[str, Any] = {"listen": ["tcp://127.0.0.1:0"], **beside}
    flags |= {section: beside.get(section, {}) | {name: value}} if section else {name: value}
    loaded = load(flags, {})
    old, new = value_at(daemon.server.settings, path), value_at(loaded.settings, path)
    assert old != new
    live = KEYS[path].live
    for applied in ([path] if live else [], []):
        assert daemon.take_over(daemon.prepare(loaded)) == (applied, [] if live else [path])
        assert value_at(daemon.server.settings, path) == (new if live else old)
    effect = EFFECTS.get(path)
    assert effect is None or effect(daemon) == new


LOOPBACK = Endpoint.parse("tcp://127.0.0.1:0")

# Where a live key is not read from the node's settings each time that it is used.
EFFECTS: dict[str, Callable[[Daemon], object]] = {
    "queue.messages": lambda daemon: daemon._queue(LOOPBACK).messages,
    "queue.bytes": lambda daemon: daemon._queue(LOOPBACK).bytes,
    "queue.overflow": lambda daemon: daemon._queue(LOOPBACK).overflow,
    "limits.connections": lambda daemon: min(daemon.server.admission.limit, daemon.server.settings.limits.connections),
    "limits.connections_per_address": lambda daemon: daemon.server.admission.address_limit,
    "limits.tls_handshakes": lambda daemon: daemon.server.handshakes.places.limit,
    "limits.tls_handshake_s": lambda daemon: daemon.server.handshakes.limit_s,
    "limits.newcomers": lambda daemon: daemon.server.admission.places.limit,
}


# Once a second.


async def test_statistics(start_daemon: StartDaemon, connect: Connect) -> None:
    daemon = await start_daemon()
    (endpoint,) = daemon.endpoints
    reader = await connect(endpoint, "/a", "/b", name="reader")
    await reader.publish("/a", 1, 2, 3)
    await reader.values(3)
    watcher = await connect(endpoint, "$hub/statistics", name="watcher")
    daemon._second()
    ((_, value),) = await watcher.values(1)
    first, second = value["some"]
    assert (value["hub"], value["handlers"], value["links"], second["name"]) == ("hub", 2, [], "watcher")
    said = {"name": "reader", "role": "client", "prefixes": 2, "sample": ["/a", "/b"], "overflow": "drop-oldest"}
    counts = {"published_messages": 3, "delivered_messages": 3, "dropped_messages": 0, "queued_messages": 0}
    assert first == first | said | counts
    await watcher.unsubscribe("$hub/statistics")
    daemon._second()
    assert await watcher.ping() == []


async def test_the_clock_goes_on(start_daemon: StartDaemon, connect: Connect) -> None:
    class Broken:
        due_s = -1

        def check(self, now_s: float) -> float:
            raise ZeroDivisionError(now_s)

    daemon = await start_daemon()
    watcher = await connect(daemon.endpoints[0], "$hub/statistics")
    with structlog.testing.capture_logs() as lines:
        daemon.server.keepalive._last_s -= 5
        daemon.server.keepalive.watch(Broken(), 0.0)
        daemon._second()
        assert [topic for topic, _ in await watcher.values(2)] == ["$hub/statistics"] * 2
    bugs = [line for line in lines if "because of a bug" in line["event"]]
    assert len(bugs) == 1
    assert "ExceptionGroup" in bugs[0]["error"]


async def test_a_timer_that_is_due_already(start_daemon: StartDaemon, connect: Connect) -> None:
    class Handle:
        def __init__(self, handle: asyncio.Handle) -> None:
            self.cancel = handle.cancel

    class Late(ShiftedLoop):
        def call_at(self, when_s: float, act: Callable[..., object], *arguments: Any) -> Any:
            return Handle(super().call_at(when_s, act, *arguments))

    daemon = await start_daemon()
    daemon.server.loop = Late()  # type: ignore[assignment]
    watcher = await connect(daemon.endpoints[0], "$hub/statistics")
    assert [topic for topic, _ in await watcher.values(3)] == ["$hub/statistics"] * 3


async def test_a_clock_that_has_stopped(start_daemon: StartDaemon) -> None:
    class Stopped(ShiftedLoop):
        def call_at(self, when_s: float, act: Callable[..., object], *arguments: Any) -> Any:
            handle = super().call_at(when_s, act, *arguments)
            handle.cancel()
            return handle

    daemon = await start_daemon("tcp://127.0.0.1:0", "ws://127.0.0.1:0")
    tcp, web = daemon.endpoints
    urls = [tcp.location, web.location]

    async def checked() -> list[int]:
        return [await asyncio.to_thread(check, url, quiet=True) for url in urls]

    async def asked(path: str) -> tuple[int, str]:
        def ask() -> tuple[int, str]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{web.port}{path}", timeout=60) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, re.sub(r"\d+ s ago", "some time ago", error.read().decode())

        return await asyncio.to_thread(ask)

    assert await checked() == [0, 0]
    assert await asked("/healthz") == (200, "ok\n")
    loop = Stopped()
    daemon.server.loop = loop  # type: ignore[assignment]
    assert daemon._tick is not None
    daemon._tick.cancel()  # else it comes once more when a second is over
    daemon._second()
    loop.ahead_s += 4
    assert await checked() == [0, 0]
    loop.ahead_s += 3
    assert await checked() == [2, 2]
    text = "the hub's clock has stopped some time ago: restart the hub\n"
    assert await asked("/healthz") == (503, text)
    assert await asked("/readyz") == (503, f"not ready: {text}")
    daemon._second()
    assert await checked() == [0, 0]
