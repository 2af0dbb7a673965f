"""Broker values for hypothesis, and what a broken body may look like."""

from __future__ import annotations

import random
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Address, IPv6Network

from hypothesis import strategies as st

from peers.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, Value

_I64 = st.integers(-(1 << 63), (1 << 63) - 1)
_TEXTS = st.one_of(st.text(max_size=20), st.binary(max_size=20).map(lambda raw: raw.decode(errors="surrogateescape")))
_V4_NETWORKS = st.tuples(st.integers(0, (1 << 32) - 1), st.integers(0, 32)).map(lambda v: IPv4Network(v, strict=False))
_V6_NETWORKS = st.tuples(st.integers(0, (1 << 128) - 1), st.integers(0, 128)).map(
    lambda v: IPv6Network(v, strict=False)
)

SCALARS: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.booleans(),
    _I64,
    st.integers(0, (1 << 64) - 1).map(Count),
    st.floats(),
    _TEXTS,
    st.ip_addresses(v=4),
    st.ip_addresses(v=6).filter(lambda address: isinstance(address, IPv6Address) and address.ipv4_mapped is None),
    _V4_NETWORKS,
    _V6_NETWORKS.filter(lambda network: network.network_address.ipv4_mapped is None),
    st.builds(Port, st.integers(0, 65535), st.sampled_from(["?", "tcp", "udp", "icmp"])),
    _I64.map(Timestamp),
    _I64.map(Timespan),
    _TEXTS.map(Enum),
)

VALUES: st.SearchStrategy[Value] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=4).map(Set),
        st.lists(st.tuples(inner, inner), max_size=4).map(Table),
    ),
    max_leaves=12,
)


def mutations(body: bytes, chance: random.Random) -> Iterator[bytes]:
    places = range(len(body)) if len(body) <= 300 else sorted(chance.sample(range(len(body)), 200))
    for place in places:
        yield body[:place]
        yield body[:place] + bytes((chance.randrange(256),)) + body[place + 1 :]
        yield body[:place] + bytes((body[place] ^ 1 << chance.randrange(8),)) + body[place + 1 :]
        yield body[:place] + body[place + 1 :]
