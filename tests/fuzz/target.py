"""A target: something that reads what strangers send; inputs that are kept for it, and odd ones made of sound ones.

`run` gets any bytes at all and comes back: it raises only where the program is wrong. What a parser documents as its
refusal (`ProtocolError`, `RejectedError`, `UsageError` and their kin) is caught within `run`; so is nothing else. Time
and memory are bounded by assertions on steps and on bytes, not on a clock.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

INPUT_LIMIT_BYTES = 16 * 1024  # longest input: longer ones find nothing new, and find it more slowly


class Target(NamedTuple):
    name: str  # also the folder of its corpus
    run: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]  # sound inputs to start from; read from recordings, or made
    words: Sequence[bytes] = ()  # pieces that mean something to the parser, to be put anywhere
    runs: int = 300  # how many made inputs every run of the tests tries; `make fuzz` tries more


FOLDER = Path(__file__).parent / "corpus"


def kept(target: Target, folder: Path = FOLDER) -> list[bytes]:
    return [path.read_bytes() for path in sorted((folder / target.name).glob("*")) if path.is_file()]


def keep(target: Target, data: bytes, folder: Path) -> Path:
    path = folder / target.name / hashlib.sha1(data, usedforsecurity=False).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


_EDGES = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 127, 128, 191, 192, 223, 255)
_WIDE_EDGES = (0, 1, 255, 256, 4095, 65535, 65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63)


class Mutator:
    """Makes inputs out of a pool of them.

    Args:
        seed: Of the random numbers.
        pool: Inputs to start from; one or more.
        words: Pieces that mean something.
    """

    def __init__(self, seed: str, pool: Sequence[bytes], words: Sequence[bytes]) -> None:
        self._random = random.Random(seed)  # noqa: S311 -- to be repeated, not to be secret
        self._pool = pool
        self._words = [*words, b"\xff\xff\xff\xff", b"\x00"]
        self._ways: tuple[Callable[[bytearray], None], ...] = (
            self._flip,
            self._flip,
            self._set_edge,
            self._set_wide_edge,
            self._set_wide_edge,
            self._cut_out,
            self._repeat,
            self._put_word,
            self._splice,
            self._shorten,
        )

    def make(self) -> bytes:
        data = bytearray(self._random.choice(self._pool))
        for _ in range(self._random.choice((1, 1, 1, 2, 2, 3, 4, 8))):
            self._random.choice(self._ways)(data)
        return bytes(data[:INPUT_LIMIT_BYTES])

    def _place(self, data: bytearray) -> int:
        most = len(data) if self._random.random() < 0.5 else min(len(data), 64)
        return self._random.randrange(most) if most else 0

    def _flip(self, data: bytearray) -> None:
        if data:
            data[self._place(data)] ^= 1 << self._random.randrange(8)

    def _set_edge(self, data: bytearray) -> None:
        if data:
            data[self._place(data)] = self._random.choice(_EDGES)

    def _set_wide_edge(self, data: bytearray) -> None:
        size = self._random.choice((2, 4, 8))
        order = self._random.choice(("little", "big"))
        number = self._random.choice(_WIDE_EDGES) + self._random.choice((-1, 0, 0, 1))
        at = self._place(data)
        data[at : at + size] = (number % 256**size).to_bytes(size, order)

    def _cut_out(self, data: bytearray) -> None:
        at = self._place(data)
        del data[at : at + self._random.choice((1, 2, 4, 8, 32, 256))]

    def _repeat(self, data: bytearray) -> None:
        at = self._place(data)
        piece = data[at : at + self._random.choice((1, 2, 8, 64))]
        data[at:at] = piece * self._random.choice((1, 2, 16, 200))

    def _put_word(self, data: bytearray) -> None:
        at = self._place(data)
        word = self._random.choice(self._words)
        data[at : at + (len(word) if self._random.random() < 0.5 else 0)] = word

    def _splice(self, data: bytearray) -> None:
        other = self._random.choice(self._pool)
        start = self._random.randrange(len(other)) if other else 0
        at = self._place(data)
        data[at:at] = other[start : start + self._random.choice((4, 32, 256, 4096))]

    def _shorten(self, data: bytearray) -> None:
        del data[self._place(data) :]
