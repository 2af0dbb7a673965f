"""Plain HTTP on the WebSocket port."""

from __future__ import annotations

import re

import pytest

from peers.console import page
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import Response, request
from tests.hubs.settings import settings_of


async def get(hub: Hub, path: str, method: str = "GET", *lines: str, version: str = "HTTP/1.1") -> Response:
    client = await hub.raw_websocket()
    await client.send(request(path, method, *lines, version=version))
    return await client.response()


@pytest.mark.parametrize("path", ["/", "/hub.js", "/hub.d.ts"])
async def test_the_page(hub: Hub, path: str) -> None:
    found = page(path)
    assert found is not None
    answer = await get(hub, path)
    assert (answer.status, answer.headers["Content-Type"], answer.body) == (200, found.content_type, found.body)
    assert answer.headers["Content-Length"] == str(len(found.body))
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [
        ("gzip, deflate, br", True),
        ("br;q=1.0, gzip;q=0.8", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0", False),
        ("br", False),
    ],
)
async def test_the_page_is_compressed_for_who_takes_that(hub: Hub, accepted: str, *, is_compressed: bool) -> None:
    index = await get(hub, "/")
    for path in re.findall(rb'(?:src|href)="(/[^"]*)"', index.body):
        answer = await get(hub, path.decode(), "GET", f"Accept-Encoding: {accepted}")
        found = page(path.decode())
        assert found is not None
        assert answer.headers.get("Content-Encoding") == ("gzip" if is_compressed else None)
        assert answer.body == (found.compressed if is_compressed else found.body)
        assert answer.headers["Vary"] == "Accept-Encoding"
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"


async def test_any_page_may_load_the_client_and_nothing_else(hub: Hub) -> None:
    assert (await get(hub, "/hub.js")).headers["Access-Control-Allow-Origin"] == "*"
    for path in ("/", "/healthz", "/metrics", "/nothing"):
        assert "Access-Control-Allow-Origin" not in (await get(hub, path)).headers


async def test_a_query_does_not_matter(hub: Hub) -> None:
    assert (await get(hub, "/healthz?x=1")).status == 200


async def test_health(hub: Hub) -> None:
    hub.node.ready = False
    answer = await get(hub, "/healthz")
    assert (answer.status, answer.body, answer.headers["Cache-Control"]) == (200, b"ok\n", "no-store")


async def test_readiness(hub: Hub) -> None:
    assert (await get(hub, "/readyz")).status == 200
    hub.node.ready = False
    answer = await get(hub, "/readyz")
    assert (answer.status, answer.body) == (503, b"not ready: the hub is starting\n")
    hub.node.draining = True
    answer = await get(hub, "/readyz")
    assert (answer.status, answer.body) == (503, b"not ready: the hub is stopping\n")


async def test_metrics(hub: Hub) -> None:
    await hub.websocket("/a")
    answer = await get(hub, "/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert b'\nhub_handlers{role="client"} 1.0\n' in answer.body


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "//",
        "/v1/hub/",
        "/v1",
        "/v1/../healthz",
        "/%2e%2e/",
        "/static/index.html",
        "/index.html",
        "http://h/healthz",
    ],
)
async def test_nothing_else_is_there(hub: Hub, path: str) -> None:
    answer = await get(hub, path)
    assert answer.status == 404
    assert b"/v1/hub" in answer.body


async def test_head(hub: Hub) -> None:
    answer = await get(hub, "/hub.js", "HEAD")
    found = page("/hub.js")
    assert found is not None
    assert (answer.status, answer.headers["Content-Length"], answer.body) == (200, str(len(found.body)), b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "get", "X\x7f"])
async def test_other_methods(hub: Hub, method: str) -> None:
    answer = await get(hub, "/", method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert answer.body.strip().decode().isprintable()


@pytest.mark.parametrize("loopback", [True, False])
@pytest.mark.parametrize("path", ["/", "/hub.js", "/metrics", "/nothing"])
async def test_a_foreign_host(start_hub: StartHub, path: str, *, loopback: bool) -> None:
    hub = await start_hub(loopback=loopback)
    answer = await ask(hub, path, "Host: evil.example:7401")
    assert answer.status == 421
    assert b"websocket.hosts" in answer.body


async def test_health_is_told_to_every_host(hub: Hub) -> None:
    for path in ("/healthz", "/readyz"):
        assert (await ask(hub, path, "Host: pool-17.example")).status == 200


async def test_hosts_that_may(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(hosts=("hub.example.org",)), loopback=False)
    hub.node.host_names = frozenset({"box.example.org"})
    for name in ("192.168.1.5:7401", "[2001:db8::1]:7401", "hub:7401", "Hub.Example.ORG", "box.example.org:1"):
        assert (await ask(hub, "/metrics", f"Host: {name}")).status == 200


@pytest.mark.parametrize("hosts", [(), ("Host: a", "Host: a"), ("Host:",), ("Host: a b",)])
@pytest.mark.parametrize("path", ["/healthz", "/v1/hub", "/v1/messages/json"])
async def test_one_host(hub: Hub, hosts: tuple[str, ...], path: str) -> None:
    assert (await ask(hub, path, *hosts)).status == 400


async def ask(hub: Hub, path: str, *lines: str) -> Response:
    client = await hub.raw_websocket()
    await client.send("\r\n".join((f"GET {path} HTTP/1.1", *lines, "", "")).encode())
    return await client.response()


async def test_an_old_client(hub: Hub) -> None:
    assert (await get(hub, "/healthz", version="HTTP/1.0")).status == 200


async def test_a_client_that_half_closes(hub: Hub) -> None:
    client = await hub.raw_websocket()
    await client.send(request("/hub.js"))
    client.finish()
    assert (await client.response()).status == 200


async def test_one_request_a_connection(hub: Hub) -> None:
    client = await hub.raw_websocket()
    await client.send(request("/healthz") + request("/metrics") + b"\x81\x80" + bytes(4))
    assert (await client.response()).body == b"ok\n"


async def test_health_is_told_when_the_hub_is_full(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(connections=1))
    await hub.websocket("/a")
    assert (await get(hub, "/healthz")).status == 200
    assert b"\nhub_connections_refused_total 2.0\n" in (await get(hub, "/metrics")).body
