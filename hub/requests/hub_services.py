"""`HubServices`: what the hub itself answers, under `$hub/`.

Each target has a function. It takes the value of a request and returns the answer's, or raises a `HubError` whose text
is the reason of the failure.

Owner: the core. Cost: what the functions cost; how many values they get in one turn is bounded, so that nobody holds up
the others by asking. Not here: who else answers requests (`hub.requests.services`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack

from hub.batch import decode_values, encode_value
from hub.errors import HubError
from hub.frame import BATCH_COUNT, FLAG_BATCH, FLAG_SHARED, KIND_MESSAGES, Frame
from hub.request_frame import Request, Status, as_bytes

__all__ = ["VALUES_LIMIT", "HubServices"]

VALUES_LIMIT = 16
"""Most values to the hub itself in one frame, and in one turn: an answer may be a list of a thousand names (1 ms)."""


Function = Callable[[Any], Any]
"""Answers a value with a value."""


class HubServices:
    """Functions of the hub, by the target that they answer.

    Args:
        on_asked: Called when something was asked, so that a turn comes that begins a new share.
    """

    __slots__ = ("_functions", "_left", "_on_asked")

    def __init__(self, on_asked: Callable[[], object]) -> None:
        self._on_asked = on_asked
        # Target → the function that answers it.
        self._functions: dict[str, Function] = {}
        # How many values are still answered in this turn. Every answer takes from it, `begin_turn` gives all back.
        self._left = VALUES_LIMIT

    def add(self, target: str, function: Function) -> None:
        """Let a function answer what is asked of this target."""
        self._functions[target] = function

    def begin_turn(self) -> None:
        """Let as many values as ever be answered again, as a turn begins."""
        self._left = VALUES_LIMIT

    def answer(self, request: Request) -> tuple[Status, bytes, int]:
        """Return status, values and flags of the answer to all requests of a frame: if one fails, all do."""
        function = self._functions.get(request.target.decode(errors="replace"))
        if function is None:
            return _failed(request, Status.NO_RESPONDER, "the hub itself serves nothing under this topic")
        if request.requests > VALUES_LIMIT:
            text = f"{request.requests} values in one frame, the hub itself answers at most {VALUES_LIMIT}"
            return _failed(request, Status.FAILED, text)
        if request.requests > self._left:
            return _failed(request, Status.OVERFLOW, "the hub itself was asked too much at once: ask again")
        self._left -= request.requests
        self._on_asked()
        try:
            answers = [encode_value(function(value)) for value in _values(request)]
        except (HubError, ValueError) as error:
            return _failed(request, Status.FAILED, str(error))
        if request.flags & FLAG_BATCH:
            return Status.OK, BATCH_COUNT.pack(len(answers)) + b"".join(answers), FLAG_BATCH
        return Status.OK, answers[0], 0


def _values(request: Request) -> list[Any]:
    """Return the values that are asked, also if they are in shared memory."""
    plain = as_bytes(request) if request.flags & FLAG_SHARED else request
    if plain is None:
        raise ValueError("the values are not there any more")
    return decode_values(Frame(KIND_MESSAGES, plain.flags, b"", plain.values))


def _failed(request: Request, status: Status, text: str) -> tuple[Status, bytes, int]:
    reason: bytes = msgpack.packb(text)
    if request.flags & FLAG_BATCH:
        return status, BATCH_COUNT.pack(request.requests) + reason, FLAG_BATCH
    return status, reason, 0
