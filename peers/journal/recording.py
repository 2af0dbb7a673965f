"""`Recording`: a hub's journal, or none, as its connections see it. `Journal` and `NoJournal` are such.

All calls are of the event loop and none waits: what takes time is answered through a function that is called later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from hub.batch import Batch
from hub.handler import Handler
from hub.quotas.usage import Usage
from hub.routes import Route
from peers.journal.consumers.statistics import ConsumersStatistics
from peers.journal.readers import Deliver
from peers.journal.recorder import Answer, OnMarked, RecorderStatistics
from peers.journal.staging import OnCommitted, OnStaged, StagingStatistics
from peers.journal.tiering import TierStatistics
from peers.wire.records import Commit, Fetch, Stage

__all__ = ["Cancel", "JournalStatistics", "Publish", "Recording", "nothing"]

Publish = Callable[[Batch], object]
"""Publishes a batch, or what stands for it."""

Cancel = Callable[[], bool | None]
"""What is called when nobody waits for an answer any more. It returns True if the FETCH was waiting for a commit, so
that nothing is done for it any more."""


class JournalStatistics(NamedTuple):
    """What the parts of a journal have done, and what waits in them, at one moment."""

    recorder: RecorderStatistics
    staging: StagingStatistics
    readers: int
    """How many reader processes there are."""
    fetches: int
    """How many pieces were asked for and not answered yet."""
    consumers: ConsumersStatistics
    tier: TierStatistics | None = None
    """How far the tier is; None where there is none."""
    epoch: int = 0
    """The number of the epoch of the journal."""
    cuts_total: int = 0
    """How many positions of readers were cut back, as what they had read is lost."""


class Recording(Protocol):
    """A journal, or none, as a connection sees it."""

    id: bytes
    """Id of the journal; empty where there is none."""

    @property
    def taken(self) -> int:
        """A number that changes when messages are taken for recording."""

    @property
    def is_behind(self) -> bool:
        """Whether those who feed it should not be read."""

    def wait_room(self, resume: Callable[[], None]) -> None:
        """Call `resume` once those who feed it should be read again."""

    def position(self) -> int | None:
        """Return the offset that the next recorded message will get, if there is one."""

    def records(self, route: Route) -> bool:
        """Return whether messages are recorded here that take this route."""

    def heed(self, on_marked: OnMarked) -> None:
        """Tell of each batch that is recorded and bears a mark, from now on."""

    def confirm(self, route: Route, batch: Batch, publish: Publish, answer: Answer) -> None:
        """Publish a batch on its route, and answer once it is committed, or when it turns out that it will not be."""

    def forget_room(self, resume: Callable[[], None]) -> None:
        """Do not call `resume` any more: the connection has ended."""

    def fetch(self, fetch: Fetch, deliver: Deliver, usage: Usage | None = None) -> Cancel:
        """Have a piece read. Call what is returned when the answer is not wanted any more.

        Args:
            fetch: What is read.
            deliver: Called with the answer.
            usage: Of the user who is charged while a process of this hub reads it; None: nobody is.
        """

    def cut_back(self, position: int, epoch: int) -> int:
        """Return where a reader goes on that has read up to a position, which was told in an epoch."""

    async def settle(self) -> None:
        """Wait until all that was taken is committed and confirmed, for a second at most."""

    def stage(self, source: Handler, stage: Stage, answer: OnStaged) -> None:
        """Keep messages until their COMMIT."""

    def commit(self, source: Handler, commit: Commit, answer: OnCommitted) -> None:
        """Route and record what was staged, or drop it."""

    @property
    def trouble(self) -> str:
        """Why the hub is not ready, as far as the journal goes; empty if it is ready."""

    def statistics(self) -> JournalStatistics | None:
        """Return what the journal has done, and what waits in it; None where there is none."""


def nothing() -> None:
    """Do nothing: the `Cancel` of what is answered already, or cannot be stopped."""
