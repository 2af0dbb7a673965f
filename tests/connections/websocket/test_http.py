"""Plain HTTP on the WebSocket port."""

from __future__ import annotations

import re

import pytest

from peers.connections.http_pages import Host, is_known, is_loopback, read_host, refusal
from peers.console import page
from peers.stores.stores import Stores
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import Response, request
from tests.hubs.settings import settings_of


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("hub", Host("hub", None)),
        ("Hub.Example.org:7401", Host("hub.example.org", 7401)),
        ("hub.example.org.:80", Host("hub.example.org", 80)),
        ("127.0.0.1:", Host("127.0.0.1", None)),
        ("[::1]:7401", Host("[::1]", 7401)),
        ("[2001:DB8::1]", Host("[2001:db8::1]", None)),
    ],
)
def test_what_a_host_names(text: str, host: Host) -> None:
    assert read_host([text], "HTTP/1.1") == host


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        ["a", "a"],
        ["a", "b"],
        [""],
        [":7401"],
        ["a b"],
        ["a/b"],
        ["x@a"],
        ["a:x"],
        ["a:123456"],
        ["::1"],
        ["[::1"],
        ["[1]"],
        ["[::1]x"],
        ["a," + "b" * 300],
    ],
)
def test_what_names_no_host(hosts: list[str]) -> None:
    assert read_host(hosts, "HTTP/1.1") is None


def test_an_old_client_names_none() -> None:
    assert read_host([], "HTTP/1.0") == Host("", None)
    assert read_host(["a", "a"], "HTTP/1.0") is None


@pytest.mark.parametrize("loopback", [True, False])
@pytest.mark.parametrize(
    "name",
    ["", "127.0.0.1", "192.168.1.5", "8.8.8.8", "[::1]", "[2001:db8::1]", "localhost", "a.localhost", "listed.org"],
)
def test_names_that_no_stranger_can_make(name: str, *, loopback: bool) -> None:
    assert is_known(name, {"listed.org"}, loopback=loopback)


@pytest.mark.parametrize("name", ["hub", "printer.local", "hub.corp.internal", "hub.home.arpa"])
def test_private_names(name: str) -> None:
    assert is_known(name, (), loopback=False)
    assert not is_known(name, (), loopback=True)


@pytest.mark.parametrize("loopback", [True, False])
@pytest.mark.parametrize(
    "name",
    ["evil.com", "127.0.0.1.evil.com", "localhost.evil.com", "xlocalhost.com", "evil.com.local.org", "a.listed.org"],
)
def test_names_that_anybody_can_make(name: str, *, loopback: bool) -> None:
    assert not is_known(name, {"listed.org"}, loopback=loopback)
    assert is_known(name, {"*"}, loopback=loopback)


def test_loopback() -> None:
    assert [is_loopback(name) for name in ("127.9.9.9", "[::1]", "localhost", "a.localhost")] == [True] * 4
    assert [is_loopback(name) for name in ("10.0.0.1", "[::2]", "localhost.org", "")] == [False] * 4


# Which web pages may connect.


HOST = ["127.0.0.1:7401"]


def allowed(*origins: str, hosts: list[str] = HOST, listed: tuple[str, ...] = (), loopback: bool = True) -> bool:
    return not why_not(*origins, hosts=hosts, listed=listed, loopback=loopback)


def why_not(
    *origins: str,
    hosts: list[str] = HOST,
    listed: tuple[str, ...] = (),
    known: tuple[str, ...] = (),
    loopback: bool = True,
) -> str:
    host = read_host(hosts, "HTTP/1.1")
    if host is None:
        return "no host"
    is_host_known = is_known(host.name, known, loopback=loopback)
    return refusal(origins, host, listed, loopback=loopback, is_host_known=is_host_known)


@pytest.mark.parametrize("loopback", [True, False])
def test_programs_may(*, loopback: bool) -> None:
    assert allowed(loopback=loopback)
    assert allowed(hosts=["evil.com"], loopback=loopback)


@pytest.mark.parametrize("loopback", [True, False])
@pytest.mark.parametrize("origin", ["https://example.org", "https://example.org:8443", "null"])
def test_listed_pages_may(origin: str, *, loopback: bool) -> None:
    assert allowed(origin, listed=("https://other.org", origin), loopback=loopback)
    for lookalike in (origin + ".evil.com", origin + ":1", origin.upper(), origin + "/", "x" + origin):
        assert not allowed(lookalike, listed=(origin,), loopback=loopback)


@pytest.mark.parametrize(
    "origin",
    ["http://127.0.0.1:7401", "http://localhost", "http://localhost:3000", "https://[::1]:8443", "http://127.0.0.1"],
)
@pytest.mark.parametrize("host", ["127.0.0.1:7401", "localhost:7401", "[::1]:7401"])
def test_pages_of_this_machine_may_on_loopback(origin: str, host: str) -> None:
    assert allowed(origin, hosts=[host])


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://hub.example.org:7401", "hub.example.org:7401"),
        ("http://hub.example.org", "hub.example.org:80"),
        ("http://hub.example.org", "Hub.Example.org"),
        ("https://hub.example.org", "hub.example.org"),
        ("https://hub.example.org:443", "hub.example.org"),
        ("http://[2001:db8::1]:7401", "[2001:db8::1]:7401"),
        ("http://localhost:7401", "localhost:7401"),
    ],
)
def test_the_own_page_may(origin: str, host: str) -> None:
    assert not why_not(origin, hosts=[host], known=("hub.example.org",), loopback=False)


@pytest.mark.parametrize("loopback", [True, False])
def test_a_foreign_name_for_this_hub_may_not(*, loopback: bool) -> None:
    text = why_not("http://evil.com:7401", hosts=["evil.com:7401"], loopback=loopback)
    assert "websocket.hosts" in text
    assert not why_not("http://evil.com:7401", hosts=["evil.com:7401"], known=("evil.com",), loopback=loopback)


@pytest.mark.parametrize("loopback", [True, False])
@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.com",
        "https://evil.com:7401",
        "http://127.0.0.1.evil.com:7401",
        "http://localhost.evil.com",
        "http://evil.com@127.0.0.1:7401",
        "http://127.0.0.1:7401@evil.com",
        "http://127.0.0.1:7401/",
        "http://127.0.0.1:7401 http://evil.com",
        "http://127.0.0.1\\.evil.com",
        "http://[::1].evil.com",
        "http://127.0.0.1:7401:7401",
        "http://127.0.0.1:",
        "file://127.0.0.1:7401",
        "chrome-extension://127.0.0.1:7401",
        "127.0.0.1:7401",
        "http://",
    ],
)
def test_others_may_not(origin: str, *, loopback: bool) -> None:
    assert not allowed(origin, loopback=loopback)


@pytest.mark.parametrize(
    ("origin", "hosts"),
    [
        ("http://127.0.0.1:7402", HOST),
        ("https://127.0.0.1:7401", []),
        ("http://127.0.0.1:7401", [*HOST, *HOST]),
        ("http://a.example.org", ["b.example.org"]),
        ("http://a.example.org", ["a.example.org:443"]),
        ("https://a.example.org", ["a.example.org:80"]),
        ("http://a.example.org", ["a.example.org:x"]),
        ("http://a.example.org", ["x@a.example.org"]),
    ],
)
def test_another_host_is_not_the_own_page(origin: str, hosts: list[str]) -> None:
    assert not allowed(origin, hosts=hosts, loopback=False)


def test_several_origins_may_not() -> None:
    assert why_not("http://localhost", "http://localhost") == "several Origin headers"


def test_the_refusal_names_the_setting() -> None:
    text = why_not("http://evil\x1b.com")
    assert "websocket.origins" in text
    assert "'http://evil\\x1b.com'" in text


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
    hub.server.ready = False
    answer = await get(hub, "/healthz")
    assert (answer.status, answer.body, answer.headers["Cache-Control"]) == (200, b"ok\n", "no-store")


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
