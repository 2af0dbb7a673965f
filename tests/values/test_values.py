"""The Python types of Broker's values."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given

from peers import values as data
from peers.values import (
    Count,
    Enum,
    Port,
    Set,
    Table,
    Timespan,
    Timestamp,
    Value,
    encode,
    to_msgpack,
    to_text,
    value_of,
)
from peers.values.conversion import untyped, untyped_extension
from peers.values.values import identity
from tests.values.recorded import VALUES


def test_members_of_different_types_are_different() -> None:
    members = [Count(1), 1, True, 1.0]
    assert [type(member) for member in Set(members)] == [Count, int, bool, float]
    assert Table((member, index) for index, member in enumerate(members))[True] == 2
    nan = float("nan")
    reals = Set([nan, -nan, 0.0, -0.0])
    assert len(reals) == 3
    assert reals.isdisjoint(Set([1.0]))
    assert Set([nan]) <= reals


def test_a_set_keeps_the_order_and_the_first_of_equal_members() -> None:
    assert list(Set(["b", "a", "b"])) == ["b", "a"]
    assert Set(["b", "a"]) == Set(["a", "b"])
    assert hash(Set(["b", "a"])) == hash(Set(["a", "b"]))
    assert Set(["a"]) != Set([Enum("a")])
    assert Set(["a"]) != {"a"}


def test_a_table_is_a_mapping_with_any_keys() -> None:
    table = Table({(1, "k"): "vector"})
    assert table[(1, "k")] == "vector"
    assert table[[1, "k"]] == "vector"
    assert table.get((Count(1), "k")) is None
    assert dict(table) == {(1, "k"): "vector"}
    assert Table([(Set([1]), 1), (Table(), 2)])[Table()] == 2
    assert Table([("a", 1), ("a", 2)]) == Table({"a": 2})
    assert Table({"a": 1}) != Table({"a": Count(1)})
    assert hash(Table({"a": 1, "b": 2})) == hash(Table({"b": 2, "a": 1}))
    assert Table({"a": 1}) != {"a": 1}
    with pytest.raises(KeyError):
        table["a"]


@given(VALUES)
def test_values_can_be_copied_and_pickled(value: Value) -> None:
    for made in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):  # noqa: S301  made here
        assert identity(made) == identity(value)
        assert hash(identity(made)) == hash(identity(value))


def test_what_python_has_becomes_a_value() -> None:
    moment = datetime(2022, 4, 10, 7, tzinfo=UTC)
    assert value_of([b"a", {1}, {"k": [moment]}]) == ("a", Set([1]), Table({"k": (Timestamp(1649574000000000000),)}))
    assert value_of(timedelta(seconds=1.5)) == Timespan(1_500_000_000)
    assert value_of(b"\xff") == "\udcff"


def test_times_convert_both_ways() -> None:
    moment = datetime(1969, 12, 31, 23, 59, 58, 500_000, tzinfo=UTC)
    assert Timestamp.of(moment) == Timestamp(-1_500_000_000)
    assert Timestamp(-1_500_000_000).to_datetime() == moment
    assert Timespan(-2_000_000_999).to_timedelta() == timedelta(microseconds=-2_000_001)
    with pytest.raises(ValueError, match="no time zone"):
        Timestamp.of(datetime(2022, 4, 10))  # noqa: DTZ001  that is what is refused


@pytest.mark.parametrize(
    ("make", "fields", "text"),
    [
        *((Count, (number,), "is not a count") for number in (-1, 1 << 64)),
        *((Port, fields, "is no port") for fields in ((-1, "tcp"), (65536, "tcp"), (1, "TCP"))),
    ],
)
def test_counts_and_ports_are_checked(make: Callable[..., object], fields: tuple[object, ...], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make(*fields)


def test_text_form() -> None:
    value = (Count(1), None, True, False, -7.5, "a", Set([1, 9]), Table({"a": None}), Port(53, "udp"), Enum("B::C"))
    assert to_text(value) == "(1, nil, T, F, -7.500000, a, {1, 9}, {a -> nil}, 53/udp, B::C)"
    assert to_text([IPv4Address("10.0.0.1"), IPv6Network("2001:db8::/32"), Timestamp(1), Timespan(-2)]) == (
        "(10.0.0.1, 2001:db8::/32, 1ns, -2ns)"
    )
    assert repr(Set([Count(1)])) == "Set([Count(1)])"
    assert repr(Table({"a": Port(1)})) == "Table([('a', Port(number=1, protocol='tcp'))])"


def test_mapped_addresses_are_ipv4() -> None:
    assert len(Set([IPv4Address("1.2.3.4"), IPv6Address("::ffff:1.2.3.4")])) == 1
    assert len(Set([IPv4Network("1.2.3.0/24"), IPv6Network("::ffff:1.2.3.0/120")])) == 1
    assert len(Set([IPv4Network("0.0.0.0/0"), IPv6Network("::/0")])) == 2


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
def test_what_readers_without_the_types_get(value: Any, expected: Any) -> None:
    assert untyped(value) == expected
    if not isinstance(value, str) or value.isascii() or "\udcff" in value:
        decoded = msgspec.msgpack.decode(to_msgpack(encode(value)), ext_hook=untyped_extension)
        assert decoded == expected


def test_untyped_extensions_of_others() -> None:
    with pytest.raises(ValueError, match="msgpack extension 42 is not known"):
        untyped_extension(42, b"")
    with pytest.raises(ValueError, match="extension 4 of 1 bytes"):
        untyped_extension(4, b"\x00")


_TEXT = (Path(__file__).parents[2] / "docs" / "data-model.md").read_text()


def test_the_example_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", _TEXT, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/data-model.md", "exec"), {})  # noqa: S102  our own text


def test_the_limits_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([0-9,]+) \|", _TEXT, re.MULTILINE)
    assert {name: int(number.replace(",", "")) for name, number in rows} == {
        "DEPTH_LIMIT": data.DEPTH_LIMIT,
        "ELEMENTS_LIMIT": data.ELEMENTS_LIMIT,
        "CONVERTED_ELEMENTS_LIMIT": data.CONVERTED_ELEMENTS_LIMIT,
        "CONVERTED_LIMIT_BYTES": data.CONVERTED_LIMIT_BYTES,
    }
