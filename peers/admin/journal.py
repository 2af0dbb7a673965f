"""`journal`: how the journal of this hub stands: what it holds, how far it is, what is kept, and how its tier is.

Asked as `$hub/journal`, by whom the policy grants that: it tells no topic but the prefixes that are recorded. Owner:
nobody; the parts of the journal count anyway. Cost: some 30 µs. Not here: named consumers (`$hub/consumers`), what
goes wrong while it does (the events on `$hub/journal`), where the files and the tier are, which is for whoever has the
settings.
"""

from __future__ import annotations

from typing import Any, Final

from hub.errors import UsageError
from hub.handler import Handler
from hub.requests.hub_services import Function
from peers.journal.recorder import JOURNAL_TOPIC
from peers.journal.recording import JournalStatistics
from peers.journal.tiering import TierStatistics
from peers.node.node import Node

__all__ = ["JOURNAL_TOPIC", "journal"]

_OF_RECORDER: Final = (
    "first",
    "committed",
    "size_bytes",
    "recorded_messages_total",
    "lost_messages_total",
    "waiting_bytes",
    "pauses_total",
    "error",
)


def journal(node: Node) -> Function:
    """Return the service: it takes null, and gives a map; null where this hub records nothing."""

    def answer(_: Handler, value: Any) -> dict[str, Any] | None:
        if value is not None:
            raise UsageError("expected null")
        statistics = node.journal.statistics()
        return None if statistics is None else _described(node, statistics)

    return answer


def _described(node: Node, statistics: JournalStatistics) -> dict[str, Any]:
    settings = node.settings.journal
    counted = statistics.recorder._asdict()
    return {
        "id": node.journal.id.hex(),
        "epoch": statistics.epoch,
        "at_s": node.loop.time(),
        "topics": list(settings.topics),
        "keep_bytes": settings.keep_bytes,
        "keep_s": settings.keep_s,
        "buffer_bytes": settings.buffer_bytes,
        **{name: counted[name] for name in _OF_RECORDER},
        "cut_total": statistics.cuts_total,
        "readers": statistics.readers,
        "fetches": statistics.fetches,
        "staged_transactions": statistics.staging.transactions,
        "staged_bytes": statistics.staging.bytes,
        "tier": None if statistics.tier is None else _tier(statistics.tier),
    }


def _tier(tier: TierStatistics) -> dict[str, Any]:
    told = tier.progress._asdict()
    return told | {"failures_total": tier.failures_total, "restarts_total": tier.restarts_total, "error": tier.error}
