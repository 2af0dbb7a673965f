from collections.abc import Callable, Mapping
from typing import TypeVar

R = TypeVar("R")  # noqa: PYI001 -- as the twin in Python has it

def find_events(
    data: bytearray,
    position: int,
    heads: Mapping[bytes, bytes],
    table: Mapping[bytes, R],
    limit_bytes: int,
    beginning: bytes,
    is_event: Callable[[bytes], bool],
) -> tuple[bytes, tuple[list[R], list[int], list[int]], int]: ...
def is_event_at(data: bytes, start: int, end: int, is_event: Callable[[bytes], bool]) -> bool: ...
def take_records(data: bytes, position: int, columns: list[tuple[bytes, int]], count: int) -> tuple[bytes, int]: ...
def seal_frames(frames: bytes, number: int, prefix: bytes, key: bytes, function: int) -> tuple[bytes, int]: ...
def open_frames(
    sealed: bytearray,
    position: int,
    boxes: int,
    limit_bytes: int,
    number: int,
    prefix: bytes,
    key: bytes,
    function: int,
) -> tuple[bytes, int, int]: ...
