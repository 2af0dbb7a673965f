"""`Template`: ready frames of one publisher, which only get new sequence numbers before each write.

A template holds whole rounds through the topics: about 64 KiB of them, or one round where that is more. A block never
wraps around its end.

Owner of the state: one publisher. Cost of a block: four slices, however many messages it holds.
"""

from __future__ import annotations

from peers.bench.layout import SEQUENCE_OFFSET, STAMP, TIME_OFFSET, Layout
from peers.bench.sequence import MESSAGES_LIMIT, Grid, write_sequence

__all__ = ["BLOCK_BYTES", "Template"]

BLOCK_BYTES = 64 * 1024
"""What is written at once at full speed: as much as a client library collects before it writes."""


class Template:
    """Frames of one publisher.

    Attributes:
        block_frames: Most frames in a block.
    """

    __slots__ = ("_buffer", "_frames", "_layout", "_publisher", "_view", "block_frames")

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
        """Return frames with their sequence numbers, ready to be sent; they are valid until the next call.

        Args:
            first: Number of the first frame, counted from the start of the publisher.
            frames: Most frames that are wanted; there are fewer at the end of the template.
            time_ns: Intended time of all of them. 0, which costs nothing, is only for frames that never had another.
        """
        layout = self._layout
        index = first % self._frames
        count = min(frames, self.block_frames, self._frames - index)
        start = index * layout.frame_bytes
        stop = start + count * layout.frame_bytes
        place = start + layout.first_value + len(layout.value_head)
        if count * layout.batch == 1:
            STAMP.pack_into(self._buffer, place, self._publisher, first, time_ns)
            return self._view[start:stop]
        grid = Grid(place + SEQUENCE_OFFSET, count, layout.frame_bytes, layout.batch, layout.value_bytes)
        write_sequence(self._buffer, grid, first * layout.batch)
        if time_ns:
            time = time_ns.to_bytes(8, "big")
            for frame in range(place + TIME_OFFSET, stop, layout.frame_bytes):
                for value in range(frame, frame + layout.batch * layout.value_bytes, layout.value_bytes):
                    self._buffer[value : value + 8] = time
        return self._view[start:stop]
