"""Which names a browser may have reached the hub by."""

from __future__ import annotations

import pytest

from peers.connections.http.gate import Host, is_known, is_loopback, read_host


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
