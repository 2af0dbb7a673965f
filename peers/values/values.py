"""The 15 types of Broker as Python types.

| Broker | Python |
|---|---|
| none, boolean, integer, real | `None`, `bool`, `int`, `float` |
| count | `Count`, an `int` |
| string | `str`; bytes that are not UTF-8 stand in it as lone surrogates ("surrogateescape") |
| address, subnet | `IPv4Address` or `IPv6Address`, `IPv4Network` or `IPv6Network` |
| port, timestamp, timespan, enum value | `Port`, `Timestamp`, `Timespan`, `Enum` |
| vector | `tuple`; lists are taken, too |
| set, table | `Set`, `Table`: Python takes `1`, `True`, `1.0` and `Count(1)` for the same member, Broker does not |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from functools import total_ordering
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from struct import Struct
from typing import Any, ClassVar, Self, TypeAlias, Union

PROTOCOLS = ("?", "tcp", "udp", "icmp")  # Transport protocols, by their number on the wire
_COUNT_LIMIT = 1 << 64
_PORT_LIMIT = 1 << 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_REAL = Struct(">d")
_NAN_BITS = b"\xff" * 8


class Count(int):
    """An unsigned number of 64 bits. As a Python number it equals the `int`; in sets and tables they are two."""

    __slots__ = ()

    def __new__(cls, number: int = 0) -> Self:
        """Take a number of 0 to 2^64 - 1; raise `ValueError` for any other."""
        if not 0 <= number < _COUNT_LIMIT:
            raise ValueError(f"{number} is not a count: expected 0 to 2^64 - 1")
        return super().__new__(cls, number)

    def __repr__(self) -> str:
        return f"Count({int(self)})"

    def __str__(self) -> str:
        return str(int(self))


class _Fields:
    """A frozen value. It is no dataclass, which msgspec would write as a map without calling its `enc_hook`."""

    __slots__ = ()
    _names: ClassVar[tuple[str, ...]] = ()

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._names)

    def __setattr__(self, name: str, _: object) -> None:
        raise AttributeError(f"{name} of {self!r} does not change")

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *self._values()))

    def __repr__(self) -> str:
        fields = (f"{name}={value!r}" for name, value in zip(self._names, self._values(), strict=True))
        return f"{type(self).__name__}({', '.join(fields)})"

    def __reduce__(self) -> tuple[type[Any], tuple[Any, ...]]:
        return type(self), self._values()


_set = object.__setattr__


class Port(_Fields):
    """A port of a transport protocol.

    Args:
        number: 0 to 65535.
        protocol: "tcp", "udp", "icmp" or, if it is not known, "?".
    """

    __slots__ = _names = ("number", "protocol")

    number: int
    protocol: str

    def __init__(self, number: int, protocol: str = "tcp") -> None:
        if not 0 <= number < _PORT_LIMIT or protocol not in PROTOCOLS:
            raise ValueError(f"{number}/{protocol} is no port")
        _set(self, "number", number)
        _set(self, "protocol", protocol)

    def __str__(self) -> str:
        return f"{self.number}/{self.protocol}"


@total_ordering
class _Nanoseconds(_Fields):
    __slots__ = _names = ("ns",)

    ns: int

    def __init__(self, ns: int) -> None:
        _set(self, "ns", ns)

    def __lt__(self, other: object) -> bool:
        return self.ns < other.ns if isinstance(other, _Nanoseconds) and type(other) is type(self) else NotImplemented

    def __str__(self) -> str:
        return f"{self.ns}ns"


class Timestamp(_Nanoseconds):
    """A point in time: nanoseconds since 1970-01-01 UTC, 64 bits with sign."""

    __slots__ = ()

    @classmethod
    def of(cls, moment: datetime) -> Timestamp:
        """Convert a `datetime` that has a zone, else raise `ValueError`."""
        if moment.tzinfo is None:
            raise ValueError(f"{moment} has no time zone")
        return cls((moment - _EPOCH) // _MICROSECOND * 1000)

    def to_datetime(self) -> datetime:
        """Return it as a `datetime` in UTC, cut to microseconds."""
        return _EPOCH + timedelta(microseconds=self.ns // 1000)


class Timespan(_Nanoseconds):
    """A length of time: nanoseconds, 64 bits with sign."""

    __slots__ = ()

    @classmethod
    def of(cls, span: timedelta) -> Timespan:
        return cls(span // _MICROSECOND * 1000)

    def to_timedelta(self) -> timedelta:
        """Return it as a `timedelta`, cut to microseconds."""
        return timedelta(microseconds=self.ns // 1000)


class Enum(_Fields):
    """The name of an enum value, such as `Notice::LOG`."""

    __slots__ = _names = ("name",)

    name: str

    def __init__(self, name: str) -> None:
        _set(self, "name", name)

    def __str__(self) -> str:
        return self.name


class Set(AbstractSet["Value"]):
    """An immutable set of any values, which differ by type and value, in the order they came."""

    __slots__ = ("_keys", "_members")

    def __init__(self, members: Iterable[Any] = ()) -> None:
        by_key: dict[Any, Value] = {}
        for member in map(value_of, members):
            by_key.setdefault(identity(member), member)
        self._fill(by_key.values(), frozenset(by_key))

    @classmethod
    def of_distinct(cls, members: list[Value], keys: frozenset[Any]) -> Set:
        made = cls.__new__(cls)
        made._fill(members, keys)  # noqa: SLF001 -- its own class
        return made

    def _fill(self, members: Iterable[Value], keys: frozenset[Any]) -> None:
        self._members = tuple(members)
        self._keys = keys

    def __contains__(self, member: object) -> bool:
        return identity(value_of(member)) in self._keys

    def __iter__(self) -> Iterator[Value]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __eq__(self, other: object) -> bool:
        return self._keys == other._keys if isinstance(other, Set) else NotImplemented

    def __hash__(self) -> int:
        return hash((Set, self._keys))  # a frozenset keeps its hash

    def __reduce__(self) -> tuple[type[Set], tuple[tuple[Value, ...]]]:
        return Set, (self._members,)

    def __repr__(self) -> str:
        return f"Set({list(self._members)!r})"

    def __str__(self) -> str:
        return f"{{{', '.join(map(to_text, self._members))}}}"


class Table(Mapping["Value", "Value"]):
    """An immutable mapping with any values as keys, in the order they came; of equal keys the last one counts."""

    __slots__ = ("_entries", "_hash")

    def __init__(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()) -> None:
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        by_key: dict[Any, tuple[Value, Value]] = {}
        for key, value in pairs:
            made = value_of(key)
            by_key[identity(made)] = made, value_of(value)
        self._fill(by_key)

    @classmethod
    def of_distinct(cls, entries: dict[Any, tuple[Value, Value]]) -> Table:
        """Make a table of pairs of key and value by the identities of the keys; it owns `entries` then."""
        made = cls.__new__(cls)
        made._fill(entries)  # noqa: SLF001 -- its own class
        return made

    def _fill(self, entries: dict[Any, tuple[Value, Value]]) -> None:
        self._entries = entries
        self._hash: int | None = None

    def __getitem__(self, key: object) -> Value:
        try:
            return self._entries[identity(value_of(key))][1]
        except (KeyError, TypeError):
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[Value]:
        return (key for key, _ in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def _identities(self) -> dict[Any, Any]:
        return {key: identity(value) for key, (_, value) in self._entries.items()}

    def __eq__(self, other: object) -> bool:
        return self._identities() == other._identities() if isinstance(other, Table) else NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((Table, frozenset(self._identities().items())))
        return self._hash

    def __reduce__(self) -> tuple[type[Table], tuple[tuple[tuple[Value, Value], ...]]]:
        return Table, (tuple(self._entries.values()),)

    def __repr__(self) -> str:
        return f"Table({list(self._entries.values())!r})"

    def __str__(self) -> str:
        entries = (f"{to_text(key)} -> {to_text(value)}" for key, value in self._entries.values())
        return f"{{{', '.join(entries)}}}"


_Network = IPv4Network | IPv6Network
_Scalar = bool | int | float | str | IPv4Address | IPv6Address | _Network | Port | Timestamp | Timespan | Enum | None
# Any Broker value; a `Count` is an `int`.
Value: TypeAlias = Union[_Scalar, "tuple[Value, ...]", "list[Value]", Set, Table]


def _network_identity(network: IPv6Network) -> Any:
    mapped = network.network_address.ipv4_mapped
    return network if mapped is None or network.prefixlen < 96 else IPv4Network((mapped, network.prefixlen - 96))


_IDENTITIES: dict[type, Callable[[Any], Any]] = {
    bool: lambda value: (bool, value),
    int: lambda value: (int, value),
    Count: lambda value: (Count, value),
    float: lambda value: (float, _REAL.pack(value) if value == value else _NAN_BITS),  # noqa: PLR0124 -- NaN
    IPv6Address: lambda address: address.ipv4_mapped or address,  # they are the same on the wire
    IPv6Network: _network_identity,
    **dict.fromkeys((tuple, list), lambda values: (tuple, *map(identity, values))),
}


def identity(value: Value) -> Any:
    """Return something to hash and compare that is the same for two values only if Broker takes them for the same."""
    make = _IDENTITIES.get(type(value))
    return value if make is None else make(value)


_NATURAL: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys((tuple, list), lambda values: tuple(map(value_of, values))),
    **dict.fromkeys((set, frozenset), Set),
    dict: Table,
    **dict.fromkeys((bytes, bytearray), lambda raw: raw.decode(errors="surrogateescape")),
    datetime: Timestamp.of,
    timedelta: Timespan.of,
}


def value_of(thing: Any) -> Value:
    """Return `thing` as a Broker value: dicts, sets, lists, bytes, datetimes and timedeltas are converted.

    Other types are returned as they are, and refused where they are encoded.
    """
    convert = _NATURAL.get(type(thing))
    value: Value = thing if convert is None else convert(thing)
    return value


_TEXTS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "nil",
    bool: lambda value: "T" if value else "F",
    float: lambda value: f"{value:f}",
    **dict.fromkeys((tuple, list), lambda values: f"({', '.join(map(to_text, values))})"),
}


def to_text(value: Value) -> str:
    """Return Broker's text form of a value, for people: `(1, {a, b}, 53/udp, nil)`. It cannot be read back."""
    make = _TEXTS.get(type(value))
    return str(value) if make is None else make(value)
