from collections.abc import Mapping
from typing import TypeVar

_R = TypeVar("_R")

def next_run(data: bytes, position: int, table: Mapping[bytes, _R], limit_bytes: int) -> tuple[_R | None, int, int]: ...
