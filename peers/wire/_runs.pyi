from collections.abc import Mapping
from typing import TypeVar

R = TypeVar("R")

def next_run(data: bytes, position: int, table: Mapping[bytes, R], limit_bytes: int) -> tuple[R | None, int, int]: ...
