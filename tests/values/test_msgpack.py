"""The msgpack form: laws, what other publishers send, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Network
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.values import (
    DEPTH_LIMIT,
    ELEMENTS_LIMIT,
    Count,
    Enum,
    InvalidDataError,
    Port,
    Set,
    Table,
    Timespan,
    Timestamp,
    Value,
    decode,
    default,
    encode,
    ext_hook,
    from_msgpack,
    to_msgpack,
)
from peers.values.values import identity
from tests.values.recorded import VALUES


@given(VALUES)
def test_clients_pack_the_types(value: Value) -> None:
    packer = msgpack.Packer(default=default, strict_types=True, unicode_errors="surrogateescape")
    assert identity(decode(from_msgpack(packer.pack(value)))) == identity(value)


@pytest.mark.parametrize(
    ("value", "packed"),
    [
        (None, "c0"),
        ((1, "a", True), "9301a161c3"),
        (Count(1), "d7010000000000000001"),
        (IPv4Address("1.2.3.4"), "d60201020304"),
        (IPv6Network("2001:db8::/32"), "c7110320010db800000000000000000000000020"),
        (Port(53, "udp"), "c70304003502"),
        (Timestamp(1), "d7050000000000000001"),
        (Timespan(-1), "d706ffffffffffffffff"),
        (Enum("ab"), "d5076162"),
        (Set(["a"]), "c7030891a161"),
        (Table({"a": None}), "d60992a161c0"),
        (Set(range(16)), "c71308dc0010000102030405060708090a0b0c0d0e0f"),
        ("\udcff", "d40aff"),
        (Enum("x" * 300), "c8012c07" + "78" * 300),
        (Enum("x" * 70_000), "c90001117007" + "78" * 70_000),
        ((None,) * 16, "dc0010" + "c0" * 16),
        ((None,) * 0x10000, "dd00010000" + "c0" * 0x10000),
    ],
)
def test_examples(value: Value, packed: str) -> None:
    assert to_msgpack(encode(value)).hex() == packed
    assert from_msgpack(bytes.fromhex(packed)) == encode(value)


@pytest.mark.parametrize(
    ("thing", "value"),
    [
        ({"a": 1, 2: {"b": None}}, Table({"a": 1, 2: Table({"b": None})})),
        ({str(number): number for number in range(20)}, Table({str(number): number for number in range(20)})),
        (b"raw\xff", "raw\udcff"),
        (b"x" * 300, "x" * 300),
        ("x" * 40, "x" * 40),
        ("x" * 70_000, "x" * 70_000),
        ((1 << 63) - 1, (1 << 63) - 1),
        (1 << 63, Count(1 << 63)),
        (-1, -1),
        (200, 200),
        (-(1 << 63), -(1 << 63)),
        (datetime(2022, 4, 10, 7, tzinfo=UTC), Timestamp(1649574000000000000)),
        (datetime(2022, 4, 10, 7, 0, 0, 123456, tzinfo=UTC), Timestamp(1649574000123456000)),
        (datetime(1960, 1, 1, tzinfo=UTC), Timestamp(-315619200000000000)),
    ],
)
def test_what_other_publishers_send(thing: Any, value: Value) -> None:
    assert identity(decode(from_msgpack(msgpack.packb(thing, datetime=True)))) == identity(value)


def test_what_others_spell_in_another_way() -> None:
    assert decode(from_msgpack(msgpack.packb(1.5, use_single_float=True))) == 1.5
    assert str(decode(from_msgpack(bytes.fromhex("c70503c0a8014d10")))) == "192.168.0.0/16", "host bits are cleared"


@pytest.mark.parametrize(
    ("packed", "text"),
    [
        ("", "not complete"),
        ("c1", "0xc1 at byte 0 begins no msgpack value"),
        ("c0c0", "1 bytes follow"),
        ("d40500", "extension 5 of 1 bytes"),
        ("d4ff00", "extension -1 of 1 bytes"),
        ("d7fffffffffc00000000", "extension -1 of 8 bytes"),
        ("c70cff000000007fffffffffffffff", "extension -1 of 12 bytes"),
        ("d42a00", "extension 42 of 1 bytes at byte 1 has no Broker form"),
        ("c70304003504", "extension 4"),
        ("c705030102030421", "extension 3"),
        ("c70203ff20", "extension 3"),
        ("d40200", "extension 2"),
        ("d40800", "the set or table at byte 2 is no array"),
        ("d40991", "not complete|1 values are claimed|has no value"),
        ("d50991c0", "has no value"),
        ("d50890c0", "is not one array"),
        ("c7030892c0c0", "are the same"),
        ("82c001c002", "are the same"),
        ("a5616263", "5 bytes are claimed at byte 1"),
        ("c6ffffffff00", "4294967295 bytes are claimed"),
        ("c9ffffffff0100", "4294967295 bytes are claimed"),
        ("dbffffffff00", "4294967295 bytes are claimed"),
        ("ddffffffff00", "4294967295 values are claimed"),
        ("dfffffffff00", "8589934590 values are claimed"),
    ],
)
def test_refusals_name_cause_and_place(packed: str, text: str) -> None:
    with pytest.raises(InvalidDataError, match=text):
        from_msgpack(bytes.fromhex(packed))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_refused(packed: bytes) -> None:
    try:
        body = from_msgpack(packed)
    except InvalidDataError:
        return
    assert from_msgpack(to_msgpack(body)) == body


@pytest.mark.parametrize("head", [b"\x91", b"\x81\xc0"])
def test_nesting_is_bounded(head: bytes) -> None:
    assert from_msgpack(head * DEPTH_LIMIT + b"\xc0")
    for levels in (DEPTH_LIMIT + 1, 100_000):
        with pytest.raises(InvalidDataError, match="are nested"):
            from_msgpack(head * levels + b"\xc0")
    with pytest.raises(InvalidDataError, match="are nested"):
        to_msgpack(b"\x0c\x01" * 100_000 + b"\x00")


def test_elements_are_bounded() -> None:
    count = ELEMENTS_LIMIT + 1
    for read, packed in (
        (from_msgpack, b"\xdd" + count.to_bytes(4, "big") + b"\xc0" * count),
        (to_msgpack, b"\x0e\x81\x80\x04" + bytes(count)),
    ):
        with pytest.raises(InvalidDataError, match="elements"):
            read(packed)


def test_foreign_extensions_stay_extensions_for_clients() -> None:
    assert ext_hook(42, b"x") == msgpack.ExtType(42, b"x")
    with pytest.raises(InvalidDataError, match="extension 1 of 1 bytes"):
        ext_hook(1, b"x")
    with pytest.raises(InvalidDataError, match="has no Broker form"):
        default(object())
