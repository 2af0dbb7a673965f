"""What tests of this room share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from peers.bench.board import Board


@pytest.fixture
def board() -> Iterator[Board]:
    """A board of one requester."""
    descriptor = Board.make(1, 1)
    try:
        yield Board(descriptor, 1, 1)
    finally:
        os.close(descriptor)
