"""`Template`: ready frames of one publisher, which only get new sequence numbers before each write.

It holds whole rounds through the topics: about 64 KiB of them, or one round where that is more. A block never wraps
around its end.

Owner of the state: one publisher. Cost of a block: 4 slices, whatever it holds.
"""

from __future__ import annotations

from peers.bench.layout import STAMP, Layout
from peers.bench.sequence import MESSAGES_LIMIT, Grid, write_sequence

__all__ = ["BLOCK_BYTES", "Template"]

BLOCK_BYTES = 64 * 1024
"""What is written at once at full speed: what a client library collects before it writes."""

_STAMPED_ALONE = STAMP.size


class Template:
    """Frames of one publisher."""

    __slots__ = ("_buffer", "_frames", "_layout", "_publisher", "_view", "block_frames")

    block_frames: int
    """Most frames in a block."""

    def __init__(self, layout: Layout, publisher: int) -> None:
        self._layout = layout
        self._publisher = publisher
        block = max(1, min(BLOCK_BYTES // layout.frame_bytes, MESSAGES_LIMIT // layout.batch))
        rounds = max(1, block // layout.topics)
        self._buffer = bytearray(b"".join(layout.frame(topic, publisher) for topic in range(layout.topics)) * rounds)
        self._view = memoryview(self._buffer)
        self._frames = rounds * layout.topics
        self.block_frames = min(block, self._frames)

    def block(self, first: int, frames: int, time_ns: int = 0) -> memoryview:
        """Return frames with their sequence numbers, ready to be sent; valid until the next call.

        Args:
            first: Number of the first frame, counted from the start of the publisher.
            frames: Most frames wanted; fewer are returned at the end of the template.
            time_ns: Intended time of all of them; only for frames that were never given one, 0 costs nothing.
        """
        layout = self._layout
        index = first % self._frames
        count = min(frames, self.block_frames, self._frames - index)
        start = index * layout.frame_bytes
        place = start + layout.first_value + len(layout.value_head)
        if count * layout.batch == 1:
            STAMP.pack_into(self._buffer, place, self._publisher, first, time_ns)
        else:
            grid = Grid(place + _SEQUENCE_OFFSET, count, layout.frame_bytes, layout.batch, layout.value_bytes)
            write_sequence(self._buffer, grid, first * layout.batch)
            if time_ns:
                self._write_times(place, count, time_ns)
        return self._view[start : start + count * layout.frame_bytes]

    def _write_times(self, place: int, frames: int, time_ns: int) -> None:
        layout = self._layout
        time = time_ns.to_bytes(8, "big")
        buffer = self._buffer
        for frame in range(frames):
            for value in range(layout.batch):
                offset = place + frame * layout.frame_bytes + value * layout.value_bytes + _TIME_OFFSET
                buffer[offset : offset + 8] = time


_SEQUENCE_OFFSET = 4
_TIME_OFFSET = 8
