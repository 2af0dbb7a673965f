"""A hub that follows messages, and a collector that takes them, refuses them, is slow, or is not there."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hub.config import ConfigError
from hub.errors import UsageError
from peers.client import connect
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.node.metrics import exposition
from tests.daemon.telemetry.collector import attributes_of, collecting
from tests.hubs.eventually import eventually

TRACE, PUBLISHER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
LABEL = f"traceparent=00-{TRACE}-{PUBLISHER}-01"


@asynccontextmanager
async def running(name: str = "hub", *, peers: tuple[str, ...] = (), **telemetry: Any) -> AsyncIterator[Daemon]:
    """A hub for as long as the block lasts."""
    daemon = Daemon(load({"listen": ["tcp://127.0.0.1:0"], "peers": list(peers), "telemetry": telemetry}, {}), name)
    await daemon.start()
    try:
        yield daemon
    finally:
        await daemon.stop()


async def exchange(daemon: Daemon, messages: int, label: str = "") -> None:
    """Publish so many messages, each once the one before has arrived: a quiet pair."""
    url = daemon.endpoints[0].location
    async with connect(url, name="sensor") as publisher, connect(url) as reader, reader.subscribe("/a") as stream:
        for number in range(messages):
            await publisher.publish("/a", number, [label] if label else [])
            assert (await anext(stream)).value == number


async def test_one_of_so_many_reaches_the_collector(tmp_path: Path) -> None:
    """With the headers of a file, and as what they are; the last of them as the hub stops."""
    (tmp_path / "headers").write_text("x-who: hub")
    async with collecting() as collector:
        async with running(endpoint=collector.url, every=1, headers=str(tmp_path / "headers")) as daemon:
            await exchange(daemon, 30)
        assert {headers["x-who"] for headers in collector.headers} == {"hub"}
        told = [attributes_of(one) for one in collector.spans]
        assert {one["messaging.destination.name"] for one in told} == {"/a"}
        assert {(one["messaging.client.id"], one["topichub.subscribers"], one["topichub.dropped"]) for one in told} == {
            ("sensor", 1, 0)
        }
        assert len(told) == 30
        assert collector.resources[0]["service.name"] == "topichub"
        assert daemon.node.span_statistics().exported == len(told)


async def test_one_trace_through_two_hubs() -> None:
    """Spans of both are parts of the publisher's; what says nothing of a trace begins none."""
    async with collecting() as collector:
        how: dict[str, Any] = {"endpoint": collector.url, "every": 0}
        async with (
            running("far", **how) as far,
            running("near", peers=(far.endpoints[0].location,), **how) as near,
            connect(near.endpoints[0].location) as publisher,
            connect(far.endpoints[0].location) as reader,
            reader.subscribe("/a") as stream,
        ):
            await eventually(lambda: near.node.core.routes.find("/a").handlers)
            await publisher.publish("/a", 1)
            await publisher.publish("/a", 2, [LABEL])
            assert [(await anext(stream)).value for _ in range(2)] == [1, 2]
        assert {(one.trace_id.hex(), one.parent_span_id.hex()) for one in collector.spans} == {(TRACE, PUBLISHER)}
        links = sorted((attributes_of(one) for one in collector.spans), key=lambda one: "topichub.links" in one)
        assert [(one.get("topichub.links"), one["topichub.subscribers"]) for one in links] == [(None, 1), (1, 0)]
        assert {one["topichub.name"] for one in collector.resources} == {"near", "far"}


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Service Unavailable"])
async def test_a_collector_that_refuses(status: str) -> None:
    """Its spans are counted as failed, and messages go on."""
    async with (
        collecting(status=status) as collector,
        running(endpoint=collector.url, every=0, timeout_s=0.1) as daemon,
    ):
        await exchange(daemon, 20, LABEL)
        await eventually(lambda: daemon.node.span_statistics().failed)
        await exchange(daemon, 20, LABEL)
        assert collector.spans == []
        assert daemon.node.span_statistics().exported == 0
        assert b'hub_spans_total{outcome="failed"} ' in exposition(daemon.node)


async def test_a_collector_that_is_not_there() -> None:
    """The same."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/v1/traces"
        async with running(endpoint=url, every=0, timeout_s=0.1) as daemon:
            await exchange(daemon, 20, LABEL)
            await eventually(lambda: daemon.node.span_statistics().failed)
            await exchange(daemon, 20, LABEL)


async def test_a_collector_that_does_not_answer() -> None:
    """Nobody waits for it: not messages, and not the end of the hub, for longer than it says."""
    async with collecting(answers=False) as collector:
        async with running(
            endpoint=collector.url, every=0, timeout_s=600.0, queue_spans=5, spans_per_s=10_000
        ) as daemon:
            await exchange(daemon, 3, LABEL)
            await eventually(lambda: collector.requests)
            await exchange(daemon, 30, LABEL)
            told = daemon.node.span_statistics()
            assert 5 < told.waiting <= 8  # as many as there may be, and those of the request
            assert (told.waiting + told.overflowed, told.limit, told.exported, told.failed) == (33, 5, 0, 0)
        assert collector.spans == []


async def test_without_an_endpoint_nothing_is_followed() -> None:
    """Nor is OpenTelemetry loaded (`tests/cli/test_start.py`, `tests/daemon/test_imports.py`)."""
    async with running() as daemon:
        assert daemon.node.core.routes.tap is None
        assert daemon.node.core.census.on_look is None
        assert b"hub_spans_limit 0.0" in exposition(daemon.node)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:4318", "ftp://host", "http://", "http://host:0", "http://host:port", "http://["]
)
async def test_what_is_no_collector(url: str) -> None:
    """It keeps the hub from starting."""
    with pytest.raises(ConfigError, match=r"telemetry\.endpoint: expected a URL such as"):
        async with running(endpoint=url):
            pass


async def test_no_secrets_in_a_url() -> None:
    """They would stand in listings of processes and settings; the text does not show them either."""
    with pytest.raises(ConfigError, match="give a file of headers") as told:
        async with running(endpoint="https://user:hidden@host/v1/traces"):
            pass
    assert "hidden" not in str(told.value)


async def test_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub says what to install, and does not start."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "peers.daemon.telemetry.otlp", raising=False)
    with pytest.raises(UsageError, match=r"telemetry needs OpenTelemetry, .* pip install '.\[otel\]'"):
        async with running(endpoint="http://127.0.0.1:4318/v1/traces"):
            pass
