"""Packed values and commands for tests of stores."""

from __future__ import annotations

from typing import Any

from hub.stores.command import Command, StoreLimits
from hub.stores.store import Store
from peers.stores.master import Master
from peers.stores.operations import TypedOperations
from peers.values import Value, decode, encode, from_msgpack, to_msgpack
from tests.hubs.hub import Hub

SECOND_NS = 1_000_000_000


def pack(value: Any) -> bytes:
    return to_msgpack(encode(value))


def unpack(packed: bytes | None) -> Value:
    assert packed is not None
    return decode(from_msgpack(packed))


def command(kind: str, key: Any = None, *operand: Any, **terms: Any) -> Command:
    return Command(kind, pack(key), pack(operand[0]) if operand else None, **terms)


def store(limits: StoreLimits = StoreLimits(), **terms: Any) -> Store:  # noqa: B008 -- frozen
    return Store("test", TypedOperations(), limits, **terms)


def master_of(hub: Hub) -> Master:
    master = hub.server.stores.get("s")
    assert master is not None
    return master
