"""Blocks of the journal, made without one."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import StructType

from hub.batch import encode_value
from hub.journal.block import Block, pack, select
from tests.spark.hubs import message, packed_message

TIME_US = 1_795_262_400_000_000
"""Noon of 2026-11-21, UTC."""

BROKER_42 = bytes([3, 0, 0, 0, 0, 0, 0, 0, 42])
"""The count 42 as Zeek's Broker spells it."""


def block_of(*messages: tuple[str, Any], first: int = 0) -> Block:
    return block_of_frames(*(message(topic, value) for topic, value in messages), first=first)


def block_of_frames(*frames: bytes, first: int = 0) -> Block:
    (block,) = pack([(TIME_US + number, frame) for number, frame in enumerate(frames)], first)
    return Block.parse(block)


def sparse_block() -> Block:
    whole = block_of(*[(f"/{number % 2}", number) for number in range(5)])
    return Block.parse(select(bytes(whole.data), 0, 5, bytes([1, 0])))


def schema_of(columns: str) -> StructType:
    schema = StructType.fromDDL(columns)
    assert isinstance(schema, StructType)
    return schema


def packed(value: Any) -> bytes:
    return encode_value(value)


__all__ = [
    "BROKER_42",
    "TIME_US",
    "block_of",
    "block_of_frames",
    "packed",
    "packed_message",
    "schema_of",
    "sparse_block",
]
