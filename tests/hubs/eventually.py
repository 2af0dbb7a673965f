"""Waiting for what tells nobody that it has happened. The time limit of the test is the only one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["eventually", "settle"]
_BUSY_TURNS = 200  # So many turns of the loop bring whatever two sockets of one process have for each other

# What takes longer is the work of another thread or process, which a loop that never rests would only hold up.
_LOOK_S = 0.001


async def eventually(condition: Callable[[], object]) -> None:
    turns = 0
    while not condition():
        await asyncio.sleep(0 if turns < _BUSY_TURNS else _LOOK_S)
        turns += 1


async def settle() -> None:
    """Let the loop go round often enough for sockets of this process to bring what they hold.

    It rests once: beside much other work, the system may bring what was sent only when this process has given way.
    """
    for rest_s in (*[0.0] * 10, _LOOK_S, *[0.0] * 10):
        await asyncio.sleep(rest_s)
