"""Records as tables and back: the same bytes, sorted by topic in between."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.journal.block import Block, Record
from hub.journal.layout import Records, write_block
from peers.journal.tier import parquet
from peers.journal.tier.parquet import SCHEMA, Stripe, blocks_of, digests
from tests.journal.tier.made import blocks

TOPICS = st.one_of(st.sampled_from(["/a", "/b", "/zeek/dns", "/ü", ""]), st.text(max_size=20))
ROW = st.tuples(st.integers(-(2**60), 2**60), TOPICS, st.integers(0, 3), st.binary(max_size=30))


def block_of(first: int, rows: Sequence[tuple[int, str, int, bytes]]) -> Block:
    times, topics, encodings, values = zip(*rows, strict=True)
    names = list(dict.fromkeys(topics))
    columns = Records(
        times,
        range(first, first + len(rows)),
        [names.index(topic) for topic in topics],
        encodings,
        [name.encode() for name in names],
        values,
    )
    return Block.parse(write_block(columns))


def records(given_blocks: Sequence[Block | bytes]) -> list[Record]:
    parsed = [one if isinstance(one, Block) else Block.parse(one) for one in given_blocks]
    return [record for block in parsed for record in block.records()]


@settings(max_examples=200, deadline=None)
@given(first=st.integers(0, 2**61), parts=st.lists(st.lists(ROW, min_size=1, max_size=40), min_size=1, max_size=4))
def test_records_come_back_byte_for_byte(first: int, parts: list[list[tuple[int, str, int, bytes]]]) -> None:
    made, position = [], first
    for rows in parts:
        made.append(block_of(position, rows))
        position = made[-1].next
    stripe = Stripe(made)
    assert (stripe.first, stripe.next) == (first, position)
    assert records(blocks_of(pa.concat_tables(stripe.groups()))) == records(made)


def test_columns_are_those_of_spark() -> None:
    types = {"offset": pa.int64(), "timestamp": pa.timestamp("us", "UTC"), "topic": pa.string(), "value": pa.binary()}
    assert {field.name: field.type for field in SCHEMA} == types | {"encoding": pa.int8()}


def test_rows_are_sorted_by_topic_then_offset() -> None:
    table = Stripe(blocks(100, topics=7)).table
    rows = list(zip(table["topic"].to_pylist(), table["offset"].to_pylist(), strict=True))
    assert rows == sorted(rows)


def test_groups_end_where_the_topic_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_RECORDS", 10)
    groups = Stripe(blocks(100, topics=20)).groups()
    topics = [set(group["topic"].to_pylist()) for group in groups]
    assert [len(each) for each in topics] == [2] * 10
    assert len(set().union(*topics)) == 20


def test_groups_of_one_topic_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_RECORDS", 10)
    assert [len(group) for group in Stripe(blocks(200, topics=1)).groups()] == [80, 80, 40]
    monkeypatch.setattr(parquet, "GROUP_RECORDS", 1_000)
    monkeypatch.setattr(parquet, "GROUP_BYTES", 100)
    assert max(len(group) for group in Stripe(blocks(200, topics=1, padding=90)).groups()) <= 9


def test_some_rows_make_sparse_blocks() -> None:
    made = blocks(100, topics=7)
    stripe = Stripe(made)
    some = stripe.table.filter(pc.equal(stripe.table["topic"], "/t/3"))
    assert records(blocks_of(some)) == [record for record in records(made) if record.topic == "/t/3"]


def test_blocks_are_cut_where_they_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    made = blocks(40, padding=50)
    monkeypatch.setattr(parquet, "_BLOCK_RECORDS", 16)
    assert [Block.parse(one).count for one in blocks_of(Stripe(made).table)] == [16, 16, 8]
    monkeypatch.setattr(parquet, "_BLOCK_BYTES", 10)
    assert len(blocks_of(Stripe(made).table)) == 40


def test_a_digest_tells_rows_apart() -> None:
    """Another value, time, topic, offset or encoding, or another order, gives another one; a slice is what it shows."""
    rows = [(1, "/a", 0, b"x"), (2, "/b", 0, b"yy"), (3, "/c", 0, b"")]
    table = Stripe([block_of(5, rows)]).table
    others = [
        block_of(6, rows),
        block_of(5, [(9, "/a", 0, b"x"), *rows[1:]]),
        block_of(5, [(1, "/A", 0, b"x"), *rows[1:]]),
        block_of(5, [(1, "/a", 1, b"x"), *rows[1:]]),
        block_of(5, [(1, "/a", 0, b"z"), *rows[1:]]),
        block_of(5, [(1, "/a", 0, b"xy"), (2, "/b", 0, b"y"), rows[2]]),
    ]
    found = {digests(Stripe([other]).table) for other in others} | {digests(table.take([1, 0, 2]))}
    assert len(found) == 7
    assert digests(table) not in found
    assert digests(table.slice(1, 2)) == digests(table.take([1, 2]))
