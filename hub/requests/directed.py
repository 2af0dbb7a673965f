"""`Directed`: questions of one hub of the mesh to another, by its id: `$hub/at/ID/what`.

```
the hub that asks ─▶ hub on the way: pass_on ─▶ ... ─▶ the hub with that id: answer ─▶ back by the same way
```

Only hubs ask in this way, for those behind them. What a client may ask, its own hub decides before; what a link may
bring and take, each hub on the way writes into the question (`pass_on`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hub.errors import CloseCode, RejectedError
from hub.frame import FLAG_SHARED
from hub.handler import Handler
from hub.request_frame import FLAG_NAMED, Request, Status, as_bytes
from hub.topics import RESERVED

AT = RESERVED + "at/"  # The beginning of what another hub is asked

_AT = AT.encode()
_ID_DIGITS = 32

Answer = Callable[[Status, bytes], object]  # Takes the status of the answer, and its value in msgpack


class Questions(NamedTuple):
    """How one kind of question is treated. What raises `RejectedError` is answered with its text."""

    # Called with the link over which it was asked, the value in msgpack, and the callback for the answer
    answer: Callable[[Handler, bytes, Answer], object]

    # Called with the handler that asks, the link that leads on, and the value; returns the value that goes on
    pass_on: Callable[[Handler, Handler, bytes], bytes]


class Directed:
    """The kinds of questions, by name."""

    __slots__ = ("_questions",)

    def __init__(self) -> None:
        self._questions: dict[bytes, Questions] = {}

    def add(self, what: str, questions: Questions) -> None:
        """Let a kind of question be asked."""
        self._questions[what.encode()] = questions

    def find(self, request: Request) -> tuple[bytes, Questions, bytes]:
        """Return the hub that is asked, how such a question is treated, and its value.

        Raises:
            RejectedError: It is no such question.
        """
        digits, _, what = request.target[len(_AT) :].partition(b"/")
        questions = self._questions.get(what)
        plain = as_bytes(request) if request.flags & FLAG_SHARED else request
        try:
            hub = bytes.fromhex(digits.decode()) if len(digits) == _ID_DIGITS else b""
        except ValueError:
            hub = b""
        if questions is None or not hub or plain is None or plain.flags:
            raise RejectedError(CloseCode.BAD_DATA, "the hub itself serves nothing under this topic")
        return hub, questions, plain.values


def is_directed(request: Request) -> bool:
    """Return whether a request is for one hub."""
    return request.target.startswith(_AT) and not request.flags & FLAG_NAMED


def target_at(hub: bytes, what: str) -> bytes:
    """Return the target of a question to a hub."""
    return f"{AT}{hub.hex()}/{what}".encode()
