"""`Board`: one memory, seen by all processes that were given it when they were started."""

from __future__ import annotations

import multiprocessing

from peers.bench.board import Board


def fill(board: Board) -> None:
    """Write another number into every counter."""
    parts = (board.sent, board.first_ns, *board.next, board.accounted, board.last_ns)
    for number, part in enumerate(parts):
        for index in range(len(part)):
            part[index] = 100 * number + index


def test_what_one_process_writes_the_other_reads() -> None:
    """Every counter has a place of its own."""
    board = Board(2, 3)
    writer = multiprocessing.get_context("spawn").Process(target=fill, args=(board,))
    writer.start()
    writer.join()
    assert writer.exitcode == 0
    assert list(board.sent) == [0, 1]
    assert list(board.first_ns) == [100, 101]
    assert [list(row) for row in board.next] == [[200, 201, 202], [300, 301, 302]]
    assert list(board.accounted) == [400, 401, 402]
    assert list(board.last_ns) == [500, 501, 502]
