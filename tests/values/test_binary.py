"""Broker's binary format and the msgpack form: recordings, laws, what other publishers send, and what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, IPv6Network
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
    check,
    decode,
    decode_message,
    default,
    encode,
    encode_json,
    encode_message,
    ext_hook,
    from_msgpack,
    to_msgpack,
    to_text,
)
from peers.values.binary import length_bytes, read_length, value_end
from peers.values.values import identity
from tests.values import recorded
from tests.values.recorded import VALUES, mutations

_VALUES = recorded.values()
_ATTEMPTS = recorded.attempts()


def _fault(read: Callable[[bytes], object], body: bytes) -> str:
    try:
        read(body)
    except InvalidDataError as error:
        return str(error)
    return ""


def _refused(body: bytes) -> bool:
    fault, found_by_check = _fault(decode, body), _fault(check, body)
    assert bool(fault) == bool(found_by_check) or "are the same" in fault
    assert not fault or "byte" in fault  # every text names the place
    return bool(fault)


def _unpack(packed: bytes) -> Any:
    return msgpack.unpackb(packed, ext_hook=ext_hook, use_list=False, strict_map_key=False)


def _survives_each_form(body: bytes) -> Value:
    check(body)
    value = decode(body)
    assert encode(value) == body
    packed = to_msgpack(body)
    assert from_msgpack(packed) == body
    assert identity(_unpack(packed)) == identity(value)
    message = encode_message(b"/t", body)
    assert decode_message(message) == (b"/t", body)
    assert json.loads(message)["topic"] == "/t"
    return value


@given(VALUES)
def test_values_survive_each_form(value: Value) -> None:
    assert identity(_survives_each_form(encode(value))) == identity(value)


@pytest.mark.parametrize("kind", _VALUES)
def test_recorded_values(kind: str) -> None:
    """They survive each form; and what is broken of them is refused, or a value that is written."""
    body = _VALUES[kind]
    _survives_each_form(body)
    chance = random.Random(kind)  # noqa: S311  to be repeatable
    refused = 0
    for broken in mutations(body, chance):
        is_refused = _refused(broken)
        refused += is_refused
        for write in (encode_json, to_msgpack):
            try:
                write(broken)
            except InvalidDataError:
                continue
            assert not is_refused
    assert refused or not body[1:]
    packed = list(mutations(to_msgpack(body), chance))
    assert sum(bool(_fault(from_msgpack, broken)) for broken in packed) in range(1, len(packed) + 1)


@pytest.mark.parametrize("body", [b"\x0c\x02\x00\x00", b"\x0d\x02\x00\x01\x00\x00\x01\x00"])
def test_duplicates_on_the_wire_are_refused(body: bytes) -> None:
    for read in (encode_json, to_msgpack, decode):
        assert "are the same" in _fault(read, body)


@pytest.mark.parametrize("what", _ATTEMPTS)
def test_what_broker_refuses_is_refused(what: str) -> None:
    attempt = _ATTEMPTS[what]
    taken = []
    for body in attempt.bodies:
        if not _refused(body):
            text = to_text(decode(encode(decode(body))))  # sorted, as Broker holds it
            taken.append(text.encode(errors="surrogateescape").decode(errors="backslashreplace"))
    if "ttl" not in what:  # there, messages are refused for other reasons than their values
        assert taken == attempt.received


@pytest.mark.parametrize(
    ("value", "body"),
    [
        (Count(1234567890), "0200000000499602d2"),
        (-1234567890, "03ffffffffb669fd2e"),
        (4.2, "044010cccccccccccd"),
        ("a" * 200, "05c801" + "61" * 200),
        (Timestamp(1404901004 * 10**9), "09137f360508027800"),
        (float("inf"), "04fff0000000000000"),
        (float("-inf"), "047ff0000000000000"),
        (float("nan"), "04ffffffffffffffff"),
        (-0.0, "048000000000000000"),
        (Set([False, Count(1), "hello world"]), "0c030100020000000000000001050b68656c6c6f20776f726c64"),
        (
            Table({Count(1): "hello", Count(2): "world"}),
            "0d02020000000000000001050568656c6c6f0200000000000000020505776f726c64",
        ),
    ],
)
def test_examples(value: Value, body: str) -> None:
    assert encode(value).hex() == body
    assert identity(decode(bytes.fromhex(body))) == identity(value)


@given(st.binary(max_size=5), VALUES, st.binary(max_size=5))
def test_where_a_value_ends(before: bytes, value: Value, behind: bytes) -> None:
    body = encode(value)
    end = len(before) + len(body)
    assert value_end(before + body + behind, len(before)) == end
    with pytest.raises(InvalidDataError, match=f"the value at byte {len(before)} is not complete|are left|claims"):
        value_end(before + body[:-1], len(before))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_refused(body: bytes) -> None:
    _refused(body)


def test_sets_and_tables_are_written_sorted() -> None:
    members: list[Value] = [None, False, True, Count(9), -5, 3]
    members += map(float, ("-inf", "-1.5", "-0.0", "0.0", "2.0", "inf", "nan"))
    members += ["", "B", "aa", "b", Port(7, "tcp"), Port(7, "udp"), Port(80), Timestamp(-1), Timestamp(1)]
    members += [Set([1]), Set([1, 2]), Set([2]), Table({1: 1}), Table({1: 2}), (1, 2), (2,)]
    shuffled = members[:]
    random.Random(1).shuffle(shuffled)  # noqa: S311  to be repeatable
    for made, kind in ((Set(shuffled), Set), (Table((member, 0) for member in shuffled), Table)):
        ordered = decode(encode(made))
        assert isinstance(ordered, kind)
        assert list(map(repr, ordered)) == list(map(repr, members))


def test_subnets_of_mapped_addresses() -> None:
    body = b"\x07" + IPv6Address("::ffff:192.168.1.77").packed
    assert str(decode(body + bytes((96 + 16,)))) == "192.168.0.0/16", "host bits are cleared"
    short = decode(body + bytes((64,)))
    assert short == IPv6Network("::/64")
    assert encode(short) == b"\x07" + bytes(16) + bytes((64,))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("", "not complete"),
        ("05", "not complete"),
        ("0505616263", "is not complete|claims 5 bytes"),
        ("0f", "15 at byte 0 is no type"),
        ("08005009", "9 at byte 3 is not a transport protocol"),
        ("0000", "1 bytes follow"),
        ("07" + "00" * 16 + "81", "129 at byte 17"),
        ("05" + "ff" * 11, "more than 10 bytes"),
        ("0cffffffff0f00", "4294967295 elements are claimed at byte 1"),
        ("0dffffffff0f00", "4294967295 elements are claimed at byte 1"),
        ("0effffffff0f00", "4294967295 elements are claimed at byte 1"),
        ("05ffffffff0f00", "claims 4294967295 bytes|not complete"),
        ("0effffffffffffffffff0100", "elements are claimed"),
        ("0c020505", "not complete|claims"),
    ],
)
def test_refusals_name_cause_and_place(body: str, text: str) -> None:
    for read in (decode, check):
        with pytest.raises(InvalidDataError, match=text):
            read(bytes.fromhex(body))


@pytest.mark.parametrize("tag", [b"\x0e\x01", b"\x0c\x01", b"\x0d\x01\x00"])
def test_nesting_is_bounded(tag: bytes) -> None:
    assert [_refused(tag * depth + b"\x00") for depth in (DEPTH_LIMIT, DEPTH_LIMIT + 1, 100_000)] == [False, True, True]


def test_elements_are_bounded() -> None:
    half = b"\x0e" + length_bytes(ELEMENTS_LIMIT // 2 - 1) + bytes(ELEMENTS_LIMIT // 2 - 1)
    assert not _refused(b"\x0e\x02" + half * 2)
    assert _refused(b"\x0e\x03" + half * 2 + b"\x0e\x01\x00")


def test_equal_members_in_other_spellings_are_found_by_decode() -> None:
    for one, other in (
        ("0c0201000101", "0c0201010100"),
        ("0101", "0102"),
        ("050161", "05810061"),
        ("04ffffffffffffffff", "047ff8000000000000"),
    ):
        body = bytes.fromhex("0c02" + one + other)
        check(body)
        assert "are the same" in _fault(decode, body)


def test_encode_takes_what_python_has() -> None:
    assert decode(encode({"a": [b"\xff", {1}]})) == Table({"a": ("\udcff", Set([1]))})


NO_FORM = [
    *(object(), 1 << 63, -(1 << 63) - 1, "\ud800", Timestamp(1 << 63)),
    *(Set([object()]), Set([object(), 1]), [1j], range(3)),
]


@pytest.mark.parametrize("value", NO_FORM)
def test_what_has_no_form_is_refused(value: object) -> None:
    with pytest.raises(InvalidDataError, match="has no Broker form"):
        encode(value)


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    table: dict[str, Any] = {}
    table["a"] = [table]
    for value, text in ((endless, "are nested"), (table, "holds itself")):
        with pytest.raises(InvalidDataError, match=text):
            encode(value)
    deep: Any = b"x"  # bytes may stand at the limit
    for _ in range(DEPTH_LIMIT):
        deep = [deep]
    assert encode(deep).endswith(b"\x05\x01x")


@given(st.integers(0, (1 << 64) - 1))
def test_lengths_round_trip(number: int) -> None:
    written = length_bytes(number)
    assert read_length(written, 0) == (number, len(written))


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
def test_examples_of_msgpack(value: Value, packed: str) -> None:
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
def test_refusals_name_cause_and_place_of_msgpack(packed: str, text: str) -> None:
    with pytest.raises(InvalidDataError, match=text):
        from_msgpack(bytes.fromhex(packed))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_refused_of_msgpack(packed: bytes) -> None:
    try:
        body = from_msgpack(packed)
    except InvalidDataError:
        return
    assert from_msgpack(to_msgpack(body)) == body


@pytest.mark.parametrize("head", [b"\x91", b"\x81\xc0"])
def test_nesting_is_bounded_of_msgpack(head: bytes) -> None:
    assert from_msgpack(head * DEPTH_LIMIT + b"\xc0")
    for levels in (DEPTH_LIMIT + 1, 100_000):
        with pytest.raises(InvalidDataError, match="are nested"):
            from_msgpack(head * levels + b"\xc0")
    with pytest.raises(InvalidDataError, match="are nested"):
        to_msgpack(b"\x0c\x01" * 100_000 + b"\x00")


def test_elements_are_bounded_of_msgpack() -> None:
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
