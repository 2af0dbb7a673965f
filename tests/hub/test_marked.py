"""A batch with a mark: its origin has it, and so have its parts; other batches have none."""

from __future__ import annotations

from hub.batch import Batch
from hub.marked import Marked
from hub.origin import Origin

HERE = Origin(b"h" * 16, 3)


def marked(mark: int, *values: int) -> Marked:
    """A batch of one frame."""
    plain = Batch.of("/a", values)
    return Marked(plain.frames, plain.messages, mark)


def test_its_origin_has_the_mark() -> None:
    """Whoever says the origin of a batch says its mark; the origin of the hub stays as it is."""
    batch = marked(7, 1)
    assert batch.origin is None
    batch.origin = HERE
    assert batch.origin == Origin(HERE.hub, HERE.epoch, 7)
    assert batch.origin != HERE
    assert HERE.mark == 0


def test_a_part_of_it_has_the_mark() -> None:
    """So that whoever gets fewer messages than were marked sees that some are missing."""
    batch = marked(7, 1, 2, 3)
    batch.origin = HERE
    head, tail = batch.split(1)
    assert tail is not None
    assert (head.messages, tail.messages) == (1, 2)
    assert head.origin == tail.origin == batch.origin
