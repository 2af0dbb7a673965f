"""`NoJournal`: the journal of a hub that records nothing. It refuses what needs one, and says how to have one.

So it is, too, where the journal could not be opened for want of room: the hub carries live messages all the same.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.handler import Handler
from hub.quotas.usage import Usage
from hub.routes import Route
from hub.topics import printable
from peers.journal.far_confirmations import FarConfirmations
from peers.journal.far_journals import FarJournals
from peers.journal.forms import Order
from peers.journal.readers import Deliver, SharedPieces
from peers.journal.recorder import Answer, OnMarked
from peers.journal.recording import Cancel, JournalStatistics, Publish, nothing
from peers.journal.staging import OnCommitted, OnStaged
from peers.wire.records import Commit, Fetch, Stage


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


class JournalElsewhere:
    """The journal of another hub, as far as it can be used from here.

    Args:
        journals: The journals of other hubs.
        confirmations: What they confirm.
        of: The name or the id of the hub.
    """

    id = b""
    trouble = ""

    def __init__(self, journals: FarJournals, confirmations: FarConfirmations, of: str) -> None:
        self._journals = journals
        self._confirmations = confirmations
        self._of = of
        # Streams of events that are equally far are given one piece.
        self._pieces: SharedPieces[Order] = SharedPieces(self._read)

    @property
    def taken(self) -> int:
        """A number that changes when a confirmation is asked for."""
        return self._confirmations.taken

    @property
    def is_behind(self) -> bool:
        """Whether those who ask for confirmations should not be read."""
        return self._confirmations.is_behind

    def wait_room(self, resume: Callable[[], None]) -> None:
        """Call `resume` once those who ask for confirmations should be read again."""
        self._confirmations.wait_room(resume)

    def position(self) -> int | None:
        """Return None: what is delivered here has no offsets."""
        return None

    def records(self, route: Route) -> bool:  # noqa: ARG002 -- as `Journal`
        """Return False: nothing is recorded here."""
        return False

    def heed(self, on_marked: OnMarked) -> None:
        """Do nothing: nothing is recorded here."""

    def confirm(self, route: Route, batch: Batch, publish: Publish, answer: Answer) -> None:  # noqa: ARG002
        """Publish, and answer once the other hub has committed it; or say why nobody will know that."""
        try:
            batch = self._confirmations.ask(self._of, batch, answer)
        except RejectedError as error:
            publish(batch)
            answer(RejectedError(CloseCode.TRY_AGAIN_LATER, f"journal.of: {error.text}"))
        else:
            publish(batch)

    def forget_room(self, resume: Callable[[], None]) -> None:
        """Do not call `resume` any more: the connection has ended."""
        self._confirmations.forget_room(resume)

    def fetch(self, fetch: Fetch, deliver: Deliver, usage: Usage | None = None) -> Cancel:
        """Have a piece read there. A hub that is not known yet may come: whoever reads is to ask again."""
        if isinstance(fetch, Order) and fetch.form == "events":
            self._pieces.fetch(fetch, deliver, usage)
            return nothing
        return self._read(fetch, deliver, usage)

    def _read(self, fetch: Fetch, deliver: Deliver, _: Usage | None) -> Cancel:
        try:
            return self._journals.fetch(msgspec.structs.replace(fetch, hub=self._of), deliver)
        except RejectedError as error:
            deliver(RejectedError(CloseCode.TRY_AGAIN_LATER, f"journal.of: {error.text}"))
        return nothing

    def cut_back(self, position: int, epoch: int) -> int:  # noqa: ARG002 -- as `Journal`
        """Return the position: the other hub looks at it with each piece."""
        return position

    def stage(self, source: Handler, stage: Stage, answer: OnStaged) -> None:  # noqa: ARG002
        """Answer that there is nothing to write to."""
        answer(self._not_here())

    def commit(self, source: Handler, commit: Commit, answer: OnCommitted) -> None:  # noqa: ARG002
        """Answer that there is nothing to write to."""
        answer(self._not_here())

    def statistics(self) -> JournalStatistics | None:
        """Return None: there is nothing to tell."""
        return None

    async def settle(self) -> None:
        """Wait until all that was to be confirmed is, for a second at most."""
        await self._confirmations.settle()

    def _not_here(self) -> RejectedError:
        text = f"this hub does not record; batches are for the hub {printable(self._of)}, whose journal is read here"
        return RejectedError(CloseCode.NOT_ALLOWED, text)
