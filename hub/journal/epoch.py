"""`Epoch`: a life of a journal, from when a hub opens it until it is opened again, and where in the journal it begins.

```
epoch 7   0 ........................ 200     told up to 200, then power fails: 100 to 199 were not on the disk
epoch 9   ............ 100 ................  opened again: offsets 100, 101, ... are given to other records
```

A position is an offset with the epoch in which it was told. Everything before it is still there as long as it is not
behind the place where the next epoch begins; one that is behind it is cut back to there. The number of an epoch is the
time at which it begins, s since 1970, or one more than the last one's: so it is not given twice, also where a journal
was restored from a backup that knows less. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["EPOCHS_LIMIT", "Epoch", "begun", "end_of"]

EPOCHS_LIMIT = 1_000
"""Most epochs that a journal remembers; of more, the oldest are forgotten. 12 bytes each, in every segment."""


class Epoch(NamedTuple):
    """One life of a journal."""

    number: int
    """Larger than that of all epochs before."""
    first: int
    """The offset of the first record that it may have."""


def begun(epochs: tuple[Epoch, ...], following: int, now_s: int) -> tuple[Epoch, ...]:
    """Return the epochs of a journal with one that begins now.

    Args:
        epochs: Those before, ascending.
        following: The offset behind the last record that is there.
        now_s: The time, s since 1970.
    """
    number = max(now_s, epochs[-1].number + 1 if epochs else 1)
    # Those that begin no earlier have no records: whatever ends where they begin ends where the new one begins.
    kept = [one for one in epochs if one.first < following]
    return (*kept[1 - EPOCHS_LIMIT :], Epoch(number, following))


def end_of(epochs: tuple[Epoch, ...], number: int) -> int | None:
    """Return how far positions of an epoch hold, an offset; None if it has not ended."""
    return next((one.first for one in epochs if one.number > number), None)
