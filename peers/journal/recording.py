"""`NoJournal`: the journal of a hub that records nothing.

All calls are made in the event loop and return at once; answers come through callbacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from hub.errors import CloseCode, RejectedError
from hub.messages.batch import Batch
from hub.topics import printable
from peers.journal.forms import Order
from peers.journal.readers import Deliver, SharedPieces
from peers.wire.records import Commit, Fetch, Stage

if TYPE_CHECKING:
    from hub.handlers.handler import Handler
    from hub.quotas import Usage
    from hub.routing.routes import Route
    from peers.journal.consumers.service import ConsumersStatistics
    from peers.journal.journal import Journal
    from peers.journal.recorder import Answer, OnMarked, Recorder
    from peers.journal.remote_confirmations import RemoteConfirmations
    from peers.journal.remote_journals import RemoteJournals
    from peers.journal.staging import OnCommitted, OnStaged, Staging
    from peers.journal.tiering import TierStatistics

Publish = Callable[[Batch], object]  # publishes a batch
Cancel = Callable[[], bool | None]
"""Called when an answer is not wanted any more. Returns True if the FETCH was waiting for a commit, so that it costs
nothing more."""


def nothing() -> None:
    """The `Cancel` of an answered FETCH, or of one that cannot be stopped."""


class JournalStatistics(NamedTuple):
    """The parts of a journal and their counters."""

    recorder: Recorder
    staging: Staging
    readers: int  # reader processes
    fetches: int  # unanswered pieces
    consumers: ConsumersStatistics
    tier: TierStatistics | None
    epoch: int
    cuts_total: int  # positions of readers that were cut back, since records were lost


class NoJournal:
    """The journal of a hub that records nothing: rejects requests, or reads the journal of another hub.

    Args:
        trouble: Why the configured journal could not be opened; empty if none is configured.
        of: Name or id of the hub whose journal is used; empty for none.
        journals, confirmations: Access to other hubs' journals, with `of`.
    """

    id = b""

    def __init__(
        self,
        trouble: str = "",
        of: str = "",
        journals: RemoteJournals | None = None,
        confirmations: RemoteConfirmations | None = None,
    ) -> None:
        self.trouble = trouble
        self._of = of
        self._journals = journals
        self._confirmations = confirmations
        # Streams of events that are equally far are given one piece.
        self._pieces: SharedPieces[Order] = SharedPieces(self._read)

    @property
    def taken(self) -> int:
        """Changes when a confirmation is requested."""
        return self._confirmations.taken if self._confirmations is not None else 0

    @property
    def is_behind(self) -> bool:
        return self._confirmations is not None and self._confirmations.is_behind

    def wait_room(self, resume: Callable[[], None]) -> None:
        if self._confirmations is not None:
            self._confirmations.wait_room(resume)
        else:
            resume()

    def forget_room(self, resume: Callable[[], None]) -> None:
        if self._confirmations is not None:
            self._confirmations.forget_room(resume)

    def position(self) -> int | None:
        return None

    def records(self, route: Route) -> bool:  # noqa: ARG002 -- as `Journal`
        return False

    def heed(self, on_marked: OnMarked) -> None:
        """Nothing is recorded here."""

    def confirm(self, route: Route, batch: Batch, publish: Publish, answer: Answer) -> None:  # noqa: ARG002
        """Publish, and answer once the other hub has committed the messages, or with the reason why that is unknown."""
        error: RejectedError | None = self._refusal()
        if self._confirmations is not None:
            try:
                batch = self._confirmations.ask(self._of, batch, answer)
                error = None
            except RejectedError as cause:
                error = RejectedError(CloseCode.TRY_AGAIN_LATER, f"journal.of: {cause.text}")
        publish(batch)
        if error is not None:
            answer(error)

    def fetch(self, fetch: Fetch, deliver: Deliver, usage: Usage | None = None) -> Cancel:
        """Read a piece at the other hub. An unknown hub may still come: the client is to try again."""
        if not isinstance(fetch, Order) or fetch.form != "events":
            return self._read(fetch, deliver, usage)
        self._pieces.fetch(fetch, deliver, usage)
        return nothing

    def _read(self, fetch: Fetch, deliver: Deliver, _: Usage | None) -> Cancel:
        if self._journals is None:
            deliver(self._refusal())
            return nothing
        try:
            return self._journals.fetch(msgspec.structs.replace(fetch, hub=self._of), deliver)
        except RejectedError as error:
            deliver(RejectedError(CloseCode.TRY_AGAIN_LATER, f"journal.of: {error.text}"))
        return nothing

    def cut_back(self, position: int, epoch: int) -> int:  # noqa: ARG002 -- as `Journal`
        """Return the position: the other hub checks it with each piece."""
        return position

    def stage(self, source: Handler, stage: Stage, answer: OnStaged) -> None:  # noqa: ARG002
        answer(self._refusal())

    def commit(self, source: Handler, commit: Commit, answer: OnCommitted) -> None:  # noqa: ARG002
        answer(self._refusal())

    def statistics(self) -> JournalStatistics | None:
        return None

    async def settle(self) -> None:
        """Wait for confirmations, for a second at most."""
        if self._confirmations is not None:
            await self._confirmations.settle()

    def _refusal(self) -> RejectedError:
        if self.trouble:
            return RejectedError(CloseCode.JOURNAL_FAILED, self.trouble)
        text = "this hub has no journal; start it with --journal PATH"
        if self._of:
            hub = printable(self._of)
            text = f"this hub does not record; batches are for the hub {hub}, whose journal is read here"
        return RejectedError(CloseCode.NOT_ALLOWED, text)


Recording: TypeAlias = "Journal | NoJournal"
