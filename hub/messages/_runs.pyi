from collections.abc import Mapping
from typing import TypeVar

_R = TypeVar("_R")

def find_runs(
    data: bytes, position: int, table: Mapping[bytes, _R], limit_bytes: int
) -> tuple[list[_R], list[int], list[int]]: ...
def join_runs(
    data: bytes, start: int, ends: list[int], messages: list[int], chosen: list[int]
) -> tuple[bytes, int]: ...
