"""`Publishing`: one POST: what of its body was published, and what is answered.

```
Values ─▶ publish ─▶ verbs ─▶ confirm, refuse                  at once
                          └─▶ recorded, unrecorded             once the journal has it, in the order of the messages
Done   ─▶ is_settled ─▶ answer: {"messages": 3, "offsets": [[17, 3]]}
```

Owner: one connection, for one request. Invariants: what follows a refusal is not published; the answer says how much
was. Bound: `RANGES_LIMIT` ranges of offsets, of however many messages. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, Protocol

from hub.errors import CloseCode, RejectedError
from hub.frame import HEADER, HEADER_BYTES
from hub.names.claim import Change
from peers.verbs.publish import Publication
from peers.websocket.http.content import Target, Values, error_body, json_body, status_of
from peers.wire.control import decode_notice
from peers.wire.kinds import Kind

__all__ = ["RANGES_LIMIT", "HttpFarSide", "Listener", "Publishing"]


_MESSAGES_PER_EVENT: Final = 64
"""Messages of one frame that are as much of a turn's share as another event."""

RANGES_LIMIT: Final = 1_000
"""Most ranges of offsets that an answer tells: messages of one POST stand together unless others publish, too."""


class Publishing:
    """One POST.

    Args:
        target: Where its messages go.
        act: Publishes.
        on_told: Called when something was said outside of a read.
    """

    __slots__ = (
        "_act",
        "_last",
        "_offsets",
        "_on_told",
        "_pending",
        "_refusal",
        "_target",
        "_untold",
        "is_done",
        "messages",
    )

    def __init__(self, target: Target, act: Callable[[Publication], int], on_told: Callable[[], None]) -> None:
        self._target = target
        self._act = act
        self._on_told = on_told
        self._last = 0
        """The number of the last frame."""
        self._pending: dict[int, tuple[int, int]] = {}
        """The number of each frame that is not answered: its first line, and how many messages it has."""
        self._offsets: list[list[int]] = []
        """First offset and number of messages of each range that is recorded."""
        self._untold = 0
        """How many messages are recorded in further ranges."""
        self._refusal: tuple[int, str, int] | None = None
        """Code, text and line of what was refused first."""
        self.is_done = False
        """Whether the body is complete."""
        self.messages = 0
        """How many messages were published, and recorded where that was asked for."""

    @property
    def is_refused(self) -> bool:
        """Whether something was refused: nothing more is published."""
        return self._refusal is not None

    @property
    def is_settled(self) -> bool:
        """Whether it can be answered."""
        return (self.is_done or self.is_refused) and not self._pending

    def publish(self, values: Values) -> int:
        """Publish values, unless something was refused before; return how much work that was."""
        if self._refusal is not None:
            return 0
        self._last += 1
        publication = self._target.publication(values.packed, self._last)
        self._pending[self._last] = (values.line, publication.messages)
        return 1 + publication.messages // _MESSAGES_PER_EVENT + self._act(publication)

    def refuse(self, code: int, text: str, line: int = 0) -> None:
        """Refuse what comes from now on."""
        if self._refusal is None:
            self._refusal = (code, text, line)

    # What the hub says of it, see `peers.websocket.http.publishing.Listener`.

    def confirmed(self, request: int, offset: int | None) -> None:  # noqa: ARG002 -- of subscriptions
        """It was published."""
        _, messages = self._pending.pop(request, (0, 0))
        self.messages += messages

    def refused(self, error: RejectedError, request: int) -> None:
        """It was not published, or not recorded."""
        line, _ = self._pending.pop(request, (0, 0))
        self.refuse(error.code, error.text, line)

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """It is in the journal."""
        self.confirmed(request, offset)
        ranges = self._offsets
        if ranges and sum(ranges[-1]) == offset:
            ranges[-1][1] += messages
        elif len(ranges) < RANGES_LIMIT:
            ranges.append([offset, messages])
        else:
            self._untold += messages

    def records(self, body: memoryview) -> None:
        """Nothing is read here."""

    def gone(self, text: str, first: int) -> None:
        """Nothing is read here."""

    def write_later(self) -> None:
        """Something was told outside of a read."""
        self._on_told()

    # The answer.

    def answer(self) -> tuple[HTTPStatus, bytes]:
        """Return status and body."""
        told: dict[str, Any] = {"messages": self.messages}
        if self._target.confirm:
            told["offsets"] = self._offsets
            if self._untold:
                told["untold"] = self._untold
        if self._refusal is None:
            return HTTPStatus.OK, json_body(told)
        code, text, line = self._refusal
        return status_of(code), error_body(CloseCode(code), text, line, **told)


# What the hub answers to a client over HTTP; see `peers.verbs.far_side.FarSide`.


class Listener(Protocol):
    """Whoever is asking."""

    def confirmed(self, request: int, offset: int | None) -> None:
        """It was carried out."""

    def refused(self, error: RejectedError, request: int) -> None:
        """It was not."""

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """Messages are in the journal."""

    def records(self, body: memoryview) -> None:
        """A piece of the journal is there."""

    def gone(self, text: str, first: int) -> None:
        """That piece is not in the journal, which begins at this offset."""

    def write_later(self) -> None:
        """Something was told outside of a read."""


class _Nobody:
    """Nobody is asking."""

    def confirmed(self, request: int, offset: int | None) -> None:
        """Nobody hears it."""

    def refused(self, error: RejectedError, request: int) -> None:
        """Nobody hears it."""

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """Nobody hears it."""

    def records(self, body: memoryview) -> None:
        """Nobody hears it."""

    def gone(self, text: str, first: int) -> None:
        """Nobody hears it."""

    def write_later(self) -> None:
        """Nobody hears it."""


NOBODY: Listener = _Nobody()


class HttpFarSide:
    """A client over HTTP as the verbs see it.

    Args:
        frame_limit_bytes: Largest piece of the journal that it is given.
    """

    __slots__ = ("act", "frame_limit_bytes", "listener")

    act: Callable[[Any], object]
    """The verbs' `act`, by which the rest of a change is done; set as soon as the verbs are made."""

    def __init__(self, frame_limit_bytes: int) -> None:
        self.frame_limit_bytes = frame_limit_bytes
        self.listener: Listener = NOBODY
        """Who is asking."""

    def let_go(self) -> None:
        """Nobody asks any more."""
        self.listener = NOBODY
        self.act = _ignore

    def confirm(
        self,
        request: int,
        offset: int | None = None,
        *,
        text: str = "",  # noqa: ARG002 -- of claims, which are not made here
        messages: int = 0,  # noqa: ARG002 -- of COMMIT
        again: bool = False,  # noqa: ARG002 -- the same
    ) -> None:
        """It was carried out."""
        self.listener.confirmed(request, offset)

    def reject(self, error: RejectedError, request: int = 0) -> None:
        """It was refused, or what was held is taken away."""
        self.listener.refused(error, request)

    def refuse(self, error: RejectedError, count: int, request: int = 0) -> None:  # noqa: ARG002 -- one for each
        """It was refused."""
        self.listener.refused(error, request)

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """Messages are in the journal."""
        self.listener.recorded(request, offset, messages)

    def unrecorded(self, error: RejectedError, request: int, messages: int) -> None:  # noqa: ARG002
        """Messages are not in the journal."""
        self.listener.refused(error, request)

    def send_records(self, answer: bytes | bytearray, request: int) -> None:
        """Hand on a piece of the journal, or why there is none."""
        _, kind, _, _ = HEADER.unpack_from(answer)
        body = memoryview(answer)[HEADER_BYTES:]
        if kind == Kind.RECORDS:
            self.listener.records(body)
            return
        notice = decode_notice(bytes(body))
        if notice.code == CloseCode.GONE and notice.offset is not None:
            self.listener.gone(notice.text, notice.offset)
        else:
            self.listener.refused(RejectedError(notice.code, notice.text), request)

    def tell_name(self, change: Change) -> None:
        """Nothing: names are not claimed here."""

    def expect_answers(self) -> None:
        """Nothing: whoever asks waits for the answer."""

    def put_off(self, rest: object) -> None:
        """Do the rest at once: a change of as much as a client may have is about its share of a turn."""
        self.act(rest)

    def write_later(self) -> None:
        """Something was told outside of a read."""
        self.listener.write_later()


def _ignore(_: object) -> None:
    """Stand in for the verbs of a client that has gone."""
