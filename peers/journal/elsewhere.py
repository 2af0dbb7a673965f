"""`JournalElsewhere`: the journal of a hub that records nothing, and lets its clients read that of another hub.

The hub that `journal.of` names may come and go, and need not be there yet: it is looked for with each piece. What is to
be confirmed or committed is refused, as by a hub without a journal: whoever wants that is to be connected with the hub
that records.

Owner: nobody; it has no state.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hub.errors import CloseCode, RejectedError
from hub.handler import Handler
from hub.routes import Route
from hub.topics import printable
from peers.journal.far_journals import FarJournals
from peers.journal.readers import Deliver
from peers.journal.recorder import Answer
from peers.journal.recording import Cancel, JournalStatistics, nothing
from peers.journal.staging import OnCommitted, OnStaged
from peers.wire.records import Commit, Fetch, Stage

__all__ = ["JournalElsewhere"]


class JournalElsewhere:
    """The journal of another hub, as far as it can be used from here.

    Args:
        journals: The journals of other hubs.
        of: The name or the id of the hub.
    """

    id = b""
    taken = 0
    is_behind = False
    trouble = ""

    def __init__(self, journals: FarJournals, of: str) -> None:
        self._journals = journals
        self._of = of

    def wait_room(self, resume: Callable[[], None]) -> None:
        """Keep nobody: there is always room, so nobody asks for it."""
        resume()

    def position(self) -> int | None:
        """Return None: what is delivered here has no offsets."""
        return None

    def confirm(self, route: Route, messages: int, answer: Answer) -> None:  # noqa: ARG002 -- as `Journal`
        """Answer that nothing is recorded here."""
        answer(self._not_here())

    def forget_room(self, resume: Callable[[], None]) -> None:
        """Do nothing: nobody waits."""

    def fetch(self, fetch: Fetch, deliver: Deliver) -> Cancel:
        """Have a piece read there. A hub that is not known yet may come: whoever reads is to ask again."""
        try:
            return self._journals.fetch(msgspec.structs.replace(fetch, hub=self._of), deliver)
        except RejectedError as error:
            deliver(RejectedError(CloseCode.TRY_AGAIN_LATER, f"journal.of: {error.text}"))
        return nothing

    def stage(self, source: Handler, stage: Stage, answer: OnStaged) -> None:  # noqa: ARG002
        """Answer that there is nothing to write to."""
        answer(self._not_here())

    def commit(self, source: Handler, commit: Commit, answer: OnCommitted) -> None:  # noqa: ARG002
        """Answer that there is nothing to write to."""
        answer(self._not_here())

    def statistics(self) -> JournalStatistics | None:
        """Return None: there is nothing to tell."""
        return None

    def _not_here(self) -> RejectedError:
        text = f"this hub does not record; the journal of hub {printable(self._of)} can be read here, and no more"
        return RejectedError(CloseCode.NOT_ALLOWED, text)
