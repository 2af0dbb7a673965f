"""`Board`: one mapping, seen by all who have its descriptor."""

from __future__ import annotations

import os

from peers.bench.board import Board


def test_what_one_writes_the_other_reads() -> None:
    """Every counter has a place of its own."""
    descriptor = Board.make(2, 3)
    try:
        writer, reader = Board(descriptor, 2, 3), Board(descriptor, 2, 3)
        for number, part in enumerate((writer.sent, writer.first_ns, writer.next, writer.accounted, writer.last_ns)):
            for index in range(len(part)):
                part[index] = 100 * number + index
    finally:
        os.close(descriptor)
    assert list(reader.sent) == [0, 1]
    assert list(reader.first_ns) == [100, 101]
    assert list(reader.row(0)) == [200, 201, 202]
    assert list(reader.row(1)) == [203, 204, 205]
    assert list(reader.accounted) == [300, 301, 302]
    assert list(reader.last_ns) == [400, 401, 402]
    assert reader.published == 1
    assert reader.delivered == 903


def test_a_board_for_nobody() -> None:
    """A benchmark of memory has neither publishers nor subscribers."""
    descriptor = Board.make(0, 0)
    try:
        assert Board(descriptor, 0, 0).published == 0
    finally:
        os.close(descriptor)
