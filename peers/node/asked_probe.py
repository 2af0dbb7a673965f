"""`AskedProbe`: a probe of this hub, and what others have told of it so far.

Owner: `peers.node.probes`, until whoever asks has waited long enough. Invariant: each hub is counted once, by what it
has told first; there are at most `REPORTS_LIMIT`. Cost: about 0.5 KB a report.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from hub.handler import Handler
from hub.prospect import Prospect
from peers.wire.probe import ProbeReport

__all__ = ["REPORTS_LIMIT", "AskedProbe", "Passage", "Reported"]

REPORTS_LIMIT: Final = 1_000
"""Most hubs whose reports are taken of one probe: an answer with so many has about 300 KB."""


class Passage(NamedTuple):
    """What has become of a probe at the links of one hub."""

    links: tuple[tuple[bytes, str], ...]
    """The hubs to which a message would go on, and what has become of the probe there, as in `ProbeReport`."""
    sent: frozenset[Handler]
    """The links by which it has gone on."""
    unwanted: int
    """How many further links there are."""


class Reported(NamedTuple):
    """What a hub has told."""

    report: ProbeReport
    round_trip_us: int
    """From when the probe began to when this has come, by the clock of the hub that asks."""


class AskedProbe:
    """One probe.

    Args:
        number: Which one of this hub.
        began_us: When it began, by the clock by which round trips are measured.
        at_us: The same, µs since 1970.
        prospect: What becomes of a message at this hub.
        passage: What has become of the probe there.
    """

    __slots__ = ("_awaited", "at_us", "began_us", "number", "on_complete", "passage", "prospect", "reported")

    def __init__(self, number: int, began_us: int, at_us: int, prospect: Prospect, passage: Passage) -> None:
        self.number = number
        self.began_us = began_us
        self.at_us = at_us
        self.prospect = prospect
        self.passage = passage
        self.reported: dict[bytes, Reported] = {}
        """What hubs have told, by their ids, in the order in which it has come."""
        self.on_complete: Callable[[], object] | None = None
        """Called once no report is awaited any more."""
        # The hubs to which it was sent on, as far as is known, and that have not told of it.
        self._awaited: set[bytes] = _sent(passage.links)

    @property
    def is_complete(self) -> bool:
        """Whether every hub that it was sent to has told of it."""
        return not self._awaited

    def take(self, link: Handler, report: ProbeReport, now_us: int) -> bool:
        """Take what a hub tells; return False for what cannot be: by a link that it was not sent on, or once more."""
        if link not in self.passage.sent or report.hub in self.reported or len(self.reported) >= REPORTS_LIMIT:
            return False
        self.reported[report.hub] = Reported(report, max(0, now_us - self.began_us))
        self._awaited |= _sent(report.links)
        self._awaited -= self.reported.keys()
        if self.is_complete and self.on_complete is not None:
            self.on_complete()
        return True


def _sent(links: tuple[tuple[bytes, str], ...]) -> set[bytes]:
    return {hub for hub, state in links if state == "sent"}
