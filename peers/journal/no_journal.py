"""`NoJournal`: the journal of a hub that records nothing. It refuses what needs one, and says how to have one.

So it is, too, where the journal could not be opened for want of room: the hub carries live messages all the same.
"""

from __future__ import annotations

from collections.abc import Callable

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.handler import Handler
from hub.quotas.usage import Usage
from hub.routes import Route
from peers.journal.readers import Deliver
from peers.journal.recorder import Answer, OnMarked
from peers.journal.recording import Cancel, JournalStatistics, Publish, nothing
from peers.journal.staging import OnCommitted, OnStaged
from peers.wire.records import Commit, Fetch, Stage

__all__ = ["NoJournal"]


class NoJournal:
    """The journal of a hub that records nothing.

    Args:
        trouble: Why the journal that the hub is to have is not there; empty if it is to have none.
    """

    id = b""
    taken = 0
    is_behind = False
    trouble = ""

    def __init__(self, trouble: str = "") -> None:
        self.trouble = trouble

    def wait_room(self, resume: Callable[[], None]) -> None:
        """Keep nobody: there is always room, so nobody asks for it."""
        resume()

    def position(self) -> int | None:
        """Return None: there are no offsets."""
        return None

    def records(self, route: Route) -> bool:  # noqa: ARG002 -- as `Journal`
        """Return False."""
        return False

    def heed(self, on_marked: OnMarked) -> None:
        """Do nothing: nothing is recorded."""

    def confirm(self, route: Route, batch: Batch, publish: Publish, answer: Answer) -> None:  # noqa: ARG002
        """Publish, and answer that nothing is recorded."""
        publish(batch)
        answer(self._refusal())

    def forget_room(self, resume: Callable[[], None]) -> None:
        """Do nothing: nobody waits."""

    def fetch(self, fetch: Fetch, deliver: Deliver, usage: Usage | None = None) -> Cancel:  # noqa: ARG002
        """Answer that there is nothing to read."""
        deliver(self._refusal())
        return nothing

    def cut_back(self, position: int, epoch: int) -> int:  # noqa: ARG002 -- as `Journal`
        """Return the position: nothing is known of it."""
        return position

    def stage(self, source: Handler, stage: Stage, answer: OnStaged) -> None:  # noqa: ARG002
        """Answer that there is nothing to write to."""
        answer(self._refusal())

    def commit(self, source: Handler, commit: Commit, answer: OnCommitted) -> None:  # noqa: ARG002
        """Answer that there is nothing to write to."""
        answer(self._refusal())

    def statistics(self) -> JournalStatistics | None:
        """Return None: there is nothing to tell."""
        return None

    async def settle(self) -> None:
        """Wait for nothing."""

    def _refusal(self) -> RejectedError:
        if self.trouble:
            return RejectedError(CloseCode.JOURNAL_FAILED, self.trouble)
        return RejectedError(CloseCode.NOT_ALLOWED, "this hub has no journal; start it with --journal PATH")
