"""URLs of hubs: what is taken, what is refused and with which words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.limits import Overflow, QueueLimits
from peers.transport.endpoints import Endpoint, InvalidEndpointError, QueueOverride, Scheme, host_of


def refusal(url: str) -> str:
    with pytest.raises(InvalidEndpointError) as caught:
        Endpoint.parse(url)
    assert caught.value.url == url
    return caught.value.reason


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("tcp://127.0.0.1:7400", Endpoint(Scheme.TCP, "127.0.0.1", 7400)),
        ("tcp://hub.example.org:7400", Endpoint(Scheme.TCP, "hub.example.org", 7400)),
        ("tcp://[::1]:0", Endpoint(Scheme.TCP, "::1", 0)),
        ("tcp://[fe80::1%eth0]:65535", Endpoint(Scheme.TCP, "fe80::1%eth0", 65535)),
        ("unix:///run/hub.sock", Endpoint(Scheme.UNIX, path="/run/hub.sock")),
        ("unix:///run/a%3Fb%20c%23%25.sock", Endpoint(Scheme.UNIX, path="/run/a?b c#%.sock")),
        ("ws://127.0.0.1:7401", Endpoint(Scheme.WS, "127.0.0.1", 7401)),
        ("ws://127.0.0.1:7401/", Endpoint(Scheme.WS, "127.0.0.1", 7401, "/")),
        ("ws://hub:7401/v1/hub", Endpoint(Scheme.WS, "hub", 7401, "/v1/hub")),
        ("zeek://127.0.0.1:9999", Endpoint(Scheme.ZEEK, "127.0.0.1", 9999)),
        ("zeek+tcp://[::1]:9999", Endpoint(Scheme.ZEEK_TCP, "::1", 9999)),
        ("zeek+ws://zeek.example.org:27759", Endpoint(Scheme.ZEEK_WS, "zeek.example.org", 27759)),
    ],
)
def test_forms(url: str, endpoint: Endpoint) -> None:
    assert Endpoint.parse(url) == endpoint
    assert str(endpoint) == url
    assert endpoint.location == url


def test_scheme_and_trailing_slash() -> None:
    assert Endpoint.parse("TCP://h:1/") == Endpoint(Scheme.TCP, "h", 1)


def test_query_overrides_the_queue() -> None:
    default = QueueLimits(10, 20_000, Overflow.DROP_NEWEST)
    endpoint = Endpoint.parse("tcp://h:1?messages=1000&bytes=1MiB&overflow=disconnect")
    assert endpoint.queue == QueueOverride(1000, 1024 * 1024, Overflow.DISCONNECT)
    assert endpoint.queue.applied_to(default) == QueueLimits(1000, 1024 * 1024, Overflow.DISCONNECT)
    assert str(endpoint) == "tcp://h:1?messages=1000&bytes=1048576&overflow=disconnect"
    assert endpoint.location == "tcp://h:1"
    some = Endpoint.parse("unix:///s?bytes=2048").queue
    assert some.applied_to(default) == QueueLimits(10, 2048, Overflow.DROP_NEWEST)
    assert Endpoint.parse("ws://h:1").queue.applied_to(default) == default


@pytest.mark.parametrize("place", ["tcp://h:1", "tls://h:1", "unix:///s"])
def test_what_links_cost(place: str) -> None:
    for cost in (1, 5, 65_535):
        endpoint = Endpoint.parse_peer(f"{place}?cost={cost}")
        assert (endpoint.cost, endpoint.location) == (cost, place)
        assert Endpoint.parse(f"{place}?messages=7&cost={cost}").queue == QueueOverride(7)
    assert Endpoint.parse(place).cost is None
    with pytest.raises(InvalidEndpointError, match="cost belongs to a URL of --peer or --listen"):
        Endpoint.parse_remote(f"{place}?cost=5")


def test_port_that_was_picked() -> None:
    assert str(Endpoint.parse("ws://[::1]:0?messages=5").with_port(4711)) == "ws://[::1]:4711?messages=5"


def test_what_a_zeek_is_sent() -> None:
    endpoint = Endpoint.parse_peer("zeek+ws://h:1?publish=/a/,/b%2Cc,&overflow=disconnect")
    assert endpoint.publish == ("/a/", "/b,c", "")
    assert endpoint.queue == QueueOverride(overflow=Overflow.DISCONNECT)
    assert Endpoint.parse(str(endpoint)) == endpoint


def test_a_broker_that_is_dialled_has_two_ports() -> None:
    endpoint = Endpoint.parse_peer("zeek+zmq://h:5555?xsub=7777&messages=5")
    assert (endpoint.port, endpoint.xsub, endpoint.queue) == (5555, 7777, QueueOverride(messages=5))
    assert Endpoint.parse_peer("zeek+zmq://h:5555").xsub == 5556
    for url in ("zeek+zmq://h:0?xsub=1", "zeek+zmq://h:1?xsub=0", "zeek+log://h:1"):
        with pytest.raises(InvalidEndpointError, match=r"--listen|for listening"):
            Endpoint.parse_peer(url)


def test_a_node_of_a_cluster_may_have_a_name() -> None:
    endpoint = Endpoint.parse_peer("zeek+zmq://h:5555?name=worker-1.a_B")
    assert endpoint.name == "worker-1.a_B"
    assert Endpoint.parse(str(endpoint)) == endpoint
    for name in ("", "a%20b", "-a", "a/b", "ü", "x" * 64, "%0a"):
        with pytest.raises(InvalidEndpointError, match=r"name=.*: expected a node of the cluster's layout"):
            Endpoint.parse_peer(f"zeek+zmq://h:5555?name={name}")
    with pytest.raises(InvalidEndpointError, match="unknown query key 'name'"):
        Endpoint.parse_peer("zeek://h:5555?name=a")


@pytest.mark.parametrize("scheme", ["zeek", "zeek+tcp", "zeek+ws", "zeek+zmq"])
def test_a_zeek_is_for_hubs(scheme: str) -> None:
    assert Endpoint.parse_peer(f"{scheme}://h:1?messages=5").queue == QueueOverride(messages=5)
    with pytest.raises(InvalidEndpointError, match="a Zeek is reached by a hub"):
        Endpoint.parse_remote(f"{scheme}://h:1")


_NO_COSTS = ("", "0", "-1", "1.5", "65536", "100000", "many", "٣")


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        ("zeek://h:1/a", "a zeek URL ends with the port"),
        ("zeek://h:1?publish=/a", "unknown query key 'publish'"),
        ("zeek+ws://h:1?publish=/%00", "no NUL"),
        ("zeek+ws://h:1?publish=/%0A", "publish: "),
        ("", "starts with tcp://, tls://, unix://, ws://, wss:// or zeek://"),
        ("localhost:7400", "starts with tcp://, tls://, unix://, ws://, wss:// or zeek://"),
        ("http://h:1", "unknown scheme 'http', expected tcp, tls, unix, ws, wss, zeek, zeek+tcp, zeek+ws"),
        ("wsx://h:1", "did you mean ws?"),
        ("tcp://h", "port missing"),
        ("tcp://[::1]", "port missing"),
        ("tcp://h:65536", "bad port '65536', expected 0 to 65535"),
        ("tcp://h:٣", "bad port"),
        ("tcp://[::1]7400", "bad port '7400'"),
        ("tcp://:7400", "host missing"),
        ("tcp://::1:7400", "in brackets"),
        ("tcp://[zz]:1", "not an IPv6 address"),
        ("tcp://[::1:1", "not an IPv6 address"),
        ("tcp://[127.0.0.1]:1", "not an IPv6 address"),
        ("tcp://a%62:1", "neither a host name nor an address"),
        ("tcp://" + "h" * 254 + ":1", "neither a host name nor an address"),
        ("tcp://user:secret@h:1", "no user name and no password"),
        ("tcp://h:1/hub", "a tcp URL ends with the port, '/hub' has no meaning"),
        ("tcp://h:1#top", "'#' has no meaning here"),
        ("tcp://h:1\n", "spaces and control characters"),
        ("unix://run/hub.sock", "three slashes"),
        ("unix://", "three slashes"),
        ("unix:///", "names a directory"),
        ("unix:///" + "a" * 107, "at most 107 bytes"),
        ("unix:///a%00b", "no NUL"),
        ("unix:///a%ff", "not UTF-8"),
        ("tcp://h:1?", "unknown query key ''"),
        (
            "tcp://h:1?mesages=1",
            "unknown query key 'mesages', expected messages, bytes, overflow, cost; did you mean messages?",
        ),
        ("tcp://h:1?messages=1&messages=2", "messages is given twice"),
        ("tcp://h:1?messages", "messages=: expected a whole number"),
        ("tcp://h:1?messages=0", "messages=0: expected a whole number from 1 to"),
        ("tcp://h:1?bytes=1K", "bytes=1K: expected a size from 1024 to"),
        ("tcp://h:1?overflow=drop", "overflow=drop: expected one of disconnect, drop-oldest, drop-newest"),
        ("tcp://h:1?messages=%ff", "not UTF-8"),
        *((f"tcp://h:1?cost={cost}", f"cost={cost}: expected a whole number from 1 to 65535") for cost in _NO_COSTS),
        ("ws://h:1?cost=5", "unknown query key 'cost'"),
        ("zeek://h:1?cost=5", "unknown query key 'cost'"),
        ("ws://h:1/" + "a" * 3000, "longer than 2048 characters"),
    ],
)
def test_refusals(url: str, cause: str) -> None:
    assert cause in refusal(url)


def test_longest_unix_path() -> None:
    """A path of exactly 107 bytes fits into a socket's address; it is bytes that count, not characters."""
    assert Endpoint.parse("unix:///" + "a" * 106).path == "/" + "a" * 106
    assert "at most 107 bytes" in refusal("unix:///" + "ä" * 60)


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        ("tcp://h:0", "port 0 is for listening"),
        ("ws://h:0", "port 0 is for listening"),
        ("unix:///s?messages=1", "belong to the URL of a listener"),
        ("tcp://h", "port missing; hubs listen on 7400"),
        ("https://h:1/x", "not 'https'; did you mean wss://h:1/x?"),
        ("mqtt://h:1", "clients connect to tcp://, tls://, unix://, ws:// or wss://, not 'mqtt'"),
    ],
)
def test_remote_refusals(url: str, cause: str) -> None:
    with pytest.raises(InvalidEndpointError, match=cause):
        Endpoint.parse_remote(url)


overrides = st.builds(
    QueueOverride,
    st.none() | st.integers(1, 10**9),
    st.none() | st.integers(1024, 10**12),
    st.none() | st.sampled_from(Overflow),
)
ports = st.integers(0, 65535)
hosts = st.ip_addresses().map(str) | st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True)
paths = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20).map("/{}".format)
endpoints = (
    st.builds(Endpoint, st.just(Scheme.TCP), hosts, ports, queue=overrides, cost=st.none() | st.integers(1, 65_535))
    | st.builds(Endpoint, st.just(Scheme.WS), hosts, ports, st.just("") | paths, overrides)
    | st.builds(Endpoint, st.just(Scheme.UNIX), path=paths.filter(lambda path: path[-1] != "/"), queue=overrides)
)


@given(endpoints)
def test_round_trip(endpoint: Endpoint) -> None:
    assert Endpoint.parse(str(endpoint)) == endpoint
    assert str(Endpoint.parse(str(endpoint))) == str(endpoint)


@given(st.text() | st.text("tcpunixws:/[]?&=#%@0123456789abmessages", max_size=40).map("tcp://{}".format))
def test_any_text_is_taken_or_refused(url: str) -> None:
    """No text raises anything but `InvalidEndpointError`, and what is taken survives a round trip."""
    try:
        endpoint = Endpoint.parse(url)
    except InvalidEndpointError:
        return
    assert Endpoint.parse(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("198.51.100.7:5000", "198.51.100.7"),
        ("[2001:db8:1:2:3:4:5:6]:5000", "2001:db8:1:2::"),
        ("[2001:db8:1:2::9]:5000", "2001:db8:1:2::"),
        ("[fe80::1%eth0]:5000", "fe80::"),
        ("[::ffff:198.51.100.7]:5000", "198.51.100.7"),
        ("127.0.0.1:5000", ""),
        ("[::1]:5000", ""),
        ("[::ffff:127.0.0.1]:5000", ""),
        ("unix:/run/hub.sock", ""),
        ("unix:", ""),
        ("", ""),
    ],
)
def test_what_an_address_counts_as(address: str, host: str) -> None:
    assert host_of(address) == host
