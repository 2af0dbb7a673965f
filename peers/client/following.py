"""`Following`: history, then live, as a state machine without I/O: what to ask for next, and what is handed on when.

```
            reached the end           confirmed: live from N on         read up to N
HISTORY ──────────────────▶ JOINING ─────────────────────────▶ SEAM ────────────────▶ LIVE ──lost──▶ REJOINING
   ▲                           │                                 │                      │                │
   └───────────────────────────┴──────── given back ─────────────┘◀─ lost, nothing came ┘   LIVE ◀───────┘
```

The seam is the offset that the hub's confirmation of a subscription bears: what was recorded before it comes from the
journal, what comes later is delivered. What is delivered while the journal is still being read is put aside. If that
becomes too much, if the connection is lost or has lost messages, or if the journal fails, it is thrown away and the
subscription given back: the journal has it all, and reading goes on where it was. So nothing is missing and nothing
comes twice, whatever happens before LIVE is reached.

A journal of another hub than the one that is connected has no seam with what is delivered here. Such a stream never
joins: it stays in HISTORY, and what comes is that journal as it grows. So does one whose reader wants the offset of
each message.

Behind the seam nobody knows the offset of a message: the hub does not tell it. When the connection is lost once
something has come, what was published until the next one is missing, and that is told.

Owner: one stream. Invariants: everything before `position` was handed on, once, and nothing behind it, until LIVE;
what is put aside is bounded. Not here: who reads and subscribes (`peers.client.follower`).
"""

from __future__ import annotations

from enum import Enum

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError

__all__ = ["Following", "Phase", "Want"]


class Phase(Enum):
    """Where a stream stands."""

    HISTORY = "reads the journal"
    JOINING = "has read it to the end, and subscribes"
    SEAM = "puts aside what is live, and reads the journal up to where that begins"
    LIVE = "is live"
    REJOINING = "was live; what is missing is told; subscribes again"


class Want(Enum):
    """What a stream needs next."""

    PIECE = "a piece of the journal"
    MORE = "a piece of the journal, as soon as there is one"
    LINE = "a connection that subscribes"
    NOTHING = "only what comes by itself"


class Following:
    """The way of one stream from history to live.

    Args:
        position: Offset at which to begin.
        aside_limit_bytes: Most bytes that are put aside.
        joins: Whether what is delivered can be joined to the journal.
    """

    __slots__ = (
        "_aside",
        "_aside_bytes",
        "_aside_limit_bytes",
        "_came",
        "_caught_up",
        "_is_exact",
        "_joins",
        "_reached",
        "_tired",
        "phase",
        "position",
        "seam",
    )

    phase: Phase
    position: int
    """Everything before this offset was handed on, and reading goes on here."""
    seam: int | None
    """The offset from which on messages come live, once that is known; None before, and when it was given back."""

    def __init__(self, position: int, aside_limit_bytes: int, *, joins: bool = True) -> None:
        self.phase = Phase.HISTORY
        self.position = position
        self.seam = None
        # What was delivered and not handed on yet; `take_aside` and `give_back` empty it.
        self._aside: list[Batch] = []
        # How much that is, bytes.
        self._aside_bytes = 0
        self._aside_limit_bytes = aside_limit_bytes
        self._joins = joins
        # True once a piece has reached the end of the journal.
        self._caught_up = False
        # True if the last piece reached the end of the journal; False again when a subscription is given back.
        self._reached = False
        # True from the time a subscription was given back until `rested`: it is not tried again at once.
        self._tired = False
        # True until something has come behind the seam: `position` is where the stream stands.
        self._is_exact = True
        # True once something has come since a loss was told: then there is something to lose.
        self._came = False

    @property
    def want(self) -> Want:
        """What the stream needs now."""
        match self.phase:
            case Phase.HISTORY:
                return Want.MORE if self._reached else Want.PIECE
            case Phase.SEAM:
                return Want.PIECE
            case Phase.JOINING | Phase.REJOINING:
                return Want.LINE
            case Phase.LIVE:
                return Want.NOTHING

    @property
    def is_joined(self) -> bool:
        """Whether what is delivered is handed on."""
        return self.phase is Phase.LIVE or self.phase is Phase.REJOINING

    @property
    def is_live(self) -> bool:
        """Whether all history was handed on."""
        return self.is_joined or (self._caught_up and not self._joins)

    # The journal.

    def fetched(self, following: int, head: int) -> None:
        """Take note that a piece was handed on.

        Args:
            following: The offset behind the piece.
            head: The offset behind the newest record that the hub had.
        """
        progress = following > self.position
        self.position = following
        if self.phase is Phase.HISTORY:
            self._reached = following >= head
            self._caught_up = self._caught_up or self._reached
            if self._reached and self._joins and not self._tired:
                self.phase = Phase.JOINING
        elif self.phase is Phase.SEAM and not self._meet() and not progress:
            self.give_back()  # what was on its way to the disk did not arrive there

    # The subscription.

    def joined(self, offset: int | None) -> None:
        """Take note that a subscription was confirmed.

        Args:
            offset: The offset at which it begins.

        Raises:
            RejectedError: Nobody knows where it begins, or not where the journal goes on.
        """
        if self.phase is Phase.REJOINING:
            self.phase = Phase.LIVE
            return
        if offset is None:
            text = (
                "the hub's journal cannot be written now, so that what is live cannot be joined to it; subscribe later"
            )
            raise RejectedError(CloseCode.JOURNAL_FAILED, text)
        if offset < self.position:
            text = f"the hub's journal goes on at {offset}, and was read up to {self.position}: it is another one"
            raise RejectedError(CloseCode.GONE, text)
        self.phase = Phase.SEAM
        self.seam = offset
        self._meet()

    def put(self, batch: Batch) -> bool:
        """Take messages that were delivered; return whether to hand them on now."""
        if self.is_joined:
            self._came, self._is_exact = True, False
            return True
        if self.phase is not Phase.HISTORY:  # else it was given back already
            self._aside.append(batch)
            self._aside_bytes += batch.size_bytes
            if self._aside_bytes > self._aside_limit_bytes:
                self.give_back()
        return False

    def missed(self) -> bool:
        """Take note that messages were lost on their way; return whether they are missing for good."""
        if self.is_joined:
            self._came, self._is_exact = True, False
            return True
        self.give_back()
        return False

    def lost(self) -> bool:
        """Take note that the connection that subscribes is lost; return whether something may be missing now."""
        if self._is_exact:
            self.give_back()
            return False
        self.phase = Phase.REJOINING
        news, self._came = self._came, False
        return news

    def give_back(self) -> None:
        """Go on reading in the journal, which has what was put aside; do not subscribe again at once."""
        self._aside = []
        self._aside_bytes = 0
        self.phase = Phase.HISTORY
        self.seam = None
        self._reached = False
        self._tired = True

    def rested(self) -> None:
        """Allow to subscribe again, as time has passed since the subscription was given back."""
        self._tired = False

    def take_aside(self) -> list[Batch]:
        """Return and forget what was put aside, once that is LIVE."""
        aside, self._aside = self._aside, []
        self._aside_bytes = 0
        return aside

    def _meet(self) -> bool:
        """Become live if the journal was read up to where that begins; return whether it has been."""
        if self.seam is None or self.position < self.seam:
            return False
        self.phase = Phase.LIVE
        self._came = bool(self._aside)
        self._is_exact = not self._aside
        return True
