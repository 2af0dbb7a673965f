"""A target: something that reads what strangers send, and what it may do with it.

`run` gets any bytes at all and comes back: it raises only where the program is wrong. What a parser documents as its
refusal (`ProtocolError`, `RejectedError`, `UsageError` and their kin) is caught within `run`; so is nothing else. Time
and memory are bounded by assertions on steps and on bytes, not on a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

__all__ = ["INPUT_LIMIT_BYTES", "Target"]

INPUT_LIMIT_BYTES = 16 * 1024
"""Longest input: longer ones find nothing new, and find it more slowly."""


class Target(NamedTuple):
    """One thing to fuzz."""

    name: str
    """Also the folder of its corpus."""
    run: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    """Sound inputs to start from; read from recordings, or made."""
    words: Sequence[bytes] = ()
    """Pieces that mean something to the parser, to be put anywhere."""
    runs: int = 2_000
    """How many made inputs every run of the tests tries: about two seconds' worth."""
