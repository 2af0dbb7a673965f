"""Which names a browser may have reached the hub by, and which web pages may connect."""

from __future__ import annotations

import pytest

from peers.connections.http.gate import Host, is_known, is_loopback, read_host, refusal


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
