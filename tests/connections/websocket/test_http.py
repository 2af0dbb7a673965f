"""Plain HTTP on the WebSocket port."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hub.handlers.handler import Handler
from hub.requests.hub_services import Later
from peers.connections.http_pages import Host, is_known, is_loopback, read_host, refusal
from peers.console import page
from peers.stores.stores import Stores
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import Response, request
from tests.hubs.settings import settings_of


def test_what_a_host_names() -> None:
    for text, host in (
        ("hub", Host("hub", None)),
        ("Hub.Example.org:7401", Host("hub.example.org", 7401)),
        ("hub.example.org.:80", Host("hub.example.org", 80)),
        ("127.0.0.1:", Host("127.0.0.1", None)),
        ("[::1]:7401", Host("[::1]", 7401)),
        ("[2001:DB8::1]", Host("[2001:db8::1]", None)),
    ):
        assert read_host([text], "HTTP/1.1") == host
    for text in ("", ":7401", "a b", "a/b", "x@a", "a:x", "a:123456", "::1", "[::1", "[1]", "[::1]x", "a," + "b" * 300):
        assert read_host([text], "HTTP/1.1") is None
    for hosts in ([], ["a", "a"], ["a", "b"]):
        assert read_host(hosts, "HTTP/1.1") is None
    assert read_host([], "HTTP/1.0") == Host("", None)
    assert read_host(["a", "a"], "HTTP/1.0") is None


@pytest.mark.parametrize("loopback", [True, False])
def test_names(*, loopback: bool) -> None:
    """Addresses and names of this machine, and those that are listed, can be made by no stranger."""
    addresses = ("", "127.0.0.1", "192.168.1.5", "8.8.8.8", "[::1]", "[2001:db8::1]")
    for name in (*addresses, "localhost", "a.localhost", "listed.org"):
        assert is_known(name, {"listed.org"}, loopback=loopback)
    lookalikes = ("127.0.0.1.evil.com", "localhost.evil.com", "xlocalhost.com", "evil.com.local.org", "a.listed.org")
    for name in ("evil.com", *lookalikes):
        assert not is_known(name, {"listed.org"}, loopback=loopback)
        assert is_known(name, {"*"}, loopback=loopback)
    for name in ("hub", "printer.local", "hub.corp.internal", "hub.home.arpa"):
        assert is_known(name, (), loopback=loopback) is not loopback
    assert all(map(is_loopback, ("127.9.9.9", "[::1]", "localhost", "a.localhost")))
    assert not any(map(is_loopback, ("10.0.0.1", "[::2]", "localhost.org", "")))


# Which web pages may connect.


OWN = "127.0.0.1:7401"


def why_not(*origins: str, host: str = OWN, loopback: bool = True, **names: tuple[str, ...]) -> str:
    found = read_host([host], "HTTP/1.1")
    if found is None:
        return "no host"
    is_host_known = is_known(found.name, names.get("known", ()), loopback=loopback)
    return refusal(origins, found, names.get("listed", ()), loopback=loopback, is_host_known=is_host_known)


@pytest.mark.parametrize("loopback", [True, False])
def test_who_may_at_any_listener(*, loopback: bool) -> None:
    """Programs, which say nothing of where they come from, and pages that are listed."""
    for host in (OWN, "evil.com"):
        assert not why_not(host=host, loopback=loopback)
    for origin in ("https://example.org", "https://example.org:8443", "null"):
        assert not why_not(origin, listed=("https://other.org", origin), loopback=loopback)
        for lookalike in (origin + ".evil.com", origin + ":1", origin.upper(), origin + "/", "x" + origin):
            assert why_not(lookalike, listed=(origin,), loopback=loopback)


def test_pages_of_this_machine_may_on_loopback() -> None:
    for host in (OWN, "localhost:7401", "[::1]:7401"):
        for name in ("127.0.0.1:7401", "127.0.0.1", "localhost", "localhost:3000"):
            assert not why_not(f"http://{name}", host=host)
        assert not why_not("https://[::1]:8443", host=host)


@pytest.mark.parametrize(
    ("origin", "host", "may"),
    [
        ("http://hub.example.org:7401", "hub.example.org:7401", True),
        ("http://hub.example.org", "hub.example.org:80", True),
        ("http://hub.example.org", "Hub.Example.org", True),
        ("https://hub.example.org", "hub.example.org", True),
        ("https://hub.example.org:443", "hub.example.org", True),
        ("http://[2001:db8::1]:7401", "[2001:db8::1]:7401", True),
        ("http://localhost:7401", "localhost:7401", True),
        ("http://127.0.0.1:7402", OWN, False),
        ("http://hub.example.org", "b.example.org", False),
        ("http://hub.example.org", "hub.example.org:443", False),
        ("https://hub.example.org", "hub.example.org:80", False),
        ("http://hub.example.org", "hub.example.org:x", False),
        ("http://hub.example.org", "x@hub.example.org", False),
    ],
)
def test_the_own_page_may_and_no_other(origin: str, host: str, *, may: bool) -> None:
    assert bool(why_not(origin, host=host, known=("hub.example.org",), loopback=False)) is not may


STRANGE = """
    null http://evil.com https://evil.com:7401 http://127.0.0.1.evil.com:7401 http://localhost.evil.com
    http://evil.com@127.0.0.1:7401 http://127.0.0.1:7401@evil.com http://127.0.0.1:7401/ http://127.0.0.1\\.evil.com
    http://[::1].evil.com http://127.0.0.1:7401:7401 http://127.0.0.1: file://127.0.0.1:7401
    chrome-extension://127.0.0.1:7401 127.0.0.1:7401 http://
"""


@pytest.mark.parametrize("loopback", [True, False])
def test_others_may_not(*, loopback: bool) -> None:
    for origin in (*STRANGE.split(), "", "http://127.0.0.1:7401 http://evil.com"):
        assert why_not(origin, loopback=loopback), origin
    assert why_not("http://localhost", "http://localhost", loopback=loopback) == "several Origin headers"
    text = why_not("http://evil\x1b.com", loopback=loopback)
    assert "websocket.origins" in text
    assert "'http://evil\\x1b.com'" in text
    assert "websocket.hosts" in why_not("http://evil.com:7401", host="evil.com:7401", loopback=loopback)
    assert not why_not("http://evil.com:7401", host="evil.com:7401", known=("evil.com",), loopback=loopback)


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


async def test_health(hub: Hub) -> None:
    hub.server.ready = False
    answer = await get(hub, "/healthz")
    assert (answer.status, answer.body, answer.headers["Cache-Control"]) == (200, b"ok\n", "no-store")


async def test_a_worker_whose_clock_has_stopped_does_not_ask_the_core_for_its_health(hub: Hub) -> None:
    asked: list[str] = []

    class Core:
        def ask(self, what: str, value: Any = None, by: Handler | None = None) -> Later:  # noqa: ARG002
            asked.append(what)
            later = Later()
            hub.clock.call_soon(later.give, "")  # nothing is wrong with it
            return later

    hub.server.whole = Core()
    assert (await get(hub, "/healthz")).status == 200
    hub.server.second_s = hub.clock.time() - 60
    answer = await get(hub, "/healthz")
    assert (answer.status, b"clock has stopped" in answer.body) == (503, True)
    assert asked == ["alive"]


async def test_readiness(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await get(hub, "/readyz")).status == 200
    monkeypatch.setattr(Stores, "trouble", "no room for the store 's'")
    answer = await get(hub, "/readyz")
    assert (answer.status, answer.body) == (503, b"not ready: no room for the store 's'\n")
    hub.server.ready = False
    answer = await get(hub, "/readyz")
    assert (answer.status, answer.body) == (503, b"not ready: the hub is starting\n")
    hub.server.draining = True
    answer = await get(hub, "/readyz")
    assert (answer.status, answer.body) == (503, b"not ready: the hub is stopping\n")


async def test_metrics(hub: Hub) -> None:
    await hub.websocket("/a")
    answer = await get(hub, "/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert b'\nhub_handlers{role="client"} 1.0\n' in answer.body


async def test_nothing_else_is_there(hub: Hub) -> None:
    strange = ("/v1/../healthz", "/%2e%2e/", "/static/index.html", "/index.html", "http://h/healthz")
    for path in ("/nothing", "//", "/v1/hub/", "/v1", *strange):
        answer = await get(hub, path)
        assert (answer.status, b"/v1/hub" in answer.body) == (404, True)


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
    hub.server.host_names = frozenset({"box.example.org"})
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


async def test_one_request_a_connection(hub: Hub) -> None:
    client = await hub.raw_websocket()
    await client.send(request("/healthz") + request("/metrics") + b"\x81\x80" + bytes(4))
    assert (await client.response()).body == b"ok\n"


async def test_health_is_told_when_the_hub_is_full(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(connections=1))
    await hub.websocket("/a")
    assert (await get(hub, "/healthz")).status == 200
    assert b"\nhub_connections_refused_total 2.0\n" in (await get(hub, "/metrics")).body


async def test_head(hub: Hub) -> None:
    answer = await get(hub, "/hub.js", "HEAD")
    found = page("/hub.js")
    assert found is not None
    assert (answer.status, answer.headers["Content-Length"], answer.body) == (200, str(len(found.body)), b"")
