"""Broker values for readers that know nothing of Zeek."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import msgspec
import pytest

from peers.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, encode, to_msgpack
from peers.values.untyped import untyped, untyped_extension


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (Count(2**64 - 1), 2**64 - 1),
        (-1, -1),
        (1.5, 1.5),
        ("Grüße", "Grüße"),
        (b"\xff".decode(errors="surrogateescape"), r"\xff"),
        (ip_address("192.0.2.7"), "192.0.2.7"),
        (ip_address("2001:db8::1"), "2001:db8::1"),
        (ip_network("10.0.0.0/8"), "10.0.0.0/8"),
        (Port(53, "udp"), "53/udp"),
        (Timestamp(1_714_566_600_250_000_000), "2024-05-01T12:30:00.25Z"),
        (Timestamp(-1), "1969-12-31T23:59:59.999999999Z"),
        (Timestamp(0), "1970-01-01T00:00:00Z"),
        (Timespan(1_500_000_000), 1.5),
        (Enum("Notice::LOG"), "Notice::LOG"),
        ((1, (Count(2),)), [1, [2]]),
        (Set([1, Count(1)]), [1, 1]),
        (Table([("a", Port(1)), (Count(7), None)]), {"a": "1/tcp", "7": None}),
    ],
)
def test_each_type(value: Any, expected: Any) -> None:
    assert untyped(value) == expected
    if not isinstance(value, str) or value.isascii() or "\udcff" in value:
        decoded = msgspec.msgpack.decode(to_msgpack(encode(value)), ext_hook=untyped_extension)
        assert decoded == expected


def test_extensions_of_others() -> None:
    with pytest.raises(ValueError, match="msgpack extension 42 is not known"):
        untyped_extension(42, b"")
    with pytest.raises(ValueError, match="extension 4 of 1 bytes"):
        untyped_extension(4, b"\x00")
